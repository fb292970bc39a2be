//! Mints that refuse, fail inside or take too long, and a database that goes away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{scope, sleep},
    time::{Duration, Instant},
};

use cashu::{CurrencyUnit, Token};
use unspent_ecash::{EcashError, schema::SCHEMA};
use unspent_ecash_room::mint::{MintOptions, check::address};
use unspent_model::ecash::EntityState;
use unspent_sql::{Arg, Door, Options, SqlError, Tx, Url};
use unspent_testkit::{
    ecash::{Fault, FaultProxy, MintSettings, Nutshell},
    wallet::postgres,
};

use crate::{
    purse::{PATIENCE, Purse, options, wait_for},
    wallet::{Setup, Wallet, asked, plain},
};

const MELT: &str = "/v1/melt/bolt11";

#[test]
fn a_melt_that_takes_longer_than_we_wait_is_asked_for_once() {
    let slow = MintSettings { outgoing_delay: Duration::from_secs(10), ..plain() };
    let Some(mint) = Nutshell::start(slow) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mints = MintOptions { act_deadline: Duration::from_secs(2), ..options() };
    let mut wallet = Wallet::with(folder.path(), Setup { mints, ..Setup::default() });
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 500);
    let paid = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    wallet.work_until(&paid.id, EntityState::Pending);
    assert!(wallet.balance(&account).1 >= 100, "the proofs are held");
    wallet.audit(&[&account]);
    wallet.work_until(&paid.id, EntityState::Paid);
    assert_eq!(proxy.count(MELT), 1);
    wallet.audit(&[&account]);
}

#[test]
fn a_mint_that_fails_inside_is_asked_again_and_nothing_is_let_go() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 500);
    let paid = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    let inner = || Fault::error(50_000, "something inside");
    // The quote is read before the payment is begun, and before it is asked for.
    proxy.script("/v1/melt/quote/bolt11/", [Fault::Pass, Fault::Pass, inner(), inner(), inner()]);
    proxy.script(MELT, [inner()]);
    wallet.work_while(&paid.id, |_| proxy.count(MELT) == 1);
    let reads = proxy.count("/v1/melt/quote/bolt11/");
    wallet.work_while(&paid.id, |_| proxy.count("/v1/melt/quote/bolt11/") > reads + 1);
    assert_eq!(wallet.entity(&paid.id).state, EntityState::Unpaid);
    assert!(wallet.balance(&account).1 >= 100, "the proofs are held");
    wallet.work_until(&paid.id, EntityState::Paid);
    assert_eq!(proxy.count(MELT), 2);
    wallet.audit(&[&account]);
}

#[test]
fn what_is_under_way_at_the_mint_is_waited_for() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    let url = address(&proxy.url()).unwrap();
    let token = Token::new(url, Purse::new(&mint.url()).mint(32), None, CurrencyUnit::Sat);
    let pending = [Fault::error(11_002, "pending"), Fault::error(11_004, "pending")];
    proxy.script("/v1/swap", pending);
    let claim = wallet.executor.claim(&token, &account.id, &asked()).unwrap();
    wallet.work_until(&claim.id, EntityState::Completed);
    assert_eq!((proxy.count("/v1/swap"), proxy.count("/v1/restore")), (3, 0));
    wallet.audit(&[&account]);
}

const LOCK: &str = "SELECT id FROM entities WHERE id = $1 FOR UPDATE";
const WAITING: &str = "SELECT count(*) AS waiting FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Keeps a row locked until the connection breaks; not again after that.
fn hold(
    tx: &mut Tx<'_>,
    id: &str,
    locked: &AtomicBool,
    broken: &AtomicBool,
) -> Result<(), EcashError> {
    if locked.load(Ordering::SeqCst) {
        return Ok(());
    }
    tx.query(LOCK, &[Arg::Text(id)])?;
    locked.store(true, Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    while !broken.load(Ordering::SeqCst) && Instant::now() < until {
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// All connections to the database break while a payment's last change waits inside its transaction.
#[test]
fn a_connection_that_breaks_inside_a_change_leaves_it_undone_and_it_is_done_once() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let Some(database) = postgres::database() else { return };
    let url: Url = database.parse().unwrap();
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { url: Some(url.clone()), ..Setup::default() };
    let mut wallet = Wallet::with(folder.path(), setup);
    let account = wallet.account(&proxy.url());
    // Two turns may have begun when the quote is seen paid: its own, and one that the mint's notice
    // asked for. Neither may come to its end before the row is locked.
    proxy.script("/v1/mint/bolt11", [Fault::DropRequest, Fault::DropRequest]);
    let quote = wallet.executor.receive(&account.id, 63, &asked()).unwrap();
    wallet.work_until(&quote.id, EntityState::Paid);
    let lines = wallet.executor.store.journal_of(&quote.id).unwrap().len();

    let door = Door::open(&url, &SCHEMA, Options::default()).unwrap();
    let flag = || Arc::new(AtomicBool::new(false));
    let (is_locked, is_broken) = (flag(), flag());
    scope(|scope| {
        let (id, locked, broken) = (quote.id.clone(), is_locked.clone(), is_broken.clone());
        let holder = Door::open(&url, &SCHEMA, Options::default()).unwrap();
        // Ends with the connection: what it says then doesn't matter.
        scope.spawn(move || holder.write(move |tx| hold(tx, &id, &locked, &broken)).is_ok());
        wait_for("the row is locked", || is_locked.load(Ordering::SeqCst));
        wait_for("the change waits inside", || {
            let _ = wallet.worker.step();
            let waiting = door
                .read(|tx| -> Result<u64, SqlError> { tx.one(WAITING, &[])?.natural("waiting") });
            waiting.is_ok_and(|waiting| waiting > 0)
        });
        postgres::break_connections(&database);
        is_broken.store(true, Ordering::SeqCst);
    });
    wait_for("it is done", || {
        let _ = wallet.worker.step();
        let found = wallet.executor.store.entity(&quote.id);
        found.is_ok_and(|found| found.state == EntityState::Completed)
    });
    assert_eq!(wallet.balance(&account), (63, 0));
    assert_eq!(wallet.executor.store.journal_of(&quote.id).unwrap().len(), lines + 1);
    wallet.audit(&[&account]);
}
