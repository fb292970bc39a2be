//! Payments of the room against real mints, on a good line and on a bad one.

use std::{
    path::Path,
    process::Child,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use cashu::{CheckStateRequest, PublicKey, State, Token};
use unspent_ecash::{Account, EcashStore, Entity, KeySource};
use unspent_engine::rooms::ecash::{
    mint::check::Blocklist,
    spark::SparkBackend,
    watch::ListenerOptions,
    work::{
        ask::Counterparts,
        book::MintBook,
        executor::Executor,
        payments::Asked,
        worker::{PaymentWorker, WorkerOptions},
    },
};
use unspent_model::ecash::{EntityState, ProofState};
use unspent_sql::{Options, Url};
use unspent_testkit::{
    crash,
    ecash::{Fault, FaultProxy, Lightning, MintSettings, Nutshell},
};

use crate::purse::{PATIENCE, options, wait_for};

/// A wallet: one store and the worker that moves its payments.
pub struct Wallet {
    pub executor: Arc<Executor>,
    worker: PaymentWorker,
}

impl Wallet {
    pub fn open(folder: &Path) -> Self {
        Self::with_spark(folder, None)
    }

    pub fn with_spark(folder: &Path, spark: Option<Arc<dyn SparkBackend>>) -> Self {
        let url = Url::Sqlite(folder.join("ecash.db"));
        let key = KeySource::KeyFile(vec![7; 32].into());
        let store = EcashStore::open(&url, &key, None, Options::default()).unwrap();
        let counterparts = Counterparts { mints: MintBook::new(options()), spark };
        let executor = Arc::new(Executor { store: Arc::new(store), counterparts, fence: false });
        let listener = ListenerOptions { allow_private: true, ..Default::default() };
        let listening = WorkerOptions { listener, ..Default::default() };
        let worker = PaymentWorker::new(executor.clone(), listening).unwrap();
        Self { executor, worker }
    }

    pub fn account(&self, mint: &str) -> Account {
        self.executor.add_account(mint, "sat", "test", &Blocklist::default()).unwrap()
    }

    pub fn entity(&self, id: &str) -> Entity {
        self.executor.store.entity(id).unwrap()
    }

    pub fn balance(&self, account: &Account) -> (u64, u64) {
        let balance = self.executor.store.balance(&account.id).unwrap();
        (balance.unspent, balance.reserved)
    }

    /// Works until a payment is in a state.
    pub fn work_until(&mut self, id: &str, wanted: EntityState) {
        let until = Instant::now() + PATIENCE;
        loop {
            let report = self.worker.pass().unwrap();
            let found = self.entity(id).state;
            if found == wanted {
                return;
            }
            let journal = self.executor.store.journal_of(id).unwrap();
            assert!(
                Instant::now() < until,
                "{id} is {found}, not {wanted}: {report:?}\n{journal:#?}"
            );
            self.worker.rest(Duration::from_millis(200));
        }
    }

    /// Fresh money out of nowhere: an invoice that the mint's Lightning side pays.
    pub fn earn(&mut self, account: &Account, amount: u64) {
        let quote = self.executor.receive(&account.id, amount, &Asked::default()).unwrap();
        self.work_until(&quote.id, EntityState::Completed);
    }

    /// What the mint says of our proofs equals what we say.
    pub fn agrees_with_mint(&self, account: &Account) {
        let client = self.executor.counterparts.mints.client(account.mint_url.as_ref().unwrap());
        for (ours, theirs) in
            [(ProofState::Unspent, State::Unspent), (ProofState::Spent, State::Spent)]
        {
            let proofs = self.executor.store.proofs(&account.id, ours, None, 10_000).unwrap();
            let ys: Vec<PublicKey> =
                proofs.iter().map(|proof| PublicKey::from_hex(&proof.y).unwrap()).collect();
            if ys.is_empty() {
                continue;
            }
            let states = client.check_states(&CheckStateRequest { ys }).unwrap().states;
            for (proof, state) in proofs.iter().zip(states) {
                assert_eq!(state.state, theirs, "{proof:?}");
            }
        }
    }
}

fn plain() -> MintSettings {
    MintSettings { input_fee_ppk: 100, ..Default::default() }
}

fn asked() -> Asked {
    Asked::default()
}

#[test]
fn a_token_is_sent_claimed_and_taken_back() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut alice, mut bob) = (Wallet::open(ours.path()), Wallet::open(theirs.path()));
    let (from, to) = (alice.account(&mint.url()), bob.account(&mint.url()));
    alice.earn(&from, 1_000);
    assert_eq!(alice.balance(&from), (1_000, 0));

    let send = alice.executor.send(&from.id, 100, &asked()).unwrap();
    alice.work_until(&send.id, EntityState::Pending);
    let token: Token = alice.executor.token(&send.id).unwrap().to_string().parse().unwrap();
    let claim = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&claim.id, EntityState::Completed);
    assert_eq!(bob.balance(&to), (100, 0), "the sender pays for the claim");
    alice.work_until(&send.id, EntityState::Completed);
    assert_eq!(alice.balance(&from).1, 0);
    assert!(alice.executor.token(&send.id).is_err());
    // A second claim is told so, and brings nothing.
    assert!(bob.executor.claim(&token, &to.id, &asked()).is_err());

    let before = alice.balance(&from).0;
    let back = alice.executor.send(&from.id, 200, &asked()).unwrap();
    alice.work_until(&back.id, EntityState::Pending);
    let token = alice.executor.token(&back.id).unwrap();
    let reversal = alice.executor.reverse(&back.id, &asked()).unwrap();
    alice.work_until(&reversal.id, EntityState::Completed);
    assert_eq!(alice.entity(&back.id).state, EntityState::Reversed);
    let (left, reserved) = alice.balance(&from);
    assert!(reserved == 0 && left <= before && left > before - 5, "{left} of {before}");
    let late = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&late.id, EntityState::Failed);
    alice.agrees_with_mint(&from);
    bob.agrees_with_mint(&to);
}

