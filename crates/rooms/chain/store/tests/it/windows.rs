//! Rollback at every depth of the window, and one more.

use unspent_chain::{Options, RollbackError, RollbackTarget};
use unspent_model::Network;
use unspent_testkit::chain::{Event, Step, World};

use crate::driver::{Store, bytes, genesis, small_windows};

/// Depths in the usual run; `UNSPENT_DEPTHS` raises it for a soak.
fn depths() -> u64 {
    std::env::var("UNSPENT_DEPTHS").ok().and_then(|n| n.parse().ok()).unwrap_or(64)
}

fn every_depth(self_contained: bool) {
    let window = depths();
    let options = Options { self_contained, ..small_windows(window / 2, window) };
    let mut store = Store::new(Network::CardanoPreview, options, &genesis());
    let mut world = World::new(store.rules(), &store.genesis);
    let mut digests = vec![store.reader().digest().unwrap()];
    let mut blocks = Vec::new();
    for seed in 0..window + 10 {
        let Step::Apply(block) = world.step(&Event::Apply(seed)) else { panic!("a block") };
        world.feed(&Step::Apply(block.clone()));
        store.apply(&block);
        digests.push(store.reader().digest().unwrap());
        blocks.push(block);
    }
    let full = bytes(&store.reader());
    let tip = blocks.len() as u64;
    for depth in 1..=window {
        let kept = usize::try_from(tip - depth).unwrap();
        let point = blocks[kept - 1].header.point;
        let target = RollbackTarget::Point { height: point.height, hash: point.hash };
        assert_eq!(store.index().rollback(target).unwrap().blocks, depth);
        assert_eq!(store.reader().digest().unwrap(), digests[kept], "depth {depth}");
        store.apply_all(&blocks[kept..]);
        assert_eq!(store.reader().digest().unwrap(), digests[blocks.len()]);
    }
    if !self_contained {
        // Self-contained deltas outlive their spent records, which reapplying writes again.
        assert_eq!(bytes(&store.reader()), full);
    }
    let before = bytes(&store.reader());
    let point = blocks[usize::try_from(tip - window).unwrap() - 2].header.point;
    let target = RollbackTarget::Point { height: point.height, hash: point.hash };
    let refused = store.index().rollback(target).unwrap_err();
    assert!(matches!(refused, RollbackError::BelowHorizon { .. }), "{refused}");
    assert_eq!(bytes(&store.reader()), before);
}

#[test]
fn every_depth_of_the_window_rolls_back_exactly_with_compact_deltas() {
    every_depth(false);
}

#[test]
fn every_depth_of_the_window_rolls_back_exactly_with_self_contained_deltas() {
    every_depth(true);
}
