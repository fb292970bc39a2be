//! A consistency check: index, coins, spends, deltas and points against each other.
//!
//! RocksDB's checksums find bytes that changed on disk. They don't find an entry that was never
//! written, or one too many: a bug of ours, a restored mixture of files. But nearly everything is
//! told twice: a coin is listed under its address, a point leads to its hash and back, a delta's
//! spends have records, totals stand in the cursor. So each telling is held against the other.
//!
//! Memory stays bounded by the window, not by the set: the check reads each family once, in key
//! order, and looks each entry's counterpart up. Differences are named, up to a limit;
//! bytes that can't be read at all end the check with an error.

use std::{collections::HashSet, fmt};

use unspent_model::{Outpoint, chain::Record};

use crate::{
    codec::{Cursor, Horizon, StoredDelta, StoredPoint, decode_delta, decode_spent},
    coin::Coin,
    db::{Get as _, Range, View},
    error::{QueryError, StoreError},
    open,
    options::Indexes,
    query::Reader,
    schema::{AddressKey, Family, OutpointKey, decode_ordinal, names},
};

/// Most differences that are listed by name; the rest are counted.
pub const FINDINGS_LIMIT: usize = 100;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Entries read, by column family.
    pub checked: Vec<(&'static str, u64)>,
    /// Differences, the first [`FINDINGS_LIMIT`] of them.
    pub findings: Vec<Finding>,
    /// All differences.
    pub differences: u64,
    /// Blocks an import jumped over, with heights left and resumed.
    pub holes: Vec<(Option<u64>, u64)>,
    /// Inputs that were not in the set. 0 on a chain without holes.
    pub missing_inputs: u64,
}

/// One difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The family with the odd entry.
    pub family: &'static str,
    /// Which entry.
    pub entry: String,
    /// What is odd about it.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.family, self.entry, self.what)
    }
}

impl Report {
    /// Nothing differs.
    pub fn is_clean(&self) -> bool {
        self.differences == 0
    }

    fn found(&mut self, family: Family, entry: impl fmt::Debug, what: impl Into<String>) {
        self.differences += 1;
        if self.findings.len() < FINDINGS_LIMIT {
            let entry = format!("{entry:?}");
            self.findings.push(Finding { family: family.name(), entry, what: what.into() });
        }
    }
}

impl Reader {
    /// Compares everything with everything. `progress` is told entries as they are read.
    ///
    /// # Errors
    ///
    /// [`QueryError`] when an entry can't be read at all; it names the entry.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Report, QueryError> {
        self.enabled()?;
        let view = self.db.view();
        let state = open::state(&view, true)?;
        let absent = |name: &[u8]| StoreError::absent(Family::UtxoMeta.name(), name);
        let layout = open::stored_layout(&view)?.ok_or_else(|| absent(names::LAYOUT))?;
        open::stored_choices(&view)?.ok_or_else(|| absent(names::CHOICES))?;
        open::redeem_coins(&view)?;
        let mut check = Check {
            view,
            cursor: state.cursor,
            horizon: state.horizon,
            indexes: layout.indexes(),
            report: Report::default(),
            progress,
        };
        check.points()?;
        check.coins()?;
        check.lists()?;
        check.spends()?;
        let recorded = check.deltas()?;
        check.surplus_spends(recorded)?;
        let mut report = check.report;
        report.holes = state.holes.iter().map(|hole| (hole.left_at, hole.resumes_at)).collect();
        report.missing_inputs = state.cursor.missing_inputs;
        Ok(report)
    }
}

struct Check<'a> {
    view: View<'a>,
    cursor: Cursor,
    horizon: Horizon,
    indexes: Indexes,
    report: Report,
    progress: &'a mut dyn FnMut(u64),
}

