//! RocksDB behind a small door: families by name, errors with a place, two ways to commit.
//!
//! Invariant: everything that belongs together is one `WriteBatch`. Near the tip it is written with
//! the log and synced before it is acknowledged. In bulk it is written without the log and then all
//! families are flushed as one atomic group (`atomic_flush`), so that a crash leaves the last
//! flush.

use std::{ops::Range, path::Path, sync::Arc};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBPinnableSlice,
    DBRawIterator, DBRecoveryMode, DataBlockIndexType, FlushOptions, ReadOptions, SliceTransform,
    Snapshot, WaitForCompactOptions, WriteBatch, WriteOptions, checkpoint::Checkpoint,
};

use crate::{
    error::StoreError,
    forgotten::{FloorGuard, PointerFilters, SpendsFloor},
    schema::{ALL_FAMILIES, CHAIN_FAMILIES, ColumnFamily, FamilyTuning, INDEX_FAMILIES},
};

/// What a column family holds: bytes under bytes.
#[derive(Clone, Copy)]
pub(crate) struct KeyValue<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Bloom filters: about 1 % false positives.
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// Share of a write buffer that filters address prefixes.
const MEMTABLE_BLOOM_RATIO: f64 = 0.1;
/// Threads for flushing and compaction.
const BACKGROUND_JOBS: i32 = 4;
/// Flushes that wait before they are merged into the first sorted level. Each merge writes all of
/// that level again, so the more share one, the less is written; each that waits is one more file
/// that a read looks into, past a filter.
const LEVEL_ZERO_TRIGGER: i32 = 8;
/// Size of the first sorted level. Below it lies the last one, of which the less is written again
/// for each entry that goes down, the larger this one is; but this one is written again as a whole.
const LEVEL_BASE: u64 = 512 << 20;
/// By level, the first sorted one second. What is flushed or in the first sorted level is merged
/// again before long: the last level alone is worth compressing (`LAST_COMPRESSION`).
const COMPRESSION: [DBCompressionType; 7] = {
    let mut levels = [LAST_COMPRESSION; 7];
    levels[0] = DBCompressionType::None;
    levels[1] = DBCompressionType::None;
    levels
};
const LAST_COMPRESSION: DBCompressionType = DBCompressionType::Lz4;
/// RocksDB's own log files kept.
const INFO_LOGS: usize = 4;
const INFO_LOG_SIZE: usize = 4 << 20;

/// How a folder is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenMode {
    /// One writer; creates what is missing.
    ReadWrite,
    /// Beside a writer; creates and locks nothing.
    ReadOnly,
}

/// Memory the database may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryShares {
    /// Shared by all families for reading.
    pub(crate) block_cache: usize,
    /// Of each family, for writing.
    pub(crate) write_buffer: usize,
}

/// How a batch reaches the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durability {
    /// Logged and synced before returning.
    Synced,
    /// Logged; may be lost with the machine, and is then simply done again.
    Logged,
    /// Not logged; flushed as one atomic group before returning.
    Flushed,
}

/// A key and its value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

pub(crate) struct Db {
    inner: DB,
    families: Vec<ColumnFamily>,
    cache: Cache,
    write_buffer: usize,
    forgotten: Arc<SpendsFloor>,
}

