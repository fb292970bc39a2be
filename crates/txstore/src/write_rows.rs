//! The rows that a change writes, gathered and sent table by table.
//!
//! One statement per table and kind of write, whatever the number of rows. They aren't folded into
//! one, as Citus takes such a statement only when all rows lie in one place.

use unspent_model::txstore::{Slots, TxRecord};
use unspent_sql::{Column, Set, Tx};

use crate::{
    codec,
    error::TxStoreError,
    store::sql_int,
    working::{BODY_IN_ROW, BODY_PART, met_another},
};

const INSERT: Set = Set {
    sqlite: "INSERT INTO transactions (txid, version, output_count, open_count, mined_height,
            unmined_since, delete_at_height, preserve_until, due_at, is_coinbase, is_locked,
            is_conflicting, fee, size, blocks, reassigned, rivals, slots, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
            $19) ON CONFLICT (txid) DO NOTHING",
    postgres: "INSERT INTO transactions (txid, version, output_count, open_count, mined_height,
            unmined_since, delete_at_height, preserve_until, due_at, is_coinbase, is_locked,
            is_conflicting, fee, size, blocks, reassigned, rivals, slots, body)
        SELECT k.* FROM UNNEST($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[],
            $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::boolean[],
            $11::boolean[], $12::boolean[], $13::bigint[], $14::bigint[], $15::bytea[],
            $16::bytea[], $17::bytea[], $18::bytea[], $19::bytea[]) k
        ON CONFLICT (txid) DO NOTHING",
};
const UPDATE: Set = Set {
    sqlite: "UPDATE transactions SET version = $3, open_count = $4, mined_height = $5,
            unmined_since = $6, delete_at_height = $7, preserve_until = $8, due_at = $9,
            is_locked = $10, is_conflicting = $11, blocks = $12, reassigned = $13, rivals = $14,
            slots = $15
        WHERE txid = $1 AND version = $2",
    postgres: "UPDATE transactions t SET version = k.version, open_count = k.open_count,
            mined_height = k.mined, unmined_since = k.unmined, delete_at_height = k.deleted,
            preserve_until = k.preserved, due_at = k.due, is_locked = k.locked,
            is_conflicting = k.conflicting, blocks = k.blocks, reassigned = k.reassigned,
            rivals = k.rivals, slots = k.slots
        FROM UNNEST($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
            $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::boolean[],
            $11::boolean[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])
            k (txid, was, version, open_count, mined, unmined, deleted, preserved, due, locked,
                conflicting, blocks, reassigned, rivals, slots)
        WHERE t.txid = k.txid AND t.version = k.was",
};
/// The verdict once more, as far as the row itself can tell: whoever changed it meanwhile keeps it.
const DELETE: Set = Set {
    sqlite: "DELETE FROM transactions WHERE txid = $1 AND version = $2",
    postgres: "DELETE FROM transactions t USING UNNEST($1::bytea[], $2::bigint[]) k (txid, was)
        WHERE t.txid = k.txid AND t.version = k.was",
};
const PUT_PARTS: Set = Set {
    sqlite: "INSERT INTO parts (txid, part, bytes) VALUES ($1, $2, $3)
        ON CONFLICT (txid, part) DO UPDATE SET bytes = excluded.bytes",
    postgres: "INSERT INTO parts (txid, part, bytes)
        SELECT k.* FROM UNNEST($1::bytea[], $2::bigint[], $3::bytea[]) k
        ON CONFLICT (txid, part) DO UPDATE SET bytes = excluded.bytes",
};
const DELETE_PARTS: Set = Set {
    sqlite: "DELETE FROM parts WHERE txid = $1",
    postgres: "DELETE FROM parts WHERE txid = ANY($1::bytea[])",
};
const LEAVE_QUEUE: Set = Set {
    sqlite: "DELETE FROM due WHERE height = $1 AND txid = $2",
    postgres: "DELETE FROM due d USING UNNEST($1::bigint[], $2::bytea[]) k (height, txid)
        WHERE d.height = k.height AND d.txid = k.txid",
};
const JOIN_QUEUE: Set = Set {
    sqlite: "INSERT INTO due (height, txid) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    postgres: "INSERT INTO due (height, txid)
        SELECT k.* FROM UNNEST($1::bigint[], $2::bytea[]) k ON CONFLICT DO NOTHING",
};

