//! Losers, their descendants, and who wins.

use std::collections::BTreeSet;

use unspent_model::txstore::Slot;
use unspent_txstore::{AcceptOutcome, CreateTerms, NewTx, TxStoreError};

use crate::desk::*;

#[test]
fn a_loser_takes_its_descendants_along_and_gives_back_what_it_spent() {
    on_both(|d| {
        let (parent, other) = (d.parent(2, 900), d.parent(1, 900));
        let loser = d.child(&[out(&parent, 0)], 1000);
        let grandchild = d.child(&[out(&loser, 0), out(&other, 0)], 1000);
        let losers = d.store.set_conflicting(vec![loser.txid], 1010).unwrap();
        assert_eq!(losers, BTreeSet::from([loser.txid, grandchild.txid]));
        assert_eq!((d.slot(&parent, 0), d.slot(&other, 0)), (Slot::Unspent, Slot::Unspent));
        assert_eq!(d.delete_at(&other), None);
        assert_eq!(d.record(&parent).rivals, [loser.txid]);
        assert_eq!(d.slot(&loser, 0), Slot::Spent(by(&grandchild, 0)));
        // Leaves first, and all of it in one pass.
        assert_eq!(d.kept_at(&loser, &[1297]), [true]);
        let report = d.clean_at(1298);
        assert_eq!((report.deleted, report.losers), (2, 2));
        assert!(d.record(&parent).rivals.is_empty() && d.record(&other).rivals.is_empty());
    });
}

#[test]
fn the_winner_has_the_inputs_and_can_lose_them_again() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let first = d.child(&[out(&parent, 0)], 1000);
        let second = tx(&[out(&parent, 0)], 2);
        d.create(&second, CreateTerms { is_conflicting: true, ..CreateTerms::unmined(1001) });
        assert_eq!(d.record(&parent).rivals, [second.txid]);
        assert_eq!(d.delete_at(&second), Some(1289));
        let against = d.store.counter_conflicting(second.txid).unwrap();
        assert_eq!(against, BTreeSet::from([first.txid]));
        assert_eq!(d.store.counter_conflicting(first.txid).unwrap(), [second.txid].into());
        let losers = d.store.resolve_conflict(second.txid, 1002).unwrap();
        assert_eq!(losers, BTreeSet::from([first.txid]));
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&second, 0)));
        let (lost, won) = (d.record(&first), d.record(&second));
        assert_eq!((lost.is_conflicting, won.is_conflicting), (true, false));
        assert_eq!((lost.delete_at, won.delete_at), (Some(1290), None));
        assert_eq!(d.record(&parent).rivals, [first.txid]);
        d.store.resolve_conflict(first.txid, 1003).unwrap();
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&first, 0)));
        assert_eq!(d.record(&parent).rivals, [second.txid]);
    });
}

#[test]
fn whoever_is_mined_cannot_lose() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let mined = d.mined_child(&[out(&parent, 0)], 1000, 1000);
        let refused = d.store.set_conflicting(vec![mined.txid], 1001);
        assert!(matches!(refused, Err(TxStoreError::IsMined(_))));
        let rival = tx(&[out(&parent, 0)], 2);
        d.create(&rival, CreateTerms { is_conflicting: true, ..CreateTerms::unmined(1001) });
        let refused = d.store.resolve_conflict(rival.txid, 1002);
        assert!(matches!(refused, Err(TxStoreError::IsMined(txid)) if txid == mined.txid));
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&mined, 0)));
        assert!(d.record(&rival).is_conflicting);
        let missing = d.store.set_conflicting(vec![foreign(1).tx], 1001);
        assert!(matches!(missing, Err(TxStoreError::Missing(_))));
    });
}

#[test]
fn who_descends_from_its_rival_cannot_win() {
    on_both(|d| {
        let parent = d.parent(2, 900);
        let first = d.child(&[out(&parent, 0)], 1000);
        let own = tx(&[out(&first, 0), out(&parent, 0)], 1);
        d.create(&own, CreateTerms { is_conflicting: true, ..CreateTerms::unmined(1001) });
        // It has spent its rival's output, as a node that ignores conflicts would let it.
        d.spend(out(&first, 0), by(&own, 0), 1001).unwrap();
        let refused = d.store.resolve_conflict(own.txid, 1002);
        assert!(matches!(refused, Err(TxStoreError::OwnRival(_))), "{refused:?}");
        assert!(!d.record(&first).is_conflicting);
    });
}

