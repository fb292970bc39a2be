//! Accounts and scripts that come late, and their past.

use bitcoin::ScriptBuf;
use unspent_model::Micros;
use unspent_wallet::{
    NewAccount, NewWallet, WalletError, WalletId,
    additions::WatchAdditions,
    placed_block::PlacedBlock,
    wallet_info::{BackfillRange, KeychainPurpose},
};

use crate::ledger::*;

fn script(l: &Ledger, script: &ScriptBuf, from: Option<u64>) -> Option<BackfillRange> {
    let additions = WatchAdditions { scripts: vec![script.clone()], ..WatchAdditions::default() };
    l.room.extend_wallet(l.wallet, &additions, from).unwrap()
}

fn left(l: &Ledger) -> Option<BackfillRange> {
    l.room.wallet_info(l.wallet).unwrap().backfill
}

/// Feeds old blocks in pieces until nothing is left.
fn backfill(l: &Ledger, piece: usize) {
    let all: Vec<PlacedBlock> = l.chain.borrow().clone();
    for part in all.chunks(piece) {
        l.room.backfill(l.wallet, part.to_vec(), Micros(l.tick())).unwrap();
    }
    l.check();
}

fn confirmed(l: &Ledger, wallet: WalletId) -> u64 {
    l.room.balance(wallet, 1, Micros(l.now.get())).unwrap().confirmed.sats
}

#[test]
fn a_wallet_with_a_thousand_scripts_is_made_in_one_step() {
    on_both(|l| {
        let scripts: Vec<ScriptBuf> = (0..1_000_u32)
            .map(|n| ScriptBuf::from_bytes([&[0, 20][..], &[7; 16], &n.to_le_bytes()].concat()))
            .collect();
        let new =
            NewWallet { name: "many".into(), accounts: Vec::new(), birthday: FIRST, gap_limit: 20 };
        let made = l.room.create_wallet_with(&new, &scripts, Micros(l.tick())).unwrap();
        let pay: Vec<(&ScriptBuf, u64)> = scripts.iter().map(|script| (script, 25)).collect();
        l.mine(&[&tx(&[foreign(1)], &pay)]);
        assert_eq!(confirmed(&l, made), 25_000);
        // One that can't be watched, and nothing of the wallet stays.
        let twice = [scripts[0].clone(), scripts[0].clone()];
        let other = NewWallet { name: "twice".into(), ..new };
        let refused = l.room.create_wallet_with(&other, &twice, Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::ScriptExists), "{refused}");
        assert!(l.room.wallet("twice").is_err());
    });
}

#[test]
fn a_script_that_comes_late_gets_a_backfill() {
    on_both(|l| {
        let late = theirs(40);
        l.mine_empty(2);
        let pay = tx(&[foreign(1)], &[(&late, 500)]);
        let at = l.mine(&[&pay]);
        let spend = tx(&[out(&pay, 0)], &[(&l.ours(0), 200), (&late, 250)]);
        l.mine(&[&spend]);
        l.mine_empty(3);
        assert_eq!(l.balance().confirmed.sats, 200);
        let todo = script(&l, &late, Some(FIRST)).unwrap();
        assert_eq!(todo, BackfillRange { first: FIRST, next: FIRST, end: l.height() });
        assert_eq!(left(&l), Some(todo), "the wallet says that its history is not whole");
        // The tip goes on meanwhile.
        l.mine(&[&tx(&[foreign(2)], &[(&late, 7)])]);
        backfill(&l, 2);
        assert_eq!(left(&l), None);
        assert_eq!(l.balance().confirmed.sats, 457);
        assert_eq!(l.status(&pay).1, Some(at));
        assert_eq!(l.spender(&pay, 0), Some(spend.compute_txid()));
        assert_eq!(l.room.balance_as_of(l.wallet, at).unwrap().sats, 500);
        // Once more changes nothing.
        let before = l.room.journal(l.wallet, None, 0, 1_000).unwrap();
        backfill(&l, 5);
        assert_eq!(l.room.journal(l.wallet, None, 0, 1_000).unwrap(), before);
    });
}

