//! Spends: what is known of one, and the pointer that leads to it.
//!
//! The body of a spent coin lies in the undo data of the block that spent it, once. `utxo_spent`
//! has only its place there: the number of the entry among the block's spends, from 0. The block is
//! in the key. Spender, block and body are in the entry, and the entry names its coin, so that a
//! pointer can be held against it.

use unspent_model::{
    Point,
    chain::{Record, SpendingInput},
};

use super::{CodecError, value, whole};

/// A spend, with the body that undoing it restores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpentRecord {
    /// The spending input; `None` when a new era withdrew the coin.
    pub by: Option<SpendingInput>,
    /// The block of the spend.
    pub at: Point,
    /// Unix time of that block, in seconds.
    pub time: u64,
    /// Epoch of that block; `None` on Bitcoin.
    pub epoch: Option<u64>,
    /// The coin as it was.
    pub record: Record,
}

/// The value that leads to a spend: its number among those of its block.
pub fn encode_pointer(number: u32) -> Vec<u8> {
    value(6, |to| {
        to.u32(number)?;
        Ok(())
    })
}

/// Reads a pointer back.
///
/// # Errors
///
/// When the bytes are not the canonical form of a pointer.
pub fn decode_pointer(bytes: &[u8]) -> Result<u32, CodecError> {
    whole(bytes, |from| from.u32())
}
