//! How pointers to forgotten spends leave the disk: compactions drop them.
//!
//! A block's spends lie all over `utxo_spent`, because people ask by coin; no range of keys covers
//! them, and deleting them one by one costs as much as writing them did. But their keys end with
//! the block, so whether one is below the floor needs nothing but the key, and RocksDB looks at
//! every key when it merges files anyway. Until then a dead pointer lies about, and whoever reads
//! compares with the floor.
//!
//! Two things could go wrong. A compaction doesn't heed snapshots: a view of an older moment, whose
//! floor was lower, would miss pointers. So views are counted by the floor at their making, and
//! compactions stay below the lowest. And a floor that isn't on disk yet could be lost with the
//! machine, while the pointers are gone: only a synced floor counts.
//!
//! Invariant: compactions drop pointers only up to a floor that is on disk and that every living
//! view has passed.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rocksdb::{
    CompactionDecision as Decision,
    compaction_filter::CompactionFilter,
    compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory},
};

use crate::schema::SpentKey;

/// Up to which block spends are forgotten, as compactions and views see it.
#[derive(Default)]
pub(crate) struct SpendsFloor {
    known: Mutex<FloorState>,
    /// What compactions that start now may drop.
    droppable: AtomicU64,
}

#[derive(Default)]
struct FloorState {
    /// The floor on disk.
    floor: u64,
    /// How many views were made at which floor.
    views: BTreeMap<u64, usize>,
}

impl SpendsFloor {
    /// The floor on disk is now this. It falls in a rollback.
    pub(crate) fn set(&self, floor: u64) {
        let mut known = self.lock();
        known.floor = floor;
        // A rollback can take the floor below that of a living view: the lower one counts.
        let lowest = known.views.keys().next().copied().unwrap_or(floor);
        self.droppable.store(lowest.min(floor), Ordering::SeqCst);
    }

    /// Keeps compactions from what a view made after this sees.
    pub(crate) fn hold(self: &Arc<Self>) -> FloorGuard {
        let mut known = self.lock();
        let floor = known.floor;
        *known.views.entry(floor).or_default() += 1;
        FloorGuard { forgotten: self.clone(), floor }
    }

    fn lock(&self) -> MutexGuard<'_, FloorState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A view's hold; ends with it.
pub(crate) struct FloorGuard {
    forgotten: Arc<SpendsFloor>,
    floor: u64,
}

impl Drop for FloorGuard {
    fn drop(&mut self) {
        let mut known = self.forgotten.lock();
        if let Some(views) = known.views.get_mut(&self.floor) {
            *views -= 1;
            if *views == 0 {
                // What compactions may drop rises with the next block: too low is never wrong.
                known.views.remove(&self.floor);
            }
        }
    }
}

/// Makes a filter for each compaction.
pub(crate) struct PointerFilters(pub(crate) Arc<SpendsFloor>);

const NAME: &CStr = c"forgotten spends";

impl CompactionFilterFactory for PointerFilters {
    type Filter = PointerFilter;

    fn create(&mut self, _: CompactionFilterContext) -> PointerFilter {
        PointerFilter { up_to: self.0.droppable.load(Ordering::SeqCst) }
    }

    fn name(&self) -> &CStr {
        NAME
    }
}

/// Drops pointers to spends up to a block.
pub(crate) struct PointerFilter {
    up_to: u64,
}

impl CompactionFilter for PointerFilter {
    fn filter(&mut self, _: u32, key: &[u8], _: &[u8]) -> Decision {
        match SpentKey::decode(key) {
            Ok(key) if key.ordinal <= self.up_to => Decision::Remove,
            // A malformed key is `verify`'s to name.
            Ok(_) | Err(_) => Decision::Keep,
        }
    }

    fn name(&self) -> &CStr {
        NAME
    }
}
