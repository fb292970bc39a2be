//! `UtxoRecord`: all that is known of a coin.
//!
//! | key | field | key | field |
//! |---|---|---|---|
//! | 0 | addr | 9 | block number |
//! | 1 | value | 10 | block hash |
//! | 2 | assets `[policy, name, quantity]` | 11 | epoch |
//! | 3 | datum hash | 12 | block time |
//! | 4 | inline datum | 13 | owner payment credential |
//! | 5 | script ref | 14 | owner stake credential |
//! | 6 | reference script hash | 15 | owner stake address |
//! | 7 | is collateral return | 16 | is coinbase (ours) |
//! | 8 | slot | 17 | transaction position (ours) |

use unspent_model::{
    BlockHash,
    chain::{Asset, Born, Output, Record},
};

use super::{CodecError, StrictDecoder, Written};
use minicbor::Encoder;

/// A typical record without assets fits without growing the buffer.
const USUAL_LENGTH: usize = 160;

/// The record in canonical CBOR, without the version byte.
pub fn encode_record(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_LENGTH);
    append_record(record, &mut bytes);
    bytes
}

/// Appends the record to a buffer that may be used again.
pub(crate) fn append_record(record: &Record, to: &mut Vec<u8>) {
    super::infallible(write(record, &mut Encoder::new(to)));
}

/// Reads a record back from what [`encode_record`] wrote.
///
/// # Errors
///
/// When the bytes are not the canonical form of a record.
pub fn decode_record(bytes: &[u8]) -> Result<Record, CodecError> {
    let mut strict = StrictDecoder::new(bytes);
    let record = read(&mut strict)?;
    strict.end()?;
    Ok(record)
}

fn field_count(record: &Record) -> u64 {
    let Record { output, born } = record;
    let optional = [
        !output.assets.is_empty(),
        output.data_hash.is_some(),
        output.inline_datum.is_some(),
        output.script_ref.is_some(),
        output.reference_script_hash.is_some(),
        output.is_collateral_return,
        born.epoch.is_some(),
        output.payment_credential.is_some(),
        output.stake_credential.is_some(),
        output.stake_addr.is_some(),
        output.is_coinbase,
    ];
    // addr, value, slot, block number, block hash, block time, transaction position
    7 + optional.into_iter().map(u64::from).sum::<u64>()
}

fn write(record: &Record, to: &mut super::Writer<'_>) -> Written {
    let Record { output, born } = record;
    to.map(field_count(record))?.u8(0)?.bytes(&output.addr)?.u8(1)?.u64(output.value)?;
    if !output.assets.is_empty() {
        to.u8(2)?.array(output.assets.len() as u64)?;
        for Asset { policy, name, quantity } in &output.assets {
            to.array(3)?.bytes(policy)?.bytes(name)?.u64(*quantity)?;
        }
    }
    optional(to, 3, output.data_hash.as_ref().map(|hash| hash.as_slice()))?;
    optional(to, 4, output.inline_datum.as_deref())?;
    optional(to, 5, output.script_ref.as_deref())?;
    optional(to, 6, output.reference_script_hash.as_ref().map(|hash| hash.as_slice()))?;
    if output.is_collateral_return {
        to.u8(7)?.bool(true)?;
    }
    to.u8(8)?.u64(born.slot)?.u8(9)?.u64(born.block_number)?;
    to.u8(10)?.bytes(&born.block_hash.0)?;
    if let Some(epoch) = born.epoch {
        to.u8(11)?.u64(epoch)?;
    }
    to.u8(12)?.u64(born.block_time)?;
    optional(to, 13, output.payment_credential.as_ref().map(|hash| hash.as_slice()))?;
    optional(to, 14, output.stake_credential.as_ref().map(|hash| hash.as_slice()))?;
    optional(to, 15, output.stake_addr.as_deref())?;
    if output.is_coinbase {
        to.u8(16)?.bool(true)?;
    }
    to.u8(17)?.u32(born.tx_position)?;
    Ok(())
}

fn optional(to: &mut super::Writer<'_>, key: u8, bytes: Option<&[u8]>) -> Written {
    if let Some(bytes) = bytes {
        to.u8(key)?.bytes(bytes)?;
    }
    Ok(())
}

/// Fields that every record has; the mask has one bit per key.
const REQUIRED: u32 = 1 | 1 << 1 | REQUIRED_OF_BLOCK | 1 << 17;
/// Those of them that are its block's.
const REQUIRED_OF_BLOCK: u32 = 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12;
/// All fields that are its block's.
const OF_BLOCK: u32 = REQUIRED_OF_BLOCK | 1 << 11;
/// The first field of the block, and the first behind them.
const BLOCK_KEYS: std::ops::Range<u64> = 8..13;

const NOWHERE: Born = Born {
    slot: 0,
    block_number: 0,
    block_hash: BlockHash([0; 32]),
    epoch: None,
    block_time: 0,
    tx_position: 0,
};

/// An encoded record in two: the fields of its block, which many coins share, and the others.
pub(super) struct SplitRecord<'b> {
    /// Fields 8 to 12.
    pub(super) of_block: &'b [u8],
    /// How many those are.
    pub(super) block_fields: u64,
    before: &'b [u8],
    after: &'b [u8],
    fields: u64,
}

