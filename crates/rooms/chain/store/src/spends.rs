//! Pointers to spends, read with the floor in mind: what is forgotten is not there, whether or not
//! a compaction has come by.

use unspent_model::Outpoint;

use crate::{
    codec::decode_pointer,
    db::{Get as _, KeyValue, ScanDirection, ScanRange, View},
    error::StoreError,
    open,
    schema::{ColumnFamily, OutpointKey, SpentKey},
};

/// A spend's key and its number in its block's delta.
type Pointer<'a> = (&'a SpentKey, u32);

impl View<'_> {
    /// Up to which block spends are forgotten, at this moment.
    pub(crate) fn spends_floor(&self) -> Result<u64, StoreError> {
        Ok(open::horizon(self)?.spends_floor)
    }

    /// Visits the spends of a coin, the latest first, until `visit` returns false.
    pub(crate) fn scan_spends(
        &self,
        outpoint: &Outpoint,
        mut visit: impl FnMut(&SpentKey, u32) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let floor = self.spends_floor()?;
        let low = OutpointKey(*outpoint).encode();
        // Longer than any key of this coin, and greater.
        let high = [&low[..], &[0xff; SpentKey::LEN - OutpointKey::LEN + 1]].concat();
        let (family, direction) = (ColumnFamily::Spent, ScanDirection::Down);
        let range =
            ScanRange { direction, within_prefix: true, ..ScanRange::up(family, &low, &high) };
        self.scan(&range, |key, value| match pointer(KeyValue { key, value }, floor)? {
            Some((key, number)) => visit(&key, number),
            // Older ones are forgotten too.
            None => Ok(false),
        })
    }

    /// Visits pointers in key order until `visit` returns false.
    pub(crate) fn scan_pointers(
        &self,
        (low, high): (&[u8], &[u8]),
        floor: u64,
        mut visit: impl FnMut(Pointer<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.scan(&ScanRange::sweep(ColumnFamily::Spent, low, high), |key, value| {
            match pointer(KeyValue { key, value }, floor)? {
                Some((key, number)) => visit((&key, number)),
                None => Ok(true),
            }
        })
    }

    /// The value of a key, with the error that names it when it isn't there.
    pub(crate) fn demand(&self, family: ColumnFamily, key: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.get(family, key)?.ok_or_else(|| StoreError::absent(family.name(), key))
    }
}

/// Reads a pointer; `None` when it is forgotten.
fn pointer(
    KeyValue { key, value }: KeyValue<'_>,
    floor: u64,
) -> Result<Option<(SpentKey, u32)>, StoreError> {
    let family = ColumnFamily::Spent.name();
    let name = SpentKey::decode(key).map_err(StoreError::key(family, key))?;
    if name.ordinal <= floor {
        return Ok(None);
    }
    let number = decode_pointer(value).map_err(StoreError::value(family, key))?;
    Ok(Some((name, number)))
}
