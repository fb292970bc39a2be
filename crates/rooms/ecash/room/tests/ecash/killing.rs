//! Workers that are killed (`kill -9`) between any two steps of a payment.
//!
//! A step is a question to a mint or to Spark, and what its answer changes. Killed while the
//! question is on its way and hasn't arrived, a worker has taken the step before and not this one;
//! killed while the answer is held, the mint has taken it and we have not. So both are done at
//! every question of every flow. The question that was under way arrives late, in the middle of
//! what the next worker does.

use std::{fs, path::Path, process::Child, sync::Arc, thread::sleep, time::Duration};

use cashu::{CurrencyUnit, Token};
use unspent_ecash::{EcashAccount, EcashEntity, PageRequest};
use unspent_ecash_room::{
    mint::check::address,
    spark::{SparkBackend, SparkRemote},
    work::executor::PaymentExecutor,
};
use unspent_model::ecash::EntityState;
use unspent_testkit::{
    crash,
    ecash::{Fault, FaultProxy, Lightning, MintSettings, Nutshell, ScriptedSpark},
};

use crate::{
    crossing::Crossing,
    purse::{Purse, wait_for},
    sparking::WORKER,
    wallet::{Setup, Wallet, asked, plain},
};

const KILLED: &str = "killing::the_wallet_that_is_killed";
/// Where a worker finds the address of the Spark wallet.
const SPARK: &str = "spark-url";
/// So long the question or the answer is held: longer than the kill takes.
const HELD: Duration = Duration::from_secs(20);
/// So long a mint on a loaded machine may need for its work.
const MINT_WORKS: Duration = Duration::from_secs(2);

/// Works on whatever is open, until it is killed.
#[test]
fn the_wallet_that_is_killed() {
    let Some((role, folder)) = crash::role() else { return };
    if role != "wallet" {
        return;
    }
    let mut wallet = open(&folder);
    loop {
        // A lease of the one that was killed before runs out by itself.
        wallet.worker.step().unwrap();
        wallet.worker.rest(Duration::from_millis(100));
    }
}

/// A wallet with the Spark wallet that the folder names, if it names one.
fn open(folder: &Path) -> Wallet {
    let spark = fs::read_to_string(folder.join(SPARK)).ok();
    let spark = spark.map(|url| -> Arc<dyn SparkBackend> { Arc::new(SparkRemote::new(&url)) });
    Wallet::with(folder, Setup { spark, ..Setup::default() })
}

pub fn start_worker(folder: &Path) -> Child {
    crash::worker(KILLED, "wallet", folder).unwrap().spawn().unwrap()
}

pub fn kill(mut child: Child) {
    child.kill().unwrap();
    assert!(crash::was_killed(child.wait().unwrap()), "it ended by itself");
}

/// Runs a worker of its own until it asks something, and kills it then. Whoever works on the folder
/// in this process has ended before.
fn killed_at(folder: &Path, proxy: &FaultProxy, path: &str, fault: &Fault) {
    let known = proxy.count(path);
    proxy.script(path, [fault.clone()]);
    let child = start_worker(folder);
    wait_for("the request is on its way", || proxy.count(path) > known);
    if matches!(fault, Fault::DelayAnswer(_)) {
        sleep(MINT_WORKS);
    }
    kill(child);
}

fn faults() -> [Fault; 2] {
    [Fault::Delay(HELD), Fault::DelayAnswer(HELD)]
}

/// A payment that was begun: where it ends, what it brings, and what it may cost.
struct Begun {
    id: String,
    end: EntityState,
    gain: i64,
    most_fee: i64,
}

impl Begun {
    fn new(entity: EcashEntity, end: EntityState, gain: i64, most_fee: i64) -> Self {
        Self { id: entity.id, end, gain, most_fee }
    }
}

struct Bench {
    mint: Nutshell,
    proxy: FaultProxy,
    folder: tempfile::TempDir,
    account: EcashAccount,
}

impl Bench {
    fn start(settings: MintSettings) -> Option<Self> {
        let mint = Nutshell::start(settings)?;
        let proxy = FaultProxy::start(&mint.url());
        let folder = tempfile::tempdir().unwrap();
        let mut wallet = open(folder.path());
        let account = wallet.account(&proxy.url());
        wallet.earn(&account, 2_000);
        Some(Self { mint, proxy, folder, account })
    }

    /// Begins payments, kills their worker at every question under `path`, and lets another one
    /// bring them to their end.
    fn survives(&self, path: &str, begin: impl Fn(&mut Wallet) -> Begun) {
        for fault in faults() {
            let mut wallet = open(self.folder.path());
            let begun = begin(&mut wallet);
            let (unspent, reserved) = wallet.balance(&self.account);
            let had = i64::try_from(unspent + reserved).unwrap();
            drop(wallet);
            killed_at(self.folder.path(), &self.proxy, path, &fault);
            let mut again = open(self.folder.path());
            again.work_until(&begun.id, begun.end);
            again.audit(&[&self.account]);
            let (unspent, reserved) = again.balance(&self.account);
            let change = i64::try_from(unspent + reserved).unwrap() - had;
            let expected = begun.gain - begun.most_fee..=begun.gain;
            assert!(expected.contains(&change), "{path} {fault:?}: {change}, not {expected:?}");
        }
    }
}

