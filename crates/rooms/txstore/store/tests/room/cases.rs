//! Behaviour as a table of small cases: set-up, action, what is expected. Windows of 288.

use unspent_model::txstore::{DeletionWindows, RetentionBlocks, Slot, SlotRefusal, SpendTerms};
use unspent_txstore::{
    AcceptOutcome, CleanLimits, CreateOutcome, CreateTerms, InputOutcome, InputSpend, NewTx,
    OutputStatus, SpendOptions, TxSpends, TxStoreError, UnminedTx,
};

use crate::desk::*;

fn ignoring(ignore_locked: bool, ignore_conflicting: bool) -> SpendOptions {
    let terms = SpendTerms { ignore_locked, ignore_conflicting, block_decides: false };
    SpendOptions { terms, allow_absent: false }
}

#[test]
fn an_unknown_output_is_not_found_and_no_error() {
    on_both(|d| {
        let status = d.store.output_status(vec![foreign(1)], 10).unwrap();
        assert_eq!(status, [OutputStatus::NotFound]);
    });
}

#[test]
fn an_unmined_transaction_knows_since_when() {
    on_both(|d| {
        let made = d.fresh(1);
        d.unmined(&made, 200);
        let record = d.record(&made);
        assert_eq!((record.unmined_since, record.blocks.len()), (Some(200), 0));
        let listed = d.store.unmined(None, None, 10).unwrap();
        assert_eq!(listed, [UnminedTx { since: 200, txid: made.txid }]);
        let stored = d.store.get(made.txid).unwrap().unwrap();
        assert_eq!((&stored.body[..], &stored.inputs), (&made.body[..], &made.inputs));
    });
}

#[test]
fn what_exists_is_not_created_again() {
    on_both(|d| {
        let parent = d.parent(2, 100);
        d.child(&[out(&parent, 0)], 101);
        let before = d.record(&parent);
        let again = vec![parent.clone(), parent.clone()];
        let made = d.store.create(again, CreateTerms::unmined(500)).unwrap();
        assert_eq!(made, [CreateOutcome::Exists, CreateOutcome::Exists]);
        assert_eq!(d.record(&parent), before);
    });
}

#[test]
fn the_first_spender_has_the_output() {
    on_both(|d| {
        let parent = d.parent(2, 100);
        let child = d.child(&[out(&parent, 0)], 101);
        let status = d.store.output_status(vec![out(&parent, 0)], 102).unwrap();
        let spent = OutputStatus::Spent { by: by(&child, 0), is_pruned: false };
        assert_eq!(status, [spent]);
        let before = d.record(&parent);
        assert_eq!(d.spend(out(&parent, 0), by(&child, 0), 102), Ok(()));
        assert_eq!(d.record(&parent), before);
        let rival = d.fresh(1);
        let refused = SlotRefusal::Spent { by: by(&child, 0) };
        assert_eq!(d.spend(out(&parent, 0), by(&rival, 0), 102), Err(refused));
        assert_eq!(d.record(&parent), before);
    });
}

#[test]
fn a_missing_parent_is_named_for_each_input() {
    on_both(|d| {
        let child = tx(&[foreign(1), foreign(2)], 1);
        let AcceptOutcome::Refused(outcome) = d.accept(&child, 10) else { panic!("accepted") };
        let missing = InputOutcome::Refused(SlotRefusal::TxNotFound);
        assert_eq!(outcome.inputs, [missing, missing]);
        assert!(!d.has(&child));
        let options = SpendOptions { allow_absent: true, ..SpendOptions::default() };
        let terms = CreateTerms::unmined(10);
        let accepted = d.store.accept(vec![child.clone()], terms, options).unwrap();
        let [AcceptOutcome::Accepted(outcome)] = &accepted[..] else { panic!("{accepted:?}") };
        assert_eq!((outcome.absent(), d.has(&child)), (2, true));
    });
}

#[test]
fn an_output_that_is_not_the_one_meant_is_not_spent() {
    on_both(|d| {
        let parent = d.parent(2, 100);
        let child = d.fresh(1);
        let (coin, options) = (out(&parent, 0), SpendOptions::default());
        let wrong = d.spend_as(coin, by(&child, 0), Some(hash_of(&parent, 1)), 101, options);
        assert_eq!(wrong, Err(SlotRefusal::OutputMismatch));
        let right = d.spend_as(coin, by(&child, 0), Some(hash_of(&parent, 0)), 101, options);
        assert_eq!(right, Ok(()));
    });
}

