//! Who is to blame where two sums differ. Only now are entries looked up one by one, and only in
//! the buckets and blocks that differ, a bounded number of them.

use std::collections::{HashMap, HashSet};

use unspent_model::{Outpoint, chain::Record};

use super::{
    Check, Report,
    coins::{bucket, wanted},
};
use crate::{
    codec::{SpentRecord, StoredDelta, decode_delta, decode_spent},
    coin::Coin,
    db::{Get as _, View},
    error::StoreError,
    schema::{AddressKey, Family, OutpointKey, SpentKey, decode_ordinal},
};

/// Buckets of lists that are held in memory to be compared: 1.6 % of all lists.
const BUCKETS_SEARCHED: usize = 8;
/// Blocks whose entries are held in memory to be compared.
const BLOCKS_SEARCHED: usize = 64;

impl Check<'_> {
    /// The odd ones that are searched; the others count as one difference each.
    fn searched<'o, T>(&mut self, odd: &'o [T], most: usize) -> &'o [T] {
        let (searched, rest) = odd.split_at(odd.len().min(most));
        self.report.differences += rest.len() as u64;
        searched
    }

    /// Names list entries that no coin asks for, and coins that aren't listed.
    pub(super) fn odd_lists(&mut self, odd: &[usize]) -> Result<(), StoreError> {
        let odd = self.searched(odd, BUCKETS_SEARCHED);
        let Self { view, report, indexes, .. } = self;
        let (chain, family) = (self.network.family(), Family::Unspent.name());
        let mut unlisted = HashSet::new();
        view.scan_all(Family::Unspent, |key, value| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
            let coin = Coin::from_stored(chain, value);
            let coin = coin.map_err(StoreError::value(family, key))?;
            let keys = wanted(*indexes, &coin, &outpoint);
            unlisted
                .extend(keys.filter(|key| odd.contains(&bucket(&key.owner))).map(|k| k.encode()));
            Ok(())
        })?;
        view.scan_all(Family::Address, |key, _| {
            let entry = AddressKey::decode(key);
            let entry = entry.map_err(StoreError::key(Family::Address.name(), key))?;
            if !odd.contains(&bucket(&entry.owner)) || unlisted.remove(key) {
                return Ok(());
            }
            let unspent = view.get(Family::Unspent, &OutpointKey(entry.outpoint).encode())?;
            let what = match unspent {
                Some(_) => "is listed under the wrong owner or place",
                None => "is listed but not unspent",
            };
            report.found(Family::Address, entry, what);
            Ok(())
        })?;
        for key in unlisted {
            let entry = AddressKey::decode(&key);
            let entry = entry.map_err(StoreError::key(Family::Address.name(), &key))?;
            report.found(Family::Address, entry, "the coin is unspent but not listed");
        }
        Ok(())
    }

    /// Names spent records that no delta lists, and listed spends without a record.
    pub(super) fn odd_spends(&mut self, odd: &[u64]) -> Result<(), StoreError> {
        let odd = self.searched(odd, BLOCKS_SEARCHED);
        let mut records = spent_records(&self.view, odd)?;
        for ordinal in odd {
            let Some(delta) = stored_delta(&self.view, *ordinal)? else { continue };
            for spent in &delta.spent {
                let key = SpentKey { outpoint: spent.outpoint, ordinal: *ordinal };
                let report = &mut self.report;
                let Some(found) = records.remove(&key.encode()) else {
                    let what = format!("the delta of {ordinal} needs it and it is gone");
                    report.found(Family::Spent, spent.outpoint, what);
                    continue;
                };
                if found.at != delta.point {
                    let what = "names another block than its delta";
                    report.found(Family::Spent, spent.outpoint, what);
                }
                compare_body(report, spent.outpoint, spent.record.as_ref(), &found.record);
                if spent.record.is_some() && spent.by != found.by {
                    report.found(Family::Delta, spent.outpoint, "names another spender");
                }
            }
        }
        for key in records.keys() {
            let key = SpentKey::decode(key).map_err(StoreError::key(Family::Spent.name(), key))?;
            let what = if key.ordinal > self.cursor.ordinal {
                "was spent above the tip"
            } else if key.ordinal <= self.horizon.swept_deltas {
                "should have been pruned"
            } else {
                "is on no delta's list"
            };
            self.report.found(Family::Spent, key.outpoint, what);
        }
        Ok(())
    }

    /// Names created coins that are neither unspent nor spent, and blocks that disown a coin.
    pub(super) fn odd_births(&mut self, odd: &[u64]) -> Result<(), StoreError> {
        let odd = self.searched(odd, BLOCKS_SEARCHED);
        let mut gone = self.gone_by_delta()?;
        for ordinal in odd {
            let Some(delta) = stored_delta(&self.view, *ordinal)? else { continue };
            let before = self.report.differences;
            for created in &delta.created {
                let name = (created.outpoint, delta.point.hash);
                let record = match gone.remove(&name) {
                    Some(record) => Some(record),
                    None => self.find(&name)?,
                };
                match record {
                    Some(found) => {
                        let kept = created.record.as_ref();
                        compare_body(&mut self.report, created.outpoint, kept, &found);
                    }
                    None => {
                        let what = format!(
                            "the block {ordinal} created it, yet it is neither unspent nor spent"
                        );
                        self.report.found(Family::Unspent, created.outpoint, what);
                    }
                }
            }
            if self.report.differences == before {
                let what = "some coin says that it was born in this block, which doesn't list it";
                self.report.found(Family::Delta, ordinal, what);
            }
        }
        Ok(())
    }

    /// A coin born in that block, among the unspent and the spent.
    fn find(
        &self,
        (outpoint, born): &(Outpoint, unspent_model::BlockHash),
    ) -> Result<Option<Record>, StoreError> {
        let key = OutpointKey(*outpoint).encode();
        if let Some(value) = self.view.get(Family::Unspent, &key)? {
            let record = Coin::decode(&value);
            let record = record.map_err(StoreError::value(Family::Unspent.name(), &key))?;
            if record.born.block_hash == *born {
                return Ok(Some(record));
            }
        }
        let mut found = None;
        self.view.scan_spends(outpoint, |key, value| {
            let spent = decode_spent(value);
            let spent = spent.map_err(StoreError::value(Family::Spent.name(), key))?;
            found = Some(spent.record).filter(|record| record.born.block_hash == *born);
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Coins that left the set without a spent record: overwritten, or spent past the prune depth.
    fn gone_by_delta(&self) -> Result<Gone, StoreError> {
        let mut gone = HashMap::new();
        self.view.scan_all(Family::Delta, |key, value| {
            let family = Family::Delta.name();
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family, key))?;
            let delta = decode_delta(value).map_err(StoreError::value(family, key))?;
            let unrecorded = ordinal <= self.horizon.spends_floor;
            let spent = delta.spent.into_iter().filter(|_| unrecorded);
            let spent = spent.filter_map(|spent| Some((spent.outpoint, spent.record?)));
            for (outpoint, record) in delta.overwritten.into_iter().chain(spent) {
                gone.insert((outpoint, record.born.block_hash), record);
            }
            Ok(())
        })?;
        Ok(gone)
    }
}

