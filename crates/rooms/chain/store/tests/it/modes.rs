//! Bulk and block by block leave the same bytes; switching modes on a live folder is safe.

use proptest::prelude::*;
use unspent_chain::{Options, RollbackTarget, prepare};
use unspent_model::{
    Network,
    chain::{Block, Output},
};
use unspent_testkit::chain::{Event, Step, World};

use crate::driver::{Store, bytes, genesis, small_windows};

/// A made-up chain of `length` blocks.
pub fn chain(length: u8, seed: u64, store: &Store) -> Vec<Block<Output>> {
    let mut world = World::new(store.rules(), &store.genesis);
    let event = Event::Bulk { seed, blocks: length, overstated: 0 };
    match world.step(&event) {
        Step::Bulk(blocks, _) => blocks,
        other => panic!("{other:?}"),
    }
}

fn preview(options: Options) -> Store {
    Store::new(Network::CardanoPreview, options, &genesis())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn bulk_leaves_the_same_bytes_as_block_by_block(
        seed: u64,
        length in 1..60_u8,
        split in 0..60_usize,
        batch in 1..20_usize,
        windows in (1..12_u64, 1..12_u64),
        self_contained: bool,
    ) {
        let options =
            Options { bulk_blocks: batch, self_contained, ..small_windows(windows.0, windows.1) };
        let (mut slow, mut fast) = (preview(options.clone()), preview(options));
        let blocks = chain(length, seed, &slow);
        slow.apply_all(&blocks);
        // Some blocks near an earlier tip first: bulk must also clear away what they left.
        let split = split.min(blocks.len());
        fast.apply_all(&blocks[..split]);
        fast.bulk(&blocks[split..], (blocks.len() - split) as u64);
        prop_assert_eq!(bytes(&fast.reader()), bytes(&slow.reader()));
    }

    #[test]
    fn a_bulk_run_that_is_dropped_leaves_a_block_boundary(
        seed: u64,
        length in 2..50_u8,
        batch in 1..10_usize,
    ) {
        let options = Options { bulk_blocks: batch, ..small_windows(50, 50) };
        let mut store = preview(options);
        let blocks = chain(length, seed, &store);
        let mut bulk = store.index().bulk(0);
        for block in &blocks {
            bulk.apply(prepare(block.clone())).unwrap();
        }
        drop(bulk);
        let reached = usize::try_from(store.index().ordinal()).unwrap();
        prop_assert_eq!(reached, blocks.len() / batch * batch);
        let report = store.reader().verify(&mut |_| ()).unwrap();
        prop_assert!(report.is_clean());
        // It goes on from there, in either mode, to the same end.
        store.apply_all(&blocks[reached..]);
        let mut straight = preview(store.options.clone());
        straight.apply_all(&blocks);
        prop_assert_eq!(bytes(&store.reader()), bytes(&straight.reader()));
    }
}

#[test]
fn queries_see_only_what_is_flushed() {
    let mut store = preview(Options { bulk_blocks: 5, ..small_windows(50, 50) });
    let blocks = chain(8, 3, &store);
    let reader = store.reader();
    let mut bulk = store.index().bulk(0);
    for block in &blocks[..4] {
        bulk.apply(prepare(block.clone())).unwrap();
        assert_eq!(reader.status().unwrap().cursor.ordinal, 0);
    }
    bulk.apply(prepare(blocks[4].clone())).unwrap();
    assert_eq!(bulk.ordinal(), 5);
    bulk.finish().unwrap();
    assert_eq!(reader.status().unwrap().cursor.ordinal, 5);
}

#[test]
fn a_refused_block_leaves_a_bulk_batch_as_it_was() {
    let mut store = preview(small_windows(50, 50));
    let blocks = chain(9, 11, &store);
    let mut bulk = store.index().bulk(0);
    for block in &blocks[..2] {
        bulk.apply(prepare(block.clone())).unwrap();
    }
    let mut stranger = blocks[2].clone();
    stranger.header.point.height += 5;
    assert!(bulk.apply(prepare(stranger)).is_err());
    for block in &blocks[..] {
        bulk.apply(prepare(block.clone())).unwrap();
    }
    bulk.finish().unwrap();
    let mut straight = preview(store.options.clone());
    straight.apply_all(&blocks);
    assert_eq!(bytes(&store.reader()), bytes(&straight.reader()));
}

#[test]
fn undo_data_is_left_out_only_below_the_window_of_the_known_tip() {
    let mut store = preview(small_windows(4, 6));
    let blocks = chain(30, 5, &store);
    store.bulk(&blocks, 30);
    let status = store.reader().status().unwrap();
    assert_eq!(status.horizon.floor, 24);
    let point = blocks[23].header.point;
    let target = RollbackTarget::Point { height: point.height, hash: point.hash };
    store.index().rollback(target).unwrap();
    let mut straight = preview(small_windows(4, 6));
    straight.apply_all(&blocks[..24]);
    assert_eq!(store.reader().digest().unwrap(), straight.reader().digest().unwrap());
}

#[test]
fn the_delta_mode_may_change_on_a_live_folder() {
    let blocks = chain(24, 8, &preview(small_windows(3, 6)));
    let mut store = preview(small_windows(3, 6));
    let mut digests = vec![store.reader().digest().unwrap()];
    for (n, chunk) in blocks.chunks(4).enumerate() {
        store.options.self_contained = n % 2 == 1;
        store.reopen();
        for block in chunk {
            store.apply(block);
            digests.push(store.reader().digest().unwrap());
            let report = store.reader().verify(&mut |_| {}).unwrap();
            assert!(report.is_clean(), "{:#?}", report.findings);
        }
    }
    for depth in 1..=6 {
        store.index().rollback_blocks(1);
        assert_eq!(store.reader().digest().unwrap(), digests[blocks.len() - depth]);
    }
}

trait RollbackBlocks {
    fn rollback_blocks(&mut self, count: u64);
}

impl RollbackBlocks for unspent_chain::ChainIndex {
    /// Undoes exactly `count` blocks, whatever heights they share.
    fn rollback_blocks(&mut self, count: u64) {
        let target = self.ordinal() - count;
        let tip = self.tip().unwrap();
        // Heights may be shared with a boundary block, so step by the one before the tip's point.
        let before = self.reader().status().unwrap();
        assert_eq!(before.cursor.point(), Some(tip));
        while self.ordinal() > target {
            let deltas = self.reader().delta(self.tip().unwrap().height).unwrap();
            let at = deltas.iter().position(|delta| Some(delta.point) == self.tip()).unwrap();
            let to = match at.checked_sub(1).map(|at| deltas[at].point) {
                Some(point) => RollbackTarget::Point { height: point.height, hash: point.hash },
                None => RollbackTarget::Height(self.tip().unwrap().height - 1),
            };
            self.rollback(to).unwrap();
        }
    }
}
