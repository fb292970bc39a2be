//! `BlockDelta`: what undoing a block needs.
//!
//! | key | field | key | field |
//! |---|---|---|---|
//! | 0 | block number | 5 | flags `{0: contains invalid tx}` |
//! | 1 | slot | 6 | tx flags `[{0: tx, 1: is invalid, 2: had collateral return}]` |
//! | 2 | block hash | 7 | what the MMR store needs for a [`Rewind`] |
//! | 3 | created `[{0: outpoint, 1: record}]` | 8 | overwritten, as 3 with bodies (ours) |
//! | 4 | spent `[{0: outpoint, 1: record, 2: spender, 3, 4}]` | 9 | missing inputs (ours) |
//!
//! 3 and 4 of a spent coin are the spender's position in the block and the input's in the spender.
//! Compact deltas leave out the records and spenders of 3 and 4: they lie in `utxo_unspent` and
//! `utxo_spent`. An outpoint is `[hash, index]`.

use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    chain::{BlockDelta, Record, SpendingInput, TxFlags},
};

use super::{
    CodecError, Rewind, StrictDecoder, Writer, Written, record, spent::spender, value, whole,
};
use crate::coin::{Coin, SharedCoin};

/// A coin created, as the delta stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredCreated {
    /// The coin.
    pub outpoint: Outpoint,
    /// Its body; `None` in a compact delta.
    pub record: Option<Record>,
}

/// A coin spent, as the delta stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSpent {
    /// The coin.
    pub outpoint: Outpoint,
    /// Its body before the spend; `None` in a compact delta.
    pub record: Option<Record>,
    /// The spender; `None` in a compact delta, or when a new era withdrew the coin.
    pub by: Option<SpendingInput>,
}

/// A delta as it lies on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredDelta {
    /// The block that the delta undoes.
    pub point: Point,
    /// Coins created, in block order.
    pub created: Vec<StoredCreated>,
    /// Coins spent, in block order.
    pub spent: Vec<StoredSpent>,
    /// Transactions that failed in phase 2.
    pub tx_flags: Vec<TxFlags>,
    /// Coins lost to a repeated coinbase, as they were.
    pub overwritten: Vec<(Outpoint, Record)>,
    /// Inputs that were not in the set: none on a chain without holes.
    pub missing: Vec<Outpoint>,
    /// What undoing the block does to both trees; MMR store only.
    pub rewind: Option<Rewind>,
}

impl StoredDelta {
    /// Bodies are inside, so that undoing needs no spent records.
    pub fn is_self_contained(&self) -> bool {
        self.created.iter().all(|created| created.record.is_some())
            && self.spent.iter().all(|spent| spent.record.is_some())
    }
}

/// The value for a delta; with bodies when `self_contained`.
pub fn encode_delta(
    delta: &BlockDelta<SharedCoin>,
    self_contained: bool,
    rewind: Option<&Rewind>,
) -> Vec<u8> {
    let entries = delta.created.len() + delta.spent.len();
    value(128 + entries * 40, |to| write(delta, self_contained, rewind, to))
}

