//! The follower against the simulator's own truth.

use std::time::Duration;

use unspent_engine::RoomState;
use unspent_model::Micros;

use crate::rig::{Rig, wait_for, wallet};

/// A few payments to the wallet and some traffic.
fn busy(rig: &Rig, wallet: unspent_wallet::WalletId) {
    for at in 0..3 {
        rig.sim.pay(&rig.script(wallet, at), 10_000 + at as u64, 300).unwrap();
    }
    rig.sim.mine_busy(2, 4).unwrap();
}

#[test]
fn both_rooms_follow_from_the_first_block_and_through_reorganisations() {
    let rig = Rig::start(1);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    busy(&rig, ours);
    rig.settle_and_check();
    for depth in [1, 2, 3, 5, 8, 13, 21] {
        busy(&rig, ours);
        rig.sim.mine_busy(depth, 3).unwrap();
        rig.settle();
        rig.sim.fork(depth).unwrap();
        rig.settle_and_check();
        for room in [unspent_chain_room::NAME, unspent_wallet_room::NAME] {
            let status = rig.status(room);
            assert_eq!(status.last_reorg.unwrap().depth, u64::from(depth), "{room:?}");
        }
    }
    assert_eq!(rig.status(unspent_chain_room::NAME).reorgs, 7);
}

#[test]
fn a_wallet_created_later_is_scanned_apart() {
    let rig = Rig::start(2);
    let first = rig.wallet("first", 1);
    rig.sim.mine(120).unwrap();
    busy(&rig, first);
    rig.settle();
    let second_scripts = {
        // Pay the second wallet before anybody watches it.
        let keychain = unspent_wallet::descriptor::Keychain::parse(
            &crate::rig::descriptor(2),
            bitcoin::Network::Regtest,
        )
        .unwrap();
        (0..4).map(|at| keychain[0].script(at).unwrap()).collect::<Vec<_>>()
    };
    for script in &second_scripts {
        rig.sim.pay(script, 7_000, 300).unwrap();
        rig.sim.mine_busy(3, 2).unwrap();
    }
    rig.settle();
    let second = wallet(&rig.room(), "second", 2, 0);
    rig.settle_and_check();
    let tip = rig.room().tip().unwrap().unwrap().height;
    assert_eq!(rig.room().balance_as_of(second, tip).unwrap().coins, 4);
    rig.room().rewind(second, Some(50), Micros(5)).unwrap();
    busy(&rig, first);
    rig.settle_and_check();
    wait_for("following", || rig.state(unspent_wallet_room::NAME) == RoomState::Following);
}

/// A chain whose blocks come faster than the room would wait for news.
#[test]
fn a_room_at_the_tip_follows_though_blocks_never_pause() {
    let rig = Rig::with(9, |config| config.follow.poll = Duration::from_secs(30));
    rig.sim.mine(250).unwrap();
    let mined = rig.sim.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let mining = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(50)).is_err() {
            mined.mine(1).unwrap();
        }
    });
    wait_for("the chain room to follow", || {
        rig.state(unspent_chain_room::NAME) == RoomState::Following
    });
    stop.send(()).unwrap();
    mining.join().unwrap();
}