#[test]
fn the_backfill_of_a_late_account_follows_its_gap_limit() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let addresses: Vec<ScriptBuf> = (0..35)
            .map(|_| l.room.next_address(other, None, KeychainPurpose::Receive).unwrap().script)
            .collect();
        l.mine(&[&tx(&[foreign(1)], &[(&addresses[15], 1)])]);
        l.mine(&[&tx(&[foreign(2)], &[(&addresses[30], 10)])]);
        let account = NewAccount { name: "late".into(), receive: descriptor(2), change: None };
        let additions = WatchAdditions { accounts: vec![account], ..WatchAdditions::default() };
        let from = l.room.extend_wallet(l.wallet, &additions, Some(FIRST)).unwrap();
        assert_eq!(from.unwrap().next, FIRST);
        // Paid after the account came, to an address that only the backfill will reveal.
        l.mine(&[&tx(&[foreign(3)], &[(&addresses[34], 100)])]);
        l.mine_empty(1);
        assert_eq!(confirmed(&l, l.wallet), 0);
        backfill(&l, 100);
        assert_eq!(confirmed(&l, l.wallet), 111);
        assert_eq!(left(&l), None);
    });
}

#[test]
fn a_backfill_survives_a_reorganisation_and_refuses_another_chain() {
    on_both(|l| {
        let late = theirs(40);
        l.mine_empty(2);
        let pay = tx(&[foreign(1)], &[(&late, 500)]);
        l.mine(&[&pay]);
        l.mine_empty(2);
        script(&l, &late, Some(FIRST));
        let gone = l.undo(3);
        assert_eq!(left(&l).unwrap().end, l.height(), "what was undone comes with the tip");
        let other = PlacedBlock::of(FIRST, bitcoin::Block::clone(&gone[0].block));
        let wrong = l.room.backfill(l.wallet, vec![other], Micros(l.tick())).unwrap_err();
        assert!(matches!(wrong, WalletError::BlockMismatch { .. }), "{wrong}");
        l.mine_empty(1);
        l.mine(&[&pay]);
        backfill(&l, 3);
        assert_eq!((l.balance().confirmed.sats, left(&l)), (500, None));
    });
}

#[test]
fn a_wider_gap_limit_watches_more_and_needs_no_backfill_before_the_birthday() {
    on_both(|l| {
        l.mine(&[&tx(&[foreign(1)], &[(&l.ours(30), 9)])]);
        assert_eq!(l.balance().confirmed.sats, 0);
        let todo = l.room.set_gap_limit(l.wallet, 40).unwrap();
        assert_eq!(todo, None, "its birthday lies above all blocks");
        assert_eq!(l.room.wallet_info(l.wallet).unwrap().gap_limit, 40);
        let addresses = l.room.addresses(l.wallet, 0, 1_000).unwrap();
        assert_eq!(addresses.iter().filter(|a| a.purpose == "receive").count(), 40);
        assert!(l.room.set_gap_limit(l.wallet, 0).is_err());
    });
}

#[test]
fn an_archived_wallet_stands_still_until_it_is_taken_out() {
    on_both(|l| {
        l.fund(1, 10);
        l.room.archive_wallet(l.wallet, Some(Micros(5))).unwrap();
        l.mine(&[&tx(&[foreign(2)], &[(&l.ours(1), 3)])]);
        assert_eq!(l.balance().confirmed.sats, 10);
        assert_eq!(l.room.wallet_info(l.wallet).unwrap().archived_at, Some(Micros(5)));
        l.room.archive_wallet(l.wallet, None).unwrap();
        let all: Vec<PlacedBlock> = l.chain.borrow().clone();
        l.room.apply_blocks(all, Micros(l.tick())).unwrap();
        assert_eq!(l.balance().confirmed.sats, 13);
    });
}