fn write(
    delta: &BlockDelta<SharedCoin>,
    bodies: bool,
    rewind: Option<&Rewind>,
    to: &mut Writer<'_>,
) -> Written {
    let optional = [&delta.tx_flags.len(), &delta.overwritten.len(), &delta.missing.len()];
    let optional = optional.into_iter().filter(|length| **length > 0).count() as u64;
    to.map(6 + optional + u64::from(rewind.is_some()))?;
    to.u8(0)?.u64(delta.point.height)?.u8(1)?.u64(delta.point.slot)?;
    to.u8(2)?.bytes(&delta.point.hash.0)?;
    to.u8(3)?.array(delta.created.len() as u64)?;
    for created in &delta.created {
        entry(to, &created.outpoint, bodies.then_some(created.coin.as_ref()), None)?;
    }
    to.u8(4)?.array(delta.spent.len() as u64)?;
    for spent in &delta.spent {
        let by = spent.by.filter(|_| bodies);
        entry(to, &spent.outpoint, bodies.then_some(spent.coin.as_ref()), by)?;
    }
    to.u8(5)?.map(1)?.u8(0)?.bool(delta.contains_invalid_tx())?;
    if !delta.tx_flags.is_empty() {
        to.u8(6)?.array(delta.tx_flags.len() as u64)?;
        for flags in &delta.tx_flags {
            to.map(3)?.u8(0)?.bytes(&flags.tx.0)?.u8(1)?.bool(flags.is_invalid)?;
            to.u8(2)?.bool(flags.had_collateral_return)?;
        }
    }
    if let Some(rewind) = rewind {
        to.u8(7)?;
        rewind.write(to)?;
    }
    if !delta.overwritten.is_empty() {
        to.u8(8)?.array(delta.overwritten.len() as u64)?;
        for (lost, coin) in &delta.overwritten {
            entry(to, lost, Some(coin), None)?;
        }
    }
    if !delta.missing.is_empty() {
        to.u8(9)?.array(delta.missing.len() as u64)?;
        for missing in &delta.missing {
            outpoint(to, missing)?;
        }
    }
    Ok(())
}

fn entry(
    to: &mut Writer<'_>,
    name: &Outpoint,
    coin: Option<&Coin>,
    by: Option<SpendingInput>,
) -> Written {
    to.map(1 + u64::from(coin.is_some()) + 3 * u64::from(by.is_some()))?.u8(0)?;
    outpoint(to, name)?;
    if let Some(coin) = coin {
        to.u8(1)?;
        to.writer_mut().extend_from_slice(coin.body());
    }
    if let Some(by) = by {
        to.u8(2)?.bytes(&by.tx.0)?.u8(3)?.u32(by.position)?.u8(4)?.u32(by.input)?;
    }
    Ok(())
}

fn outpoint(to: &mut Writer<'_>, outpoint: &Outpoint) -> Written {
    to.array(2)?.bytes(&outpoint.tx.0)?.u32(outpoint.index)?;
    Ok(())
}

