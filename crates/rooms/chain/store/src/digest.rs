//! Fingerprints of the coin set that anyone can compute from a node's data.
//!
//! **SHA-256 of all coins in order**, the published form.
//! Cardano: coins by (tx hash, index); each `tx hash | index u16 | address length u16 | address |
//! value u64`, then per asset by policy and name `length u16 | policy | name | quantity u64`.
//! Bitcoin: coins by (txid as shown, vout); each `txid as shown | vout u32 | value u64 | script`.
//! Numbers are big-endian; the digest is SHA-256 over all of it.
//!
//! **MuHash3072** (Bitcoin), which needs no order: that of Core's `gettxoutsetinfo muhash`. A coin
//! is `outpoint | height * 2 + is coinbase u32 | value u64 | script with its length` in Bitcoin's
//! own little-endian form.
//!
//! Both read the set once. MuHash is computed in ranges, several at once; the published form sorts,
//! in memory that doesn't grow with the set ([`ExternalSorter`]).

use sha2::{Digest as _, Sha256};
use unspent_model::{
    Family, Outpoint, Point,
    chain::{MuHash, Record},
};

use crate::{
    coin::Coin,
    db::{KeyValue, ScanRange, View},
    error::{QueryError, StoreError},
    query::{self, Reader},
    ranges,
    schema::{ColumnFamily, OutpointKey},
    sorter::ExternalSorter,
};

/// The coin set in four numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetDigest {
    /// The block as of which this is true.
    pub at: Option<Point>,
    /// Unspent coins.
    pub coins: u64,
    /// Their value in base units.
    pub value: u128,
    /// Assets, counted once per coin that holds them.
    pub asset_entries: u64,
    /// SHA-256 over the coins, as the page above lays them out.
    pub sha256: [u8; 32],
}

impl Reader {
    /// Counts and fingerprints the whole set.
    ///
    /// # Errors
    ///
    /// [`QueryError`], naming the entry when one is damaged.
    pub fn digest(&self) -> Result<SetDigest, QueryError> {
        self.digest_watched(&mut |_| {})
    }

    /// As [`Self::digest`]; `progress` is told coins as they are read.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn digest_watched(&self, progress: &mut dyn FnMut(u64)) -> Result<SetDigest, QueryError> {
        self.enabled()?;
        let view = self.db.view();
        let at = query::tip(&view)?;
        let mut sums = DigestSums { coins: 0, value: 0, asset_entries: 0, hash: Sha256::new() };
        match self.network().family() {
            Family::Cardano => {
                for_each_coin(&view, progress, |outpoint, record| sums.cardano(&outpoint, &record))?
            }
            Family::Bitcoin => {
                let sorter = ExternalSorter::new(self.db.path().parent());
                bitcoin(&view, progress, sorter, &mut sums)?;
            }
        }
        let DigestSums { coins, value, asset_entries, hash } = sums;
        Ok(SetDigest { at, coins, value, asset_entries, sha256: hash.finalize().into() })
    }

    /// Core's MuHash3072 of the set, in the byte order of SHA-256: Core shows it reversed.
    /// `progress` is told coins as they are read.
    ///
    /// # Errors
    ///
    /// [`QueryError::NoMuHash`] on Cardano; otherwise as for [`Self::digest`].
    pub fn muhash(
        &self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Option<Point>, [u8; 32]), QueryError> {
        self.enabled()?;
        if self.network().family() != Family::Bitcoin {
            return Err(QueryError::NoMuHash(self.network()));
        }
        let view = self.db.view();
        let at = query::tip(&view)?;
        let family = ColumnFamily::Unspent;
        let shares = ranges::suitable(self.db.entries_estimated(family)?, &[]);
        let parts = ranges::in_parallel(&shares, progress, |(low, high), sink| {
            let (mut set, mut buffer) = (MuHash::default(), Vec::new());
            view.scan(&ScanRange::sweep(family, low, high), |key, value| {
                let (outpoint, record) = coin(KeyValue { key, value })?;
                core_form(&outpoint, &record, &mut buffer);
                set.insert(&Sha256::digest(&buffer).into());
                Ok(sink.read_one())
            })?;
            Ok(set)
        })?;
        let mut set = MuHash::default();
        parts.iter().for_each(|part| set.combine(part));
        Ok((at, Sha256::digest(set.product()).into()))
    }
}

struct DigestSums {
    coins: u64,
    value: u128,
    asset_entries: u64,
    hash: Sha256,
}