impl Db {
    /// Opens the families of the chain and, with `index`, those of the index.
    pub(crate) fn open(
        folder: &Path,
        access: OpenMode,
        index: bool,
        memory: MemoryShares,
    ) -> Result<Self, StoreError> {
        let options = database_options();
        let existing = existing_families(&options, folder)?;
        let mut families = CHAIN_FAMILIES.to_vec();
        if index {
            families.extend(INDEX_FAMILIES);
        }
        let cache = Cache::new_hyper_clock_cache(memory.block_cache, 0);
        // Those on demand are made by whoever first needs them; see `add`.
        let is_there = |family: &ColumnFamily| existing.iter().any(|name| name == family.name());
        let on_demand = ALL_FAMILIES.into_iter().filter(|family| family.is_on_demand());
        families.extend(on_demand.filter(|family| index && is_there(family)));
        let forgotten = Arc::<SpendsFloor>::default();
        // The filter starts at 0: nothing may be dropped before the floor was read.
        let tune = |family| {
            let mut options = family_options(family, &cache, memory.write_buffer);
            if family == Some(ColumnFamily::Spent) {
                options.set_compaction_filter_factory(PointerFilters(forgotten.clone()));
            }
            options
        };
        let wanted =
            families.iter().filter(|family| access == OpenMode::ReadWrite || is_there(family));
        let wanted: Vec<ColumnFamily> = wanted.copied().collect();
        // RocksDB refuses to open for writing unless every existing family is named.
        let idle = existing.iter().filter(|name| {
            access == OpenMode::ReadWrite && wanted.iter().all(|family| family.name() != *name)
        });
        let idle = idle.map(|name| ColumnFamilyDescriptor::new(name, tune(None)));
        let descriptors = wanted
            .iter()
            .map(|family| ColumnFamilyDescriptor::new(family.name(), tune(Some(*family))));
        let descriptors: Vec<_> = descriptors.chain(idle).collect();
        let opened = match access {
            OpenMode::ReadWrite => DB::open_cf_descriptors(&options, folder, descriptors),
            OpenMode::ReadOnly => {
                DB::open_cf_descriptors_read_only(&options, folder, descriptors, false)
            }
        };
        let inner = opened.map_err(StoreError::engine("opening the folder"))?;
        let write_buffer = memory.write_buffer;
        Ok(Self { inner, families: wanted, cache, write_buffer, forgotten })
    }

    /// Makes a family that isn't there yet.
    pub(crate) fn add(&mut self, family: ColumnFamily) -> Result<(), StoreError> {
        if self.families.contains(&family) {
            return Ok(());
        }
        let options = family_options(Some(family), &self.cache, self.write_buffer);
        let made = self.inner.create_cf(family.name(), &options);
        made.map_err(StoreError::engine("making a column family"))?;
        self.families.push(family);
        Ok(())
    }

    fn handle(&self, family: ColumnFamily) -> Result<&rocksdb::ColumnFamily, StoreError> {
        let found = self.families.contains(&family).then(|| self.inner.cf_handle(family.name()));
        found.flatten().ok_or(StoreError::MissingFamily(family.name()))
    }