type Gone = HashMap<(Outpoint, unspent_model::BlockHash), Record>;

/// The spent records of these blocks, by key.
fn spent_records(
    view: &View<'_>,
    ordinals: &[u64],
) -> Result<HashMap<[u8; SpentKey::LEN], SpentRecord>, StoreError> {
    let family = Family::Spent.name();
    let mut records = HashMap::new();
    view.scan_all(Family::Spent, |key, value| {
        let name = SpentKey::decode(key).map_err(StoreError::key(family, key))?;
        if ordinals.contains(&name.ordinal) {
            let spent = decode_spent(value).map_err(StoreError::value(family, key))?;
            records.insert(name.encode(), spent);
        }
        Ok(())
    })?;
    Ok(records)
}

fn stored_delta(view: &View<'_>, ordinal: u64) -> Result<Option<StoredDelta>, StoreError> {
    let key = ordinal.to_be_bytes();
    let delta = view.get(Family::Delta, &key)?.map(|value| decode_delta(&value)).transpose();
    delta.map_err(StoreError::value(Family::Delta.name(), &key))
}

fn compare_body(report: &mut Report, outpoint: Outpoint, kept: Option<&Record>, found: &Record) {
    if kept.is_some_and(|kept| kept != found) {
        report.found(Family::Delta, outpoint, "holds another body than the coin itself");
    }
}