impl DigestSums {
    fn cardano(&mut self, outpoint: &Outpoint, record: &Record) -> Result<(), StoreError> {
        let output = &record.output;
        self.count(record);
        self.hash.update(outpoint.tx.0);
        self.hash.update(short(outpoint, u64::from(outpoint.index))?);
        self.hash.update(short(outpoint, output.addr.len() as u64)?);
        self.hash.update(&output.addr);
        self.hash.update(output.value.to_be_bytes());
        for asset in &output.assets {
            let length = asset.policy.len() + asset.name.len();
            self.hash.update(short(outpoint, length as u64)?);
            self.hash.update(asset.policy);
            self.hash.update(&asset.name);
            self.hash.update(asset.quantity.to_be_bytes());
        }
        Ok(())
    }

    fn count(&mut self, record: &Record) {
        self.coins += 1;
        self.value += u128::from(record.output.value);
        self.asset_entries += record.output.assets.len() as u64;
    }
}

fn short(outpoint: &Outpoint, number: u64) -> Result<[u8; 2], StoreError> {
    let number = u16::try_from(number).map_err(|_| StoreError::Corrupt {
        place: format!("{}[{outpoint:?}]", ColumnFamily::Unspent.name()),
        what: format!("{number} does not fit in 16 bits"),
    })?;
    Ok(number.to_be_bytes())
}

fn coin(KeyValue { key, value }: KeyValue<'_>) -> Result<(Outpoint, Record), StoreError> {
    let family = ColumnFamily::Unspent.name();
    let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
    let record = Coin::decode(value).map_err(StoreError::value(family, key))?;
    Ok((outpoint, record))
}

fn for_each_coin(
    view: &View<'_>,
    progress: &mut dyn FnMut(u64),
    mut visit: impl FnMut(Outpoint, Record) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    view.scan_all(ColumnFamily::Unspent, |key, value| {
        let (outpoint, record) = coin(KeyValue { key, value })?;
        progress(1);
        visit(outpoint, record)
    })
}

/// Disk order is wire order; the digest wants the order in which people read hashes.
fn bitcoin(
    view: &View<'_>,
    progress: &mut dyn FnMut(u64),
    mut sorter: ExternalSorter,
    sums: &mut DigestSums,
) -> Result<(), StoreError> {
    let mut entry = Vec::new();
    for_each_coin(view, progress, |outpoint, record| {
        sums.count(&record);
        entry.clear();
        entry.extend(outpoint.tx.0.iter().rev());
        entry.extend(outpoint.index.to_be_bytes());
        entry.extend(record.output.value.to_be_bytes());
        entry.extend(&record.output.addr);
        sorter.add(&entry)
    })?;
    sorter.in_order(|entry| sums.hash.update(entry))
}

/// A coin as Core hashes it.
fn core_form(outpoint: &Outpoint, record: &Record, to: &mut Vec<u8>) {
    to.clear();
    to.extend(outpoint.tx.0);
    to.extend(outpoint.index.to_le_bytes());
    // Core keeps heights in 31 bits.
    let height = u32::try_from(record.born.block_number).unwrap_or(u32::MAX >> 1);
    to.extend((height << 1 | u32::from(record.output.is_coinbase)).to_le_bytes());
    to.extend(record.output.value.to_le_bytes());
    compact_size(record.output.addr.len(), to);
    to.extend(&record.output.addr);
}

/// Bitcoin's variable-length number; no script is as long as 2^32 bytes.
fn compact_size(length: usize, to: &mut Vec<u8>) {
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(small @ ..=252), _) => to.push(small),
        (_, Ok(medium)) => {
            to.push(253);
            to.extend(medium.to_le_bytes());
        }
        _ => {
            to.push(254);
            to.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value in Core's own unit test of `MuHash3072`.
    #[test]
    fn muhash_is_cores() {
        let element = |first: u8| {
            let mut bytes = [0; 32];
            bytes[0] = first;
            Sha256::digest(bytes).into()
        };
        let mut set = MuHash::default();
        set.insert(&element(0));
        set.insert(&element(1));
        set.remove(&element(2));
        let hash = Sha256::digest(set.product());
        let shown: String = hash.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, "10d312b100cbd32ada024a6646e40d3482fcff103668d2625f10002a607d5863");
    }

    #[test]
    fn lengths_are_bitcoins() {
        let of = |length| {
            let mut bytes = Vec::new();
            compact_size(length, &mut bytes);
            bytes
        };
        assert_eq!(of(252), [252]);
        assert_eq!(of(253), [253, 253, 0]);
        assert_eq!(of(0xffff), [253, 0xff, 0xff]);
        assert_eq!(of(0x1_0000), [254, 0, 0, 1, 0]);
    }
}
