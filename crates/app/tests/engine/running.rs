//! Starting, catching up, jobs, requests.

use std::{sync::Arc, time::Duration};

use unspent_engine::{Begun, CallerName, RequestName, RoomState};
use unspent_model::{Micros, wallet::LockId};
use unspent_wallet::lease::LeaseTerms;

use crate::rig::{Rig, wait_for};

#[test]
fn an_engine_started_late_catches_up_in_bulk() {
    let rig = Rig::start(10);
    let ours = rig.wallet("ours", 1);
    rig.settle_room(unspent_chain_room::NAME);
    rig.engine.shutdown();
    rig.sim.mine(150).unwrap();
    let script = unspent_wallet::descriptor::Keychain::parse(
        &crate::rig::descriptor(1),
        bitcoin::Network::Regtest,
    )
    .unwrap()[0]
        .script(0)
        .unwrap();
    for _ in 0..10 {
        rig.sim.pay(&script, 50_000, 300).unwrap();
        rig.sim.mine_busy(40, 4).unwrap();
    }
    let mut rig = rig;
    rig.restart();
    rig.settle_and_check();
    let tip = rig.room().tip().unwrap().unwrap().height;
    assert_eq!(rig.room().balance_as_of(ours, tip).unwrap().coins, 10);
    wait_for("events", || {
        let page = rig.engine.events().after(0, 1_000).unwrap();
        page.events.iter().filter(|event| event.kind == "caught_up").count() == 2
    });
    let page = rig.engine.events().after(0, 1_000).unwrap();
    let singles = page.events.iter().filter(|event| event.kind == "block_applied").count();
    assert!(singles < 200, "{singles} single blocks in a bulk run");
    // What bulk left can be undone down to the window.
    rig.sim.fork(200).unwrap();
    rig.settle_and_check();
}

#[test]
fn a_room_that_is_off_stays_off() {
    let rig = Rig::with(11, |config| config.without(unspent_chain_room::NAME));
    assert_eq!(rig.state(unspent_chain_room::NAME), RoomState::Off);
    assert!(unspent_chain_room::reader(&rig.engine).is_none());
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(130).unwrap();
    rig.sim.pay(&rig.script(ours, 0), 5_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    rig.settle_room(unspent_wallet_room::NAME);
    crate::rig::check_wallet(&rig.sim, &rig.room(), ours);
    assert!(rig.engine.run_job(unspent_chain_room::PRUNE).is_err());
    let late = crate::rig::wallet(&rig.room(), "late", 2, 60);
    wait_for("the late wallet", || {
        let wallets = rig.room().wallets(None).unwrap();
        wallets.iter().any(|w| w.id == late && w.scanned == rig.room().tip().unwrap())
    });
    drop(rig);

    let rig = Rig::with(12, |config| config.without(unspent_wallet_room::NAME));
    rig.sim.mine(5).unwrap();
    rig.settle_room(unspent_chain_room::NAME);
    assert!(unspent_wallet_room::wallets(&rig.engine).is_none());
    assert!(rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).is_err());
}

#[test]
fn jobs_run_by_themselves_and_when_asked() {
    let rig = Rig::with(13, |config| {
        config.room::<unspent_wallet_room::WalletRoom>().unwrap().purge_leases_every =
            Duration::from_secs(3_600);
        let options = &mut config.room::<unspent_chain_room::ChainRoom>().unwrap().options;
        (options.rollback_window, options.prune_depth) = (5, 5);
    });
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    let paid = rig.sim.pay(&rig.script(ours, 0), 20_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    rig.settle();
    let coin = rig.room().coins(ours, None, 10, Micros(0)).unwrap()[0].outpoint;
    assert_eq!(coin.txid, paid);
    let terms =
        LeaseTerms { lock: LockId::new(&[9; 32]).unwrap(), duration: 1, hold_confirmations: None };
    rig.room().lease(ours, &[coin], terms, Micros(1_000)).unwrap();
    let expired = || rig.room().metrics(unspent_engine::clock::now()).unwrap().expired_leases;
    assert_eq!(expired(), 1);
    rig.engine.run_job(unspent_wallet_room::PURGE_LEASES).unwrap();
    assert_eq!(expired(), 0);
    for job in [
        unspent_chain_room::PRUNE,
        unspent_wallet_room::READ_MEMPOOL,
        unspent_wallet_room::REBROADCAST,
        unspent_engine::jobs::MEASURE,
    ] {
        rig.engine.run_job(job).unwrap();
    }
    let status = rig.engine.status();
    assert_eq!(status.jobs.len(), 6, "these and the webhooks'");
    for job in status.jobs {
        assert!(job.runs > 0 && job.last_run.is_some(), "{job:?}");
    }
    let text = serde_json::to_value(rig.engine.status()).unwrap();
    assert_eq!(text["network"], "bitcoin-regtest");
    assert_eq!(text["rooms"][0]["room"], "chain");
    assert_eq!(text["rooms"][0]["state"], "following");
}

#[test]
fn a_request_is_answered_once_and_remembered() {
    let mut rig = Rig::start(14);
    let name = |key: &str| RequestName::new(CallerName("owner"), key).unwrap();
    let told = |rig: &Rig, key: &str, digest: u8, now: i64| match rig
        .engine
        .requests()
        .begin(&name(key), [digest; 32], Micros(now))
        .unwrap()
    {
        Begun::New(running) if key == "a" => {
            running.finish(201, b"done").unwrap();
            "finished"
        }
        Begun::New(running) if key == "c" => {
            running.forget().unwrap();
            "forgotten"
        }
        Begun::New(_) => "new",
        Begun::Unfinished(_) => "unfinished",
        Begun::Repeat { status: 201, body } if body == b"done" => "done",
        Begun::Differs => "differs",
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&rig, "a", 1, 10), "finished");
    assert_eq!(told(&rig, "a", 2, 11), "differs");
    assert_eq!(told(&rig, "b", 1, 12), "new");
    assert_eq!(told(&rig, "c", 1, 12), "forgotten");
    rig.restart();
    assert_eq!(told(&rig, "a", 1, 13), "done");
    assert_eq!(told(&rig, "b", 1, 13), "unfinished", "a process died in the middle");
    assert_eq!(told(&rig, "c", 2, 15), "forgotten", "as if it had never been");
    let day_later = 16 + unspent_engine::requests::KEPT_FOR;
    assert_eq!(told(&rig, "a", 9, day_later), "finished", "forgotten after a day");
}

#[test]
fn dropping_the_last_handle_ends_the_engine() {
    let rig = Rig::start(15);
    rig.sim.mine(4).unwrap();
    rig.settle_room(unspent_chain_room::NAME);
    let Rig { sim, engine, folder } = rig;
    let clone = engine.clone();
    drop(engine);
    assert!(unspent_chain_room::reader(&clone).is_some(), "a clone keeps it running");
    drop(clone);
    let config = crate::rig::quick(folder.path(), Arc::new(sim));
    unspent_engine::Engine::start(config).unwrap().shutdown();
}