#[test]
fn tokens_survive_a_kill_at_every_step() {
    let Some(bench) = Bench::start(plain()) else { return };
    let account = bench.account.id.clone();
    bench.survives("/v1/swap", |wallet| {
        let send = wallet.executor.send(&account, 10, &asked()).unwrap();
        Begun::new(send, EntityState::Pending, 0, 2)
    });
    let url = address(&bench.proxy.url()).unwrap();
    let purse = Purse::new(&bench.mint.url());
    bench.survives("/v1/swap", |wallet| {
        let proofs = purse.mint(32);
        let token = Token::new(url.clone(), proofs, None, CurrencyUnit::Sat);
        let claim = wallet.executor.claim(&token, &account, &asked()).unwrap();
        Begun::new(claim, EntityState::Completed, 32, 2)
    });
    bench.survives("/v1/swap", |wallet| {
        let (send, _) = wallet.token(&bench.account, 20);
        let back = wallet.executor.reverse(&send, &asked()).unwrap();
        Begun::new(back, EntityState::Completed, 0, 2)
    });
    // What was taken back is over, and holds nothing.
    let wallet = open(bench.folder.path());
    let tokens = wallet.executor.store.proofs(
        &account,
        unspent_model::ecash::ProofState::Reserved,
        PageRequest::first(1_000),
    );
    let reserved: u64 = tokens.unwrap().iter().map(|proof| proof.amount).sum();
    assert_eq!(reserved, wallet.balance(&bench.account).1);
}

#[test]
fn invoices_survive_a_kill_at_every_step() {
    let Some(bench) = Bench::start(plain()) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let account = bench.account.id.clone();
    for path in ["/v1/melt/quote/bolt11/", "/v1/melt/bolt11"] {
        bench.survives(path, |wallet| {
            let paid = wallet.executor.pay(&account, &other.invoice(10).0, &asked()).unwrap();
            Begun::new(paid, EntityState::Paid, -10, 5)
        });
    }
    for path in ["/v1/mint/quote/bolt11/", "/v1/mint/bolt11"] {
        bench.survives(path, |wallet| {
            let quote = wallet.executor.receive(&account, 10, &asked()).unwrap();
            Begun::new(quote, EntityState::Completed, 10, 0)
        });
    }
}

/// A payment that the mint has on its way when the worker dies is found so, and ends when the mint
/// says so.
#[test]
fn a_payment_on_its_way_is_found_again_after_a_kill() {
    let forever = MintSettings {
        paid_at_once: Lightning::Pending,
        asked_later: Lightning::Pending,
        ..plain()
    };
    let Some(mut bench) = Bench::start(forever.clone()) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let failing =
        MintSettings { paid_at_once: Lightning::Failed, asked_later: Lightning::Failed, ..plain() };
    let settling = MintSettings { asked_later: Lightning::Settled, ..forever.clone() };
    let ends = [(settling, EntityState::Paid), (failing, EntityState::Failed)];
    for (settings, end) in ends {
        bench.mint.restart(forever.clone());
        let wallet = open(bench.folder.path());
        let had = wallet.balance(&bench.account).0;
        let invoice = other.invoice(100).0;
        let paid = wallet.executor.pay(&bench.account.id, &invoice, &asked()).unwrap();
        drop(wallet);
        let answer = Fault::DelayAnswer(HELD);
        killed_at(bench.folder.path(), &bench.proxy, "/v1/melt/bolt11", &answer);
        let mut again = open(bench.folder.path());
        again.work_until(&paid.id, EntityState::Pending);
        assert!(again.balance(&bench.account).1 >= 100);
        again.audit(&[&bench.account]);
        bench.mint.restart(settings);
        again.work_until(&paid.id, end);
        let (left, reserved) = again.balance(&bench.account);
        assert_eq!(reserved, 0);
        let is_paid = end == EntityState::Paid;
        assert!(if is_paid { left < had - 99 && left > had - 110 } else { left == had }, "{left}");
        again.audit(&[&bench.account]);
    }
}