impl Check<'_> {
    /// Scans a family, handing each entry to `visit` together with the check itself.
    fn each(
        &mut self,
        family: Family,
        mut visit: impl FnMut(&View<'_>, &mut Report, &[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Self { view, report, progress, .. } = self;
        let mut count = 0;
        view.scan_all(family, |key, value| {
            count += 1;
            progress(1);
            visit(view, report, key, value)
        })?;
        report.checked.push((family.name(), count));
        Ok(())
    }

    fn points(&mut self) -> Result<(), StoreError> {
        let mut last: Option<(u64, StoredPoint)> = None;
        let family = Family::Points;
        self.each(family, |view, report, key, value| {
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family.name(), key))?;
            let point = StoredPoint::decode(value);
            let point = point.map_err(StoreError::value(family.name(), key))?;
            let before = last.map_or(0, |(ordinal, _)| ordinal);
            if ordinal != before + 1 {
                report.found(family, ordinal, format!("follows {before}: points are missing"));
            }
            if let Some((_, before)) = last
                && (point.point.height < before.point.height
                    || point.point.slot < before.point.slot)
            {
                report.found(family, ordinal, "height or slot falls");
            }
            let back = view.get(Family::Hashes, &point.point.hash.0)?;
            if back.as_deref() != Some(key) {
                report.found(Family::Hashes, point.point.hash, "does not lead back to its block");
            }
            last = Some((ordinal, point));
            Ok(())
        })?;
        let (cursor, tip) = (self.cursor, last.map_or(0, |(ordinal, _)| ordinal));
        if cursor.ordinal > tip {
            self.report.found(family, cursor.ordinal, "the index is ahead of the chain");
        }
        self.each(Family::Hashes, |view, report, key, value| {
            let point = view.get(Family::Points, value)?;
            let point = point.map(|bytes| StoredPoint::decode(&bytes)).transpose();
            let point = point.map_err(StoreError::value(Family::Points.name(), value))?;
            if point.is_none_or(|point| point.point.hash.0 != key) {
                report.found(Family::Hashes, hex(key), "leads to no block of that hash");
            }
            Ok(())
        })
    }

    fn coins(&mut self) -> Result<(), StoreError> {
        let (mut coins, mut value_sum) = (0_u64, 0_u128);
        let indexes = self.indexes;
        let family = Family::Unspent;
        self.each(family, |view, report, key, value| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family.name(), key))?.0;
            let coin = Coin::from_stored(value);
            let coin = coin.map_err(StoreError::value(family.name(), key))?;
            coins += 1;
            value_sum += u128::from(coin.value());
            let by_address = indexes.address_hash.then(|| coin.address_key(&outpoint));
            let by_credential = indexes.payment_credential.then(|| coin.credential_key(&outpoint));
            for wanted in by_address.into_iter().chain(by_credential.flatten()) {
                if view.get(Family::Address, &wanted.encode())?.is_none() {
                    report.found(Family::Address, wanted, "the coin is unspent but not listed");
                }
            }
            if view.get(Family::Spent, key)?.is_some() {
                report.found(family, outpoint, "is both unspent and spent");
            }
            Ok(())
        })?;
        let Cursor { coins: noted, value: noted_value, .. } = self.cursor;
        if (coins, value_sum) != (noted, noted_value) {
            let what = format!(
                "{coins} coins worth {value_sum} are there, \
                 the cursor says {noted} worth {noted_value}"
            );
            self.report.found(Family::UtxoMeta, "cursor", what);
        }
        Ok(())
    }

    fn lists(&mut self) -> Result<(), StoreError> {
        let mut run: Option<(crate::schema::Owner, u64)> = None;
        self.each(Family::Address, |view, report, key, value| {
            let entry = AddressKey::decode(key);
            let entry = entry.map_err(StoreError::key(Family::Address.name(), key))?;
            if !value.is_empty() {
                report.found(Family::Address, entry, "has a value where none belongs");
            }
            match &mut run {
                Some((owner, length)) if *owner == entry.owner => *length += 1,
                _ => {
                    run.take().into_iter().for_each(|(_, n)| crate::telemetry::coins_of_owner(n));
                    run = Some((entry.owner, 1));
                }
            }
            let coin_key = OutpointKey(entry.outpoint).encode();
            let Some(value) = view.get(Family::Unspent, &coin_key)? else {
                report.found(Family::Address, entry, "is listed but not unspent");
                return Ok(());
            };
            let coin = Coin::from_stored(&value);
            let coin = coin.map_err(StoreError::value(Family::Unspent.name(), &coin_key))?;
            let belongs = coin.address_key(&entry.outpoint) == entry
                || coin.credential_key(&entry.outpoint) == Some(entry);
            if !belongs {
                report.found(Family::Address, entry, "is listed under the wrong owner or place");
            }
            Ok(())
        })?;
        run.into_iter().for_each(|(_, length)| crate::telemetry::coins_of_owner(length));
        Ok(())
    }

    fn spends(&mut self) -> Result<(), StoreError> {
        let (horizon, tip) = (self.horizon, self.cursor.ordinal);
        let family = Family::Spent;
        self.each(family, |view, report, key, value| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family.name(), key))?.0;
            let spent = decode_spent(value).map_err(StoreError::value(family.name(), key))?;
            let ordinal = view.get(Family::Hashes, &spent.at.hash.0)?;
            let ordinal = ordinal.map(|bytes| decode_ordinal(&bytes)).transpose();
            let ordinal = ordinal.map_err(StoreError::key(Family::Hashes.name(), key))?;
            match ordinal {
                None => report.found(family, outpoint, "was spent by a block that is not stored"),
                Some(ordinal) if ordinal > tip => {
                    report.found(family, outpoint, "was spent above the tip");
                }
                // Compact deltas keep their spends until they go themselves.
                Some(ordinal) if ordinal <= horizon.swept_spends.min(horizon.swept_deltas) => {
                    report.found(family, outpoint, "should have been pruned");
                }
                Some(_) => {}
            }
            Ok(())
        })
    }

    /// Coins whose spent record is rightly gone although their spend can still be undone: those of
    /// self-contained deltas past the prune depth.
    fn unrecorded_spends(&self) -> Result<HashSet<Outpoint>, StoreError> {
        let low = (self.horizon.floor + 1).to_be_bytes();
        let high = (self.horizon.spends_floor + 1).to_be_bytes();
        let mut spends = HashSet::new();
        if low >= high {
            return Ok(spends);
        }
        self.view.scan(&Range::up(Family::Delta, &low, &high), |key, value| {
            let delta =
                decode_delta(value).map_err(StoreError::value(Family::Delta.name(), key))?;
            if delta.is_self_contained() {
                spends.extend(delta.spent.iter().map(|spent| spent.outpoint));
            }
            Ok(true)
        })?;
        Ok(spends)
    }

    /// Every spent record is on some delta's list: as many records as `recorded` list entries. Only
    /// when the numbers differ are the odd ones looked for by name.
    fn surplus_spends(&mut self, recorded: u64) -> Result<(), StoreError> {
        let family = Family::Spent.name();
        let there = self.report.checked.iter().find(|(name, _)| *name == family);
        if there.is_none_or(|(_, count)| *count == recorded) {
            return Ok(());
        }
        let mut listed = HashSet::new();
        self.view.scan_all(Family::Delta, |key, value| {
            let delta =
                decode_delta(value).map_err(StoreError::value(Family::Delta.name(), key))?;
            listed.extend(delta.spent.iter().map(|spent| spent.outpoint));
            Ok(())
        })?;
        let Self { view, report, .. } = self;
        view.scan_all(Family::Spent, |key, _| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
            if !listed.contains(&outpoint) {
                report.found(Family::Spent, outpoint, "is on no delta's list");
            }
            Ok(())
        })
    }

    /// Checks every delta; returns how many spends they list that have a record.
    fn deltas(&mut self) -> Result<u64, StoreError> {
        let mut recorded = 0;
        let mut expected = self.horizon.floor + 1;
        let horizon = self.horizon;
        let unrecorded = self.unrecorded_spends()?;
        let family = Family::Delta;
        self.each(family, |view, report, key, value| {
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family.name(), key))?;
            let delta = decode_delta(value).map_err(StoreError::value(family.name(), key))?;
            if ordinal <= horizon.floor {
                // Left over from before a bulk run; the next prune takes it.
                if ordinal <= horizon.swept_deltas {
                    report.found(family, ordinal, "should have been pruned");
                }
                for spent in &delta.spent {
                    let key = OutpointKey(spent.outpoint).encode();
                    recorded += u64::from(view.get(Family::Spent, &key)?.is_some());
                }
                return Ok(());
            }
            if ordinal != expected {
                report.found(family, expected, "is missing inside the window");
            }
            expected = ordinal + 1;
            recorded += check_delta(view, report, ordinal, &delta, &unrecorded)?;
            Ok(())
        })?;
        if expected != self.cursor.ordinal + 1 {
            let what = format!("the last delta is {}", expected - 1);
            self.report.found(family, self.cursor.ordinal, what);
        }
        Ok(recorded)
    }
}

