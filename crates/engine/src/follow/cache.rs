//! A few blocks that the rooms share.
//!
//! Rooms near the tip read the same block within moments of each other. Whoever comes second finds
//! the bytes and, where it is a Bitcoin block, the decoded transactions of the first. In bulk every
//! room reads for itself: blocks would leave the cache before the other room came by.
//!
//! Invariant: bounded in blocks and in bytes; a block that is larger than all of it isn't kept.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock},
};

use bitcoin::consensus::encode;
use unspent_model::Point;

use crate::{pulse::hold, source::RawBlock};

/// A block with what has been decoded of it.
#[derive(Debug)]
pub(crate) struct SharedBlock {
    pub(crate) point: Point,
    pub(crate) bytes: Arc<[u8]>,
    bitcoin: OnceLock<Result<bitcoin::Block, String>>,
}

impl SharedBlock {
    pub(crate) fn new(raw: RawBlock) -> Self {
        let RawBlock { point, bytes, .. } = raw;
        Self { point, bytes, bitcoin: OnceLock::new() }
    }

    /// The block as Bitcoin has it, with its transactions checked against its header.
    pub(crate) fn bitcoin(&self) -> Result<&bitcoin::Block, String> {
        self.bitcoin.get_or_init(|| decode(&self.bytes)).as_ref().map_err(Clone::clone)
    }
}

fn decode(bytes: &[u8]) -> Result<bitcoin::Block, String> {
    let block: bitcoin::Block = encode::deserialize(bytes).map_err(|error| error.to_string())?;
    if block.check_merkle_root() {
        Ok(block)
    } else {
        Err("the transactions don't match the header's merkle root".into())
    }
}

#[derive(Default)]
struct Kept {
    blocks: VecDeque<Arc<SharedBlock>>,
    bytes: usize,
}

impl Kept {
    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) {
        metrics::gauge!("unspent_engine_cache_blocks").set(self.blocks.len() as f64);
        metrics::gauge!("unspent_engine_cache_bytes").set(self.bytes as f64);
    }
}

/// The blocks last read by anybody.
pub(crate) struct BlockCache {
    most_blocks: usize,
    most_bytes: usize,
    kept: Mutex<Kept>,
}

impl BlockCache {
    pub(crate) fn new(most_blocks: usize, most_bytes: usize) -> Self {
        Self { most_blocks, most_bytes, kept: Mutex::default() }
    }

    /// The shared form of a block that was just read.
    pub(crate) fn share(&self, raw: RawBlock) -> Arc<SharedBlock> {
        let mut kept = hold(&self.kept);
        if let Some(found) = kept.blocks.iter().find(|block| block.point == raw.point) {
            return found.clone();
        }
        let block = Arc::new(SharedBlock::new(raw));
        if block.bytes.len() > self.most_bytes {
            return block;
        }
        kept.bytes += block.bytes.len();
        kept.blocks.push_back(block.clone());
        while kept.blocks.len() > self.most_blocks || kept.bytes > self.most_bytes {
            let Some(gone) = kept.blocks.pop_front() else { break };
            kept.bytes = kept.bytes.saturating_sub(gone.bytes.len());
        }
        kept.measure();
        block
    }

    /// Drops a block that turned out to be damaged, so that the next reader brings its own bytes.
    pub(crate) fn forget(&self, point: Point) {
        let mut kept = hold(&self.kept);
        kept.blocks.retain(|block| block.point != point);
        kept.bytes = kept.blocks.iter().map(|block| block.bytes.len()).sum();
        kept.measure();
    }
}

#[cfg(test)]
mod tests {
    use unspent_model::BlockHash;

    use super::*;

    fn raw(height: u64, size: usize) -> RawBlock {
        let hash = BlockHash([u8::try_from(height).unwrap(); 32]);
        let point = Point { height, slot: height, hash };
        RawBlock { point, parent: None, bytes: vec![0; size].into() }
    }

    #[test]
    fn it_is_bounded_in_blocks_and_bytes() {
        let cache = BlockCache::new(3, 100);
        let first = cache.share(raw(1, 10));
        assert!(Arc::ptr_eq(&first, &cache.share(raw(1, 10))), "the second reader shares");
        for height in 2..=4 {
            cache.share(raw(height, 10));
        }
        assert!(!Arc::ptr_eq(&first, &cache.share(raw(1, 10))), "the oldest went");
        cache.share(raw(5, 95));
        assert_eq!(hold(&cache.kept).blocks.len(), 1, "bytes count too");
        cache.share(raw(6, 101));
        assert_eq!(hold(&cache.kept).bytes, 95, "one that is too large isn't kept");
    }

    #[test]
    fn a_damaged_block_is_said_to_be() {
        assert!(SharedBlock::new(raw(1, 10)).bitcoin().is_err());
    }
}
