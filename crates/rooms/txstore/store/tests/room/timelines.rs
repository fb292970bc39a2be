//! The timelines of the document on safe deletion, number for number, with its windows of 288.

use crate::desk::*;

/// P fully spent at 1000 by one child.
fn spent_at_1000(d: &Desk) -> (unspent_txstore::NewTx, unspent_txstore::NewTx) {
    let parent = d.parent(1, 900);
    let child = d.child(&[out(&parent, 0)], 1000);
    assert_eq!(d.delete_at(&parent), Some(1288));
    (parent, child)
}

#[test]
fn child_mined_one_block_later_delays_the_deletion_by_one_block() {
    on_both(|d| {
        let (parent, child) = spent_at_1000(&d);
        d.mine(&child, 1001);
        assert_eq!(d.kept_at(&parent, &[1287, 1288, 1289]), [true, true, false]);
    });
}

#[test]
fn scenario_a_a_long_wait_for_a_block_keeps_the_parent() {
    on_both(|d| {
        let (parent, child) = spent_at_1000(&d);
        assert_eq!(d.kept_at(&parent, &[1200, 1288, 1300]), [true, true, true]);
        // The child validates: its parent is there.
        assert_eq!(d.record(&parent).slots.get(0).unwrap().spender(), Some(by(&child, 0)));
    });
}

#[test]
fn scenario_b_a_reorganisation_after_the_date_finds_the_parent() {
    on_both(|d| {
        let (parent, child) = spent_at_1000(&d);
        d.mine(&child, 1100);
        assert_eq!(d.kept_at(&parent, &[1288, 1300]), [true, true]);
        d.store.unset_mined(vec![child.txid], at(1100).hash, 1300).unwrap();
        assert_eq!(d.kept_at(&parent, &[1388, 1500]), [true, true]);
    });
}

#[test]
fn a_child_that_is_never_mined_keeps_its_parent_for_ever() {
    on_both(|d| {
        let (parent, _) = spent_at_1000(&d);
        let heights = [1288, 1500, 2000, 100_000];
        assert_eq!(d.kept_at(&parent, &heights), [true; 4]);
        assert_eq!(d.store.status().unwrap().kept_by_unmined_child, 1);
    });
}

#[test]
fn a_child_mined_very_late_is_waited_for() {
    on_both(|d| {
        let (parent, child) = spent_at_1000(&d);
        assert_eq!(d.kept_at(&parent, &[1288]), [true]);
        d.mine(&child, 1500);
        assert_eq!(d.kept_at(&parent, &[1500, 1787, 1788]), [true, true, false]);
        assert_eq!(d.store.status().unwrap().kept_by_unmined_child, 0);
    });
}

#[test]
fn a_reorganisation_starts_the_childs_depth_anew() {
    on_both(|d| {
        let (parent, child) = spent_at_1000(&d);
        d.mine(&child, 1100);
        d.store.set_height(1200).unwrap();
        d.store.unset_mined(vec![child.txid], at(1100).hash, 1200).unwrap();
        assert_eq!(d.kept_at(&parent, &[1288]), [true]);
        d.mine(&child, 1300);
        assert_eq!(d.kept_at(&parent, &[1388, 1587, 1588]), [true, true, false]);
    });
}

#[test]
fn the_first_pass_after_a_restart_deletes_nothing_wrong() {
    on_both(|d| {
        let (parent, _) = spent_at_1000(&d);
        d.store.set_height(1400).unwrap();
        let d = d.reopened();
        assert_eq!(d.kept_at(&parent, &[1500]), [true]);
    });
}

#[test]
fn every_child_counts_not_only_the_last() {
    on_both(|d| {
        let parent = d.parent(2, 90);
        let first = d.mined_child(&[out(&parent, 0)], 100, 100);
        d.mined_child(&[out(&parent, 1)], 200, 200);
        assert_eq!(d.delete_at(&parent), Some(488));
        d.store.set_height(480).unwrap();
        d.store.unset_mined(vec![first.txid], at(100).hash, 480).unwrap_err();
        assert_eq!(d.kept_at(&parent, &[487, 488]), [true, false]);
    });
}

#[test]
fn a_child_that_was_reorganised_away_keeps_a_parent_whose_other_child_is_deep() {
    on_both(|d| {
        let parent = d.parent(2, 90);
        let first = d.mined_child(&[out(&parent, 0)], 100, 300);
        d.mined_child(&[out(&parent, 1)], 200, 200);
        d.store.set_height(480).unwrap();
        d.store.unset_mined(vec![first.txid], at(300).hash, 480).unwrap();
        assert_eq!(d.kept_at(&parent, &[488, 500, 5_000]), [true; 3]);
    });
}