#[test]
fn lost_answers_cost_nothing() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    proxy.script("/v1/mint/bolt11", [Fault::DropRequest, Fault::too_many(), Fault::DropAnswer]);
    wallet.earn(&account, 512);
    assert_eq!(wallet.balance(&account), (512, 0));

    proxy.script("/v1/swap", [Fault::DropRequest, Fault::DropAnswer]);
    let send = wallet.executor.send(&account.id, 50, &asked()).unwrap();
    wallet.work_until(&send.id, EntityState::Pending);
    let token = wallet.executor.token(&send.id).unwrap();
    assert_eq!(u64::from(token.value().unwrap()), wallet.balance(&account).1);
    proxy.script("/v1/swap", [Fault::CutAnswer]);
    let reversal = wallet.executor.reverse(&send.id, &asked()).unwrap();
    wallet.work_until(&reversal.id, EntityState::Completed);
    wallet.agrees_with_mint(&account);
    let (left, reserved) = wallet.balance(&account);
    assert!(reserved == 0 && left > 505, "{left}");
}

#[test]
fn invoices_are_paid_fail_and_stay_under_way() {
    let slow = MintSettings { outgoing_delay: Duration::from_secs(1), ..plain() };
    let Some(mut mint) = Nutshell::start(slow) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    wallet.earn(&account, 1_000);
    let paid = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    assert_eq!(wallet.balance(&account).0 + wallet.balance(&account).1, 1_000);
    wallet.work_until(&paid.id, EntityState::Paid);
    let (left, reserved) = wallet.balance(&account);
    assert!(reserved == 0 && (890..900).contains(&left), "change came back: {left}");
    wallet.agrees_with_mint(&account);

    let failing =
        MintSettings { paid_at_once: Lightning::Failed, asked_later: Lightning::Failed, ..plain() };
    mint.restart(failing.clone());
    let failed = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    wallet.work_until(&failed.id, EntityState::Failed);
    assert_eq!(wallet.balance(&account), (left, 0));
    wallet.agrees_with_mint(&account);

    let forever = MintSettings {
        paid_at_once: Lightning::Pending,
        asked_later: Lightning::Pending,
        ..plain()
    };
    mint.restart(forever.clone());
    let open = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    wallet.work_until(&open.id, EntityState::Pending);
    assert!(wallet.balance(&account).1 > 100);
    drop(wallet);
    mint.restart(MintSettings { asked_later: Lightning::Settled, ..forever.clone() });
    let mut wallet = Wallet::open(folder.path());
    wallet.work_until(&open.id, EntityState::Paid);
    assert_eq!(wallet.balance(&account).1, 0);
    wallet.agrees_with_mint(&account);

    mint.restart(forever);
    let back = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    let before = wallet.balance(&account);
    wallet.work_until(&back.id, EntityState::Pending);
    mint.restart(failing);
    wallet.work_until(&back.id, EntityState::Failed);
    assert_eq!(wallet.balance(&account), (before.0 + before.1, 0));
    wallet.agrees_with_mint(&account);
}