#[test]
fn a_refused_input_takes_the_others_back() {
    on_both(|d| {
        let (a, b) = (d.parent(1, 100), d.parent(1, 100));
        let first = d.child(&[out(&b, 0)], 101);
        let second = tx(&[out(&a, 0), out(&b, 0)], 1);
        let AcceptOutcome::Refused(outcome) = d.accept(&second, 102) else { panic!("accepted") };
        let spent = InputOutcome::Refused(SlotRefusal::Spent { by: by(&first, 0) });
        assert_eq!(outcome.inputs, [InputOutcome::Spent, spent]);
        assert_eq!((d.slot(&a, 0), d.delete_at(&a)), (Slot::Unspent, None));
        assert!(!d.has(&second));
    });
}

#[test]
fn of_two_in_one_batch_exactly_one_wins() {
    on_both(|d| {
        let parent = d.parent(1, 100);
        let rivals = [tx(&[out(&parent, 0)], 1), tx(&[out(&parent, 0)], 2)];
        let terms = CreateTerms::unmined(101);
        let done = d.store.accept(rivals.to_vec(), terms, SpendOptions::default()).unwrap();
        assert!(matches!(done[..], [AcceptOutcome::Accepted(_), AcceptOutcome::Refused(_)]));
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&rivals[0], 0)));
        assert!(d.has(&rivals[0]) && !d.has(&rivals[1]));
        let spends = rivals.iter().map(TxSpends::of).collect();
        let done = d.store.spend(spends, 101, SpendOptions::default()).unwrap();
        assert_eq!((done[0].is_done(), done[1].is_done()), (true, false));
    });
}

#[test]
fn a_child_may_come_with_its_parent_in_one_batch() {
    on_both(|d| {
        let parent = d.parent(1, 100);
        let child = tx(&[out(&parent, 0)], 1);
        let grandchild = tx(&[out(&child, 0)], 1);
        let terms = CreateTerms::unmined(101);
        let both = vec![child.clone(), grandchild.clone()];
        let done = d.store.accept(both, terms, SpendOptions::default()).unwrap();
        assert!(matches!(done[..], [AcceptOutcome::Accepted(_), AcceptOutcome::Accepted(_)]));
        assert_eq!(d.slot(&child, 0), Slot::Spent(by(&grandchild, 0)));
    });
}

#[test]
fn a_coinbase_is_mature_after_a_hundred_blocks() {
    on_both(|d| {
        let made = coinbase(1, 1);
        d.mined(&made, 1000);
        let child = d.fresh(1);
        let immature = SlotRefusal::CoinbaseImmature { from: Some(1100) };
        assert_eq!(d.spend(out(&made, 0), by(&child, 0), 1099), Err(immature));
        let status = |height| d.store.output_status(vec![out(&made, 0)], height).unwrap()[0];
        assert_eq!((status(1099), status(1100)), (OutputStatus::Immature, OutputStatus::Spendable));
        assert_eq!(d.spend(out(&made, 0), by(&child, 0), 1100), Ok(()));
    });
}

#[test]
fn locks_and_conflicts_may_be_passed_over() {
    on_both(|d| {
        let locked = d.parent(2, 100);
        d.store.set_locked(vec![locked.txid], true, 101).unwrap();
        let child = d.fresh(1);
        let spend = |parent: &NewTx, vout, options| {
            d.spend_as(out(parent, vout), by(&child, 0), None, 102, options)
        };
        assert_eq!(spend(&locked, 0, ignoring(false, true)), Err(SlotRefusal::Locked));
        assert_eq!(spend(&locked, 0, ignoring(true, false)), Ok(()));
        let lost = d.fresh(2);
        d.unmined(&lost, 100);
        d.store.set_conflicting(vec![lost.txid], 101).unwrap();
        assert_eq!(spend(&lost, 0, ignoring(true, false)), Err(SlotRefusal::Conflicting));
        assert_eq!(spend(&lost, 0, ignoring(false, true)), Ok(()));
    });
}

