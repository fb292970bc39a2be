//! The worker: mints that don't answer, mints that want to be left alone, and several workers.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use unspent_ecash_room::mint::MintOptions;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{Fault, FaultProxy, Nutshell};

use crate::{
    killing::{kill, start_worker},
    purse::{PATIENCE, options, wait_for},
    wallet::{Setup, Wallet, asked, plain},
};

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(1_000);

/// A wallet that waits for mints as long as they like.
fn patient(folder: &Path) -> Wallet {
    let mints = MintOptions { act_deadline: FOR_EVER, read_deadline: FOR_EVER, ..options() };
    Wallet::with(folder, Setup { mints, ..Setup::default() })
}

#[test]
fn a_mint_that_never_answers_holds_up_nobody_else_and_not_the_end() {
    let Some(silent) = Nutshell::start(plain()) else { return };
    let Some(lively) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&silent.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = patient(folder.path());
    let (stuck, free) = (wallet.account(&proxy.url()), wallet.account(&lively.url()));
    wallet.earn(&stuck, 100);
    wallet.earn(&free, 100);
    proxy.script("/v1/swap", [Fault::Delay(FOR_EVER)]);
    let known = proxy.count("/v1/swap");
    let hangs = wallet.executor.send(&stuck.id, 10, &asked()).unwrap();
    wallet.work_while(&hangs.id, |_| proxy.count("/v1/swap") > known);
    // More of the same wait behind it.
    let behind = wallet.executor.send(&stuck.id, 10, &asked()).unwrap();
    let goes = wallet.executor.send(&free.id, 10, &asked()).unwrap();
    wallet.work_until(&goes.id, EntityState::Pending);
    wallet.earn(&free, 50);
    assert_eq!(proxy.count("/v1/swap"), known + 1, "a mint is asked one thing at a time");
    for id in [&hangs.id, &behind.id] {
        assert_eq!(wallet.entity(id).state, EntityState::Draft);
    }
    let began = Instant::now();
    drop(wallet);
    assert!(began.elapsed() < PATIENCE, "the end waits for the mint");
    // The next one finds everything as it was, and brings it to its end.
    let mut wallet = Wallet::open(folder.path());
    wallet.work_until(&hangs.id, EntityState::Pending);
    wallet.work_until(&behind.id, EntityState::Pending);
    wallet.audit(&[&stuck, &free]);
}

#[test]
fn a_mint_that_asks_for_a_pause_gets_it_from_all_payments() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 100);
    // An hour: nothing of it is over while the test runs.
    proxy.script("/v1/swap", [Fault::TooMany(3_600)]);
    let known = proxy.count("/v1/swap");
    let send = wallet.executor.send(&account.id, 10, &asked()).unwrap();
    wallet.work_while(&send.id, |_| proxy.count("/v1/swap") > known);
    let client = wallet.executor.backends.mints.client(account.mint_url.as_ref().unwrap());
    wait_for("the answer has come", || !client.quiet_for().is_zero());
    assert!(client.quiet_for() > Duration::from_secs(1_800), "{:?}", client.quiet_for());
    let asks = || proxy.seen().iter().filter(|seen| !seen.path.starts_with("/v1/ws")).count();
    let asked_so_far = asks();
    let other = wallet.executor.send(&account.id, 20, &asked()).unwrap();
    let reports = wallet.work_for(Duration::from_secs(5));
    assert_eq!(asks(), asked_so_far, "nothing was sent: {:?}", proxy.seen());
    assert!(wallet.executor.receive(&account.id, 5, &asked()).is_err());
    assert_eq!(asks(), asked_so_far);
    let why = reports.last().unwrap().unclear.clone();
    for id in [&send.id, &other.id] {
        assert_eq!(wallet.entity(id).state, EntityState::Draft);
        assert!(why[id].contains("slow down"), "{why:?}");
    }
    // Whoever starts anew doesn't know of it, and may ask.
    drop(wallet);
    let mut wallet = Wallet::open(folder.path());
    proxy.script("/v1/swap", [Fault::TooMany(1)]);
    wallet.work_until(&send.id, EntityState::Pending);
    wallet.work_until(&other.id, EntityState::Pending);
    wallet.audit(&[&account]);
}

#[test]
fn the_lease_is_kept_while_a_mint_takes_its_time() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut first = patient(folder.path());
    let account = first.account(&proxy.url());
    first.earn(&account, 100);
    let mut second = patient(folder.path());
    assert!(second.worker.step().unwrap().is_led_by_another);
    // Two leases long. The first worker does nothing else meanwhile.
    let long = Duration::from_secs(12);
    proxy.script("/v1/swap", [Fault::Delay(long)]);
    let known = proxy.count("/v1/swap");
    let send = first.executor.send(&account.id, 10, &asked()).unwrap();
    std::thread::scope(|scope| {
        let passing = scope.spawn(|| first.worker.pass().unwrap());
        wait_for("the request is on its way", || proxy.count("/v1/swap") > known);
        while !passing.is_finished() {
            let reports = second.work_for(Duration::from_millis(500));
            assert!(passing.is_finished() || reports.iter().all(|r| r.is_led_by_another));
        }
        let report = passing.join().unwrap();
        assert!(!report.is_led_by_another && report.moved > 0, "{report:?}");
    });
    assert_eq!(first.entity(&send.id).state, EntityState::Pending);
    // Whoever ends makes room at once.
    drop(first);
    wait_for("the second leads", || !second.worker.step().unwrap().is_led_by_another);
    second.audit(&[&account]);
}

/// The steps that a killed leader has left behind are taken by the other, and none of them twice.
#[test]
fn when_the_leader_is_killed_another_takes_over_and_nothing_is_doubled() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 1_000);
    drop(wallet);
    for fault in [Fault::Delay(FOR_EVER), Fault::DelayAnswer(FOR_EVER)] {
        let path = "/v1/melt/bolt11";
        let known = proxy.count(path);
        proxy.script(path, [fault.clone()]);
        let mut second = Wallet::open(folder.path());
        let before = second.balance(&account).0;
        let invoice = other.invoice(100).0;
        let paid = second.executor.pay(&account.id, &invoice, &asked()).unwrap();
        let leader = start_worker(folder.path());
        wait_for("the leader pays", || proxy.count(path) > known);
        // Also the time that the mint needs, where it is the answer that is held.
        let reports = second.work_for(Duration::from_secs(2));
        assert!(reports.iter().all(|report| report.is_led_by_another), "{reports:?}");
        assert_eq!(second.entity(&paid.id).state, EntityState::Unpaid);
        kill(leader);
        second.work_until(&paid.id, EntityState::Paid);
        let (left, reserved) = second.balance(&account);
        assert!(reserved == 0 && left < before - 99 && left > before - 110, "{before} to {left}");
        second.audit(&[&account]);
    }
}
