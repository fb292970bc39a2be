//! Edge cases of deletion: what is missing, replayed, marked and not deleted, queued and starved.

use unspent_model::txstore::{
    DeletionVerdict, DeletionWindows, KeepReason, RetentionBlocks, RetryAt, Slot,
};
use unspent_sql::{Arg, SqlError};
use unspent_txstore::{CleanLimits, NewTx, TxStoreError};

use crate::desk::*;

/// A chain of so many, each spending the one before, all mined at one height.
fn chain(d: &Desk, length: usize, height: u64) -> Vec<NewTx> {
    let mut all = vec![d.parent(1, height)];
    while all.len() < length {
        let coin = out(all.last().unwrap(), 0);
        all.push(d.mined_child(&[coin], height, height));
    }
    all
}

#[test]
fn a_preserved_ancestor_is_deleted_although_its_child_was_deleted_long_before() {
    on_both(|d| {
        let all = chain(&d, 3, 1000);
        d.store.preserve(vec![all[0].txid], 5000).unwrap();
        assert_eq!(d.clean_at(1288).deleted, 1);
        assert!(!d.has(&all[1]));
        assert_eq!(d.slot(&all[0], 0), Slot::SpentPruned(by(&all[1], 0)));
        assert_eq!(d.kept_at(&all[0], &[5000, 5287, 5288]), [true, true, false]);
    });
}

#[test]
fn a_whole_chain_is_deleted_in_one_pass_but_for_its_coin() {
    on_both(|d| {
        let all = chain(&d, 40, 1000);
        let report = d.clean_at(1288);
        assert_eq!((report.deleted, d.has(&all[39])), (39, true));
        assert_eq!(d.clean().looked_at, 0);
    });
}

/// A cleaner that was killed after its marks and before its deletion.
fn put_back_after_cleaning(d: &Desk, new: &NewTx, height: u64) {
    let door = d.own_door();
    let name = new.txid.0;
    let kept = door.write(move |tx| -> Result<_, SqlError> {
        tx.script("CREATE TABLE kept AS SELECT * FROM transactions WHERE FALSE")?;
        tx.execute(
            "INSERT INTO kept SELECT * FROM transactions WHERE txid = $1",
            &[Arg::Blob(&name)],
        )
    });
    assert_eq!(kept.unwrap(), 1);
    d.clean_at(height);
    assert!(!d.has(new));
    let back = door.write(move |tx| -> Result<_, SqlError> {
        tx.execute("INSERT INTO due SELECT due_at, txid FROM kept", &[])?;
        tx.execute("INSERT INTO transactions SELECT * FROM kept", &[])
    });
    assert_eq!(back.unwrap(), 1);
    assert!(d.has(new));
}

#[test]
fn a_cleaner_stopped_between_mark_and_deletion_is_finished_by_the_next() {
    on_both(|d| {
        let parent = d.parent(2, 900);
        let child = d.mined_child(&[out(&parent, 0)], 1000, 1000);
        d.mined_child(&[out(&child, 0)], 1000, 1000);
        put_back_after_cleaning(&d, &child, 1288);
        assert_eq!(d.slot(&parent, 0), Slot::SpentPruned(by(&child, 0)));
        assert_eq!(d.clean().deleted, 1);
        assert!(!d.has(&child) && d.has(&parent));
        assert!(d.rows("SELECT height FROM due").is_empty());
    });
}

#[test]
fn a_marked_child_that_is_still_there_and_not_deep_keeps_its_parent() {
    on_both(|d| {
        let parent = d.parent(2, 900);
        let child = d.mined_child(&[out(&parent, 0)], 1000, 1000);
        d.mined_child(&[out(&child, 0)], 1000, 1000);
        put_back_after_cleaning(&d, &child, 1288);
        // As if the mark had been written and then a reorganisation taken the child away.
        const UNMINE: &str = "UPDATE transactions SET mined_height = NULL, unmined_since = 1288
            WHERE txid = $1";
        let name = child.txid.0;
        let door = d.own_door();
        door.write(move |tx| tx.execute(UNMINE, &[Arg::Blob(&name)])).unwrap();
        d.mined_child(&[out(&parent, 1)], 1300, 1300);
        assert_eq!(d.kept_at(&parent, &[1588, 3000]), [true, true]);
    });
}

#[test]
fn a_due_record_that_is_kept_leaves_the_head_of_the_queue() {
    on_both(|d| {
        for _ in 0..30 {
            let stuck = d.parent(1, 900);
            d.child(&[out(&stuck, 0)], 1000);
        }
        let free = d.parent(1, 900);
        d.mined_child(&[out(&free, 0)], 1001, 1001);
        d.store.set_height(1289).unwrap();
        let limits = CleanLimits { chunk: 5, most: 10 };
        let mut deleted = 0;
        for pass in 0..4 {
            let report = d.store.clean(limits).unwrap();
            assert_eq!(report.is_cut, pass < 3, "{report:?}");
            deleted += report.deleted;
        }
        assert_eq!((deleted, d.has(&free)), (1, false));
        let status = d.store.status().unwrap();
        assert_eq!((status.due_backlog, status.kept_by_unmined_child), (0, 30));
        assert_eq!(status.oldest_due, None);
    });
}