#[test]
fn only_the_owner_takes_a_spend_back() {
    on_both(|d| {
        let parent = d.parent(2, 900);
        let (child, other) = (d.child(&[out(&parent, 0), out(&parent, 1)], 1000), d.fresh(1));
        assert_eq!(d.delete_at(&parent), Some(1288));
        assert_eq!(d.unspend(out(&parent, 0), by(&other, 0), 1001), Ok(false));
        assert_eq!(d.unspend(out(&parent, 0), by(&child, 1), 1001), Ok(false));
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&child, 0)));
        assert_eq!(d.unspend(out(&parent, 0), by(&child, 0), 1001), Ok(true));
        let record = d.record(&parent);
        assert_eq!((record.slots.open(), record.delete_at, record.due_at), (1, None, None));
        assert_eq!(d.unspend(out(&parent, 0), by(&child, 0), 1001), Ok(false));
        let nobody = d.unspend(foreign(3), by(&child, 0), 1001);
        assert_eq!(nobody, Err(SlotRefusal::TxNotFound));
    });
}

#[test]
fn a_frozen_output_is_spent_by_nobody() {
    on_both(|d| {
        let (parent, child) = (d.parent(2, 100), d.fresh(1));
        let coin = out(&parent, 0);
        let freeze = || d.store.freeze(vec![coin]).unwrap().remove(0);
        let unfreeze = || d.store.unfreeze(vec![coin]).unwrap().remove(0);
        assert_eq!(unfreeze(), Err(SlotRefusal::NotFrozen));
        let (old, new) = (hash_of(&parent, 0), hash_of(&parent, 1));
        let early = d.store.reassign(coin, old, new, 101).unwrap();
        assert_eq!(early, Err(SlotRefusal::NotFrozen));
        assert_eq!(freeze(), Ok(()));
        assert_eq!(d.spend(coin, by(&child, 0), 101), Err(SlotRefusal::Frozen));
        assert_eq!(freeze(), Err(SlotRefusal::AlreadyFrozen));
        assert_eq!(unfreeze(), Ok(()));
        assert_eq!(d.spend(coin, by(&child, 0), 101), Ok(()));
        assert_eq!(freeze(), Err(SlotRefusal::Spent { by: by(&child, 0) }));
        assert_eq!(SlotRefusal::Spent { by: by(&child, 0) }.code(), "SPENT");
    });
}

#[test]
fn a_reassigned_output_waits_a_thousand_blocks() {
    on_both(|d| {
        let (parent, child, other) = (d.parent(1, 50), d.fresh(1), d.fresh(1));
        let (coin, old, new) = (out(&parent, 0), hash_of(&parent, 0), hash_of(&other, 0));
        d.store.freeze(vec![coin]).unwrap().remove(0).unwrap();
        let wrong = d.store.reassign(coin, new, new, 100).unwrap();
        assert_eq!(wrong, Err(SlotRefusal::OutputMismatch));
        assert_eq!(d.store.reassign(coin, old, new, 100).unwrap(), Ok(()));
        let spend =
            |hash, height| d.spend_as(coin, by(&child, 0), hash, height, SpendOptions::default());
        let waits = Err(SlotRefusal::FrozenUntil { from: 1100 });
        assert_eq!(spend(Some(new), 1099), waits);
        d.store.freeze(vec![coin]).unwrap().remove(0).unwrap();
        d.store.unfreeze(vec![coin]).unwrap().remove(0).unwrap();
        assert_eq!(spend(Some(new), 1099), waits);
        assert_eq!(spend(Some(old), 1100), Err(SlotRefusal::OutputMismatch));
        assert_eq!(spend(None, 1100), Err(SlotRefusal::OutputMismatch));
        assert_eq!(spend(Some(new), 1100), Ok(()));
        // The record is evidence of the change of hands.
        assert_eq!(d.delete_at(&parent), None);
        assert_eq!(d.kept_at(&parent, &[1_000_000]), [true]);
    });
}

#[test]
fn a_transaction_knows_its_blocks() {
    on_both(|d| {
        let made = d.fresh(1);
        d.unmined(&made, 290);
        d.mine(&made, 300);
        d.mine(&made, 300);
        let record = d.record(&made);
        assert_eq!((record.blocks.len(), record.unmined_since), (1, None));
        d.store.set_mined(vec![made.txid], on_fork(301)).unwrap();
        assert_eq!(d.record(&made).mined_height(), Some(300));
        assert_eq!(d.record(&made).blocks.len(), 2);
        assert_eq!(d.store.unset_mined(vec![made.txid], on_fork(301).hash, 310).unwrap(), 1);
        assert_eq!(d.record(&made).unmined_since, None);
        assert_eq!(d.store.unset_mined(vec![made.txid], at(300).hash, 310).unwrap(), 1);
        let record = d.record(&made);
        assert_eq!((record.blocks.len(), record.unmined_since), (0, Some(310)));
        assert_eq!(record.delete_at, None);
        assert_eq!(d.store.unset_mined(vec![foreign(1).tx], at(1).hash, 310).unwrap(), 0);
        let some = vec![made.txid, foreign(1).tx, foreign(2).tx];
        let missing = d.store.set_mined(some, at(311)).unwrap_err();
        assert!(matches!(missing, TxStoreError::Missing(names) if names.len() == 2));
        assert_eq!(d.record(&made).unmined_since, Some(310));
    });
}

