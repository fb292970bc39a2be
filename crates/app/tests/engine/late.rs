//! Scripts that come late, and wallets that can't go on: each is its own wallet's matter.

use std::time::Duration;

use unspent_sql::{Arg, Door, Options, SqlError};
use unspent_wallet::{NewAccount, WalletId, additions::WatchAdditions, schema::SCHEMA};

use crate::rig::{Rig, descriptor, wait_for};

fn confirmed(rig: &Rig, wallet: WalletId) -> u64 {
    rig.room().balance(wallet, 1, unspent_engine::clock::now()).unwrap().confirmed.sats
}

fn wait_whole(rig: &Rig, wallet: WalletId) {
    wait_for("the past to be read", || rig.room().wallet_info(wallet).unwrap().backfill.is_none());
}

#[test]
fn an_account_that_comes_late_is_scanned_from_its_birthday_while_the_tip_goes_on() {
    let rig = Rig::start(60);
    let ours = rig.wallet("ours", 1);
    let other = rig.wallet("other", 2);
    rig.sim.mine(110).unwrap();
    for at in [0, 4, 9] {
        rig.sim.pay(&rig.script(other, at), 50_000, 300).unwrap();
        rig.sim.mine_mempool().unwrap();
    }
    rig.sim.mine(5).unwrap();
    rig.settle();
    assert_eq!((confirmed(&rig, ours), confirmed(&rig, other)), (0, 150_000));
    let account = NewAccount { name: "late".into(), receive: descriptor(2), change: None };
    let additions = WatchAdditions { accounts: vec![account], ..WatchAdditions::default() };
    let todo = rig.room().extend_wallet(ours, &additions, Some(1)).unwrap().unwrap();
    assert_eq!((todo.next, todo.end), (1, rig.sim.height()));
    rig.engine.wake();
    rig.sim.mine(3).unwrap();
    wait_whole(&rig, ours);
    rig.settle_and_check();
    assert_eq!(confirmed(&rig, ours), 150_000);
}

#[test]
fn a_reorganisation_during_a_backfill_loses_nothing() {
    let rig = Rig::start(61);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(120).unwrap();
    let late = rig.sim.look(|sim| {
        sim.coins().values().next().map(|coin| coin.output.script_pubkey.clone()).unwrap()
    });
    rig.settle();
    let additions = WatchAdditions { scripts: vec![late.clone()], ..WatchAdditions::default() };
    rig.room().extend_wallet(ours, &additions, Some(0)).unwrap();
    rig.engine.wake();
    rig.sim.fork(4).unwrap();
    rig.sim.mine(6).unwrap();
    wait_whole(&rig, ours);
    rig.settle_and_check();
    let balance = rig.room().balance(ours, 1, unspent_engine::clock::now()).unwrap();
    assert!(balance.total() > 0, "the script was paid in the past");
}

#[test]
fn a_wallet_that_cannot_go_on_is_told_of_and_the_others_follow() {
    let rig = Rig::start(62);
    let ours = rig.wallet("ours", 1);
    let other = rig.wallet("other", 2);
    let (for_us, for_them) = (rig.script(ours, 3), rig.script(other, 3));
    rig.sim.mine(110).unwrap();
    rig.settle();
    break_wallet(&rig, ours);
    rig.sim.pay(&for_us, 40_000, 300).unwrap();
    rig.sim.pay(&for_them, 60_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    rig.settle_room(unspent_wallet_room::NAME);
    wait_for("the others to be paid", || confirmed(&rig, other) == 60_000);
    let info = rig.room().wallet_info(ours).unwrap();
    assert!(info.stopped.unwrap().reason.contains("descriptor"));
    wait_for("the event", || {
        let page = rig.engine.events().after(0, 1_000).unwrap();
        let told = page.events.iter().filter(|event| event.kind == "wallet_stopped");
        told.filter(|event| event.wallet.as_deref() == Some("ours")).count() == 1
    });
    rig.sim.mine(2).unwrap();
    rig.settle_room(unspent_wallet_room::NAME);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(confirmed(&rig, ours), 0);
}

/// Damages a descriptor, as a bad disk would.
fn break_wallet(rig: &Rig, wallet: WalletId) {
    const BREAK: &str = "UPDATE keychains SET descriptor = 'nonsense' || id WHERE wallet_id = $1";
    let url = format!("sqlite:{}", rig.folder.path().join("wallet.db").display());
    let door = Door::open(&url.parse().unwrap(), &SCHEMA, Options::default()).unwrap();
    let done: Result<u64, SqlError> =
        door.write(move |tx| tx.execute(BREAK, &[Arg::Int(wallet.0)]));
    done.unwrap();
}
