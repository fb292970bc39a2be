//! The rows that a change writes, gathered and sent table by table.
//!
//! One statement per table and kind of write, whatever the number of rows. They aren't folded into
//! one, as Citus takes such a statement only when all rows lie in one place.

use unspent_model::txstore::TxRecord;
use unspent_sql::{Backend, BulkStatement, Column, SqlError, Tx};

use crate::{
    codec,
    error::TxStoreError,
    store::sql_int,
    working::{BODY_IN_ROW, BODY_PART, met_another},
};

/// The callers have looked who is there. On a server another one may have come since: that is a
/// broken rule there, as asking for it costs a search for each row.
const INSERT: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO transactions (txid, version, mined_height, unmined_since, due_at,
            is_conflicting, state, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (txid) DO NOTHING",
    postgres: "INSERT INTO transactions (txid, version, mined_height, unmined_since, due_at,
            is_conflicting, state, body)
        SELECT k.* FROM UNNEST($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[],
            $5::bigint[], $6::boolean[], $7::bytea[], $8::bytea[]) k",
};
/// SQLite is led to the row by its number; a unary plus keeps it from searching for the name.
const UPDATE: BulkStatement = BulkStatement {
    sqlite: "UPDATE transactions SET version = $3, mined_height = $4, unmined_since = $5,
            due_at = $6, is_conflicting = $7, state = $8
        WHERE rowid = $9 AND +txid = $1 AND version = $2",
    postgres: "UPDATE transactions t SET version = k.version, mined_height = k.mined,
            unmined_since = k.unmined, due_at = k.due, is_conflicting = k.conflicting,
            state = k.state
        FROM UNNEST($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
            $6::bigint[], $7::boolean[], $8::bytea[])
            k (txid, was, version, mined, unmined, due, conflicting, state)
        WHERE t.txid = k.txid AND t.version = k.was",
};
/// The verdict once more, as far as the row itself can tell: whoever changed it meanwhile keeps it.
const DELETE: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM transactions WHERE rowid = $3 AND +txid = $1 AND version = $2",
    postgres: "DELETE FROM transactions t USING UNNEST($1::bytea[], $2::bigint[]) k (txid, was)
        WHERE t.txid = k.txid AND t.version = k.was",
};
const PUT_PARTS: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO parts (txid, part, bytes) VALUES ($1, $2, $3)
        ON CONFLICT (txid, part) DO UPDATE SET bytes = excluded.bytes",
    postgres: "INSERT INTO parts (txid, part, bytes)
        SELECT k.* FROM UNNEST($1::bytea[], $2::bigint[], $3::bytea[]) k
        ON CONFLICT (txid, part) DO UPDATE SET bytes = excluded.bytes",
};
const DELETE_PARTS: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM parts WHERE txid = $1",
    postgres: "DELETE FROM parts WHERE txid = ANY($1::bytea[])",
};
const LEAVE_QUEUE: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM due WHERE height = $1 AND txid = $2",
    postgres: "DELETE FROM due d USING UNNEST($1::bigint[], $2::bytea[]) k (height, txid)
        WHERE d.height = k.height AND d.txid = k.txid",
};
const JOIN_QUEUE: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO due (height, txid) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    postgres: "INSERT INTO due (height, txid)
        SELECT k.* FROM UNNEST($1::bigint[], $2::bytea[]) k ON CONFLICT DO NOTHING",
};

type Names = Vec<[u8; 32]>;
type Ints = Vec<Option<i64>>;
type Blobs = Vec<Option<Vec<u8>>>;

/// A row as it was read: what it is compared with when it is written.
#[derive(Debug)]
pub(crate) struct ReadRow {
    /// Its number on SQLite, for as long as the transaction lasts; 0 elsewhere.
    pub(crate) place: i64,
    pub(crate) state: Vec<u8>,
    pub(crate) unmined_since: Option<u64>,
    pub(crate) due_at: Option<u64>,
    pub(crate) is_conflicting: bool,
    /// Further pages of slots that were read.
    pub(crate) pages: Vec<(usize, Vec<u8>)>,
}