type Ints = Vec<Option<i64>>;
type Blobs = Vec<Option<Vec<u8>>>;

/// The columns that a new and a changed row share.
#[derive(Default)]
struct Shared {
    version: Ints,
    open: Ints,
    mined: Ints,
    unmined: Ints,
    delete_at: Ints,
    preserve: Ints,
    due: Ints,
    locked: Vec<bool>,
    conflicting: Vec<bool>,
    blocks: Blobs,
    reassigned: Blobs,
    rivals: Blobs,
    slots: Blobs,
}

impl Shared {
    fn push(&mut self, record: &TxRecord) -> Result<(), TxStoreError> {
        self.version.push(Some(sql_int(record.version)?));
        self.open.push(Some(record.slots.open().into()));
        self.mined.push(opt_int(record.mined_height())?);
        self.unmined.push(opt_int(record.unmined_since)?);
        self.delete_at.push(opt_int(record.delete_at)?);
        self.preserve.push(opt_int(record.preserve_until)?);
        self.due.push(opt_int(record.due_at)?);
        self.locked.push(record.is_locked);
        self.conflicting.push(record.is_conflicting);
        self.blocks.push(codec::blocks(&record.blocks));
        self.reassigned.push(codec::reassigned(&record.reassigned));
        self.rivals.push(codec::rivals(&record.rivals));
        self.slots.push(Some(codec::slots(record.slots.page(0).unwrap_or_default())));
        Ok(())
    }
}

fn opt_int(number: Option<u64>) -> Result<Option<i64>, TxStoreError> {
    number.map(sql_int).transpose()
}

fn name(record: &TxRecord) -> Option<Vec<u8>> {
    Some(record.txid.0.to_vec())
}

/// New rows, besides what they share with changed ones.
#[derive(Default)]
struct NewRows {
    txid: Blobs,
    count: Ints,
    coinbase: Vec<bool>,
    fee: Ints,
    size: Ints,
    body: Blobs,
    shared: Shared,
}

/// Changed rows.
#[derive(Default)]
struct ChangedRows {
    txid: Blobs,
    was: Ints,
    shared: Shared,
}

/// All that a change writes.
#[derive(Default)]
pub(crate) struct Rows {
    new: NewRows,
    changed: ChangedRows,
    deleted: (Blobs, Ints),
    with_parts: Blobs,
    parts: (Blobs, Ints, Blobs),
    left: (Ints, Blobs),
    joined: (Ints, Blobs),
}

impl Rows {
    /// A new record.
    pub(crate) fn insert(&mut self, record: &TxRecord, body: &[u8]) -> Result<(), TxStoreError> {
        let new = &mut self.new;
        new.txid.push(name(record));
        new.count.push(Some(record.slots.len().into()));
        new.coinbase.push(record.is_coinbase);
        new.fee.push(opt_int(record.fee)?);
        new.size.push(Some(sql_int(record.size)?));
        let fits = body.len() <= BODY_IN_ROW;
        new.body.push(fits.then(|| body.to_vec()));
        new.shared.push(record)?;
        if !fits {
            self.put_part(record, BODY_PART, body.to_vec());
        }
        self.put_pages(None, &record.slots, record)?;
        self.queue(None, record)
    }

    /// A changed record.
    pub(crate) fn update(
        &mut self,
        before: &TxRecord,
        after: &TxRecord,
    ) -> Result<(), TxStoreError> {
        self.changed.txid.push(name(after));
        self.changed.was.push(Some(sql_int(before.version)?));
        self.changed.shared.push(after)?;
        self.put_pages(Some(&before.slots), &after.slots, after)?;
        self.queue(Some(before), after)
    }

    /// A record that goes, as it was read.
    pub(crate) fn delete(&mut self, before: &TxRecord) -> Result<(), TxStoreError> {
        self.deleted.0.push(name(before));
        self.deleted.1.push(Some(sql_int(before.version)?));
        if before.slots.page_count() > 1 || before.size > BODY_IN_ROW as u64 {
            self.with_parts.push(name(before));
        }
        self.leave(before)
    }

    fn put_part(&mut self, record: &TxRecord, part: i64, bytes: Vec<u8>) {
        self.parts.0.push(name(record));
        self.parts.1.push(Some(part));
        self.parts.2.push(Some(bytes));
    }

