//! Who is to blame where two sums differ. Only now are entries looked up one by one, and only in
//! the buckets and blocks that differ, a bounded number of them.

use std::collections::{HashMap, HashSet};

use unspent_model::{BlockHash, Outpoint, chain::Record};

use super::{Check, blocks::gone, named};
use crate::{
    codec::{CoinListing, StoredCreated, StoredDelta, decode_delta},
    coin::Coin,
    db::{Get as _, View},
    error::StoreError,
    schema::{ColumnFamily, OutpointKey, SpentKey},
};

/// Blocks whose entries are held in memory to be compared.
const BLOCKS_SEARCHED: usize = 64;

impl Check<'_> {
    /// The odd ones that are searched; the others count as one difference each.
    pub(super) fn searched<'o, T>(&mut self, odd: &'o [T], most: usize) -> &'o [T] {
        let (searched, rest) = odd.split_at(odd.len().min(most));
        self.report.differences += rest.len() as u64;
        searched
    }

    /// Names pointers that no delta lists, and listed spends that nothing points to.
    pub(super) fn odd_pointers(&mut self, odd: &[u64]) -> Result<(), StoreError> {
        let odd = self.searched(odd, BLOCKS_SEARCHED);
        let mut pointers = self.pointers(odd)?;
        for ordinal in odd.iter().filter(|ordinal| **ordinal > self.horizon.spends_floor) {
            let Some(delta) = stored_delta(&self.view, *ordinal)? else { continue };
            for (number, spent) in (0_u32..).zip(&delta.spent) {
                let key = SpentKey { outpoint: spent.outpoint, ordinal: *ordinal };
                let what = match pointers.remove(&key.encode()) {
                    Some(found) if found == number => continue,
                    Some(_) => format!("leads to another spend of {ordinal}"),
                    None => {
                        format!("the delta of {ordinal} lists the spend, but its record is missing")
                    }
                };
                self.report.found(ColumnFamily::Spent, named(&spent.outpoint), what);
            }
        }
        for key in pointers.keys() {
            let key =
                SpentKey::decode(key).map_err(StoreError::key(ColumnFamily::Spent.name(), key))?;
            let what = if key.ordinal > self.cursor.ordinal {
                "was spent above the tip"
            } else {
                "is on no delta's list"
            };
            self.report.found(ColumnFamily::Spent, named(&key.outpoint), what);
        }
        Ok(())
    }

    /// The pointers into the deltas of these blocks, by key.
    fn pointers(&self, ordinals: &[u64]) -> Result<HashMap<[u8; SpentKey::LEN], u32>, StoreError> {
        let mut pointers = HashMap::new();
        let end = [0xff; SpentKey::LEN + 1];
        self.view.scan_pointers((&[], &end), self.horizon.spends_floor, |(key, number)| {
            if ordinals.contains(&key.ordinal) {
                pointers.insert(key.encode(), number);
            }
            Ok(true)
        })?;
        Ok(pointers)
    }

    /// Names created coins that are neither unspent nor spent, and blocks that disown a coin.
    pub(super) fn odd_births(&mut self, odd: &[u64]) -> Result<(), StoreError> {
        let odd = self.searched(odd, BLOCKS_SEARCHED);
        let mut deltas = Vec::new();
        for ordinal in odd {
            deltas.extend(stored_delta(&self.view, *ordinal)?.map(|delta| (*ordinal, delta)));
        }
        let mut gone = self.gone_since(&deltas)?;
        for (ordinal, delta) in &deltas {
            let before = self.report.differences;
            for created in delta.created.iter().filter(|made| made.listing.is_some()) {
                let name = (created.outpoint, delta.point.hash);
                let record = match gone.remove(&name) {
                    Some(record) => Some(record),
                    None => self.find(&name)?,
                };
                match record {
                    Some(found) => self.compare_created(created, &found),
                    None => {
                        let what = format!(
                            "the block {ordinal} created it, yet it is neither unspent nor spent"
                        );
                        self.report.found(ColumnFamily::Unspent, named(&created.outpoint), what);
                    }
                }
            }
            if self.report.differences == before {
                let what = "a coin's record names this block as its origin, but the block's delta \
                            doesn't list it";
                self.report.found(ColumnFamily::Delta, ordinal, what);
            }
        }
        Ok(())
    }

    fn compare_created(&mut self, created: &StoredCreated, found: &Record) {
        let StoredCreated { outpoint, listing, record } = created;
        if record.as_ref().is_some_and(|kept| kept != found) {
            self.report.found(
                ColumnFamily::Delta,
                named(outpoint),
                "holds a body that differs from the coin's own record",
            );
        }
        let coin = Coin::new(self.network.family(), found);
        if *listing != Some(CoinListing::of(&coin)) {
            self.report.found(
                ColumnFamily::Delta,
                named(outpoint),
                "lists an owner or amount that differs from the coin's own record",
            );
        }
    }

    /// An unspent coin born in that block.
    fn find(&self, (outpoint, born): &(Outpoint, BlockHash)) -> Result<Option<Record>, StoreError> {
        let key = OutpointKey(*outpoint).encode();
        let Some(value) = self.view.get(ColumnFamily::Unspent, &key)? else { return Ok(None) };
        let record = Coin::decode(&value);
        let record = record.map_err(StoreError::value(ColumnFamily::Unspent.name(), &key))?;
        Ok(Some(record).filter(|record| record.born.block_hash == *born))
    }

    /// Coins of these blocks that left the set since.
    fn gone_since(&self, blocks: &[(u64, StoredDelta)]) -> Result<GoneCoins, StoreError> {
        let hashes: HashSet<BlockHash> = blocks.iter().map(|(_, delta)| delta.point.hash).collect();
        let mut found = GoneCoins::new();
        self.view.scan_all(ColumnFamily::Delta, |key, value| {
            let delta = decode_delta(value);
            let delta = delta.map_err(StoreError::value(ColumnFamily::Delta.name(), key))?;
            for (outpoint, record) in gone(&delta) {
                if hashes.contains(&record.born.block_hash) {
                    found.insert((*outpoint, record.born.block_hash), record.clone());
                }
            }
            Ok(())
        })?;
        Ok(found)
    }
}

type GoneCoins = HashMap<(Outpoint, BlockHash), Record>;

fn stored_delta(view: &View<'_>, ordinal: u64) -> Result<Option<StoredDelta>, StoreError> {
    let key = ordinal.to_be_bytes();
    let delta = view.get(ColumnFamily::Delta, &key)?.map(|value| decode_delta(&value)).transpose();
    delta.map_err(StoreError::value(ColumnFamily::Delta.name(), &key))
}
