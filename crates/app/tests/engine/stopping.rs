//! Sources that fail, rooms that stop, and the others that go on.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use unspent_engine::{Engine, ResumeError, RoomName, RoomState, StartError};
use unspent_source::{Origin, sim::SimNetwork};

use crate::{
    faulty::Faulty,
    rig::{Rig, quick, wait_for},
};

fn stopped(rig: &Rig, room: RoomName) -> (String, String) {
    wait_for("the room to stop", || matches!(rig.state(room), RoomState::Stopped { .. }));
    match rig.state(room) {
        RoomState::Stopped { reason, remedy } => (reason, remedy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_depth_up_to_the_window_is_followed_and_one_more_stops_the_chain_room_alone() {
    const WINDOW: u32 = 12;
    let rig = Rig::with(3, |config| {
        let options = &mut config.room::<unspent_chain_room::ChainRoom>().unwrap().options;
        (options.rollback_window, options.prune_depth) = (WINDOW.into(), WINDOW.into());
    });
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(120).unwrap();
    for depth in 1..=WINDOW {
        rig.sim.pay(&rig.script(ours, 0), 20_000, 300).unwrap();
        rig.sim.mine_busy(WINDOW + 1, 2).unwrap();
        rig.settle();
        rig.sim.fork(depth).unwrap();
        rig.settle_and_check();
        assert_eq!(
            rig.status(unspent_chain_room::NAME).last_reorg.unwrap().depth,
            u64::from(depth)
        );
    }
    let before = rig.status(unspent_chain_room::NAME).tip;
    rig.sim.fork(WINDOW + 1).unwrap();
    let (reason, remedy) = stopped(&rig, unspent_chain_room::NAME);
    assert!(reason.contains("13 blocks"), "the depth is named: {reason}");
    assert!(remedy.contains("rollback window of at least 13"), "{remedy}");
    // The wallet room goes on, and questions to the stopped one are still answered.
    rig.sim.pay(&rig.script(ours, 1), 30_000, 300).unwrap();
    rig.sim.mine_busy(3, 2).unwrap();
    rig.settle_room(unspent_wallet_room::NAME);
    crate::rig::check_wallet(&rig.sim, &rig.room(), ours);
    assert_eq!(
        rig.status(unspent_chain_room::NAME).tip,
        before,
        "nothing is written after the error"
    );
    assert!(unspent_chain_room::reader(&rig.engine).unwrap().tip().unwrap().is_some());
    assert!(rig.engine.run_job(unspent_chain_room::PRUNE).is_err());
    // Resuming without having mended anything stops it again.
    rig.engine.resume(unspent_chain_room::NAME).unwrap();
    let stops = || {
        let page = rig.engine.events().after(0, 1_000).unwrap();
        page.events.iter().filter(|event| event.kind == "room_stopped").count()
    };
    wait_for("a second stop", || stops() == 2);
    assert!(matches!(rig.engine.resume(unspent_wallet_room::NAME), Err(ResumeError::Running(_))));
}

/// The blocks of a wallet without payments are forgotten below a depth; how much further back a
/// chain left, nobody here knows then.
#[test]
fn a_reorganisation_below_the_blocks_kept_stops_the_wallet_room_and_says_at_least() {
    let sim = SimNetwork::in_memory(12);
    let known = u32::try_from(unspent_wallet::block::BLOCKS_KEPT).unwrap();
    sim.mine(known + 40).unwrap();
    let rig =
        Rig::on(sim.clone(), Arc::new(sim), |config| config.without(unspent_chain_room::NAME));
    rig.wallet("ours", 1);
    rig.settle_room(unspent_wallet_room::NAME);
    rig.sim.fork(known + 15).unwrap();
    let (reason, remedy) = stopped(&rig, unspent_wallet_room::NAME);
    assert!(reason.contains(&format!("at least {known} blocks ago")), "{reason}");
    assert!(remedy.contains("rewind the wallets"), "{remedy}");
}

#[test]
fn a_source_that_drops_out_is_waited_for() {
    let sim = SimNetwork::in_memory(4);
    let faulty = Faulty::new(&sim);
    let rig = Rig::on(sim, Arc::new(faulty.clone()), |_| ());
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(105).unwrap();
    rig.settle();
    faulty.faults.is_down.store(true, Ordering::SeqCst);
    for room in [unspent_chain_room::NAME, unspent_wallet_room::NAME] {
        wait_for("waiting", || matches!(rig.state(room), RoomState::Waiting { .. }));
    }
    let status = rig.engine.status();
    assert!(!status.source.connected);
    assert!(status.source.error.unwrap().contains("it is down"));
    rig.sim.pay(&rig.script(ours, 0), 20_000, 300).unwrap();
    rig.sim.mine_busy(4, 2).unwrap();
    rig.sim.fork(3).unwrap();
    // Pauses between attempts grow: hammering would show as many.
    let before = faulty.faults.opened.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(300));
    let attempts = faulty.faults.opened.load(Ordering::SeqCst) - before;
    assert!(attempts < 20, "{attempts} attempts in 300 ms");
    faulty.faults.is_down.store(false, Ordering::SeqCst);
    rig.settle_and_check();
    assert!(rig.engine.status().source.connected);
    let page = rig.engine.events().after(0, 1_000).unwrap();
    let count = |kind: &str| page.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count("source_lost"), count("source_found")), (1, 1));
}