impl ReadRow {
    /// Whether the record is still what the row says. Its height follows from its blocks.
    fn says(&self, record: &TxRecord, state: &[u8]) -> bool {
        self.state == state
            && self.unmined_since == record.unmined_since
            && self.due_at == record.due_at
            && self.is_conflicting == record.is_conflicting
    }

    fn page(&self, page: usize) -> Option<&[u8]> {
        let found = self.pages.iter().find(|(number, _)| *number == page);
        found.map(|(_, bytes)| bytes.as_slice())
    }
}

/// The columns that a new and a changed row share.
#[derive(Default)]
struct RecordColumns {
    txid: Names,
    version: Ints,
    mined: Ints,
    unmined: Ints,
    due: Ints,
    conflicting: Vec<bool>,
    state: Blobs,
}

impl RecordColumns {
    fn push(
        &mut self,
        record: &TxRecord,
        version: u64,
        state: Vec<u8>,
    ) -> Result<(), TxStoreError> {
        self.txid.push(record.txid.0);
        self.version.push(Some(sql_int(version)?));
        self.mined.push(opt_int(record.mined_height())?);
        self.unmined.push(opt_int(record.unmined_since)?);
        self.due.push(opt_int(record.due_at)?);
        self.conflicting.push(record.is_conflicting);
        self.state.push(Some(state));
        Ok(())
    }
}

fn opt_int(number: Option<u64>) -> Result<Option<i64>, TxStoreError> {
    number.map(sql_int).transpose()
}

/// Rows that are led to by their numbers on SQLite, each in the version that was read.
#[derive(Default)]
struct FoundRows {
    was: Ints,
    place: Ints,
}

impl FoundRows {
    fn push(&mut self, record: &TxRecord, read: &ReadRow) -> Result<(), TxStoreError> {
        self.was.push(Some(sql_int(record.version)?));
        self.place.push(Some(read.place));
        Ok(())
    }

    /// The last column of a statement; PostgreSQL has no use for it.
    fn with_places(tx: &Tx<'_>, mut columns: Vec<Column>, place: Ints) -> Vec<Column> {
        if tx.backend() == Backend::Sqlite {
            columns.push(Column::Ints(place));
        }
        columns
    }
}

/// All that a change writes.
#[derive(Default)]
pub(crate) struct RowWrites {
    new: RecordColumns,
    bodies: Blobs,
    changed: RecordColumns,
    changed_found: FoundRows,
    deleted: Names,
    deleted_found: FoundRows,
    with_parts: Names,
    parts: (Names, Ints, Blobs),
    left: (Ints, Names),
    joined: (Ints, Names),
}

impl RowWrites {
    /// A new record.
    pub(crate) fn insert(&mut self, record: &TxRecord, body: &[u8]) -> Result<(), TxStoreError> {
        self.new.push(record, record.version, codec::state(record)?)?;
        let fits = body.len() <= BODY_IN_ROW;
        self.bodies.push(fits.then(|| body.to_vec()));
        if !fits {
            self.put_part(record, BODY_PART, body.to_vec());
        }
        self.put_pages(record, None)?;
        self.join(record)
    }

    /// A record that may have changed since its row was read.
    pub(crate) fn update(&mut self, record: &TxRecord, read: &ReadRow) -> Result<(), TxStoreError> {
        let state = codec::state(record)?;
        let parts = self.parts.0.len();
        self.put_pages(record, Some(read))?;
        if read.says(record, &state) && self.parts.0.len() == parts {
            return Ok(());
        }
        self.changed_found.push(record, read)?;
        self.changed.push(record, record.version + 1, state)?;
        if read.due_at != record.due_at {
            self.leave(record, read)?;
            self.join(record)?;
        }
        Ok(())
    }

    /// A record that goes.
    pub(crate) fn delete(&mut self, record: &TxRecord, read: &ReadRow) -> Result<(), TxStoreError> {
        self.deleted.push(record.txid.0);
        self.deleted_found.push(record, read)?;
        // Most records have no parts, and a deletion that finds nothing costs its search all the
        // same.
        if record.slots.page_count() > 1 || record.size > BODY_IN_ROW as u64 {
            self.with_parts.push(record.txid.0);
        }
        self.leave(record, read)
    }

