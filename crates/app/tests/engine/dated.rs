//! Wallets of which only a date is known: the source tells the block to begin with.

use std::sync::Arc;

use bitcoin::ScriptBuf;
use unspent_engine::clock;
use unspent_source::sim::SimNetwork;
use unspent_wallet::{NewAccount, NewWallet, WalletId, descriptor::Keychain};

use crate::{
    faulty::Faulty,
    rig::{Rig, descriptor, wait_for},
};

const DAY: u64 = 86_400;

fn script(seed: u8) -> ScriptBuf {
    let chains = Keychain::parse(&descriptor(seed), bitcoin::Network::Regtest).unwrap();
    chains[0].script(0).unwrap()
}

fn time_of(rig: &Rig, height: u32) -> u64 {
    rig.sim.look(|sim| sim.block_at(height).unwrap().block.header.time).into()
}

/// Two payments a week of blocks apart, and a wallet that was born between them.
fn dated(rig: &Rig, seed: u8) -> (WalletId, u64) {
    rig.sim.mine(110).unwrap();
    rig.sim.pay(&script(seed), 10_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    rig.sim.mine(900).unwrap();
    rig.sim.pay(&script(seed), 20_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    rig.sim.mine(3).unwrap();
    if rig.room().first_needed().unwrap().is_some() {
        // A wallet that comes while the others are below its birthday goes on with them.
        rig.settle();
    }
    let born = time_of(rig, 700);
    let new = NewWallet {
        name: format!("born {seed}"),
        accounts: vec![NewAccount { name: "main".into(), receive: descriptor(seed), change: None }],
        birthday: 0,
        gap_limit: 10,
    };
    let made = rig.room().create_wallet_born(&new, &[], Some(born), clock::now()).unwrap();
    rig.engine.wake();
    (made, born)
}

fn wait_at_tip(rig: &Rig, wallet: WalletId) {
    wait_for("the dated wallet to stand at the tip", || {
        let info = rig.room().wallet_info(wallet).unwrap();
        info.scanned.is_some_and(|place| place.height == rig.sim.height())
    });
}

fn check(rig: &Rig, wallet: WalletId, born: u64) {
    wait_at_tip(rig, wallet);
    let info = rig.room().wallet_info(wallet).unwrap();
    let first = (0..).find(|height| time_of(rig, *height) >= born - DAY).unwrap();
    assert_eq!((info.birthday, info.is_birthday_open), (u64::from(first), false));
    let balance = rig.room().balance(wallet, 1, clock::now()).unwrap();
    assert_eq!(balance.confirmed.sats, 20_000, "what was before its birthday isn't looked for");
    assert_eq!(unspent_wallet_room::height_of(&rig.engine, born).unwrap(), Some(first.into()));
}

#[test]
fn the_first_wallet_of_a_room_begins_at_its_birthday_date() {
    let rig = Rig::start(70);
    let (wallet, born) = dated(&rig, 4);
    check(&rig, wallet, born);
}

#[test]
fn a_wallet_beside_others_is_brought_up_from_its_birthday_date() {
    let rig = Rig::start(71);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(5).unwrap();
    rig.settle();
    let (wallet, born) = dated(&rig, 5);
    check(&rig, wallet, born);
    assert_eq!(rig.room().wallet_info(ours).unwrap().birthday, 0);
}

#[test]
fn a_birthday_date_on_a_source_without_times_means_the_first_block() {
    for has_others in [false, true] {
        let sim = SimNetwork::in_memory(72);
        // It tells points by their height, and no times.
        let rig = Rig::on(sim.clone(), Arc::new(Faulty::new(&sim)), |_| ());
        if has_others {
            rig.wallet("ours", 1);
            rig.sim.mine(5).unwrap();
            rig.settle();
        }
        let (wallet, born) = dated(&rig, 6);
        wait_at_tip(&rig, wallet);
        let info = rig.room().wallet_info(wallet).unwrap();
        assert_eq!((info.birthday, info.is_birthday_open), (0, false));
        assert_eq!(info.birthday_time, Some(born));
        let balance = rig.room().balance(wallet, 1, clock::now()).unwrap();
        assert_eq!(balance.confirmed.sats, 30_000, "slower, and nothing is missed");
    }
}