#[test]
fn a_pruned_source_stops_the_rooms_and_names_the_height() {
    let sim = SimNetwork::in_memory(5);
    sim.mine(150).unwrap();
    let faulty = Faulty::new(&sim);
    faulty.faults.pruned_to.store(40, Ordering::SeqCst);
    let rig = Rig::on(sim, Arc::new(faulty.clone()), |_| ());
    let (reason, remedy) = stopped(&rig, unspent_chain_room::NAME);
    assert!(reason.contains("no longer has block 1;"), "{reason}");
    assert!(remedy.contains("block 1"), "{remedy}");
    // A wallet born above what is pruned does well; one born below is stopped by itself.
    let young = crate::rig::wallet(&rig.room(), "young", 1, 100);
    rig.settle_room(unspent_wallet_room::NAME);
    assert_eq!(rig.room().wallets(None).unwrap()[0].scanned, rig.room().tip().unwrap());
    let old = crate::rig::wallet(&rig.room(), "old", 2, 20);
    let stop = || rig.room().wallet_info(old).unwrap().stopped;
    wait_for("the old wallet to be stopped", || stop().is_some());
    let reason = stop().unwrap().reason;
    assert!(reason.contains("no longer has block"), "{reason}");
    rig.sim.mine(1).unwrap();
    rig.settle_room(unspent_wallet_room::NAME);
    // With another node both go on.
    faulty.faults.pruned_to.store(0, Ordering::SeqCst);
    rig.engine.resume(unspent_chain_room::NAME).unwrap();
    rig.room().resume_wallet(old).unwrap();
    rig.engine.wake();
    rig.sim.pay(&rig.script(young, 0), 20_000, 300).unwrap();
    rig.sim.mine_busy(2, 2).unwrap();
    rig.settle_and_check();
}

#[test]
fn damaged_blocks_are_refused_and_after_some_attempts_the_rooms_stop() {
    let sim = SimNetwork::in_memory(6);
    sim.mine(20).unwrap();
    let faulty = Faulty::new(&sim);
    faulty.faults.damaged_from.store(10, Ordering::SeqCst);
    let rig = Rig::on(sim, Arc::new(faulty.clone()), |_| ());
    rig.wallet("ours", 1);
    for room in [unspent_chain_room::NAME, unspent_wallet_room::NAME] {
        let (reason, _) = stopped(&rig, room);
        assert!(reason.contains("height 10"), "{reason}");
        assert_eq!(rig.status(room).tip.unwrap().height, 9);
    }
    faulty.faults.damaged_from.store(0, Ordering::SeqCst);
    rig.engine.resume(unspent_chain_room::NAME).unwrap();
    rig.engine.resume(unspent_wallet_room::NAME).unwrap();
    rig.settle_and_check();
}

