//! Blocks by ordinal and by hash.

use unspent_model::BlockHash;

use crate::{
    codec::StoredPoint,
    db::Get,
    error::StoreError,
    schema::{ColumnFamily, decode_ordinal},
};

/// The block with this ordinal; `None` for the origin and above the tip.
pub(crate) fn at(db: &impl Get, ordinal: u64) -> Result<Option<StoredPoint>, StoreError> {
    let key = ordinal.to_be_bytes();
    let stored = db.get(ColumnFamily::Points, &key)?;
    let decoded = stored.map(|bytes| StoredPoint::decode(&bytes)).transpose();
    decoded.map_err(StoreError::value(ColumnFamily::Points.name(), &key))
}

/// The last block of the chain with its ordinal.
pub(crate) fn last(db: &impl Get) -> Result<Option<(u64, StoredPoint)>, StoreError> {
    let Some((key, value)) = db.last(ColumnFamily::Points)? else { return Ok(None) };
    let family = ColumnFamily::Points.name();
    let ordinal = decode_ordinal(&key).map_err(StoreError::key(family, &key))?;
    let point = StoredPoint::decode(&value).map_err(StoreError::value(family, &key))?;
    Ok(Some((ordinal, point)))
}

/// The block with this hash and its ordinal.
pub(crate) fn by_hash(
    db: &impl Get,
    hash: &BlockHash,
) -> Result<Option<(u64, StoredPoint)>, StoreError> {
    let Some(ordinal) = db.get(ColumnFamily::Hashes, &hash.0)? else { return Ok(None) };
    let ordinal =
        decode_ordinal(&ordinal).map_err(StoreError::key(ColumnFamily::Hashes.name(), &hash.0))?;
    let point = at(db, ordinal)?.filter(|point| point.point.hash == *hash);
    let absent = || StoreError::absent(ColumnFamily::Points.name(), &ordinal.to_be_bytes());
    Ok(Some((ordinal, point.ok_or_else(absent)?)))
}

/// The last ordinal up to `tip` whose block satisfies `holds`, which must hold for a prefix of the
/// chain (heights and slots never fall); 0 when no block does.
pub(crate) fn last_where(
    db: &impl Get,
    tip: u64,
    holds: impl Fn(&StoredPoint) -> bool,
) -> Result<u64, StoreError> {
    let (mut low, mut high) = (0, tip);
    while low < high {
        let middle = high - (high - low) / 2;
        let key = middle.to_be_bytes();
        let point =
            at(db, middle)?.ok_or_else(|| StoreError::absent(ColumnFamily::Points.name(), &key))?;
        if holds(&point) { low = middle } else { high = middle - 1 }
    }
    Ok(low)
}