#[test]
fn why_names_the_child_its_depth_and_the_height() {
    on_both(|d| {
        let parent = d.parent(2, 900);
        d.mined_child(&[out(&parent, 0)], 1000, 1000);
        let shallow = d.mined_child(&[out(&parent, 1)], 1000, 1005);
        d.store.set_height(1290).unwrap();
        let why = d.store.why(parent.txid).unwrap().unwrap();
        assert_eq!((why.height, why.from_height), (1290, Some(1293)));
        let [blocker] = why.blockers[..] else { panic!("{why:?}") };
        assert_eq!(blocker.reason, KeepReason::ChildShallow);
        assert_eq!((blocker.child, blocker.depth), (Some((1, by(&shallow, 0))), Some(285)));
        assert_eq!(why.verdict, DeletionVerdict::Keep(blocker));
        d.store.set_height(1293).unwrap();
        let why = d.store.why(parent.txid).unwrap().unwrap();
        assert_eq!((why.verdict, why.from_height), (DeletionVerdict::Delete, Some(1293)));
        assert_eq!(d.store.why(foreign(1).tx).unwrap(), None);
        let open = d.store.why(shallow.txid).unwrap().unwrap();
        let reasons: Vec<_> = open.blockers.iter().map(|found| found.reason).collect();
        assert!(reasons.contains(&KeepReason::Unspent), "{reasons:?}");
        assert_eq!(open.from_height, None);
    });
}

#[test]
fn the_verdict_of_an_unmined_child_names_it() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let child = d.child(&[out(&parent, 0)], 1000);
        d.store.set_height(1300).unwrap();
        let why = d.store.why(parent.txid).unwrap().unwrap();
        let DeletionVerdict::Keep(kept) = why.verdict else { panic!("{why:?}") };
        assert_eq!(
            (kept.reason, kept.retry_at),
            (KeepReason::ChildUnmined, RetryAt::AfterMining(child.txid),)
        );
    });
}

#[test]
fn dropping_an_unmined_leaf_frees_its_parents() {
    on_both(|d| {
        let parent = d.parent(1, 900);
        let child = d.child(&[out(&parent, 0)], 1000);
        let leaf = d.child(&[out(&child, 0)], 1000);
        d.clean_at(1288);
        assert_eq!(d.store.status().unwrap().kept_by_unmined_child, 1);
        let refused = d.store.drop_unmined(child.txid);
        assert!(matches!(refused, Err(TxStoreError::HasChildren(_))));
        let refused = d.store.drop_unmined(parent.txid);
        assert!(matches!(refused, Err(TxStoreError::NotUnmined(_))));
        d.store.drop_unmined(leaf.txid).unwrap();
        assert_eq!(d.slot(&child, 0), Slot::Unspent);
        d.store.drop_unmined(child.txid).unwrap();
        assert_eq!((d.slot(&parent, 0), d.delete_at(&parent)), (Slot::Unspent, None));
        let status = d.store.status().unwrap();
        assert_eq!((status.kept_by_unmined_child, status.dropped, status.unmined), (0, 2, 0));
        // And it may be spent by another one, who is deep one day.
        d.mined_child(&[out(&parent, 0)], 1300, 1300);
        assert_eq!(d.kept_at(&parent, &[1587, 1588]), [true, false]);
    });
}

#[test]
fn delete_at_counts_from_the_event_not_from_the_tip() {
    on_both(|d| {
        d.store.set_height(515).unwrap();
        let parent = d.parent(1, 1500);
        d.mined_child(&[out(&parent, 0)], 1500, 1500);
        assert_eq!(d.delete_at(&parent), Some(1788));
        assert_eq!(d.kept_at(&parent, &[900, 1787, 1788]), [true, true, false]);
    });
}

#[test]
fn a_safety_window_longer_than_the_retention_holds_by_itself() {
    let long = DeletionWindows { retention: RetentionBlocks(10), safety: 50, rollback: 20 };
    on_both_with(long, |d| {
        let parent = d.parent(1, 900);
        d.mined_child(&[out(&parent, 0)], 1000, 1000);
        let empty = NewTx::from_tx(&raw(&[foreign(77)], &[false], 0));
        d.mined(&empty, 1000);
        assert_eq!((d.delete_at(&parent), d.delete_at(&empty)), (Some(1010), Some(1010)));
        assert_eq!(d.kept_at(&parent, &[1010, 1049]), [true, true]);
        assert!(d.has(&empty));
        assert_eq!(d.kept_at(&parent, &[1050]), [false]);
        assert!(!d.has(&empty));
    });
    let short = DeletionWindows { retention: RetentionBlocks(10), safety: 5, rollback: 20 };
    let settings = unspent_txstore::Settings { windows: short };
    let d = Desk::sqlite();
    let network = d.store.network();
    let refused =
        unspent_txstore::TxStore::open(&d.url, network, settings, Default::default()).err();
    assert!(matches!(refused, Some(TxStoreError::Argument(_))));
}

#[test]
fn a_store_serves_one_network_and_bitcoin_only() {
    use unspent_model::Network;
    let d = Desk::sqlite();
    let open = |network| {
        let (settings, options) = Default::default();
        unspent_txstore::TxStore::open(&d.url, network, settings, options).err()
    };
    assert!(matches!(open(Network::Bitcoin), Some(TxStoreError::WrongNetwork { .. })));
    assert!(matches!(open(Network::CardanoPreview), Some(TxStoreError::NotBitcoin(_))));
    assert!(open(Network::BitcoinRegtest).is_none());
}
