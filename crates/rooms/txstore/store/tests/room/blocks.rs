//! The road of a follower: whole blocks, forward and back.

use unspent_model::{Point, txstore::Slot};
use unspent_txstore::{NewTx, TxStoreError};

use crate::desk::*;

#[test]
fn a_block_creates_mines_spends_and_counts_what_is_absent() {
    on_both(|d| {
        let parent = d.fresh(2);
        let applied = d.apply(700, 1, &[&parent]);
        assert_eq!((applied.created, applied.absent), (2, 1));
        let known = d.child(&[out(&parent, 0)], 700);
        let in_block = tx(&[out(&known, 0)], 1);
        let applied = d.apply(701, 1, &[&known, &in_block]);
        assert_eq!((applied.created, applied.mined), (2, 1));
        assert_eq!((applied.spent, applied.spent_in_block, applied.absent), (2, 1, 0));
        assert_eq!(d.record(&known).unmined_since, None);
        assert_eq!(d.record(&known).mined_height(), Some(701));
        assert_eq!(d.delete_at(&known), Some(989));
        assert_eq!(d.store.tip().unwrap().unwrap().height, 701);
        assert_eq!(d.store.status().unwrap().absent_inputs, 1);
    });
}

#[test]
fn the_same_block_again_is_nothing_and_others_are_refused() {
    on_both(|d| {
        d.apply(700, 1, &[]);
        let block = d.block(701, 1, &[]);
        assert!(!d.store.apply_block(block.clone()).unwrap().was_there);
        let before = d.store.status().unwrap();
        assert!(d.store.apply_block(block.clone()).unwrap().was_there);
        assert_eq!(d.store.status().unwrap(), before);
        let gap = d.try_apply(703, 1, &[]);
        assert!(matches!(gap, Err(TxStoreError::Gap { tip: 701, got: 703 })));
        let mut stranger = d.block(702, 1, &[]);
        stranger.parent = Some(block_hash(5, 5));
        let stranger = d.store.apply_block(stranger);
        assert!(matches!(stranger, Err(TxStoreError::WrongParent { height: 702 })));
        let other = d.try_apply(701, 2, &[]);
        assert!(matches!(other, Err(TxStoreError::BlockMismatch { height: 701 })));
        assert_eq!(d.store.status().unwrap(), before);
        assert!(matches!(d.store.set_height(800), Err(TxStoreError::FollowsBlocks)));
    });
}

#[test]
fn a_refused_block_leaves_nothing_behind() {
    on_both(|d| {
        let parent = d.fresh(1);
        d.apply(700, 1, &[&parent]);
        let first = tx(&[out(&parent, 0)], 1);
        d.apply(701, 1, &[&first]);
        let second = tx(&[out(&parent, 0)], 2);
        let other = d.fresh(1);
        let refused = d.try_apply(702, 1, &[&other, &second]);
        assert!(matches!(refused, Err(TxStoreError::DoubleSpend(txid)) if txid == first.txid));
        assert!(!d.has(&other) && !d.has(&second));
        assert_eq!(d.store.tip().unwrap().unwrap().height, 701);
        let (a, b) = (tx(&[out(&first, 0)], 1), tx(&[out(&first, 0)], 2));
        let refused = d.try_apply(702, 1, &[&a, &b]);
        assert!(matches!(refused, Err(TxStoreError::DoubleSpend(txid)) if txid == a.txid));
        let beyond = tx(&[out(&first, 9)], 1);
        let refused = d.try_apply(702, 1, &[&beyond]);
        assert!(matches!(refused, Err(TxStoreError::BadBlock { .. })));
        let good = d.fresh(1);
        let blocks = vec![d.block(702, 1, &[&good]), d.block(704, 1, &[])];
        assert!(d.store.apply_blocks(blocks).is_err());
        assert!(!d.has(&good));
    });
}

#[test]
fn undoing_a_block_leaves_its_transactions_unmined_and_its_coinbase_lost() {
    on_both(|d| {
        d.apply(700, 1, &[]);
        let parent = d.fresh(1);
        let block = d.block(701, 1, &[&parent]);
        let reward = block.txs[0].clone();
        d.store.apply_block(block.clone()).unwrap();
        d.mine_to(800, 1);
        let of_reward = tx(&[out(&reward, 0), out(&parent, 0)], 1);
        d.apply(801, 1, &[&of_reward]);
        d.roll_back_to(700);
        let record = d.record(&parent);
        assert_eq!((record.unmined_since, record.blocks.len()), (Some(701), 0));
        let lost = d.record(&reward);
        assert!(lost.is_conflicting && d.record(&of_reward).is_conflicting);
        assert_eq!(lost.delete_at, Some(989));
        assert_eq!(d.slot(&parent, 0), Slot::Unspent);
        assert_eq!(d.store.tip().unwrap().unwrap().height, 700);
        // The chain comes back: the coinbase is a coin again.
        d.store.apply_block(block).unwrap();
        let again = d.record(&reward);
        assert_eq!((again.is_conflicting, again.delete_at), (false, None));
        assert_eq!(again.mined_height(), Some(701));
    });
}