#[test]
fn a_block_decides_against_what_was_unmined() {
    on_both(|d| {
        let parent = d.fresh(1);
        d.apply(1000, 1, &[&parent]);
        let loser = d.child(&[out(&parent, 0)], 1000);
        let grandchild = d.child(&[out(&loser, 0)], 1000);
        let winner = tx(&[out(&parent, 0)], 3);
        let applied = d.apply(1001, 1, &[&winner]);
        assert_eq!((applied.losers, applied.created, applied.spent), (2, 2, 1));
        assert!(d.record(&loser).is_conflicting && d.record(&grandchild).is_conflicting);
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&winner, 0)));
        // The chain turns to the loser: it is no loser any more.
        d.roll_back_to(1000);
        let applied = d.apply(1001, 2, &[&loser, &grandchild]);
        assert_eq!((applied.losers, applied.mined, applied.created), (1, 2, 1));
        assert!(!d.record(&loser).is_conflicting && !d.record(&grandchild).is_conflicting);
        assert!(d.record(&winner).is_conflicting);
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&loser, 0)));
        assert_eq!(d.record(&parent).rivals, [winner.txid]);
        assert_eq!(d.delete_at(&winner), Some(1289));
    });
}

#[test]
fn a_deleted_losers_child_may_still_be_mined() {
    on_both_with(windows(3), |d| {
        let parent = d.fresh(1);
        d.apply(10, 1, &[&parent]);
        let loser = d.child(&[out(&parent, 0)], 10);
        let leaf = d.child(&[out(&loser, 0)], 10);
        d.store.preserve(vec![loser.txid], 1_000).unwrap();
        let winner = tx(&[out(&parent, 0)], 3);
        d.apply(11, 1, &[&winner]);
        d.mine_to(13, 1);
        d.roll_back_to(10);
        d.store.clean(Default::default()).unwrap();
        (11..=14).for_each(|height| {
            d.apply(height, 2, &[]);
        });
        d.clean();
        assert!(!d.has(&leaf) && d.has(&loser));
        assert_eq!(d.slot(&loser, 0), Slot::Unspent);
        let applied = d.apply(15, 2, &[&loser, &leaf]);
        assert_eq!((applied.mined, applied.created), (1, 2));
        assert_eq!(d.slot(&loser, 0), Slot::Spent(by(&leaf, 0)));
        assert!(!d.record(&loser).is_conflicting);
        assert_eq!(d.accept(&winner, 15), AcceptOutcome::Exists);
    });
}

#[test]
fn unmined_children_of_a_coinbase_whose_block_returns_come_back_when_asked() {
    on_both(|d| {
        d.apply(499, 1, &[]);
        let block = d.block(500, 1, &[]);
        let reward = block.txs[0].clone();
        d.store.apply_block(block).unwrap();
        d.mine_to(600, 1);
        let child = d.child(&[out(&reward, 0)], 600);
        let grandchild = d.child(&[out(&child, 0)], 600);
        d.roll_back_to(499);
        let lost = |new: &NewTx| d.record(new).is_conflicting;
        assert!(lost(&reward) && lost(&child) && lost(&grandchild));
        d.mine_to(600, 1);
        // Whether anybody still holds the descendants, the chain can't say; a node can.
        assert!(!lost(&reward) && lost(&child) && lost(&grandchild));
        assert_eq!(d.slot(&reward, 0), Slot::Unspent);
        d.store.resolve_conflict(child.txid, 600).unwrap();
        assert_eq!(d.slot(&reward, 0), Slot::Spent(by(&child, 0)));
        assert!(!lost(&child) && lost(&grandchild));
        d.store.resolve_conflict(grandchild.txid, 600).unwrap();
        assert_eq!(d.slot(&child, 0), Slot::Spent(by(&grandchild, 0)));
        assert!(!lost(&grandchild));
    });
}