    /// Looks many keys up at once; they must be sorted.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: ColumnFamily,
        sorted: &[K],
    ) -> Result<Vec<Option<DBPinnableSlice<'_>>>, StoreError> {
        self.multi_get_with(family, sorted, &ReadOptions::default())
    }

    fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        family: ColumnFamily,
        sorted: &[K],
        options: &ReadOptions,
    ) -> Result<Vec<Option<DBPinnableSlice<'_>>>, StoreError> {
        let handle = self.handle(family)?;
        let found = self.inner.batched_multi_get_cf_opt(handle, sorted, true, options);
        let found: Result<Vec<_>, _> = found.into_iter().collect();
        found.map_err(StoreError::engine("reading entries"))
    }

    /// A consistent view of everything committed so far.
    pub(crate) fn view(&self) -> View<'_> {
        // Held before the snapshot is taken: see `forgotten`.
        let held = self.forgotten.hold();
        View { db: self, snapshot: self.inner.snapshot(), _held: held }
    }

    /// An empty batch with space for so many bytes of entries.
    pub(crate) fn batch(&self, bytes: usize) -> Batch<'_> {
        let handles = ALL_FAMILIES.map(|family| self.handle(family).ok());
        Batch { db: self, handles, inner: WriteBatch::with_capacity_bytes(bytes) }
    }

    fn flush(&self) -> Result<(), StoreError> {
        let handles: Result<Vec<_>, _> = self.families.iter().map(|f| self.handle(*f)).collect();
        // A group of named families is flushed as one manifest edit; one call each would let a
        // crash fall in between.
        let mut wait = FlushOptions::default();
        wait.set_wait(true);
        let flushed = self.inner.flush_cfs_opt(&handles?, &wait);
        flushed.map_err(StoreError::engine("flushing"))
    }

    /// Rewrites a family without what was deleted from it.
    pub(crate) fn compact(&self, family: ColumnFamily) -> Result<(), StoreError> {
        self.inner.compact_range_cf(self.handle(family)?, None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    /// Spends up to this block are forgotten, and that is on disk.
    pub(crate) fn set_forgotten(&self, floor: u64) {
        self.forgotten.set(floor);
    }

    /// Makes durable what was logged.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.inner.flush_wal(true).map_err(StoreError::engine("syncing the log"))
    }

    /// Grows with every write; what is durable keeps its number.
    pub(crate) fn sequence(&self) -> u64 {
        self.inner.latest_sequence_number()
    }

    /// Copies the database as it stands at one moment into a folder that must not be there yet.
    pub(crate) fn checkpoint(&self, to: &Path) -> Result<(), StoreError> {
        let made = Checkpoint::new(&self.inner).and_then(|made| made.create_checkpoint(to));
        made.map_err(StoreError::engine("copying the database"))
    }

    /// Waits until nothing is being compacted any more.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        let settled = self.inner.wait_for_compact(&WaitForCompactOptions::default());
        settled.map_err(StoreError::engine("waiting for compaction"))
    }

    /// Bytes of a family's files.
    pub(crate) fn size_on_disk(&self, family: ColumnFamily) -> Result<u64, StoreError> {
        let size = self.inner.property_int_value_cf(self.handle(family)?, SST_SIZE);
        Ok(size.map_err(StoreError::engine("reading a size"))?.unwrap_or_default())
    }

    /// About how many entries a family has: deletions not yet compacted away blur it.
    pub(crate) fn entries_estimated(&self, family: ColumnFamily) -> Result<u64, StoreError> {
        let count = self.inner.property_int_value_cf(self.handle(family)?, ESTIMATED_KEYS);
        Ok(count.map_err(StoreError::engine("reading a count"))?.unwrap_or_default())
    }

    /// Where the database lies.
    pub(crate) fn path(&self) -> &Path {
        self.inner.path()
    }

    /// The families that are open.
    pub(crate) fn families(&self) -> &[ColumnFamily] {
        &self.families
    }
}

impl Drop for Db {
    /// Ends RocksDB's own threads before its destructor runs.
    ///
    /// After a write that found no space RocksDB waits in the background for space to come back.
    /// Its destructor calls that off, then flushes what the log doesn't have, fails again, and
    /// waits for the recovery that this failure has started: for ever, if the disk stays full.
    /// Cancelled here first, it has nothing left to flush, and ends. Whoever drops the last handle
    /// can leave the process: no thread of the database is left to meet its end.
    fn drop(&mut self) {
        self.inner.cancel_all_background_work(true);
    }
}

/// What a writer reads as it goes, and a reader from one moment.
pub(crate) trait Get {
    /// The value of a key.
    fn get(&self, family: ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    fn last(&self, family: ColumnFamily) -> Result<Option<Entry>, StoreError>;
}

impl Get for Db {
    fn get(&self, family: ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.inner.get_cf(self.handle(family)?, key);
        found.map_err(StoreError::engine("reading an entry"))
    }

    fn last(&self, family: ColumnFamily) -> Result<Option<Entry>, StoreError> {
        last_of(self.inner.raw_iterator_cf(self.handle(family)?))
    }
}

impl Get for View<'_> {
    fn get(&self, family: ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.snapshot.get_cf(self.db.handle(family)?, key);
        found.map_err(StoreError::engine("reading an entry"))
    }

    fn last(&self, family: ColumnFamily) -> Result<Option<Entry>, StoreError> {
        last_of(self.snapshot.raw_iterator_cf(self.db.handle(family)?))
    }
}

fn last_of(mut cursor: DBRawIterator<'_>) -> Result<Option<Entry>, StoreError> {
    cursor.seek_to_last();
    cursor.status().map_err(StoreError::engine("reading the last entry"))?;
    Ok(cursor.item().map(|(key, value)| (key.to_vec(), value.to_vec())))
}

const SST_SIZE: &str = "rocksdb.total-sst-files-size";
const ESTIMATED_KEYS: &str = "rocksdb.estimate-num-keys";

