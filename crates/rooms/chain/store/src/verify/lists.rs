//! Secondary indexes against the coins that ask for their entries.

use std::collections::HashSet;

use unspent_model::Outpoint;

use super::{Check, SetSum, VerifyReport};
use crate::{
    codec::CodecError,
    coin::Coin,
    db::{Get as _, ScanRange, View},
    error::StoreError,
    indexes::{self, IndexRow, name::IndexName},
    ranges::{self, KeyRange, ProgressSink},
    schema::{ColumnFamily, KeyError, OutpointKey},
};
/// The lists of an index are added up by the first byte of their hash.
const BUCKETS: usize = 256;
/// Buckets of lists that are held in memory to be compared: 3 % of the lists of an index.
const BUCKETS_SEARCHED: usize = 8;

fn bucket(index: &IndexRow, key: &[u8]) -> usize {
    let first = key.get(index.facts.hash_at()).copied().unwrap_or_default();
    index.name as usize * BUCKETS + usize::from(first)
}

/// What the entries of all indexes add up to, told by coins or found.
pub(super) struct ListSums(Vec<SetSum>);

impl ListSums {
    pub(super) fn new() -> Self {
        Self(vec![SetSum::default(); IndexName::ALL.len() * BUCKETS])
    }

    /// Adds the entries that a coin asks for.
    pub(super) fn ask(
        &mut self,
        indexes: &[IndexRow],
        outpoint: &Outpoint,
        coin: &Coin,
    ) -> Result<(), CodecError> {
        let mut asked =
            |index: &IndexRow| (index.keys)(outpoint, coin, &mut |key| self.add(index, key));
        indexes.iter().try_for_each(&mut asked)
    }

    fn add(&mut self, index: &IndexRow, key: &[u8]) {
        if let Some(sum) = self.0.get_mut(bucket(index, key)) {
            sum.add(&[key]);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(into, from)| into.merge(*from));
    }

    fn differences(&self, other: &Self) -> Vec<usize> {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs.filter(|(_, (told, found))| told != found).map(|(bucket, _)| bucket).collect()
    }
}

/// The index that a key of a family belongs to.
fn index_of<'r>(rows: &'r [IndexRow], key: &[u8]) -> Result<&'r IndexRow, KeyError> {
    let is_its = |row: &&IndexRow| row.facts.tag.is_none_or(|tag| key.first() == Some(&tag));
    rows.iter().find(is_its).ok_or(KeyError { length: key.len() })
}

/// What a range of one family adds up to; all ranges, once merged.
struct FamilySums {
    entries: u64,
    lists: ListSums,
    report: VerifyReport,
}

impl FamilySums {
    fn read(
        (view, family, rows): (&View<'_>, ColumnFamily, &[IndexRow]),
        (low, high): &KeyRange,
        sink: &mut ProgressSink<'_>,
    ) -> Result<Self, StoreError> {
        let mut sums = Self { entries: 0, lists: ListSums::new(), report: VerifyReport::default() };
        // No list reaches into another range.
        let mut run = ListRun::default();
        view.scan(&ScanRange::sweep(family, low, high), |key, value| {
            let wrong = StoreError::key(family.name(), key);
            let index = index_of(rows, key).and_then(|row| (row.check)(key).map(|()| row));
            let index = index.map_err(wrong)?;
            if !value.is_empty() {
                let entry = shown(index, family, key)?.0;
                sums.report.found(family, entry, "has a value where none belongs");
            }
            sums.lists.add(index, key);
            sums.entries += 1;
            run.take(index, key);
            Ok(sink.read_one())
        })?;
        run.end();
        Ok(sums)
    }

    fn merge(mut self, other: Self) -> Self {
        self.entries += other.entries;
        self.lists.merge(&other.lists);
        self.report.absorb(other.report);
        self
    }
}

/// The list that is being read.
#[derive(Default)]
struct ListRun {
    prefix: Vec<u8>,
    length: u64,
    counted: Option<fn(u64)>,
}

impl ListRun {
    fn take(&mut self, index: &IndexRow, key: &[u8]) {
        let prefix = key.get(..index.facts.prefix).unwrap_or_default();
        if self.prefix != prefix {
            self.end();
            // Most lists are short: the buffer is used again.
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            (self.length, self.counted) = (0, Some(index.facts.counted));
        }
        self.length += 1;
    }

