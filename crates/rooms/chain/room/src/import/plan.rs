//! What an import is going to do, decided before anything is written.

use unspent_chain::{Reader, RollbackTarget, codec::StoredPoint};
use unspent_model::BlockHash;
use unspent_source::files::catalogue::PassedOver;

use super::source::Blocks;

/// What an import is going to do.
pub(crate) struct Plan {
    /// The blocks, in the order of the chain.
    pub(crate) blocks: Blocks,
    /// How many of them are new. Never too many: undo data is left out by this number.
    pub(crate) coming: u64,
    /// A better branch: roll back first.
    pub(crate) fork: Option<Fork>,
    /// What is left out, for the summary.
    pub(crate) left_out: LeftOut,
    /// Places in the files without a whole block.
    pub(crate) passed_over: Vec<PassedOver>,
}

/// A change of branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fork {
    /// The last common block.
    pub(crate) target: RollbackTarget,
    /// Its height; `None` for the origin.
    pub(crate) height: Option<u64>,
    /// Blocks that stand above it now.
    pub(crate) undoes: u64,
}

/// Blocks of the files that aren't applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeftOut {
    /// On the stored chain already.
    pub(crate) known: u64,
    /// On a branch with less work.
    pub(crate) stale: u64,
    /// Their parents are unknown.
    pub(crate) unconnected: u64,
}

/// The chain as it is stored, for choosing what follows.
pub(crate) struct Stored {
    reader: Option<Reader>,
    /// The last block that the index has seen.
    pub(crate) tip: Option<StoredPoint>,
}

impl Stored {
    /// A folder that does not exist yet.
    pub(crate) fn nothing() -> Self {
        Self { reader: None, tip: None }
    }

    /// What `reader` sees.
    pub(crate) fn seen_by(reader: Reader) -> anyhow::Result<Self> {
        let cursor = reader.status()?.cursor;
        let tip = match cursor.point() {
            Some(point) => reader.block_by_hash(&point.hash)?,
            None => None,
        };
        Ok(Self { reader: Some(reader), tip })
    }

    /// The block with this hash, if the index has applied it.
    pub(crate) fn find(&self, hash: &BlockHash) -> anyhow::Result<Option<StoredPoint>> {
        let (Some(reader), Some(tip)) = (&self.reader, &self.tip) else { return Ok(None) };
        let found = reader.block_by_hash(hash)?;
        Ok(found.filter(|found| found.point.height <= tip.point.height))
    }

    /// Height of the last block.
    pub(crate) fn height(&self) -> Option<u64> {
        self.tip.map(|tip| tip.point.height)
    }
}
