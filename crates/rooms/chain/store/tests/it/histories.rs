//! Random histories on the index and on the reference, whole snapshots compared after every event.

use proptest::{prelude::*, test_runner::TestCaseError};
use unspent_chain::Options;
use unspent_testkit::chain::{Event, World, histories};

use crate::driver::{Store, genesis, small_windows};

/// The disk is compared after every event; asking every question takes longer and is done less often.
const ASK_EVERY: usize = 16;

/// Histories per test in the usual run; `UNSPENT_HISTORIES` raises it for a soak.
fn cases() -> u32 {
    std::env::var("UNSPENT_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

fn agree(options: Options, history: &[Event]) -> Result<(), TestCaseError> {
    let genesis = genesis();
    let network = unspent_model::Network::CardanoPreview;
    let mut store = Store::new(network, options, &genesis);
    let mut world = World::new(store.rules(), &genesis);
    for (n, event) in history.iter().enumerate() {
        let step = world.step(event);
        prop_assert_eq!(store.feed(&step), world.feed(&step), "{:?}", step);
        store.assert_equals(&world);
        if n % ASK_EVERY == 0 {
            store.assert_answers(&world);
        }
    }
    store.reopen();
    store.assert_equals(&world);
    store.assert_answers(&world);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn compact_deltas_agree_with_the_reference(history in histories(200)) {
        agree(small_windows(3, 6), &history)?;
    }

    #[test]
    fn compact_deltas_with_a_deep_prune_agree_with_the_reference(history in histories(200)) {
        agree(small_windows(9, 4), &history)?;
    }

    #[test]
    fn self_contained_deltas_agree_with_the_reference(history in histories(200)) {
        agree(Options { self_contained: true, ..small_windows(2, 8) }, &history)?;
    }

    #[test]
    fn self_contained_deltas_with_a_deep_prune_agree_with_the_reference(
        history in histories(200),
    ) {
        agree(Options { self_contained: true, ..small_windows(7, 5) }, &history)?;
    }
}