    fn end(&self) {
        if let Some(counted) = self.counted {
            counted(self.length);
        }
    }
}

/// A key for people, and its coin.
fn shown(
    index: &IndexRow,
    family: ColumnFamily,
    key: &[u8],
) -> Result<(String, Outpoint), StoreError> {
    (index.read)(key).map_err(StoreError::key(family.name(), key))
}

impl Check<'_> {
    /// Reads all indexes, and compares them with what coins ask for.
    pub(super) fn lists(&mut self, told: &ListSums) -> Result<(), StoreError> {
        let mut found = ListSums::new();
        for family in indexes::families() {
            if !self.view.has(family) {
                continue;
            }
            let Self { view, progress, .. } = self;
            let rows = indexes::rows_of(family);
            let tags: Vec<u8> = rows.iter().filter_map(|row| row.facts.tag).collect();
            let large = ranges::suitable(view.entries_estimated(family)?, &tags);
            let parts = ranges::in_parallel(&large, *progress, |range, sink| {
                FamilySums::read((view, family, &rows), range, sink)
            })?;
            let Some(sums) = parts.into_iter().reduce(FamilySums::merge) else { continue };
            self.report.checked.push((family.name(), sums.entries));
            self.report.absorb(sums.report);
            found.merge(&sums.lists);
        }
        let odd = told.differences(&found);
        if odd.is_empty() { Ok(()) } else { self.odd_lists(&odd) }
    }

    /// Names list entries that no coin asks for, and coins that aren't listed.
    fn odd_lists(&mut self, odd: &[usize]) -> Result<(), StoreError> {
        let odd = self.searched(odd, BUCKETS_SEARCHED);
        let mut unlisted = self.asked(odd)?;
        let Self { view, report, .. } = self;
        for family in indexes::families().into_iter().filter(|family| view.has(*family)) {
            let rows = indexes::rows_of(family);
            view.scan_all(family, |key, _| {
                let index = index_of(&rows, key).map_err(StoreError::key(family.name(), key))?;
                let is_odd = odd.contains(&bucket(index, key));
                if !is_odd || unlisted.remove(&(index.name, key.to_vec())) {
                    return Ok(());
                }
                let (entry, coin) = shown(index, family, key)?;
                let unspent = view.get(ColumnFamily::Unspent, &OutpointKey(coin).encode())?;
                let what = match unspent {
                    Some(_) => "is listed under the wrong owner or place",
                    None => "is listed but not unspent",
                };
                report.found(family, entry, what);
                Ok(())
            })?;
        }
        for (name, key) in unlisted {
            let index = name.row();
            let (entry, _) = shown(&index, index.facts.family, &key)?;
            let what = "the coin is unspent but not listed";
            report.found(index.facts.family, entry, what);
        }
        Ok(())
    }

    /// What coins ask for in these buckets.
    fn asked(&self, odd: &[usize]) -> Result<HashSet<(IndexName, Vec<u8>)>, StoreError> {
        let (chain, family) = (self.network.family(), ColumnFamily::Unspent.name());
        let mut asked = HashSet::new();
        self.view.scan_all(ColumnFamily::Unspent, |key, value| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
            let coin = Coin::from_stored(chain, value);
            let coin = coin.map_err(StoreError::value(family, key))?;
            for index in &self.indexes {
                let told = (index.keys)(&outpoint, &coin, &mut |entry| {
                    if odd.contains(&bucket(index, entry)) {
                        asked.insert((index.name, entry.to_vec()));
                    }
                });
                told.map_err(StoreError::value(family, key))?;
            }
            Ok(())
        })?;
        Ok(asked)
    }
}