#[test]
fn a_wallet_room_that_fails_stops_and_the_chain_goes_on() {
    let rig = Rig::start(7);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    rig.settle();
    // Somebody damages the database.
    let path = rig.folder.path().join("wallet.db");
    let door = unspent_sql::Door::open(
        &unspent_sql::Url::Sqlite(path),
        &unspent_wallet::schema::SCHEMA,
        unspent_sql::Options::default(),
    )
    .unwrap();
    door.write(|tx| -> Result<(), unspent_sql::SqlError> {
        tx.script("ALTER TABLE utxos RENAME TO lost_utxos")
    })
    .unwrap();
    rig.sim.pay(&rig.script(ours, 0), 20_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    let (reason, remedy) = stopped(&rig, unspent_wallet_room::NAME);
    assert!(!reason.is_empty() && !remedy.is_empty());
    rig.sim.mine_busy(5, 3).unwrap();
    rig.settle_room(unspent_chain_room::NAME);
    crate::rig::check_chain(&rig.sim, &unspent_chain_room::reader(&rig.engine).unwrap());
    let tip = rig.room().tip().unwrap();
    assert!(tip.unwrap().height < rig.sim.height(), "the stopped room stays where it was");
    door.write(|tx| -> Result<(), unspent_sql::SqlError> {
        tx.script("ALTER TABLE lost_utxos RENAME TO utxos")
    })
    .unwrap();
    rig.engine.resume(unspent_wallet_room::NAME).unwrap();
    rig.settle_and_check();
}

#[test]
fn a_second_engine_is_refused_by_name_and_shutdown_frees_the_folder() {
    let mut rig = Rig::start(8);
    rig.sim.mine(3).unwrap();
    rig.settle_room(unspent_chain_room::NAME);
    let config = || quick(rig.folder.path(), Arc::new(rig.sim.clone()) as Arc<dyn Origin>);
    let Err(StartError::Running { holder, .. }) = Engine::start(config()) else {
        panic!("two engines on one folder");
    };
    assert_eq!(holder, format!("process {}", std::process::id()));
    rig.engine.shutdown();
    rig.engine.shutdown();
    assert!(unspent_chain_room::reader(&rig.engine).is_none());
    rig.restart();
    rig.settle_room(unspent_chain_room::NAME);
}

#[test]
fn a_start_that_fails_leaves_the_folder_free() {
    let folder = tempfile::tempdir().unwrap();
    let sim = SimNetwork::in_memory(9);
    let mut config = quick(folder.path(), Arc::new(sim.clone()));
    config.room::<unspent_wallet_room::WalletRoom>().unwrap().url =
        unspent_sql::Url::Sqlite(folder.path().join("no/such/folder/wallet.db"));
    assert!(matches!(Engine::start(config), Err(StartError::Room { .. })));
    let engine = Engine::start(quick(folder.path(), Arc::new(sim))).unwrap();
    engine.shutdown();
}

#[test]
fn a_source_that_is_merely_behind_is_waited_for() {
    let mut rig = Rig::start(16);
    rig.wallet("ours", 1);
    rig.sim.mine(60).unwrap();
    rig.settle();
    rig.engine.shutdown();
    // The same network, with less of it.
    let young = SimNetwork::in_memory(16);
    young.mine(30).unwrap();
    assert_eq!(
        young.look(|sim| sim.block_at(30).unwrap().hash),
        rig.sim.look(|sim| sim.block_at(30).unwrap().hash)
    );
    rig.sim = young;
    rig.restart();
    for room in [unspent_chain_room::NAME, unspent_wallet_room::NAME] {
        wait_for("waiting", || matches!(rig.state(room), RoomState::Waiting { .. }));
        assert_eq!(rig.status(room).tip.unwrap().height, 60, "nothing is undone");
    }
    rig.sim.mine(40).unwrap();
    rig.settle_and_check();
    assert_eq!(rig.status(unspent_chain_room::NAME).reorgs, 0);
}