#[test]
fn delete_at_follows_spends_and_blocks() {
    on_both(|d| {
        let parent = d.parent(2, 1000);
        let a = d.child(&[out(&parent, 0)], 1000);
        assert_eq!(d.delete_at(&parent), None);
        d.child(&[out(&parent, 1)], 1000);
        assert_eq!(d.delete_at(&parent), Some(1288));
        d.unspend(out(&parent, 0), by(&a, 0), 1001).unwrap();
        assert_eq!(d.delete_at(&parent), None);
        let late = d.fresh(1);
        d.unmined(&late, 1000);
        d.child(&[out(&late, 0)], 1001);
        assert_eq!(d.delete_at(&late), None);
        d.mine(&late, 1200);
        assert_eq!(d.delete_at(&late), Some(1488));
    });
}

#[test]
fn leaving_the_best_chain_clears_delete_at_and_keeps_the_first_unmined_since() {
    on_both(|d| {
        let parent = d.parent(1, 1000);
        d.child(&[out(&parent, 0)], 1000);
        d.store.mark_longest_chain(vec![parent.txid], false, 1010).unwrap();
        let record = d.record(&parent);
        assert_eq!((record.delete_at, record.unmined_since), (None, Some(1010)));
        d.store.mark_longest_chain(vec![parent.txid], false, 1020).unwrap();
        assert_eq!(d.record(&parent).unmined_since, Some(1010));
        d.store.mark_longest_chain(vec![parent.txid], true, 1030).unwrap();
        let record = d.record(&parent);
        assert_eq!((record.delete_at, record.unmined_since), (Some(1318), None));
        let gone = d.store.mark_longest_chain(vec![foreign(1).tx], true, 1030).unwrap_err();
        assert!(matches!(gone, TxStoreError::Missing(_)));
        let loose = d.fresh(1);
        d.unmined(&loose, 1030);
        let loose = d.store.mark_longest_chain(vec![loose.txid], true, 1030).unwrap_err();
        assert!(matches!(loose, TxStoreError::InNoBlock(_)));
    });
}

#[test]
fn the_first_delete_at_of_a_loser_stands() {
    on_both(|d| {
        let lost = d.fresh(2);
        d.unmined(&lost, 400);
        d.store.set_conflicting(vec![lost.txid], 500).unwrap();
        assert_eq!(d.delete_at(&lost), Some(788));
        d.store.set_conflicting(vec![lost.txid], 600).unwrap();
        assert_eq!(d.delete_at(&lost), Some(788));
        assert_eq!(d.kept_at(&lost, &[787, 788]), [true, false]);
        assert_eq!(d.store.status().unwrap().losers_deleted, 1);
    });
}

#[test]
fn without_spendable_outputs_everything_is_spent() {
    on_both(|d| {
        let now = NewTx::from_tx(&raw(&[foreign(1)], &[false], 0));
        d.mined(&now, 1000);
        assert_eq!(d.delete_at(&now), Some(1288));
        let later = NewTx::from_tx(&raw(&[foreign(2)], &[false, false], 0));
        d.unmined(&later, 1000);
        assert_eq!(d.delete_at(&later), None);
        d.mine(&later, 1100);
        assert_eq!(d.kept_at(&now, &[1287, 1288]), [true, false]);
        assert_eq!(d.kept_at(&later, &[1387, 1388]), [true, false]);
    });
}

#[test]
fn a_child_in_a_fork_block_is_no_deep_child() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let child = d.child(&[out(&parent, 0)], 1000);
        d.store.set_mined(vec![child.txid], on_fork(1000)).unwrap();
        assert_eq!(d.kept_at(&parent, &[1288, 1310, 9_000]), [true; 3]);
        d.mine(&child, 9_000);
        assert_eq!(d.kept_at(&parent, &[9_287, 9_288]), [true, false]);
    });
}