#[test]
fn a_token_becomes_money_elsewhere_through_a_kill_at_every_step() {
    let Some(crossing) = Crossing::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = open(folder.path());
    let (from, to) = (wallet.account(&crossing.a.url()), wallet.account(&crossing.b.url()));
    wallet.earn(&from, 2_000);
    drop(wallet);
    let steps = [
        (&crossing.b, "/v1/mint/quote/bolt11/"),
        (&crossing.a, "/v1/melt/quote/bolt11/"),
        (&crossing.a, "/v1/melt/bolt11"),
        (&crossing.b, "/v1/mint/bolt11"),
    ];
    for (proxy, path) in steps {
        for fault in faults() {
            let mut wallet = open(folder.path());
            let (send, token) = wallet.token(&from, 100);
            let (kept, had) = (wallet.balance(&from).0, wallet.balance(&to).0);
            let claim = crossing.claim(&wallet.executor, &token, &to);
            drop(wallet);
            killed_at(folder.path(), proxy, path, &fault);
            let mut again = open(folder.path());
            again.work_until(&claim.id, EntityState::Completed);
            again.work_until(&send, EntityState::Completed);
            // Where the answer to the melt was lost, the money that has come tells of it first.
            let is_told = path == "/v1/melt/bolt11" && matches!(fault, Fault::DelayAnswer(_));
            assert!(is_told || again.entity(&claim.id).melt_initiated, "{path} {fault:?}");
            // Change of the token comes home.
            again.work_while(&claim.id, |entity| !entity.is_open());
            let got = again.balance(&to).0 - had;
            let change = again.balance(&from).0 - kept;
            let token = u64::from(token.value().unwrap());
            assert!(
                got > 90 && got + change <= token && got + change + 5 >= token,
                "{got} {change}"
            );
            again.audit(&[&from, &to]);
        }
    }
}

#[test]
fn a_token_becomes_money_in_spark_through_a_kill_at_every_step() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let scripted = ScriptedSpark::start(WORKER);
    let line = FaultProxy::start(&scripted.url());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(SPARK), line.url()).unwrap();
    let mut wallet = open(folder.path());
    let from = wallet.account(&proxy.url());
    let to = wallet.executor.add_spark_account("spark").unwrap();
    wallet.earn(&from, 2_000);
    drop(wallet);
    let steps = [
        (&line, "/receive_status", false),
        (&proxy, "/v1/melt/quote/bolt11/", false),
        (&proxy, "/v1/melt/bolt11", false),
        (&line, "/receive_status", true),
    ];
    for (at, path, is_melted) in steps {
        for fault in faults() {
            let mut wallet = open(folder.path());
            let (send, token) = wallet.token(&from, 100);
            let kept = wallet.balance(&from).0;
            let claim = wallet.executor.claim(&token, &to.id, &asked()).unwrap();
            if is_melted {
                melted(&mut wallet, &claim.id, &scripted);
            }
            drop(wallet);
            killed_at(folder.path(), at, path, &fault);
            let mut again = open(folder.path());
            if !is_melted {
                melted(&mut again, &claim.id, &scripted);
            }
            again.work_until(&claim.id, EntityState::Paid);
            again.work_until(&send, EntityState::Completed);
            again.work_while(&claim.id, |entity| !entity.is_open());
            let unspent_ecash::EntityDetails::SparkReceive(receive) =
                again.entity(&claim.id).details
            else {
                panic!("it is a receipt of Spark");
            };
            let change = again.balance(&from).0 - kept;
            let (token, got) = (u64::from(token.value().unwrap()), receive.amount);
            assert!(
                got > 90 && got + change <= token && got + change + 5 >= token,
                "{got} {change}"
            );
            again.audit(&[&from]);
        }
    }
}

/// Works until the token's mint has paid, and has the Spark wallet notice.
fn melted(wallet: &mut Wallet, id: &str, scripted: &ScriptedSpark) {
    wallet.work_while(id, |entity| entity.melt_initiated);
    let unspent_ecash::EntityDetails::SparkReceive(receive) = wallet.entity(id).details else {
        panic!("it is a receipt of Spark");
    };
    scripted.set_receive(&receive.request_id, "TRANSFER_COMPLETED");
}

#[test]
fn a_payment_through_spark_survives_a_kill_at_every_step() {
    let scripted = ScriptedSpark::start(WORKER);
    let line = FaultProxy::start(&scripted.url());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(SPARK), line.url()).unwrap();
    let account = open(folder.path()).executor.add_spark_account("spark").unwrap();
    let direct = SparkRemote::new(&scripted.url());
    let pay = |executor: &PaymentExecutor| {
        let bill = direct.create_invoice(50, None, None).unwrap().invoice;
        executor.pay_by_spark(&account.id, &bill, &asked()).unwrap()
    };
    let mut made = 0;
    for path in ["/find_send", "/send", "/send_status"] {
        for fault in faults() {
            let mut wallet = open(folder.path());
            let sent = pay(&wallet.executor);
            if path == "/send_status" {
                wallet.work_until(&sent.id, EntityState::Pending);
                scripted.set_send(&sent.id, "TRANSFER_COMPLETED", Some("ab"));
            }
            drop(wallet);
            killed_at(folder.path(), &line, path, &fault);
            let mut again = open(folder.path());
            if path != "/send_status" {
                again.work_until(&sent.id, EntityState::Pending);
                scripted.set_send(&sent.id, "TRANSFER_COMPLETED", Some("ab"));
            }
            again.work_until(&sent.id, EntityState::Completed);
            again.audit(&[]);
            made += 1;
            assert_eq!(scripted.payments(), made, "{path} {fault:?}: paid twice, or not");
        }
    }
}
