//! A decoded block at its height.

use std::sync::Arc;

use bitcoin::{Block, Txid, hashes::Hash as _};
use unspent_model::{BlockHash, Point};

use crate::batch::BlockRef;

/// A block with its place in the chain: a handle that is cheap to clone, whatever the block's size.
///
/// Hash and names come along because whoever decoded the block has worked them out to check it.
#[derive(Clone, Debug)]
pub struct PlacedBlock {
    /// Blocks between it and genesis.
    pub height: u64,
    /// The hash of its header.
    pub hash: BlockHash,
    /// The block itself, shared with every other room.
    pub block: Arc<Block>,
    /// The names of its transactions, in their order.
    pub txids: Arc<[Txid]>,
}

impl PlacedBlock {
    /// A block whose hash and names are known.
    pub fn new(height: u64, block: Arc<Block>, hash: BlockHash, txids: Arc<[Txid]>) -> Self {
        Self { height, hash, block, txids }
    }

    /// A block whose hash and names are worked out here.
    pub fn of(height: u64, block: Block) -> Self {
        let hash = BlockHash(block.block_hash().to_byte_array());
        let txids = block.txdata.iter().map(bitcoin::Transaction::compute_txid).collect();
        Self::new(height, Arc::new(block), hash, txids)
    }

    /// What a wallet keeps of it.
    pub fn reference(&self) -> BlockRef {
        BlockRef { height: self.height, hash: self.hash, time: self.block.header.time }
    }

    /// Where it stands.
    pub fn point(&self) -> Point {
        Point::at_height(self.height, self.hash)
    }

    pub(crate) fn parent_place(&self) -> Option<Point> {
        self.height.checked_sub(1).map(|height| Point::at_height(height, self.parent()))
    }

    pub(crate) fn parent(&self) -> BlockHash {
        BlockHash(self.block.header.prev_blockhash.to_byte_array())
    }
}
