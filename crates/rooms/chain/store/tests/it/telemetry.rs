//! What an operator's recorder is told.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use unspent_chain::{Owner, PageOrder, RollbackTarget};
use unspent_model::Family;
use unspent_testkit::chain::{Event, World, coin_of};

use crate::driver::{Store, small_windows};

#[test]
fn counters_gauges_and_timers_follow_what_happens() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let mut store = Store::cardano(small_windows(4, 4));
        let mut world = World::new(store.rules(), &[]);
        for seed in 0..12 {
            let step = world.step(&Event::Apply(seed));
            assert_eq!(store.feed(&step), world.feed(&step));
        }
        let reader = store.reader();
        reader.balance(Owner::address(Family::Cardano, &coin_of(0, 0).addr)).unwrap();
        reader
            .page(
                Owner::address(Family::Cardano, &coin_of(0, 0).addr),
                PageOrder::Ascending,
                5,
                None,
            )
            .unwrap();
        let height = store.index().tip().unwrap().height;
        store.index().rollback(RollbackTarget::Height(height - 2)).unwrap();
    });
    let mut counters = std::collections::BTreeMap::new();
    let mut others = std::collections::BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let name = key.key().name().to_owned();
        match value {
            DebugValue::Counter(count) => counters.insert(name, count).map(|_| ()),
            DebugValue::Gauge(gauge) => others.insert(name, gauge.into_inner()).map(|_| ()),
            DebugValue::Histogram(times) => others.insert(name, times.len() as f64).map(|_| ()),
        };
    }
    for name in ["created", "spent", "missing_inputs", "pruned", "rollback_reversals"] {
        let name = format!("unspent_chain_{name}_total");
        assert!(counters[&name] > 0, "{name}: {counters:?}");
    }
    assert_eq!(counters["unspent_chain_rolled_back_blocks_total"], 2);
    assert_eq!(others["unspent_chain_apply_seconds"], 12.0);
    assert_eq!(others["unspent_chain_rollback_seconds"], 1.0);
    assert!(others["unspent_chain_prune_seconds"] >= 8.0);
    // One for the balance that was asked for; the others where blocks paid to somebody.
    assert!(others["unspent_chain_coins_per_address"] > 6.0, "{others:?}");
    assert!(others["unspent_chain_unspent_coins"] > 0.0);
    assert!(others["unspent_chain_tip_height"] > 0.0);
}
