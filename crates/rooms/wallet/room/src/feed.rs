//! Handing blocks to the wallets, as many at once as one transaction should hold.

use unspent_engine::{clock, road::Trouble};
use unspent_wallet::{WalletStore, placed_block::PlacedBlock};

use crate::trouble::trouble;

/// Blocks of one database transaction at most, and their bytes.
pub(super) const BLOCKS_AT_ONCE: usize = 500;
pub(super) const BYTES_AT_ONCE: usize = 32 << 20;

/// What came of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Blocks that went in, once for each time they were read.
    pub blocks: u64,
    /// Transactions stored for the first time.
    pub txs: usize,
    /// Coins stored for the first time.
    pub coins: usize,
}

/// A block with its size.
pub struct SizedBlock {
    pub(super) placed: PlacedBlock,
    pub(super) bytes: usize,
}

/// Hands blocks to the room, in one transaction.
pub(super) fn feed(
    wallets: &WalletStore,
    blocks: Vec<PlacedBlock>,
    found: &mut ScanCounts,
) -> Result<(), Trouble> {
    if blocks.is_empty() {
        return Ok(());
    }
    found.blocks += blocks.len() as u64;
    let applied = wallets.apply_blocks(blocks, clock::now()).map_err(trouble)?;
    found.txs += applied.recorded.new_txs;
    found.coins += applied.recorded.new_coins;
    Ok(())
}

/// Cuts blocks into pieces that fit into one transaction each.
pub(super) fn pieces(blocks: Vec<SizedBlock>) -> Vec<Vec<PlacedBlock>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for block in blocks {
        bytes += block.bytes;
        piece.push(block.placed);
        // Counted with the block in it: one that is larger than the limit has to go in as well.
        if piece.len() >= BLOCKS_AT_ONCE || bytes >= BYTES_AT_ONCE {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}