/// A batch under construction: all of it happens or none.
pub(crate) struct Batch<'db> {
    db: &'db Db,
    /// In the order of [`ALL_FAMILIES`], looked up once for all entries.
    handles: [Option<&'db rocksdb::ColumnFamily>; ALL_FAMILIES.len()],
    inner: WriteBatch,
}

impl<'db> Batch<'db> {
    fn handle(&self, family: ColumnFamily) -> Result<&'db rocksdb::ColumnFamily, StoreError> {
        let found = self.handles.get(family as usize).copied().flatten();
        found.ok_or(StoreError::MissingFamily(family.name()))
    }

    pub(crate) fn put(
        &mut self,
        family: ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        self.inner.put_cf(self.handle(family)?, key, value);
        Ok(())
    }

    pub(crate) fn delete(&mut self, family: ColumnFamily, key: &[u8]) -> Result<(), StoreError> {
        self.inner.delete_cf(self.handle(family)?, key);
        Ok(())
    }

    /// Deletes all keys of a range.
    pub(crate) fn delete_range(
        &mut self,
        family: ColumnFamily,
        keys: Range<&[u8]>,
    ) -> Result<(), StoreError> {
        self.inner.delete_range_cf(self.handle(family)?, keys.start, keys.end);
        Ok(())
    }

    /// Puts or, without a value, deletes.
    pub(crate) fn set(
        &mut self,
        family: ColumnFamily,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        match value {
            Some(value) => self.put(family, key, value),
            None => self.delete(family, key),
        }
    }

    /// Carries the batch out. When this returns `Ok`, it is as durable as asked for.
    pub(crate) fn commit(self, durability: Durability) -> Result<(), StoreError> {
        let mut how = WriteOptions::default();
        how.set_sync(durability == Durability::Synced);
        how.disable_wal(durability == Durability::Flushed);
        let written = self.db.inner.write_opt(self.inner, &how);
        // Without the log the batch stands in memory alone so far: the flush is the commit.
        written.map_err(StoreError::engine("writing a batch"))?;
        if durability == Durability::Flushed { self.db.flush() } else { Ok(()) }
    }
}

/// One moment of the database: later commits are not seen.
pub(crate) struct View<'db> {
    db: &'db Db,
    snapshot: Snapshot<'db>,
    _held: FloorGuard,
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanDirection {
    Up,
    Down,
}

/// Entries of a family with `low <= key < high`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanRange<'a> {
    pub(crate) family: ColumnFamily,
    pub(crate) low: &'a [u8],
    pub(crate) high: &'a [u8],
    pub(crate) direction: ScanDirection,
    /// The whole range lies under one prefix of the family, so that prefix filters may be used.
    pub(crate) within_prefix: bool,
    /// What is read will be asked for again. A sweep over everything would only push out what
    /// others need, and take the cache's memory for nothing.
    pub(crate) fills_cache: bool,
}

impl<'a> ScanRange<'a> {
    /// In key order, over prefixes.
    pub(crate) fn up(family: ColumnFamily, low: &'a [u8], high: &'a [u8]) -> Self {
        let direction = ScanDirection::Up;
        Self { family, low, high, direction, within_prefix: false, fills_cache: true }
    }

    /// The same, as a part of reading the whole family.
    pub(crate) fn sweep(family: ColumnFamily, low: &'a [u8], high: &'a [u8]) -> Self {
        Self { fills_cache: false, ..Self::up(family, low, high) }
    }
}

