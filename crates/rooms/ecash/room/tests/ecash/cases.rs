//! Cases of payments that meet something unusual at a real mint.

use std::{
    sync::Barrier,
    thread::{scope, sleep},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cashu::MeltQuoteState;
use unspent_ecash::{EcashAccount, EcashEntity, EntityDetails};
use unspent_ecash_room::mint::MintOptions;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{Fault, FaultProxy, MintSettings, Nutshell};

use crate::{
    killing::{kill, start_worker},
    purse::{options, wait_for},
    wallet::{Setup, Wallet, asked, plain},
};

#[test]
fn a_token_that_is_claimed_while_nobody_works_is_found_claimed() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut alice, mut bob) = (Wallet::open(ours.path()), Wallet::open(theirs.path()));
    let (from, to) = (alice.account(&mint.url()), bob.account(&mint.url()));
    alice.earn(&from, 100);
    let (send, token) = alice.token(&from, 20);
    drop(alice);
    let claim = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&claim.id, EntityState::Completed);
    let mut alice = Wallet::open(ours.path());
    alice.work_until(&send, EntityState::Completed);
    assert_eq!(alice.balance(&from).1, 0);
    alice.audit(&[&from]);
}

#[test]
fn a_receiver_who_is_quicker_than_the_reversal_keeps_the_money() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut alice, mut bob) = (Wallet::open(ours.path()), Wallet::open(theirs.path()));
    let (from, to) = (alice.account(&mint.url()), bob.account(&mint.url()));
    alice.earn(&from, 100);
    let (send, token) = alice.token(&from, 20);
    let back = alice.executor.reverse(&send, &asked()).unwrap();
    let claim = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&claim.id, EntityState::Completed);
    assert_eq!(alice.entity(&send).state, EntityState::Pending);
    alice.work_until(&back.id, EntityState::Failed);
    assert_eq!(alice.last_note(&back.id), "Token already claimed");
    assert_eq!(alice.entity(&send).state, EntityState::Completed);
    assert_eq!(alice.balance(&from).1, 0, "nothing stays reserved");
    alice.audit(&[&from]);
    bob.audit(&[&to]);
}

#[test]
fn an_invoice_that_is_paid_while_nobody_works_is_claimed() {
    let unpaid = MintSettings { invoices_are_paid: false, ..plain() };
    let Some(mut mint) = Nutshell::start(unpaid) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    let quote = wallet.executor.receive(&account.id, 64, &asked()).unwrap();
    drop(wallet);
    let child = start_worker(folder.path());
    wait_for("the worker looks", || proxy.count("/v1/mint/quote/bolt11/") > 0);
    kill(child);
    mint.restart(plain());
    let mut wallet = Wallet::open(folder.path());
    wallet.work_until(&quote.id, EntityState::Completed);
    assert_eq!(wallet.balance(&account), (64, 0));
    wallet.audit(&[&account]);
}

#[test]
fn a_payment_that_is_seen_many_times_at_once_is_taken_once() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    let quote = wallet.executor.receive(&account.id, 63, &asked()).unwrap();
    let others: Vec<Wallet> = (0..5).map(|_| Wallet::open(folder.path())).collect();
    let start = Barrier::new(others.len());
    scope(|scope| {
        for other in &others {
            scope.spawn(|| {
                start.wait();
                // What one of them finds done it calls unclear or over, never an error that stays.
                wait_for("the money is there", || {
                    let _ = other.executor.advance(&quote.id);
                    other.entity(&quote.id).state == EntityState::Completed
                });
            });
        }
    });
    assert_eq!(wallet.balance(&account), (63, 0));
    let counters = wallet.executor.store.keysets(&account.id).unwrap();
    let used: u32 = counters.iter().map(|(_, counter)| counter).sum();
    assert_eq!(used, 6, "one range of six outputs");
    wallet.audit(&[&account]);
}

