//! The records that a change concerns: read once under their locks, changed as values, written back
//! with a fixed number of statements.
//!
//! Rows are always locked in the order of their names, so that changes which read all their records
//! at once don't wait for each other in a circle. Every write is guarded by the version that was
//! read. A record that nobody asked to change is not looked at again; any other is written if its
//! bytes differ from those that were read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use unspent_model::{
    Outpoint, TxId,
    txstore::{Slots, TxRecord},
};
use unspent_sql::{BulkStatement, Column, Row, SqlError, Tx};

use crate::{
    codec,
    error::TxStoreError,
    new_tx::{NewTx, stored_inputs},
    store::{sql_int, txid},
    write_rows::{ReadRow, RowWrites},
};

/// Longer bodies lie in `parts`, so that a spend doesn't carry them along.
pub(crate) const BODY_IN_ROW: usize = 1_000;
/// The part that is a body; further ones are pages of slots.
pub(crate) const BODY_PART: i64 = 0;

/// The number of a row leads SQLite to it without a search for its name.
macro_rules! record_columns {
    ($place:literal, $more:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $place,
            " AS place, t.txid, t.version, t.unmined_since, t.due_at, t.is_conflicting, t.state",
            $more,
            " FROM transactions t ",
            $rest
        )
    };
}
macro_rules! one_row {
    ($more:literal) => {
        record_columns!("t.rowid", $more, "WHERE t.txid = $1")
    };
}