#[test]
fn the_children_of_every_page_count() {
    on_both(|d| {
        let parent = d.parent(300, 900);
        let coins: Vec<_> = (0..300).map(|vout| out(&parent, vout)).collect();
        let (others, one) = ([&coins[..290], &coins[291..]].concat(), coins[290]);
        d.mined_child(&others, 1000, 1000);
        assert_eq!(d.delete_at(&parent), None);
        let late = d.child(&[one], 1000);
        assert_eq!(d.delete_at(&parent), Some(1288));
        assert_eq!(d.kept_at(&parent, &[1288, 2000]), [true, true]);
        d.mine(&late, 2000);
        assert_eq!(d.kept_at(&parent, &[2287, 2288]), [true, false]);
        let parts = d.rows("SELECT txid FROM parts");
        assert!(parts.iter().all(|row| row.hash("txid").unwrap() != parent.txid.0));
    });
}

#[test]
fn a_deleted_child_is_not_taken_in_again() {
    on_both(|d| {
        let parent = d.parent(2, 900);
        let child = d.mined_child(&[out(&parent, 0)], 1000, 1000);
        d.mined_child(&[out(&child, 0)], 1001, 1001);
        assert_eq!(d.kept_at(&child, &[1289]), [false]);
        assert!(d.has(&parent));
        assert_eq!(d.slot(&parent, 0), Slot::SpentPruned(by(&child, 0)));
        let AcceptOutcome::Refused(outcome) = d.accept(&child, 1300) else { panic!("accepted") };
        let replay = InputOutcome::Refused(SlotRefusal::InvalidSpend { by: by(&child, 0) });
        assert_eq!(outcome.inputs, [replay]);
        assert!(!d.has(&child));
        let back = d.unspend(out(&parent, 0), by(&child, 0), 1300);
        assert_eq!(back, Err(SlotRefusal::InvalidSpend { by: by(&child, 0) }));
        // The mark stands for the child: the parent goes when its time comes.
        d.mined_child(&[out(&parent, 1)], 1400, 1400);
        assert_eq!(d.kept_at(&parent, &[1687, 1688]), [true, false]);
    });
}

#[test]
fn the_end_of_a_preservation_sets_a_new_delete_at() {
    on_both(|d| {
        let (finished, open) = (d.parent(1, 900), d.parent(1, 900));
        d.mined_child(&[out(&finished, 0)], 1000, 1000);
        d.store.preserve(vec![finished.txid, open.txid], 2000).unwrap();
        assert_eq!(d.delete_at(&finished), None);
        assert_eq!(d.kept_at(&finished, &[1288, 1999]), [true, true]);
        assert_eq!(d.clean_at(2000).expired, 2);
        assert_eq!((d.delete_at(&finished), d.delete_at(&open)), (Some(2288), None));
        assert_eq!(d.kept_at(&finished, &[2287, 2288]), [true, false]);
        assert_eq!(d.kept_at(&open, &[5000]), [true]);
    });
}

#[test]
fn a_spender_that_never_existed_keeps_its_parent_until_it_is_cleared() {
    on_both(|d| {
        let (parent, never) = (d.parent(1, 900), d.fresh(1));
        d.spend(out(&parent, 0), by(&never, 0), 1000).unwrap();
        assert_eq!(d.kept_at(&parent, &[1288, 5000]), [true, true]);
        assert_eq!(d.store.status().unwrap().kept_by_unknown_child, 1);
        let page = d.store.unknown_spenders(None, 100).unwrap();
        assert_eq!((page.found.len(), page.next), (1, None));
        assert_eq!(page.found[0].by, by(&never, 0));
        assert_eq!(d.store.repair(page.found.clone()).unwrap(), 1);
        assert_eq!(d.store.repair(page.found).unwrap(), 0);
        assert_eq!((d.slot(&parent, 0), d.delete_at(&parent)), (Slot::Unspent, None));
        let status = d.store.status().unwrap();
        assert_eq!((status.kept_by_unknown_child, status.repaired), (0, 1));
    });
}

#[test]
fn a_spender_that_comes_after_its_spend_is_waited_for_exactly() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let late = tx(&[out(&parent, 0)], 1);
        d.spend(out(&parent, 0), by(&late, 0), 1000).unwrap();
        assert_eq!(d.kept_at(&parent, &[1288]), [true]);
        d.mined(&late, 1400);
        assert_eq!(d.kept_at(&parent, &[1687, 1688]), [true, false]);
    });
}