    fn put_part(&mut self, record: &TxRecord, part: i64, bytes: Vec<u8>) {
        self.parts.0.push(record.txid.0);
        self.parts.1.push(Some(part));
        self.parts.2.push(Some(bytes));
    }

    /// Pages beyond the first that are others than those that were read.
    fn put_pages(&mut self, record: &TxRecord, read: Option<&ReadRow>) -> Result<(), TxStoreError> {
        for page in 1..record.slots.page_count() {
            let Some(slots) = record.slots.page(page) else { continue };
            let bytes = codec::slots(slots);
            if read.and_then(|read| read.page(page)) != Some(&bytes) {
                self.put_part(record, sql_int(page as u64)?, bytes);
            }
        }
        Ok(())
    }

    fn leave(&mut self, record: &TxRecord, read: &ReadRow) -> Result<(), TxStoreError> {
        if let Some(height) = read.due_at {
            self.left.0.push(Some(sql_int(height)?));
            self.left.1.push(record.txid.0);
        }
        Ok(())
    }

    fn join(&mut self, record: &TxRecord) -> Result<(), TxStoreError> {
        if let Some(height) = record.due_at {
            self.joined.0.push(Some(sql_int(height)?));
            self.joined.1.push(record.txid.0);
        }
        Ok(())
    }

    /// Sends them.
    pub(crate) fn send(self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        send_new(tx, self.new, self.bodies)?;
        send_changed(tx, self.changed, self.changed_found)?;
        let (wanted, found) = (self.deleted.len() as u64, self.deleted_found);
        let columns = vec![Column::Hashes(self.deleted), Column::Ints(found.was)];
        let columns = FoundRows::with_places(tx, columns, found.place);
        if tx.execute_set(DELETE, &[], &columns)? != wanted {
            return Err(met_another("a record changed before it was deleted"));
        }
        tx.execute_set(DELETE_PARTS, &[], &[Column::Hashes(self.with_parts)])?;
        let (names, numbers, bytes) = self.parts;
        let parts = [Column::Hashes(names), Column::Ints(numbers), Column::Blobs(bytes)];
        tx.execute_set(PUT_PARTS, &[], &parts)?;
        let left = [Column::Ints(self.left.0), Column::Hashes(self.left.1)];
        tx.execute_set(LEAVE_QUEUE, &[], &left)?;
        let joined = [Column::Ints(self.joined.0), Column::Hashes(self.joined.1)];
        tx.execute_set(JOIN_QUEUE, &[], &joined)?;
        Ok(())
    }
}

fn send_new(tx: &mut Tx<'_>, new: RecordColumns, bodies: Blobs) -> Result<(), TxStoreError> {
    let wanted = new.txid.len() as u64;
    let columns = [
        Column::Hashes(new.txid),
        Column::Ints(new.version),
        Column::Ints(new.mined),
        Column::Ints(new.unmined),
        Column::Ints(new.due),
        Column::Flags(new.conflicting),
        Column::Blobs(new.state),
        Column::Blobs(bodies),
    ];
    match tx.execute_set(INSERT, &[], &columns) {
        Ok(inserted) if inserted == wanted => Ok(()),
        Ok(_) | Err(SqlError::Constraint(_)) => {
            Err(met_another("another writer created the same transaction"))
        }
        Err(error) => Err(error.into()),
    }
}

fn send_changed(
    tx: &mut Tx<'_>,
    changed: RecordColumns,
    found: FoundRows,
) -> Result<(), TxStoreError> {
    let wanted = changed.txid.len() as u64;
    let columns = vec![
        Column::Hashes(changed.txid),
        Column::Ints(found.was),
        Column::Ints(changed.version),
        Column::Ints(changed.mined),
        Column::Ints(changed.unmined),
        Column::Ints(changed.due),
        Column::Flags(changed.conflicting),
        Column::Blobs(changed.state),
    ];
    let columns = FoundRows::with_places(tx, columns, found.place);
    if tx.execute_set(UPDATE, &[], &columns)? != wanted {
        return Err(met_another("another writer changed the same transaction"));
    }
    Ok(())
}