const READ: BulkStatement = BulkStatement {
    sqlite: one_row!(""),
    postgres: record_columns!("0::bigint", "", "WHERE t.txid = ANY($1::bytea[])"),
};
const READ_LOCKED: BulkStatement = BulkStatement {
    sqlite: one_row!(""),
    postgres: record_columns!(
        "0::bigint",
        "",
        "WHERE t.txid = ANY($1::bytea[]) ORDER BY t.txid FOR UPDATE"
    ),
};
/// With the bodies that lie in the row: for those who are going to need the inputs of most.
const READ_WHOLE: BulkStatement = BulkStatement {
    sqlite: one_row!(", t.body"),
    postgres: record_columns!(
        "0::bigint",
        ", t.body",
        "WHERE t.txid = ANY($1::bytea[]) ORDER BY t.txid FOR UPDATE"
    ),
};
const READ_PAGES: BulkStatement = BulkStatement {
    sqlite: "SELECT txid, part, bytes FROM parts WHERE txid = $1 AND part = $2",
    postgres: "SELECT p.txid, p.part, p.bytes
        FROM UNNEST($1::bytea[], $2::bigint[]) k (txid, part)
        JOIN parts p ON p.txid = k.txid AND p.part = k.part",
};
const READ_BODIES: BulkStatement = BulkStatement {
    sqlite: "SELECT txid, body FROM transactions WHERE txid = $1",
    postgres: "SELECT txid, body FROM transactions WHERE txid = ANY($1::bytea[])",
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoadMode {
    /// In a transaction that changes nothing.
    ReadOnly,
    /// Under their locks.
    ForUpdate,
}

#[derive(Debug)]
struct WorkingRecord {
    record: TxRecord,
    /// Its row as it was read; `None` for a new one.
    read: Option<ReadRow>,
    /// A new one's bytes.
    body: Option<std::sync::Arc<[u8]>>,
    inputs: Option<Vec<Outpoint>>,
    /// Somebody asked to change it.
    is_touched: bool,
    is_deleted: bool,
}

/// The records of one change.
#[derive(Debug)]
pub(crate) struct WorkingSet {
    access: LoadMode,
    entries: HashMap<TxId, WorkingRecord>,
    absent: HashSet<TxId>,
}

impl WorkingSet {
    pub(crate) fn new(access: LoadMode) -> Self {
        Self { access, entries: HashMap::new(), absent: HashSet::new() }
    }

    /// Reads the records that were not read yet.
    pub(crate) fn load(
        &mut self,
        tx: &mut Tx<'_>,
        txids: impl IntoIterator<Item = TxId>,
    ) -> Result<(), TxStoreError> {
        let set = if self.access == LoadMode::ReadOnly { READ } else { READ_LOCKED };
        self.load_by(tx, set, txids)?;
        Ok(())
    }

    /// The same, with what they spend.
    pub(crate) fn load_whole(
        &mut self,
        tx: &mut Tx<'_>,
        txids: impl IntoIterator<Item = TxId>,
    ) -> Result<(), TxStoreError> {
        debug_assert_eq!(self.access, LoadMode::ForUpdate);
        let mut elsewhere = Vec::new();
        for mut row in self.load_by(tx, READ_WHOLE, txids)? {
            let name = txid(&row)?;
            match row.take_blob("body")? {
                Some(body) => self.put_inputs(name, stored_inputs(&body)?),
                None => elsewhere.push(name),
            }
        }
        self.load_inputs(tx, elsewhere)
    }

    fn load_by(
        &mut self,
        tx: &mut Tx<'_>,
        set: BulkStatement,
        txids: impl IntoIterator<Item = TxId>,
    ) -> Result<Vec<Row>, TxStoreError> {
        // What is here may have been changed since it was read: reading it again would lose that.
        let mut wanted: Vec<TxId> = txids.into_iter().filter(|txid| !self.knows(*txid)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let names = Column::hashes(wanted.iter().map(|txid| txid.0));
        let mut rows = tx.query_set(set, &[], &[names])?;
        self.entries.reserve(rows.len());
        for row in &mut rows {
            self.put_row(row)?;
        }
        if rows.len() < wanted.len() {
            self.absent.extend(wanted.into_iter().filter(|txid| !self.entries.contains_key(txid)));
        }
        Ok(rows)
    }

    fn put_row(&mut self, row: &mut Row) -> Result<(), TxStoreError> {
        let (record, read) = read_record(row)?;
        let (body, inputs, read) = (None, None, Some(read));
        let entry =
            WorkingRecord { record, read, body, inputs, is_touched: false, is_deleted: false };
        self.entries.insert(entry.record.txid, entry);
        Ok(())
    }

    fn knows(&self, txid: TxId) -> bool {
        self.entries.contains_key(&txid) || self.absent.contains(&txid)
    }

    pub(crate) fn get(&self, txid: TxId) -> Option<&TxRecord> {
        self.entries.get(&txid).filter(|entry| !entry.is_deleted).map(|entry| &entry.record)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, txid: TxId) -> Option<&mut TxRecord> {
        let entry = self.entries.get_mut(&txid).filter(|entry| !entry.is_deleted)?;
        entry.is_touched = true;
        Some(&mut entry.record)
    }

    /// What a record spends, once [`WorkingSet::load_inputs`] has been asked for it.
    pub(crate) fn inputs(&self, txid: TxId) -> &[Outpoint] {
        let found = self.entries.get(&txid).and_then(|entry| entry.inputs.as_deref());
        found.unwrap_or_default()
    }

    /// Says what a record spends, for callers who know it without its bytes.
    pub(crate) fn put_inputs(&mut self, txid: TxId, inputs: Vec<Outpoint>) {
        if let Some(entry) = self.entries.get_mut(&txid) {
            entry.inputs = Some(inputs);
        }
    }

    /// Adds a new record. It must not be there.
    pub(crate) fn add(&mut self, new: &NewTx, record: TxRecord) {
        let (body, inputs) = (Some(new.body.clone()), Some(new.inputs.clone()));
        self.absent.remove(&record.txid);
        let (is_touched, is_deleted) = (true, false);
        let entry = WorkingRecord { record, read: None, body, inputs, is_touched, is_deleted };
        self.entries.insert(new.txid, entry);
    }

    /// Takes back what [`WorkingSet::add`] did.
    pub(crate) fn take_back(&mut self, txid: TxId) {
        self.entries.remove(&txid);
        self.absent.insert(txid);
    }

    pub(crate) fn delete(&mut self, txid: TxId) {
        if let Some(entry) = self.entries.get_mut(&txid) {
            entry.is_deleted = true;
        }
    }

    /// Reads the pages that hold these outputs, where they are not in the row.
    pub(crate) fn load_slots(
        &mut self,
        tx: &mut Tx<'_>,
        outputs: impl IntoIterator<Item = Outpoint>,
    ) -> Result<(), TxStoreError> {
        let mut wanted = BTreeSet::new();
        for output in outputs {
            let page = Slots::page_of(output.index);
            if page == 0 {
                continue;
            }
            let Some(record) = self.get(output.tx) else { continue };
            if page < record.slots.page_count() && record.slots.page(page).is_none() {
                wanted.insert((output.tx, page));
            }
        }
        self.read_pages(tx, wanted)
    }

    pub(crate) fn load_all_slots(
        &mut self,
        tx: &mut Tx<'_>,
        txids: impl IntoIterator<Item = TxId>,
    ) -> Result<(), TxStoreError> {
        let mut wanted = BTreeSet::new();
        for txid in txids {
            let Some(record) = self.get(txid) else { continue };
            wanted.extend(record.slots.missing_pages().map(|page| (txid, page)));
        }
        self.read_pages(tx, wanted)
    }

    fn read_pages(
        &mut self,
        tx: &mut Tx<'_>,
        wanted: BTreeSet<(TxId, usize)>,
    ) -> Result<(), TxStoreError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let names = Column::hashes(wanted.iter().map(|(txid, _)| txid.0));
        let numbers = wanted.iter().map(|(_, page)| sql_int(*page as u64));
        let numbers = Column::ints(numbers.collect::<Result<Vec<_>, _>>()?);
        for mut row in tx.query_set(READ_PAGES, &[], &[names, numbers])? {
            let (txid, page) = (txid(&row)?, row.natural("part")?);
            let page = usize::try_from(page).unwrap_or(usize::MAX);
            let bytes = row.take_blob("bytes")?.unwrap_or_default();
            let Some(entry) = self.entries.get_mut(&txid) else { continue };
            entry.record.slots.put_page(page, codec::read_slots(&bytes)?);
            if let Some(read) = &mut entry.read {
                read.pages.push((page, bytes));
            }
        }
        // A page that its record counts and nobody has is damage: taken as empty, its spends would
        // be forgotten.
        let lost = wanted.iter().find(|(txid, page)| {
            self.get(*txid).is_none_or(|record| record.slots.page(*page).is_none())
        });
        match lost {
            Some((txid, page)) => Err(TxStoreError::Corrupt(format!(
                "page {page} of {} is missing",
                txid.on_bitcoin()
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn load_inputs(
        &mut self,
        tx: &mut Tx<'_>,
        txids: impl IntoIterator<Item = TxId>,
    ) -> Result<(), TxStoreError> {
        let is_wanted = |txid: &TxId| {
            self.entries.get(txid).is_some_and(|entry| entry.inputs.is_none() && !entry.is_deleted)
        };
        let wanted: BTreeSet<TxId> = txids.into_iter().filter(is_wanted).collect();
        for (txid, body) in bodies(tx, &wanted)? {
            let inputs = stored_inputs(&body)?;
            if let Some(entry) = self.entries.get_mut(&txid) {
                entry.inputs = Some(inputs);
            }
        }
        Ok(())
    }

    pub(crate) fn save(self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        debug_assert_eq!(self.access, LoadMode::ForUpdate);
        let touched = self.entries.into_values();
        let mut touched: Vec<WorkingRecord> =
            touched.filter(|entry| entry.is_touched || entry.is_deleted).collect();
        // New rows lock too: two writers that insert the same names in different orders would wait
        // for each other.
        touched.sort_unstable_by_key(|entry| entry.record.txid);
        let mut rows = RowWrites::default();
        for entry in touched {
            let WorkingRecord { record, read, body, is_deleted, .. } = entry;
            match read {
                // Made and deleted within one change: the database never hears of it.
                None if is_deleted => {}
                None => rows.insert(&record, body.as_deref().unwrap_or_default())?,
                Some(read) if is_deleted => rows.delete(&record, &read)?,
                Some(read) => rows.update(&record, &read)?,
            }
        }
        rows.send(tx)
    }
}

pub(crate) fn bodies(
    tx: &mut Tx<'_>,
    txids: &BTreeSet<TxId>,
) -> Result<BTreeMap<TxId, Vec<u8>>, TxStoreError> {
    let mut found = BTreeMap::new();
    let mut elsewhere = Vec::new();
    let names = Column::hashes(txids.iter().map(|txid| txid.0));
    for mut row in tx.query_set(READ_BODIES, &[], &[names])? {
        let txid = txid(&row)?;
        match row.take_blob("body")? {
            Some(body) => {
                found.insert(txid, body);
            }
            None => elsewhere.push(txid),
        }
    }
    let names = Column::hashes(elsewhere.iter().map(|txid| txid.0));
    let parts = Column::ints(elsewhere.iter().map(|_| BODY_PART));
    for row in tx.query_set(READ_PAGES, &[], &[names, parts])? {
        found.insert(txid(&row)?, row.blob("bytes")?);
    }
    match elsewhere.iter().find(|txid| !found.contains_key(txid)) {
        Some(txid) => {
            Err(TxStoreError::Corrupt(format!("the bytes of {} are missing", txid.on_bitcoin())))
        }
        None => Ok(found),
    }
}

/// A record from its row, and what its row was; pages beyond the first are read apart.
fn read_record(row: &mut Row) -> Result<(TxRecord, ReadRow), TxStoreError> {
    let read = ReadRow {
        place: row.int("place")?,
        state: row.take_blob("state")?.unwrap_or_default(),
        unmined_since: row.opt_natural("unmined_since")?,
        due_at: row.opt_natural("due_at")?,
        is_conflicting: row.flag("is_conflicting")?,
        pages: Vec::new(),
    };
    let mut record = TxRecord::new(txid(row)?, Slots::new(&[]), 0);
    record.version = row.natural("version")?;
    (record.unmined_since, record.due_at) = (read.unmined_since, read.due_at);
    record.is_conflicting = read.is_conflicting;
    codec::read_state(&read.state, &mut record)?;
    Ok((record, read))
}

/// What two writers at once make of a row that only one of them knew of: run again.
pub(crate) fn met_another(what: &'static str) -> TxStoreError {
    TxStoreError::Sql(SqlError::Conflict(what.into()))
}
