//! The rules by themselves: dates, verdicts and what they name.

use std::collections::BTreeMap;

use super::*;
use crate::ids::{BlockHash, TxId};

const R: RetentionBlocks = RetentionBlocks(288);
#[allow(clippy::cast_possible_truncation)]
const PAGE: u32 = PAGE_SLOTS as u32;
const WINDOWS: DeletionWindows = DeletionWindows { retention: R, safety: R.0, rollback: R.0 };

fn child(byte: u8) -> Spender {
    Spender { tx: TxId([byte; 32]), vin: 0 }
}

fn block(height: u64, on_best_chain: bool) -> MinedIn {
    let mut hash = [u8::from(on_best_chain); 32];
    hash[..8].copy_from_slice(&height.to_be_bytes());
    MinedIn { height, hash: BlockHash(hash), on_best_chain }
}

/// A record mined at 900 with so many coins.
fn mined(coins: usize) -> TxRecord {
    let slots = Slots::new(&vec![Slot::Unspent; coins]);
    let mut record = TxRecord::new(TxId([1; 32]), slots, 800);
    record.set_mined(block(900, true), R);
    record
}

fn spend(record: &mut TxRecord, vout: u32, by: Spender, height: u64) {
    let (expected, terms) = (ExpectedOutput::default(), SpendTerms::default());
    record.spend(vout, by, expected, height, terms, R).unwrap();
}

fn deep(byte: u8, height: u64) -> (TxId, ChildState) {
    (child(byte).tx, ChildState { mined_height: Some(height), is_conflicting: false })
}

fn reason(record: &TxRecord, children: &[(TxId, ChildState)], height: u64) -> Option<KeepReason> {
    let children: BTreeMap<_, _> = children.iter().copied().collect();
    match verdict(record, &children, height, WINDOWS) {
        DeletionVerdict::Delete => None,
        DeletionVerdict::Keep(kept) => Some(kept.reason),
    }
}

#[test]
fn delete_at_comes_with_the_last_spend_is_raised_and_cleared() {
    let mut record = mined(2);
    spend(&mut record, 0, child(2), 1000);
    assert_eq!(record.delete_at, None);
    spend(&mut record, 1, child(3), 1010);
    assert_eq!((record.delete_at, record.due_at), (Some(1298), Some(1298)));
    record.set_mined(block(1005, true), R);
    assert_eq!(record.delete_at, Some(1298), "an earlier event doesn't lower it");
    record.set_mined(block(1020, true), R);
    assert_eq!(record.delete_at, Some(1308));
    assert_eq!(record.unspend(0, child(2), 1021, R), Ok(true));
    assert_eq!((record.delete_at, record.due_at), (None, None));
}

#[test]
fn an_event_makes_a_record_due_again() {
    let mut record = mined(1);
    spend(&mut record, 0, child(2), 1000);
    record.due_at = None;
    record.reschedule(1000, R);
    assert_eq!((record.delete_at, record.due_at), (Some(1288), Some(1288)));
    record.due_at = Some(1500);
    record.reschedule(1000, R);
    assert_eq!(record.due_at, Some(1500));
    record.wake();
    assert_eq!(record.due_at, Some(1288));
    record.preserve(3000, 1001, R);
    record.wake();
    assert_eq!((record.delete_at, record.due_at), (None, Some(3000)));
}

#[test]
fn the_best_chain_alone_makes_a_record_mined() {
    let mut record = TxRecord::new(TxId([1; 32]), Slots::new(&[]), 10);
    record.set_mined(block(20, false), R);
    assert_eq!((record.mined_height(), record.unmined_since), (None, Some(10)));
    record.set_mined(block(21, true), R);
    assert_eq!((record.mined_height(), record.unmined_since), (Some(21), None));
    assert!(!record.unset_mined(BlockHash([7; 32]), 30, R));
    assert!(record.unset_mined(block(21, true).hash, 30, R));
    assert_eq!((record.unmined_since, record.blocks.len()), (Some(30), 1));
    record.leave_best_chain(25, R);
    assert_eq!(record.unmined_since, Some(25));
    record.leave_best_chain(40, R);
    assert_eq!(record.unmined_since, Some(25), "the earliest stays");
    assert!(record.join_best_chain(41, R));
    assert_eq!(record.mined_height(), Some(20));
}

