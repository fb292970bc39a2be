//! The blocks that one room has read and another hasn't.
//!
//! Rooms go the same way at nearly the same pace. Whoever is ahead reads a block from the source
//! and leaves it here; those behind ask for the child of their place before they ask the source.
//! A block goes when every room has taken it, so the cache holds just the way between the first
//! and the last of them. When that gets longer than the cache may be, the oldest blocks go and the
//! last room reads for itself until it has come nearer: nobody waits for it.
//!
//! Invariant: bounded in blocks and in bytes. A block on a branch that was left is harmless: the
//! source tells whoever took it to go back.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use unspent_model::{BlockHash, Point};
use unspent_source::{RawBlock, wakeup::lock};

use super::block::SharedBlock;

struct CachedBlock {
    block: Arc<SharedBlock>,
    /// Rooms that have taken it.
    taken: usize,
}

#[derive(Default)]
struct CachedBlocks {
    /// In the order in which they were read.
    entries: VecDeque<CachedBlock>,
    bytes: usize,
}

impl CachedBlocks {
    fn remove(&mut self, at: usize) {
        if let Some(gone) = self.entries.remove(at) {
            self.bytes = self.bytes.saturating_sub(gone.block.bytes.len());
        }
    }

    fn position(&self, wanted: impl Fn(&SharedBlock) -> bool) -> Option<usize> {
        self.entries.iter().position(|entry| wanted(&entry.block))
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) {
        metrics::gauge!("unspent_engine_cache_blocks").set(self.entries.len() as f64);
        metrics::gauge!("unspent_engine_cache_bytes").set(self.bytes as f64);
    }
}

/// How much is kept at most.
#[derive(Clone, Copy)]
pub(crate) struct CacheLimits {
    pub(crate) blocks: usize,
    pub(crate) bytes: usize,
}

/// The blocks on the way between the rooms.
pub(crate) struct BlockCache {
    limits: CacheLimits,
    /// Rooms on the road.
    rooms: AtomicUsize,
    kept: Mutex<CachedBlocks>,
}

impl BlockCache {
    pub(crate) fn new(limits: CacheLimits) -> Self {
        let (rooms, kept) = (AtomicUsize::new(0), Mutex::default());
        Self { limits, rooms, kept }
    }

    /// A room is on the road, until it drops this. One that is stopped, or has nothing to follow
    /// for, must not keep blocks in memory.
    pub(super) fn join(&self) -> Joined<'_> {
        self.rooms.fetch_add(1, Ordering::AcqRel);
        Joined(self)
    }

    fn part(&self) {
        let rooms = self.rooms.fetch_sub(1, Ordering::AcqRel).saturating_sub(1);
        let mut kept = lock(&self.kept);
        // Who took a block isn't noted, only how many: with one room less a block may go too early.
        // That costs a room one reading of its own, which is less than a list for each block.
        while let Some(at) = kept.entries.iter().position(|entry| entry.taken >= rooms) {
            kept.remove(at);
        }
        kept.measure();
    }

    fn rooms(&self) -> usize {
        self.rooms.load(Ordering::Acquire)
    }

    /// A block that another room has read, by the block below it.
    pub(super) fn child_of(&self, parent: Option<BlockHash>) -> Option<Arc<SharedBlock>> {
        let kept = lock(&self.kept);
        let at = kept.position(|block| block.parent == parent)?;
        kept.entries.get(at).map(|entry| entry.block.clone())
    }

    /// One more room has taken a block.
    pub(super) fn taken(&self, point: Point) {
        let mut kept = lock(&self.kept);
        if let Some(at) = kept.position(|block| block.point == point) {
            self.take(&mut kept, at);
        }
    }

    fn take(&self, kept: &mut CachedBlocks, at: usize) {
        let Some(entry) = kept.entries.get_mut(at) else { return };
        entry.taken += 1;
        if entry.taken >= self.rooms() {
            kept.remove(at);
        }
        kept.measure();
    }

    /// The shared form of a block that a room has just read.
    pub(super) fn share(&self, raw: RawBlock) -> Arc<SharedBlock> {
        if self.rooms() < 2 {
            return Arc::new(SharedBlock::new(raw));
        }
        let mut kept = lock(&self.kept);
        if let Some(at) = kept.position(|block| block.point == raw.point)
            && let Some(block) = kept.entries.get(at).map(|entry| entry.block.clone())
        {
            // Its source had the bytes already; decoding is still done once.
            self.take(&mut kept, at);
            return block;
        }
        // Cheap enough under the lock: it is parsed later, by whoever needs that first.
        let block = Arc::new(SharedBlock::shared(raw));
        let newest = kept.entries.back().map(|entry| entry.block.point.height);
        let size = block.bytes.len();
        // A room far behind would only push out what the others are about to take.
        let is_behind = newest.is_some_and(|newest| block.point.height < newest);
        if size > self.limits.bytes || is_behind {
            return block;
        }
        kept.entries.push_back(CachedBlock { block: block.clone(), taken: 1 });
        kept.bytes += size;
        while kept.entries.len() > self.limits.blocks || kept.bytes > self.limits.bytes {
            kept.remove(0);
        }
        kept.measure();
        block
    }

    /// Drops a block that turned out to be damaged, so that the next reader brings its own bytes.
    pub(super) fn forget(&self, point: Point) {
        let mut kept = lock(&self.kept);
        while let Some(at) = kept.position(|block| block.point == point) {
            kept.remove(at);
        }
        kept.measure();
    }

    /// Drops what a branch that was left had above a point.
    pub(super) fn leave(&self, to: Option<Point>) {
        let above = to.map_or(0, |to| to.height.saturating_add(1));
        let mut kept = lock(&self.kept);
        while let Some(at) = kept.position(|block| block.point.height >= above) {
            kept.remove(at);
        }
        kept.measure();
    }
}