/// Takes an encoded record apart.
pub(super) fn apart(record: &[u8]) -> Result<SplitRecord<'_>, CodecError> {
    let mut from = StrictDecoder::new(record);
    let count = from.map()?;
    let first = from.position();
    let (mut start, mut end, mut block_fields) = (None, None, 0);
    for _ in 0..count {
        let at = from.position();
        let key = from.u64()?;
        if BLOCK_KEYS.contains(&key) {
            start.get_or_insert(at);
            block_fields += 1;
        } else if key >= BLOCK_KEYS.end {
            end = Some(at);
            break;
        }
        from.skip()?;
    }
    let (Some(start), Some(end)) = (start, end) else {
        return Err(from.error("record lacks a required field"));
    };
    let part = |range: std::ops::Range<usize>| record.get(range).unwrap_or_default();
    Ok(SplitRecord {
        of_block: part(start..end),
        block_fields,
        before: part(first..start),
        after: part(end..record.len()),
        fields: count - block_fields,
    })
}

impl SplitRecord<'_> {
    /// The record without its block's fields: canonical, and read back by [`read_apart`].
    pub(super) fn write_rest(&self, to: &mut super::Writer<'_>) -> Written {
        to.map(self.fields)?;
        to.writer_mut().extend_from_slice(self.before);
        to.writer_mut().extend_from_slice(self.after);
        Ok(())
    }

    /// The fields of the block as a map of their own, read back by [`read_block`].
    pub(super) fn write_block(&self, to: &mut super::Writer<'_>) -> Written {
        to.map(self.block_fields)?;
        to.writer_mut().extend_from_slice(self.of_block);
        Ok(())
    }
}

/// Reads a record that may be followed by more.
pub(super) fn read(from: &mut StrictDecoder<'_>) -> Result<Record, CodecError> {
    read_fields(from, NOWHERE, 0)
}

/// Reads a record whose block's fields stand elsewhere.
pub(super) fn read_apart(from: &mut StrictDecoder<'_>, block: &Born) -> Result<Record, CodecError> {
    read_fields(from, *block, OF_BLOCK)
}

/// Reads the fields of a block; the position stays 0.
pub(super) fn read_block(from: &mut StrictDecoder<'_>) -> Result<Born, CodecError> {
    let (mut born, mut seen) = (NOWHERE, 0_u32);
    from.fields(|from, key| {
        match key {
            8 => born.slot = from.u64()?,
            9 => born.block_number = from.u64()?,
            10 => born.block_hash = BlockHash(from.array_of()?),
            11 => born.epoch = Some(from.u64()?),
            12 => born.block_time = from.u64()?,
            _ => return Err(from.error("unknown field of a coin's block")),
        }
        seen |= 1 << key;
        Ok(())
    })?;
    if seen & REQUIRED_OF_BLOCK != REQUIRED_OF_BLOCK {
        return Err(from.error("a coin's block lacks a required field"));
    }
    Ok(born)
}

/// Reads the fields that `known` (one bit per key) doesn't have yet.
fn read_fields(
    from: &mut StrictDecoder<'_>,
    mut born: Born,
    known: u32,
) -> Result<Record, CodecError> {
    let mut output = Output::default();
    let mut seen = known;
    from.fields(|from, key| {
        match key {
            0 => output.addr = from.bytes()?.to_vec(),
            1 => output.value = from.u64()?,
            2 => output.assets = assets(from)?,
            3 => output.data_hash = Some(from.array_of()?),
            4 => output.inline_datum = Some(from.bytes()?.to_vec()),
            5 => output.script_ref = Some(from.bytes()?.to_vec()),
            6 => output.reference_script_hash = Some(from.array_of()?),
            7 => output.is_collateral_return = from.set_flag()?,
            8 => born.slot = from.u64()?,
            9 => born.block_number = from.u64()?,
            10 => born.block_hash = BlockHash(from.array_of()?),
            11 => born.epoch = Some(from.u64()?),
            12 => born.block_time = from.u64()?,
            13 => output.payment_credential = Some(from.array_of()?),
            14 => output.stake_credential = Some(from.array_of()?),
            15 => output.stake_addr = Some(from.bytes()?.to_vec()),
            16 => output.is_coinbase = from.set_flag()?,
            17 => born.tx_position = from.u32()?,
            _ => return Err(from.error("unknown field of a record")),
        }
        if known & 1 << key != 0 {
            return Err(from.error("a field of the block among the others"));
        }
        seen |= 1 << key;
        Ok(())
    })?;
    if seen & REQUIRED != REQUIRED {
        return Err(from.error("record lacks a required field"));
    }
    Ok(Record { output, born })
}

fn assets(from: &mut StrictDecoder<'_>) -> Result<Vec<Asset>, CodecError> {
    let assets = from.list(|from| {
        if from.array()? != 3 {
            return Err(from.error("an asset has three parts"));
        }
        let policy = from.array_of()?;
        Ok(Asset { policy, name: from.bytes()?.to_vec(), quantity: from.u64()? })
    })?;
    if assets.is_empty() {
        return Err(from.error("an empty asset list must be left out"));
    }
    Ok(assets)
}