#[test]
fn a_token_of_one_mint_becomes_money_at_another() {
    let Some(one) = Nutshell::start(plain()) else { return };
    let Some(two) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let (from, to) = (wallet.account(&one.url()), wallet.account(&two.url()));
    wallet.earn(&from, 1_000);
    let send = wallet.executor.send(&from.id, 300, &asked()).unwrap();
    wallet.work_until(&send.id, EntityState::Pending);
    let token = wallet.executor.token(&send.id).unwrap();
    let claim = wallet.executor.claim(&token, &to.id, &asked()).unwrap();
    wallet.work_until(&claim.id, EntityState::Completed);
    let (got, _) = wallet.balance(&to);
    assert!((280..=300).contains(&got), "{got}");
    wallet.agrees_with_mint(&from);
    wallet.agrees_with_mint(&to);
}

#[test]
fn money_that_comes_after_the_end_of_a_quote_is_not_lost() {
    let unpaid = MintSettings { invoices_are_paid: false, ..plain() };
    let Some(mut mint) = Nutshell::start(unpaid) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    proxy.edit("/v1/mint/quote/bolt11", move |quote| quote["expiry"] = (now + 2).into());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    let quote = wallet.executor.receive(&account.id, 64, &asked()).unwrap();
    wallet.work_until(&quote.id, EntityState::Expired);
    drop(wallet);
    mint.restart(plain());
    let mut wallet = Wallet::open(folder.path());
    wallet.work_until(&quote.id, EntityState::Completed);
    assert_eq!(wallet.balance(&account), (64, 0));
    wallet.agrees_with_mint(&account);
}

const KILLED: &str = "paying::the_wallet_that_is_killed";

/// Works on whatever is open, until it is killed.
#[test]
fn the_wallet_that_is_killed() {
    let Some((role, folder)) = crash::role() else { return };
    if role != "wallet" {
        return;
    }
    let mut wallet = Wallet::open(&folder);
    loop {
        // A lease of the one that was killed before runs out by itself.
        wallet.worker.pass().unwrap();
        wallet.worker.rest(Duration::from_millis(100));
    }
}

fn start_worker(folder: &Path) -> Child {
    crash::worker(KILLED, "wallet", folder).unwrap().spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    assert!(crash::was_killed(child.wait().unwrap()), "it ended by itself");
}

/// Kills the worker while a request is on its way: before the mint has it, and after the mint has
/// answered it.
#[test]
fn a_wallet_killed_at_every_request_loses_nothing_and_pays_once() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 2_000);
    let executor = wallet.executor.clone();
    drop(wallet);
    let long = Duration::from_secs(20);
    let steps = [
        ("/v1/swap", Fault::Delay(long)),
        ("/v1/swap", Fault::DelayAnswer(long)),
        ("/v1/melt/bolt11", Fault::Delay(long)),
        ("/v1/melt/bolt11", Fault::DelayAnswer(long)),
        ("/v1/mint/bolt11", Fault::Delay(long)),
        ("/v1/mint/bolt11", Fault::DelayAnswer(long)),
    ];
    for (path, fault) in steps {
        let before = executor.store.balance(&account.id).unwrap();
        proxy.script(path, [fault.clone()]);
        let known = proxy.count(path);
        let (id, end) = match path {
            "/v1/swap" => {
                let send = executor.send(&account.id, 10, &asked()).unwrap();
                (send.id, EntityState::Pending)
            }
            "/v1/melt/bolt11" => {
                let invoice = other.invoice(10).0;
                (executor.pay(&account.id, &invoice, &asked()).unwrap().id, EntityState::Paid)
            }
            _ => {
                let quote = executor.receive(&account.id, 10, &asked()).unwrap();
                (quote.id, EntityState::Completed)
            }
        };
        let child = start_worker(folder.path());
        wait_for("the request is on its way", || proxy.count(path) > known);
        // The mint's answer, where it is the answer that is held.
        sleep(Duration::from_secs(2));
        kill(child);
        let mut again = Wallet::open(folder.path());
        again.work_until(&id, end);
        again.agrees_with_mint(&account);
        let after = executor.store.balance(&account.id).unwrap();
        let (had, has) = (before.unspent + before.reserved, after.unspent + after.reserved);
        let most_lost = match path {
            "/v1/melt/bolt11" => 10 + 5,
            _ => 2,
        };
        let gained = if path == "/v1/mint/bolt11" { 10 } else { 0 };
        assert!(has <= had + gained && has + most_lost >= had + gained, "{path}: {had} to {has}");
    }
}