/// A room's place among those that share.
pub(super) struct Joined<'a>(&'a BlockCache);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.0.part();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(height: u64) -> BlockHash {
        BlockHash([u8::try_from(height).unwrap(); 32])
    }

    fn raw(height: u64, size: usize) -> RawBlock {
        let point = Point { height, slot: height, hash: hash(height) };
        let parent = height.checked_sub(1).map(hash);
        RawBlock { point, parent, bytes: vec![0; size].into(), place: None }
    }

    fn cache(rooms: usize) -> BlockCache {
        let cache = BlockCache::new(CacheLimits { blocks: 3, bytes: 100 });
        // They stay for the test.
        (0..rooms).for_each(|_| std::mem::forget(cache.join()));
        cache
    }

    #[test]
    fn a_block_is_read_once_and_goes_when_all_rooms_have_it() {
        let cache = cache(2);
        let first = cache.share(raw(1, 10));
        let second = cache.child_of(Some(hash(0))).unwrap();
        assert!(Arc::ptr_eq(&first, &second), "the second room shares");
        cache.taken(second.point);
        assert!(cache.child_of(Some(hash(0))).is_none(), "nobody else needs it");
        assert_eq!(lock(&cache.kept).bytes, 0);
    }

    #[test]
    fn who_leaves_the_road_keeps_nothing_in_memory() {
        let cache = cache(1);
        let other = cache.join();
        cache.share(raw(1, 10));
        assert_eq!(lock(&cache.kept).bytes, 10);
        drop(other);
        assert_eq!(lock(&cache.kept).bytes, 0);
    }

    #[test]
    fn a_room_alone_keeps_nothing() {
        let cache = cache(1);
        cache.share(raw(1, 10));
        assert!(lock(&cache.kept).entries.is_empty());
    }

    #[test]
    fn it_is_bounded_in_blocks_and_bytes() {
        let cache = cache(2);
        for height in 1..=4 {
            cache.share(raw(height, 10));
        }
        assert!(cache.child_of(Some(hash(0))).is_none(), "the oldest went");
        cache.share(raw(5, 95));
        assert_eq!(lock(&cache.kept).entries.len(), 1, "bytes count too");
        cache.share(raw(6, 101));
        assert_eq!(lock(&cache.kept).bytes, 95, "one that is too large isn't kept");
    }

    #[test]
    fn who_is_far_behind_pushes_nothing_out() {
        let cache = cache(2);
        (10..13).for_each(|height| drop(cache.share(raw(height, 10))));
        (1..9).for_each(|height| drop(cache.share(raw(height, 10))));
        assert!(cache.child_of(Some(hash(9))).is_some());
    }

    #[test]
    fn a_branch_that_was_left_goes() {
        let cache = cache(2);
        (1..4).for_each(|height| drop(cache.share(raw(height, 10))));
        cache.leave(Some(Point { height: 1, slot: 1, hash: hash(1) }));
        assert!(cache.child_of(Some(hash(1))).is_none());
        assert!(cache.child_of(Some(hash(0))).is_some());
    }

    #[test]
    fn a_damaged_block_is_said_to_be() {
        assert!(SharedBlock::new(raw(1, 10)).bitcoin().is_err());
    }
}