/// Reads a delta back.
///
/// # Errors
///
/// When the bytes are not the canonical form of a delta.
pub fn decode_delta(bytes: &[u8]) -> Result<StoredDelta, CodecError> {
    whole(bytes, |from| {
        let (mut height, mut slot, mut hash) = (None, None, None);
        let (mut created, mut spent, mut flags) = (None, None, None);
        let (mut tx_flags, mut overwritten, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut rewind = None;
        from.fields(|from, key| {
            match key {
                0 => height = Some(from.u64()?),
                1 => slot = Some(from.u64()?),
                2 => hash = Some(BlockHash(from.array_of()?)),
                3 => created = Some(from.list(read_created)?),
                4 => spent = Some(from.list(read_entry)?),
                5 => flags = Some(read_flags(from)?),
                6 => tx_flags = not_empty(from, read_tx_flags)?,
                7 => rewind = Some(Rewind::read(from)?),
                8 => overwritten = not_empty(from, read_overwritten)?,
                9 => missing = not_empty(from, read_outpoint)?,
                _ => return Err(from.error("unknown field of a delta")),
            }
            Ok(())
        })?;
        let invalid = tx_flags.iter().any(|flags: &TxFlags| flags.is_invalid);
        match (height, slot, hash, created, spent, flags) {
            (Some(height), Some(slot), Some(hash), Some(created), Some(spent), Some(flags))
                if flags == invalid
                    && one_mode(&created, &spent)
                    && is_paired(rewind.as_ref(), &spent, &overwritten) =>
            {
                let point = Point { height, slot, hash };
                Ok(StoredDelta { point, created, spent, tx_flags, overwritten, missing, rewind })
            }
            _ => Err(from.error("delta lacks a field or its parts disagree")),
        }
    })
}

/// Every coin that left the set has its leaf.
fn is_paired(
    rewind: Option<&Rewind>,
    spent: &[StoredSpent],
    overwritten: &[(Outpoint, Record)],
) -> bool {
    let lengths = (spent.len(), overwritten.len());
    rewind.is_none_or(|rewind| (rewind.spent.len(), rewind.overwritten.len()) == lengths)
}

/// Either every entry has its body or none has, and compact entries name no spender.
fn one_mode(created: &[StoredCreated], spent: &[StoredSpent]) -> bool {
    let bodies = created.iter().map(|entry| entry.record.is_some());
    let bodies = bodies.chain(spent.iter().map(|entry| entry.record.is_some()));
    let (all, any) = bodies.fold((true, false), |(all, any), has| (all && has, any || has));
    let compact = !any && spent.iter().all(|entry| entry.by.is_none());
    (any && all) || compact
}

fn not_empty<T>(
    from: &mut StrictDecoder<'_>,
    item: impl FnMut(&mut StrictDecoder<'_>) -> Result<T, CodecError>,
) -> Result<Vec<T>, CodecError> {
    let items = from.list(item)?;
    if items.is_empty() { Err(from.error("an empty list must be left out")) } else { Ok(items) }
}

fn read_outpoint(from: &mut StrictDecoder<'_>) -> Result<Outpoint, CodecError> {
    if from.array()? != 2 {
        return Err(from.error("an outpoint has two parts"));
    }
    Ok(Outpoint::new(TxId(from.array_of()?), from.u32()?))
}

fn read_entry(from: &mut StrictDecoder<'_>) -> Result<StoredSpent, CodecError> {
    let (mut outpoint, mut body) = (None, None);
    let (mut tx, mut position, mut input) = (None, None, None);
    from.fields(|from, key| {
        match key {
            0 => outpoint = Some(read_outpoint(from)?),
            1 => body = Some(record::read(from)?),
            2 => tx = Some(TxId(from.array_of()?)),
            3 => position = Some(from.u32()?),
            4 => input = Some(from.u32()?),
            _ => return Err(from.error("unknown field of a delta entry")),
        }
        Ok(())
    })?;
    let outpoint = outpoint.ok_or_else(|| from.error("delta entry lacks its outpoint"))?;
    let by = spender(tx, position, input);
    let by = by.ok_or_else(|| from.error("delta entry names half a spender"))?;
    Ok(StoredSpent { outpoint, record: body, by })
}

fn read_created(from: &mut StrictDecoder<'_>) -> Result<StoredCreated, CodecError> {
    match read_entry(from)? {
        StoredSpent { outpoint, record, by: None } => Ok(StoredCreated { outpoint, record }),
        StoredSpent { .. } => Err(from.error("a created coin has no spender")),
    }
}

fn read_overwritten(from: &mut StrictDecoder<'_>) -> Result<(Outpoint, Record), CodecError> {
    match read_created(from)? {
        StoredCreated { outpoint, record: Some(record) } => Ok((outpoint, record)),
        StoredCreated { .. } => Err(from.error("an overwritten coin lacks its record")),
    }
}

fn read_flags(from: &mut StrictDecoder<'_>) -> Result<bool, CodecError> {
    if from.map()? != 1 || from.u64()? != 0 {
        return Err(from.error("flags have one field"));
    }
    from.bool()
}

fn read_tx_flags(from: &mut StrictDecoder<'_>) -> Result<TxFlags, CodecError> {
    let (mut tx, mut is_invalid, mut returned) = (None, None, None);
    from.fields(|from, key| {
        match key {
            0 => tx = Some(TxId(from.array_of()?)),
            1 => is_invalid = Some(from.bool()?),
            2 => returned = Some(from.bool()?),
            _ => return Err(from.error("unknown field of transaction flags")),
        }
        Ok(())
    })?;
    match (tx, is_invalid, returned) {
        (Some(tx), Some(is_invalid), Some(had_collateral_return)) => {
            Ok(TxFlags { tx, is_invalid, had_collateral_return })
        }
        _ => Err(from.error("transaction flags lack a field")),
    }
}
