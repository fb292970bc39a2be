//! `SpentRecord`: who spent a coin, where, and what it held.
//!
//! | key | field | key | field |
//! |---|---|---|---|
//! | 0 | spender (absent when a new era withdrew the coin) | 4 | block time |
//! | 1 | slot | 5 | epoch |
//! | 2 | block number | 6 | the record before the spend |
//! | 3 | block hash | 7 | spender's position in the block |
//! | | | 8 | position of the input in the spender |
//!
//! 7 and 8 are there when the spender is: a list of transactions by address is in chain order, and
//! undoing its entries must not need the block.

use unspent_model::{
    BlockHash, Point, TxId,
    chain::{Header, Record, SpendingInput},
};

use super::{CodecError, record, value, whole};

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

/// The value for a spend by `by` in the block with `header`; `body` is the coin's encoded record.
pub fn encode_spent(by: Option<SpendingInput>, header: &Header, body: &[u8]) -> Vec<u8> {
    let fields = 5 + 3 * u64::from(by.is_some()) + u64::from(header.epoch.is_some());
    value(body.len() + 120, |to| {
        to.map(fields)?;
        if let Some(by) = by {
            to.u8(0)?.bytes(&by.tx.0)?;
        }
        to.u8(1)?.u64(header.point.slot)?.u8(2)?.u64(header.point.height)?;
        to.u8(3)?.bytes(&header.point.hash.0)?.u8(4)?.u64(header.time)?;
        if let Some(epoch) = header.epoch {
            to.u8(5)?.u64(epoch)?;
        }
        to.u8(6)?;
        to.writer_mut().extend_from_slice(body);
        if let Some(by) = by {
            to.u8(7)?.u32(by.position)?.u8(8)?.u32(by.input)?;
        }
        Ok(())
    })
}

/// Reads a spend back.
///
/// # Errors
///
/// When the bytes are not the canonical form of a spend.
pub fn decode_spent(bytes: &[u8]) -> Result<SpentRecord, CodecError> {
    whole(bytes, |from| {
        let (mut by, mut epoch, mut time) = (None, None, None);
        let (mut slot, mut height, mut hash, mut body) = (None, None, None, None);
        let (mut position, mut input) = (None, None);
        from.fields(|from, key| {
            match key {
                0 => by = Some(TxId(from.array_of()?)),
                1 => slot = Some(from.u64()?),
                2 => height = Some(from.u64()?),
                3 => hash = Some(BlockHash(from.array_of()?)),
                4 => time = Some(from.u64()?),
                5 => epoch = Some(from.u64()?),
                6 => body = Some(record::read(from)?),
                7 => position = Some(from.u32()?),
                8 => input = Some(from.u32()?),
                _ => return Err(from.error("unknown field of a spend")),
            }
            Ok(())
        })?;
        let by = spender(by, position, input);
        let by = by.ok_or_else(|| from.error("spend names half a spender"))?;
        match (slot, height, hash, time, body) {
            (Some(slot), Some(height), Some(hash), Some(time), Some(record)) => {
                Ok(SpentRecord { by, at: Point { height, slot, hash }, time, epoch, record })
            }
            _ => Err(from.error("spend lacks a required field")),
        }
    })
}

/// All parts of a spender or none.
pub(super) fn spender(
    tx: Option<TxId>,
    position: Option<u32>,
    input: Option<u32>,
) -> Option<Option<SpendingInput>> {
    match (tx, position, input) {
        (Some(tx), Some(position), Some(input)) => {
            Some(Some(SpendingInput { tx, position, input }))
        }
        (None, None, None) => Some(None),
        _ => None,
    }
}