#[test]
fn a_token_that_many_claim_at_once_is_claimed_once() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut alice, mut bob) = (Wallet::open(ours.path()), Wallet::open(theirs.path()));
    let (from, to) = (alice.account(&mint.url()), bob.account(&mint.url()));
    alice.earn(&from, 100);
    let (send, token) = alice.token(&from, 20);
    let others: Vec<Wallet> = (0..5).map(|_| Wallet::open(theirs.path())).collect();
    let start = Barrier::new(others.len());
    let claim = |other: &Wallet| {
        start.wait();
        other.executor.claim(&token, &to.id, &asked()).ok()
    };
    let claims: Vec<_> = scope(|scope| {
        let claim = &claim;
        let begin = |other| scope.spawn(move || claim(other));
        let threads: Vec<_> = others.iter().map(begin).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(claims.len(), 1, "{claims:?}");
    bob.work_until(&claims[0].id, EntityState::Completed);
    assert_eq!(bob.balance(&to), (20, 0));
    alice.work_until(&send, EntityState::Completed);
    alice.audit(&[&from]);
    bob.audit(&[&to]);
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A payment whose request hangs on its way until the quote has ended for us, and only then reaches
/// the mint.
struct Late {
    _mint: Nutshell,
    _other: Nutshell,
    proxy: FaultProxy,
    folder: tempfile::TempDir,
    account: EcashAccount,
    fence: bool,
}

impl Late {
    const ARRIVES_AFTER: Duration = Duration::from_secs(25);

    fn start(fence: bool) -> Option<(Self, EcashEntity)> {
        let (mint, other) = (Nutshell::start(plain())?, Nutshell::start(plain())?);
        let proxy = FaultProxy::start(&mint.url());
        let folder = tempfile::tempdir().unwrap();
        let mut wallet = Wallet::open(folder.path());
        let account = wallet.account(&proxy.url());
        wallet.earn(&account, 1_000);
        let ends = now() + 8;
        proxy.edit("/v1/melt/quote/bolt11", move |quote| quote["expiry"] = ends.into());
        let invoice = other.invoice(100).0;
        let begun = wallet.executor.pay(&account.id, &invoice, &asked()).unwrap();
        let lost = std::iter::repeat_n(Fault::DropRequest, 20);
        proxy.script("/v1/melt/bolt11", [Fault::Delay(Self::ARRIVES_AFTER)]);
        proxy.script("/v1/melt/bolt11", lost);
        drop(wallet);
        let late = Self { _mint: mint, _other: other, proxy, folder, account, fence };
        Some((late, begun))
    }

    fn open(&self) -> Wallet {
        let mints = MintOptions { act_deadline: Duration::from_secs(2), ..options() };
        Wallet::with(self.folder.path(), Setup { mints, fence: self.fence, ..Setup::default() })
    }

    fn quote(&self, wallet: &Wallet, begun: &EcashEntity) -> MeltQuoteState {
        let EntityDetails::SendQuote(quote) = &begun.details else { panic!("it is a send quote") };
        let mints = &wallet.executor.backends.mints;
        let client = mints.client(self.account.mint_url.as_ref().unwrap());
        client.read_melt_quote(&quote.quote_id).unwrap().state
    }
}

/// Without a fence nobody can keep a mint from paying later. It is noticed, told, and no proof that
/// is spent stays in the balance.
#[test]
fn a_payment_that_was_given_up_and_is_made_after_all_raises_an_alarm() {
    let Some((late, begun)) = Late::start(false) else { return };
    let mut wallet = late.open();
    wallet.work_until(&begun.id, EntityState::Expired);
    assert_eq!(wallet.balance(&late.account), (1_000, 0));
    wait_for("the mint pays", || late.quote(&wallet, &begun) == MeltQuoteState::Paid);
    drop(wallet);
    let mut wallet = late.open();
    wallet.work_while(&begun.id, |entity| entity.alarm);
    let (left, reserved) = wallet.balance(&late.account);
    assert!(reserved == 0 && left > 890 && left < 900, "{left}");
    assert_eq!(wallet.entity(&begun.id).state, EntityState::Expired);
    wallet.audit(&[&late.account]);
    assert!(late.proxy.count("/v1/melt/bolt11") > 1);
}

/// With a fence the mint finds the proofs spent.
#[test]
fn a_fence_keeps_a_payment_that_was_given_up_from_being_made() {
    let Some((late, begun)) = Late::start(true) else { return };
    let mut wallet = late.open();
    wallet.work_while(&begun.id, |entity| !entity.is_open());
    let state = wallet.entity(&begun.id).state;
    assert!(matches!(state, EntityState::Expired | EntityState::Failed), "{state}");
    let (left, reserved) = wallet.balance(&late.account);
    assert!(reserved == 0 && left >= 998, "the proofs are new: {left}");
    wallet.audit(&[&late.account]);
    // The first request arrives.
    sleep(Late::ARRIVES_AFTER);
    assert_eq!(late.quote(&wallet, &begun), MeltQuoteState::Unpaid);
    wallet.audit(&[&late.account]);
    assert_eq!(wallet.balance(&late.account), (left, 0));
}