#[test]
fn a_reorganisation_deeper_than_the_window_is_refused_with_its_depth() {
    on_both_with(windows(5), |d| {
        (100..=120).for_each(|height| {
            d.apply(height, 1, &[]);
        });
        let status = d.store.status().unwrap();
        assert_eq!(status.horizon, 115);
        assert_eq!(d.store.blocks_up_to(u64::MAX, 100).unwrap().len(), 6);
        assert_eq!(d.store.stored_at(114).unwrap(), None);
        let hash = block_hash(114, 1);
        let deep = d.store.roll_back(Some(Point { height: 114, slot: 114, hash }));
        assert!(matches!(deep, Err(TxStoreError::TooDeep { depth: 6, possible: 5 })), "{deep:?}");
        let all = d.store.roll_back(None);
        assert!(matches!(all, Err(TxStoreError::TooDeep { .. })), "{all:?}");
        assert_eq!(d.store.tip().unwrap().unwrap().height, 120);
        let wrong = Point { height: 117, slot: 117, hash: block_hash(117, 3) };
        let wrong = d.store.roll_back(Some(wrong));
        assert!(matches!(wrong, Err(TxStoreError::BlockNotFound { height: 117 })));
        d.roll_back_to(115);
        // The window doesn't move back with the tip.
        let low = Point { height: 114, slot: 114, hash };
        assert!(matches!(d.store.roll_back(Some(low)), Err(TxStoreError::TooDeep { .. })));
        (116..=121).for_each(|height| {
            d.apply(height, 2, &[]);
        });
        assert_eq!(d.store.status().unwrap().horizon, 116);
    });
}

#[test]
fn a_young_store_can_roll_back_all_its_blocks() {
    on_both(|d| {
        (700..=703).for_each(|height| {
            d.apply(height, 1, &[]);
        });
        assert_eq!(d.store.roll_back(None).unwrap().blocks, 4);
        assert_eq!(d.store.tip().unwrap(), None);
        d.apply(700, 2, &[]);
        assert_eq!(d.store.tip().unwrap().unwrap().hash, block_hash(700, 2));
    });
}

#[test]
fn retention_and_safety_start_anew_when_a_child_is_mined_again_higher() {
    on_both(|d| {
        let parent = d.fresh(1);
        d.apply(1000, 1, &[&parent]);
        let child = d.child(&[out(&parent, 0)], 1000);
        d.mine_to(1099, 1);
        d.apply(1100, 1, &[&child]);
        d.mine_to(1200, 1);
        d.roll_back_to(1099);
        d.mine_to(1288, 2);
        d.clean();
        assert!(d.has(&parent));
        d.mine_to(1299, 2);
        d.apply(1300, 2, &[&child]);
        d.mine_to(1587, 2);
        d.clean();
        assert!(d.has(&parent));
        d.mine_to(1588, 2);
        d.clean();
        assert!(!d.has(&parent));
    });
}

#[test]
fn the_first_coinbase_of_all_is_no_coin() {
    on_both(|d| {
        let block = d.block(0, 1, &[]);
        let first = block.txs[0].clone();
        d.store.apply_block(block).unwrap();
        assert_eq!(d.slot(&first, 0), Slot::Unspendable);
        assert_eq!(d.delete_at(&first), Some(288));
    });
}

#[test]
fn a_coinbase_that_comes_twice_is_one_record_with_two_blocks() {
    on_both(|d| {
        let mut one = d.block(700, 1, &[]);
        let twin = coinbase(77, 1);
        one.txs[0] = twin.clone();
        d.store.apply_block(one).unwrap();
        let mut two = d.block(701, 1, &[]);
        two.txs[0] = twin.clone();
        d.store.apply_block(two).unwrap();
        assert_eq!(d.record(&twin).mined_height(), Some(701));
        d.roll_back_to(700);
        let record = d.record(&twin);
        assert_eq!((record.mined_height(), record.is_conflicting), (Some(700), false));
    });
}

#[test]
fn a_frozen_output_that_a_block_spends_is_spent() {
    on_both(|d| {
        let parent = d.fresh(1);
        d.apply(700, 1, &[&parent]);
        d.store.freeze(vec![out(&parent, 0)]).unwrap().remove(0).unwrap();
        let child: NewTx = tx(&[out(&parent, 0)], 1);
        d.apply(701, 1, &[&child]);
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&child, 0)));
    });
}

#[test]
fn a_child_that_is_mined_again_lower_lets_its_parent_go_earlier() {
    on_both_with(windows(5), |d| {
        let parent = d.fresh(1);
        d.apply(100, 1, &[&parent]);
        let child = d.child(&[out(&parent, 0)], 100);
        d.mine_to(109, 1);
        d.apply(110, 1, &[&child]);
        d.clean();
        assert_eq!(d.record(&parent).due_at, Some(115));
        d.mine_to(111, 1);
        d.roll_back_to(106);
        d.apply(107, 2, &[&child]);
        d.mine_to(111, 2);
        d.clean();
        assert!(d.has(&parent));
        d.mine_to(112, 2);
        d.clean();
        assert!(!d.has(&parent));
    });
}