impl View<'_> {
    /// Looks many keys up at once; they must be sorted.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: ColumnFamily,
        sorted: &[K],
    ) -> Result<Vec<Option<DBPinnableSlice<'_>>>, StoreError> {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        self.db.multi_get_with(family, sorted, &options)
    }

    /// Visits the entries of a range until `visit` returns false.
    pub(crate) fn scan(
        &self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let ScanRange { family, low, high, direction, within_prefix, fills_cache } = *range;
        let mut options = ReadOptions::default();
        options.fill_cache(fills_cache);
        options.set_iterate_lower_bound(low);
        // Without an upper bound a scan walks over the tombstones of whatever list comes next.
        options.set_iterate_upper_bound(high);
        // A seek through prefix filters skips tables that lack the first key's prefix: over several
        // prefixes it would miss entries.
        options.set_total_order_seek(!within_prefix);
        options.set_prefix_same_as_start(within_prefix);
        let mut cursor = self.snapshot.raw_iterator_cf_opt(self.db.handle(family)?, options);
        match direction {
            ScanDirection::Up => cursor.seek(low),
            ScanDirection::Down => cursor.seek_for_prev(high),
        }
        while let Some((key, value)) = cursor.item() {
            if !visit(key, value)? {
                return Ok(());
            }
            match direction {
                ScanDirection::Up => cursor.next(),
                ScanDirection::Down => cursor.prev(),
            }
        }
        // An iterator that met a damaged block ends like one at its end: only its status tells.
        cursor.status().map_err(StoreError::engine("scanning"))
    }

    /// The family is there: those on demand needn't be.
    pub(crate) fn has(&self, family: ColumnFamily) -> bool {
        self.db.families.contains(&family)
    }

    /// As for the database: about how many entries a family has.
    pub(crate) fn entries_estimated(&self, family: ColumnFamily) -> Result<u64, StoreError> {
        self.db.entries_estimated(family)
    }

    /// Visits every entry of a family in key order.
    pub(crate) fn scan_all(
        &self,
        family: ColumnFamily,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // No key of ours is longer than this, nor greater.
        let end = [0xff; 128];
        self.scan(&ScanRange::sweep(family, &[], &end), |key, value| {
            visit(key, value)?;
            Ok(true)
        })
    }
}

/// The families there are; none where the database is yet to be made.
fn existing_families(options: &rocksdb::Options, folder: &Path) -> Result<Vec<String>, StoreError> {
    // RocksDB renames this file into place as the last step of making a database.
    if !folder.join("CURRENT").exists() {
        return Ok(Vec::new());
    }
    DB::list_cf(options, folder).map_err(StoreError::engine("reading the list of files"))
}

fn database_options() -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    // Bulk writes no log; families flushed one by one would come back from a crash out of step.
    options.set_atomic_flush(true);
    // A torn tail of the log is what a power failure leaves, and is repaired to a block boundary;
    // any other damage is an error rather than a silent loss.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    // Every table stays open: a reader beside the writer keeps what it needs.
    options.set_max_open_files(-1);
    options.set_keep_log_file_num(INFO_LOGS);
    options.set_max_log_file_size(INFO_LOG_SIZE);
    options
}

fn family_options(
    family: Option<ColumnFamily>,
    cache: &Cache,
    write_buffer: usize,
) -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.set_compression_per_level(&COMPRESSION);
    // A small set's first sorted level is its last.
    options.set_bottommost_compression_type(LAST_COMPRESSION);
    options.set_write_buffer_size(write_buffer);
    options.set_level_zero_file_num_compaction_trigger(LEVEL_ZERO_TRIGGER);
    options.set_max_bytes_for_level_base(LEVEL_BASE);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // A family that this program doesn't know is only named.
    match family.map_or(FamilyTuning::Small, |family| family.facts().tuning) {
        FamilyTuning::WholeKeys => {
            table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
            // Blocks spend coins that are there: a filter of the last level would say so each
            // time, in vain. A question after an unknown coin reads one block more.
            options.set_optimize_filters_for_hits(true);
            // Asked for by whole keys: a byte per key spares the search inside a block.
            table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        }
        FamilyTuning::Prefixes(length) => {
            table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(length));
        }
        // Numbers as keys leave a filter nothing to do.
        FamilyTuning::Packed => {
            options.set_compression_per_level(&[DBCompressionType::None; COMPRESSION.len()]);
            options.set_bottommost_compression_type(DBCompressionType::None);
        }
        FamilyTuning::Lists(length) => {
            table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
            table.set_whole_key_filtering(false);
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(length));
            options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO);
        }
        FamilyTuning::Small => options.set_bottommost_compression_type(DBCompressionType::Zstd),
    }
    options.set_block_based_table_factory(&table);
    options
}