#[test]
fn verdicts_on_the_record_itself() {
    let mut record = mined(1);
    assert_eq!(reason(&record, &[], 5_000), Some(KeepReason::NotDue));
    spend(&mut record, 0, child(2), 1000);
    let children = [deep(2, 1000)];
    assert_eq!(reason(&record, &children, 1287), Some(KeepReason::ChildShallow));
    assert_eq!(reason(&record, &children, 1288), None);
    let mut held = record.clone();
    held.is_locked = true;
    assert_eq!(reason(&held, &children, 5_000), Some(KeepReason::Locked));
    let mut held = record.clone();
    held.preserve_until = Some(6_000);
    assert_eq!(reason(&held, &children, 5_000), Some(KeepReason::Preserved));
    let mut held = record.clone();
    held.unmined_since = Some(1200);
    assert_eq!(reason(&held, &children, 5_000), Some(KeepReason::Unmined));
    let mut held = record.clone();
    held.reassigned.push(ReassignedOutput {
        vout: 0,
        output: OutputHash([1; 32]),
        spendable_at: 1,
    });
    assert_eq!(reason(&held, &children, 5_000), Some(KeepReason::Reassigned));
    let mut held = record.clone();
    held.blocks = vec![block(4_900, true)];
    assert_eq!(reason(&held, &children, 5_000), Some(KeepReason::Shallow));
    let mut held = record;
    held.slots.set(0, Slot::Unspent);
    assert_eq!(reason(&held, &children, 5_000), Some(KeepReason::Unspent));
}

#[test]
fn verdicts_on_children() {
    let mut record = mined(1);
    spend(&mut record, 0, child(2), 1000);
    let state =
        |mined_height, is_conflicting| [(child(2).tx, ChildState { mined_height, is_conflicting })];
    let unmined = reason(&record, &state(None, false), 9_000);
    assert_eq!(unmined, Some(KeepReason::ChildUnmined));
    assert_eq!(reason(&record, &[], 9_000), Some(KeepReason::ChildUnknown));
    let lost = reason(&record, &state(Some(1000), true), 9_000);
    assert_eq!(lost, Some(KeepReason::ChildConflicting));
    assert!(record.mark_pruned(0, child(2).tx));
    assert_eq!(reason(&record, &[], 9_000), None, "absent, and marked");
    let there = reason(&record, &state(None, false), 9_000);
    assert_eq!(there, Some(KeepReason::ChildUnmined), "marked, and still there");
    assert!(!record.mark_pruned(0, child(2).tx) && !record.mark_pruned(7, child(2).tx));
}

#[test]
fn a_blocker_without_a_height_weighs_more_than_any_height() {
    let mut record = mined(3);
    for (vout, byte) in [(0, 2), (1, 3), (2, 4)] {
        spend(&mut record, vout, child(byte), 1000);
    }
    let unmined = ChildState { mined_height: None, is_conflicting: false };
    let children = [deep(2, 5_900), (child(3).tx, unmined), deep(4, 6_000)].into();
    let DeletionVerdict::Keep(kept) = verdict(&record, &children, 6_000, WINDOWS) else { panic!() };
    assert_eq!(kept.retry_at, RetryAt::AfterMining(child(3).tx));
    assert_eq!(blockers(&record, &children, 6_000, WINDOWS).len(), 3);
    let children = [deep(2, 5_900), deep(3, 1_000), deep(4, 6_000)].into();
    let DeletionVerdict::Keep(kept) = verdict(&record, &children, 6_000, WINDOWS) else { panic!() };
    assert_eq!((kept.retry_at, kept.depth), (RetryAt::At(6_288), Some(0)));
}

#[test]
fn a_loser_is_deleted_whatever_its_coins_but_after_its_children() {
    let mut record = mined(2);
    record.leave_best_chain(950, R);
    record.set_conflicting(true, 1000, R);
    assert_eq!(record.delete_at, Some(1288));
    record.set_conflicting(true, 1100, R);
    assert_eq!(record.delete_at, Some(1288));
    assert_eq!(
        (reason(&record, &[], 1287), reason(&record, &[], 1288)),
        (Some(KeepReason::NotDue), None)
    );
    record.slots.set(0, Slot::Spent(child(2)));
    assert_eq!(reason(&record, &[], 1288), Some(KeepReason::ChildUnknown));
    record.set_conflicting(false, 1300, R);
    assert_eq!(record.delete_at, None);
}

#[test]
fn a_page_that_was_not_read_keeps_the_record() {
    let mut record = mined(0);
    record.slots =
        Slots::stored(SlotCounts { count: PAGE + 1, open: 0 }, vec![Slot::Unspendable; PAGE_SLOTS]);
    assert_eq!(reason(&record, &[], 9_000), Some(KeepReason::ChildUnknown));
    record.slots.put_page(1, vec![Slot::Unspendable]);
    assert_eq!(reason(&record, &[], 9_000), None);
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let mut names: Vec<&str> = KEEP_REASONS.iter().map(|(reason, _)| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KEEP_REASONS.len());
}