#[test]
fn a_wallet_gets_another_name_and_loses_a_script_that_nobody_needs() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let taken = l.room.rename_wallet(l.wallet, "other").unwrap_err();
        assert!(matches!(taken, WalletError::WalletExists(_)));
        l.room.rename_wallet(l.wallet, "mine").unwrap();
        l.room.rename_wallet(l.wallet, "mine").unwrap();
        assert_eq!(l.room.wallet("mine").unwrap(), l.wallet);
        assert!(l.room.wallet("ours").is_err());
        l.room.import_script(other, &theirs(9)).unwrap();
        l.room.remove_script(other, &theirs(9)).unwrap();
        l.room.remove_script(other, &theirs(9)).unwrap_err();
        l.room.remove_script(l.wallet, &l.ours(0)).unwrap_err();
        l.room.import_script(other, &theirs(9)).unwrap();
        l.mine(&[&tx(&[foreign(2)], &[(&theirs(9), 3)])]);
        assert!(l.room.remove_script(other, &theirs(9)).is_err(), "it was paid");
    });
}

/// More wallets at the tip than are looked at one by one.
#[test]
fn many_wallets_at_the_tip_move_without_a_write_and_miss_nothing() {
    on_both(|l| {
        let many: Vec<(WalletId, ScriptBuf)> = (0..210_u32)
            .map(|n| {
                let script =
                    ScriptBuf::from_bytes([&[0, 20, 9][..], &[7; 15], &n.to_le_bytes()].concat());
                let new = NewWallet {
                    name: format!("many {n}"),
                    accounts: Vec::new(),
                    birthday: FIRST,
                    gap_limit: 20,
                };
                let scripts = [script.clone()];
                (l.room.create_wallet_with(&new, &scripts, Micros(l.tick())).unwrap(), script)
            })
            .collect();
        l.mine_empty(2);
        let pay = tx(&[foreign(1)], &[(&many[3].1, 5), (&many[77].1, 6), (&l.ours(19), 7)]);
        let applied = l.try_apply(l.block(&[&pay])).unwrap();
        assert_eq!(applied.moved.len(), 3, "only those concerned are looked at");
        let at = |wallet: WalletId| l.room.wallet_info(wallet).unwrap().scanned.unwrap().height;
        assert!(many.iter().all(|(wallet, _)| at(*wallet) == l.height()));
        assert_eq!((confirmed(&l, many[3].0), confirmed(&l, many[77].0)), (5, 6));
        // One goes back by itself and is brought up again; the others stay.
        l.room.rewind(many[5].0, Some(FIRST), Micros(l.tick())).unwrap();
        assert_eq!((at(many[5].0), at(many[6].0)), (FIRST, l.height()));
        let spend = tx(&[out(&pay, 0)], &[(&many[5].1, 4)]);
        l.mine(&[&spend]);
        assert_eq!((confirmed(&l, many[3].0), confirmed(&l, many[5].0)), (0, 0));
        let all: Vec<PlacedBlock> = l.chain.borrow().clone();
        l.room.apply_blocks(all, Micros(l.tick())).unwrap();
        assert_eq!((at(many[5].0), confirmed(&l, many[5].0)), (l.height(), 4));
        // A reorganisation takes all of them back.
        l.undo(3);
        assert!(many.iter().all(|(wallet, _)| at(*wallet) == l.height()));
        assert_eq!((confirmed(&l, many[77].0), confirmed(&l, many[5].0)), (0, 0));
        l.mine(&[&pay]);
        assert_eq!((confirmed(&l, many[77].0), l.balance().confirmed.sats), (6, 7));
        for (wallet, _) in [&many[3], &many[5], &many[77]] {
            assert!(l.room.audit(*wallet).unwrap().is_empty());
        }
    });
}