#[test]
fn repair_does_not_touch_an_output_whose_spender_is_there() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let child = d.child(&[out(&parent, 0)], 1000);
        assert!(d.store.unknown_spenders(None, 100).unwrap().found.is_empty());
        let claim = unspent_txstore::UnknownSpender { coin: out(&parent, 0), by: by(&child, 0) };
        assert_eq!(d.store.repair(vec![claim]).unwrap(), 0);
        assert_eq!(d.slot(&parent, 0), Slot::Spent(by(&child, 0)));
    });
}

#[test]
fn height_zero_is_refused() {
    on_both(|d| {
        assert!(matches!(d.store.set_height(0), Err(TxStoreError::Argument(_))));
        let nothing = d.store.clean(CleanLimits::default());
        assert!(matches!(nothing, Err(TxStoreError::NoTip)));
        let child = d.fresh(1);
        let inputs = vec![InputSpend { vin: 0, coin: foreign(1), output: None }];
        let spends = vec![TxSpends { child: child.txid, inputs }];
        let refused = d.store.spend(spends, 0, SpendOptions::default());
        assert!(matches!(refused, Err(TxStoreError::Argument(_))));
    });
}

#[test]
fn a_second_pass_at_the_same_height_deletes_nothing() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        d.mined_child(&[out(&parent, 0)], 1000, 1000);
        assert_eq!((d.clean_at(1288).deleted, d.clean_at(1288).deleted), (1, 0));
        assert_eq!(d.store.status().unwrap().deleted, 1);
    });
}

#[test]
fn a_retention_of_zero_deletes_nothing() {
    let never = DeletionWindows { retention: RetentionBlocks(0), ..windows(288) };
    on_both_with(never, |d| {
        let parent = d.parent(1, 900);
        d.mined_child(&[out(&parent, 0)], 1000, 1000);
        assert_eq!(d.delete_at(&parent), None);
        assert_eq!(d.kept_at(&parent, &[1_000_000]), [true]);
    });
}

#[test]
fn a_lock_clears_delete_at_and_its_end_sets_a_new_one() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        d.mined_child(&[out(&parent, 0)], 1000, 1000);
        d.store.set_locked(vec![parent.txid], true, 1100).unwrap();
        assert_eq!(d.delete_at(&parent), None);
        assert_eq!(d.kept_at(&parent, &[1288, 1400]), [true, true]);
        d.store.set_locked(vec![parent.txid], false, 1500).unwrap();
        assert_eq!(d.delete_at(&parent), Some(1788));
        assert_eq!(d.kept_at(&parent, &[1787, 1788]), [true, false]);
    });
}

#[test]
fn a_record_may_be_frozen_and_locked_from_the_start() {
    on_both(|d| {
        let (frozen, locked) = (d.fresh(2), d.fresh(1));
        d.create(&frozen, CreateTerms { is_frozen: true, ..CreateTerms::mined(at(10)) });
        assert_eq!(d.record(&frozen).slots.open(), 2);
        assert_eq!(d.slot(&frozen, 1), Slot::Frozen);
        d.create(&locked, CreateTerms { is_locked: true, ..CreateTerms::unmined(10) });
        assert!(d.record(&locked).is_locked);
        d.mine(&locked, 12);
        assert!(!d.record(&locked).is_locked);
    });
}

#[test]
fn unmined_records_come_by_page_those_that_wait_longest_first() {
    on_both(|d| {
        let all: Vec<NewTx> = (0..7).map(|_| d.fresh(1)).collect();
        for (height, made) in all.iter().enumerate() {
            d.unmined(made, 100 + height as u64 / 2);
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = d.store.unmined(Some(102), after, 2).unwrap();
            let Some(last) = page.last() else { break };
            after = Some(*last);
            seen.extend(page);
        }
        let mut wanted: Vec<_> = all[..6].iter().enumerate().collect::<Vec<_>>();
        wanted.sort_by_key(|(at, made)| (at / 2, made.txid));
        let wanted: Vec<_> = wanted.into_iter().map(|(_, made)| made.txid).collect();
        assert_eq!(seen.iter().map(|one| one.txid).collect::<Vec<_>>(), wanted);
    });
}