    fn put_pages(
        &mut self,
        before: Option<&Slots>,
        after: &Slots,
        record: &TxRecord,
    ) -> Result<(), TxStoreError> {
        for page in 1..after.page_count() {
            let Some(slots) = after.page(page) else { continue };
            if before.and_then(|before| before.page(page)) != Some(slots) {
                self.put_part(record, sql_int(page as u64)?, codec::slots(slots));
            }
        }
        Ok(())
    }

    fn leave(&mut self, before: &TxRecord) -> Result<(), TxStoreError> {
        if let Some(height) = before.due_at {
            self.left.0.push(Some(sql_int(height)?));
            self.left.1.push(name(before));
        }
        Ok(())
    }

    fn queue(&mut self, before: Option<&TxRecord>, after: &TxRecord) -> Result<(), TxStoreError> {
        if before.is_some_and(|before| before.due_at == after.due_at) {
            return Ok(());
        }
        if let Some(before) = before {
            self.leave(before)?;
        }
        if let Some(height) = after.due_at {
            self.joined.0.push(Some(sql_int(height)?));
            self.joined.1.push(name(after));
        }
        Ok(())
    }

    /// Sends them.
    pub(crate) fn send(self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        self.new.send(tx)?;
        self.changed.send(tx)?;
        let deleted = self.deleted.0.len() as u64;
        let columns = [Column::Blobs(self.deleted.0), Column::Ints(self.deleted.1)];
        if tx.execute_set(DELETE, &[], &columns)? != deleted {
            return Err(met_another("a record changed before it was deleted"));
        }
        tx.execute_set(DELETE_PARTS, &[], &[Column::Blobs(self.with_parts)])?;
        let (names, numbers, bytes) = self.parts;
        let parts = [Column::Blobs(names), Column::Ints(numbers), Column::Blobs(bytes)];
        tx.execute_set(PUT_PARTS, &[], &parts)?;
        let left = [Column::Ints(self.left.0), Column::Blobs(self.left.1)];
        tx.execute_set(LEAVE_QUEUE, &[], &left)?;
        let joined = [Column::Ints(self.joined.0), Column::Blobs(self.joined.1)];
        tx.execute_set(JOIN_QUEUE, &[], &joined)?;
        Ok(())
    }
}

impl NewRows {
    fn send(self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        let (wanted, shared) = (self.txid.len() as u64, self.shared);
        let columns = [
            Column::Blobs(self.txid),
            Column::Ints(shared.version),
            Column::Ints(self.count),
            Column::Ints(shared.open),
            Column::Ints(shared.mined),
            Column::Ints(shared.unmined),
            Column::Ints(shared.delete_at),
            Column::Ints(shared.preserve),
            Column::Ints(shared.due),
            Column::Flags(self.coinbase),
            Column::Flags(shared.locked),
            Column::Flags(shared.conflicting),
            Column::Ints(self.fee),
            Column::Ints(self.size),
            Column::Blobs(shared.blocks),
            Column::Blobs(shared.reassigned),
            Column::Blobs(shared.rivals),
            Column::Blobs(shared.slots),
            Column::Blobs(self.body),
        ];
        if tx.execute_set(INSERT, &[], &columns)? != wanted {
            return Err(met_another("another writer created the same transaction"));
        }
        Ok(())
    }
}

impl ChangedRows {
    fn send(self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        let (wanted, shared) = (self.txid.len() as u64, self.shared);
        let columns = [
            Column::Blobs(self.txid),
            Column::Ints(self.was),
            Column::Ints(shared.version),
            Column::Ints(shared.open),
            Column::Ints(shared.mined),
            Column::Ints(shared.unmined),
            Column::Ints(shared.delete_at),
            Column::Ints(shared.preserve),
            Column::Ints(shared.due),
            Column::Flags(shared.locked),
            Column::Flags(shared.conflicting),
            Column::Blobs(shared.blocks),
            Column::Blobs(shared.reassigned),
            Column::Blobs(shared.rivals),
            Column::Blobs(shared.slots),
        ];
        if tx.execute_set(UPDATE, &[], &columns)? != wanted {
            return Err(met_another("another writer changed the same transaction"));
        }
        Ok(())
    }
}