/// Checks one delta; returns how many of its spends have a record.
fn check_delta(
    view: &View<'_>,
    report: &mut Report,
    ordinal: u64,
    delta: &StoredDelta,
    unrecorded: &HashSet<Outpoint>,
) -> Result<u64, StoreError> {
    let point = view.get(Family::Points, &ordinal.to_be_bytes())?;
    let point = point.map(|bytes| StoredPoint::decode(&bytes)).transpose();
    let key = ordinal.to_be_bytes();
    let point = point.map_err(StoreError::value(Family::Points.name(), &key))?;
    if point.is_none_or(|point| point.point != delta.point) {
        report.found(Family::Delta, ordinal, "belongs to another block than its point");
    }
    let mut recorded = 0;
    for spent in &delta.spent {
        let key = OutpointKey(spent.outpoint).encode();
        let Some(value) = view.get(Family::Spent, &key)? else {
            if !unrecorded.contains(&spent.outpoint) {
                let what = format!("the delta of {ordinal} needs it and it is gone");
                report.found(Family::Spent, spent.outpoint, what);
            }
            continue;
        };
        recorded += 1;
        let found = decode_spent(&value).map_err(StoreError::value(Family::Spent.name(), &key))?;
        if found.at != delta.point {
            report.found(Family::Spent, spent.outpoint, "names another block than its delta");
        }
        compare_body(report, spent.outpoint, spent.record.as_ref(), &found.record);
    }
    for created in &delta.created {
        let key = OutpointKey(created.outpoint).encode();
        let unspent = view.get(Family::Unspent, &key)?;
        let known = unspent.is_some()
            || unrecorded.contains(&created.outpoint)
            || view.get(Family::Spent, &key)?.is_some();
        if !known {
            let what =
                format!("the block {ordinal} created it, yet it is neither unspent nor spent");
            report.found(Family::Unspent, created.outpoint, what);
        }
        if let Some(value) = unspent {
            let record = Coin::decode(&value);
            let record = record.map_err(StoreError::value(Family::Unspent.name(), &key))?;
            // A repeated coinbase (BIP 30) may have put another coin there since.
            if record.born.block_hash == delta.point.hash {
                compare_body(report, created.outpoint, created.record.as_ref(), &record);
            }
        }
    }
    Ok(recorded)
}

fn compare_body(report: &mut Report, outpoint: Outpoint, kept: Option<&Record>, found: &Record) {
    if kept.is_some_and(|kept| kept != found) {
        report.found(Family::Delta, outpoint, "holds another body than the coin itself");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
