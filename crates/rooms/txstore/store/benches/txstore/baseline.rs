//! The reference's shape: a row per transaction with a number of its own, a row per input, output
//! and block, and the one-statement deletion of the document.
//!
//! It does what the reference's store does for a request: a spend reads each output with its
//! transaction, looks at what could stand against it, writes where nothing was written meanwhile,
//! and then reads the counts that decide about the date. In two ways it is quicker than the
//! reference: everything is batched as ours is (the reference creates one transaction at a time and
//! dates one parent at a time), and numbers and output hashes are given instead of made.

use std::collections::BTreeSet;

use unspent_model::{Outpoint, TxId};
use unspent_sql::{
    Arg, Backend, BulkStatement, Column, Door, Migration, Options, Row, SQLITE_BYTES, Schema,
    SqlError, Tx, Url,
};
use unspent_txstore::NewTx;

const SQLITE: &str = "
    CREATE TABLE transactions (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,
        version BIGINT NOT NULL, lock_time BIGINT NOT NULL, fee BIGINT NOT NULL,
        size_in_bytes BIGINT NOT NULL, coinbase BOOLEAN NOT NULL, frozen BOOLEAN NOT NULL,
        conflicting BOOLEAN NOT NULL, locked BOOLEAN NOT NULL, delete_at_height BIGINT,
        unmined_since BIGINT, preserve_until BIGINT,
        inserted_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE inputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, previous_hash BLOB NOT NULL,
        previous_idx BIGINT NOT NULL, previous_satoshis BIGINT NOT NULL, previous_script BLOB,
        script BLOB NOT NULL, sequence BIGINT NOT NULL, PRIMARY KEY (transaction_id, idx));
    CREATE TABLE outputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, script BLOB NOT NULL, satoshis BIGINT NOT NULL,
        coinbase_spending_height BIGINT NOT NULL, utxo_hash BLOB NOT NULL, spending_data BLOB,
        frozen BOOLEAN NOT NULL DEFAULT FALSE, spendable_in BIGINT,
        PRIMARY KEY (transaction_id, idx));
    CREATE TABLE block_ids (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, block_id BIGINT NOT NULL, block_height BIGINT NOT NULL,
        subtree_idx BIGINT NOT NULL, PRIMARY KEY (transaction_id, block_id));
    CREATE TABLE conflicting_children (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, child_transaction_id BIGINT NOT NULL,
        PRIMARY KEY (transaction_id, child_transaction_id));
    CREATE INDEX by_date ON transactions (delete_at_height) WHERE delete_at_height IS NOT NULL;
    CREATE INDEX by_wait ON transactions (unmined_since) WHERE unmined_since IS NOT NULL;
    CREATE INDEX unspent ON outputs (transaction_id) WHERE spending_data IS NULL;";

const POSTGRES: &str = "
    CREATE TABLE transactions (id BIGINT PRIMARY KEY, hash BYTEA NOT NULL UNIQUE,
        version BIGINT NOT NULL, lock_time BIGINT NOT NULL, fee BIGINT NOT NULL,
        size_in_bytes BIGINT NOT NULL, coinbase BOOLEAN NOT NULL, frozen BOOLEAN NOT NULL,
        conflicting BOOLEAN NOT NULL, locked BOOLEAN NOT NULL, delete_at_height BIGINT,
        unmined_since BIGINT, preserve_until BIGINT,
        inserted_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE inputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, previous_hash BYTEA NOT NULL,
        previous_idx BIGINT NOT NULL, previous_satoshis BIGINT NOT NULL, previous_script BYTEA,
        script BYTEA NOT NULL, sequence BIGINT NOT NULL, PRIMARY KEY (transaction_id, idx));
    CREATE TABLE outputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, script BYTEA NOT NULL, satoshis BIGINT NOT NULL,
        coinbase_spending_height BIGINT NOT NULL, utxo_hash BYTEA NOT NULL, spending_data BYTEA,
        frozen BOOLEAN NOT NULL DEFAULT FALSE, spendable_in BIGINT,
        PRIMARY KEY (transaction_id, idx));
    CREATE TABLE block_ids (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, block_id BIGINT NOT NULL, block_height BIGINT NOT NULL,
        subtree_idx BIGINT NOT NULL, PRIMARY KEY (transaction_id, block_id));
    CREATE TABLE conflicting_children (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, child_transaction_id BIGINT NOT NULL,
        PRIMARY KEY (transaction_id, child_transaction_id));
    CREATE INDEX by_date ON transactions (delete_at_height) WHERE delete_at_height IS NOT NULL;
    CREATE INDEX by_wait ON transactions (unmined_since) WHERE unmined_since IS NOT NULL;
    CREATE INDEX unspent ON outputs (transaction_id) WHERE spending_data IS NULL;";

/// `INTEGER PRIMARY KEY` is the row's own number on SQLite, so the tables are declared for each.
const ON_SQLITE: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS baseline; SET search_path TO baseline",
    migrations: &[Migration { version: 1, name: "rows", ddl: SQLITE }],
    distribution: &[],
};
const ON_POSTGRES: Schema =
    Schema { migrations: &[Migration { version: 1, name: "rows", ddl: POSTGRES }], ..ON_SQLITE };

const TX: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO transactions (id, hash, size_in_bytes, version, lock_time, fee, coinbase,
            frozen, conflicting, locked)
        VALUES ($1, $2, $3, 2, 0, 0, FALSE, FALSE, FALSE, FALSE)",
    postgres:
        "INSERT INTO transactions (id, hash, size_in_bytes, version, lock_time, fee, coinbase,
            frozen, conflicting, locked)
        SELECT k.*, 2, 0, 0, FALSE, FALSE, FALSE, FALSE
        FROM UNNEST($1::bigint[], $2::bytea[], $3::bigint[]) k",
};
const INPUT: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO inputs (transaction_id, idx, previous_hash, previous_idx, script,
            previous_script, previous_satoshis, sequence)
        VALUES ($1, $2, $3, $4, $5, $6, 1000, 4294967295)",
    postgres: "INSERT INTO inputs (transaction_id, idx, previous_hash, previous_idx, script,
            previous_script, previous_satoshis, sequence)
        SELECT k.*, 1000, 4294967295 FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[],
            $4::bigint[], $5::bytea[], $6::bytea[]) k",
};
const OUTPUT: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO outputs (transaction_id, idx, script, satoshis, utxo_hash,
            coinbase_spending_height)
        VALUES ($1, $2, $3, $4, $5, 0)",
    postgres: "INSERT INTO outputs (transaction_id, idx, script, satoshis, utxo_hash,
            coinbase_spending_height)
        SELECT k.*, 0 FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[],
            $5::bytea[]) k",
};
const BLOCK: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO block_ids VALUES ($1, $2, $2, 0)",
    postgres: "INSERT INTO block_ids SELECT k.id, k.height, k.height, 0
        FROM UNNEST($1::bigint[], $2::bigint[]) k (id, height)",
};
macro_rules! output_columns {
    ($rest:literal) => {
        concat!(
            "SELECT t.hash, t.id, o.idx, o.coinbase_spending_height, o.utxo_hash, o.spending_data,
                t.frozen AS is_frozen, o.frozen, t.conflicting, t.locked, o.spendable_in ",
            $rest
        )
    };
}
const READ_OUTPUT: BulkStatement = BulkStatement {
    sqlite: output_columns!(
        "FROM transactions t JOIN outputs o ON o.transaction_id = t.id
        WHERE t.hash = $1 AND o.idx = $2"
    ),
    postgres: output_columns!(
        "FROM UNNEST($1::bytea[], $2::bigint[]) k (hash, idx)
        JOIN transactions t ON t.hash = k.hash
        JOIN outputs o ON o.transaction_id = t.id AND o.idx = k.idx"
    ),
};
const SPEND: BulkStatement = BulkStatement {
    sqlite: "UPDATE outputs SET spending_data = $3
        WHERE transaction_id = $1 AND idx = $2 AND spending_data IS NULL",
    postgres: "UPDATE outputs o SET spending_data = k.data
        FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[]) k (id, idx, data)
        WHERE o.transaction_id = k.id AND o.idx = k.idx AND o.spending_data IS NULL",
};
macro_rules! parent_columns {
    ($rest:literal) => {
        concat!(
            "SELECT t.id, t.conflicting, t.preserve_until, t.unmined_since, t.delete_at_height,
                (SELECT COUNT(*) FROM outputs o
                    WHERE o.transaction_id = t.id AND o.spending_data IS NULL) AS unspent,
                EXISTS (SELECT 1 FROM block_ids b WHERE b.transaction_id = t.id) AS has_blocks ",
            $rest
        )
    };
}
const READ_PARENT: BulkStatement = BulkStatement {
    sqlite: parent_columns!("FROM transactions t WHERE t.id = $1"),
    postgres: parent_columns!(
        "FROM UNNEST($1::bigint[]) k (id) JOIN transactions t ON t.id = k.id"
    ),
};
const DATE: BulkStatement = BulkStatement {
    sqlite: "UPDATE transactions SET delete_at_height = $1 WHERE id = $2",
    postgres: "UPDATE transactions t SET delete_at_height = $1 FROM UNNEST($2::bigint[]) k (id)
        WHERE t.id = k.id",
};
/// The document's statement.
const DELETE: &str = "DELETE FROM transactions WHERE id IN (
    SELECT t.id FROM transactions t
    WHERE t.delete_at_height IS NOT NULL AND t.delete_at_height <= $1 AND NOT EXISTS (
        SELECT 1 FROM outputs o WHERE o.transaction_id = t.id AND o.spending_data IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM transactions child
                JOIN block_ids b ON child.id = b.transaction_id
                WHERE child.hash = substr(o.spending_data, 1, 32)
                    AND child.unmined_since IS NULL AND b.block_height <= $1 - 288)))";
const POSTGRES_BYTES: &str = "SELECT (pg_total_relation_size('transactions')
    + pg_total_relation_size('inputs') + pg_total_relation_size('outputs')
    + pg_total_relation_size('block_ids')
    + pg_total_relation_size('conflicting_children')) AS bytes";

pub struct Baseline {
    door: Door,
    next: i64,
}

impl Baseline {
    pub fn open(url: &Url) -> Self {
        let schema = match url.backend() {
            Backend::Sqlite => &ON_SQLITE,
            Backend::Postgres => &ON_POSTGRES,
        };
        Self { door: Door::open(url, schema, Options::default()).unwrap(), next: 1 }
    }

    pub fn create(&mut self, txs: &[NewTx], height: u64) {
        let first = self.next;
        self.next += txs.len() as i64;
        let txs = txs.to_vec();
        let height = height as i64;
        let created = self.door.write(move |tx| -> Result<(), SqlError> {
            let ids = || first..first + txs.len() as i64;
            let each = |count: fn(&NewTx) -> usize| {
                ids().zip(&txs).flat_map(move |(id, new)| (0..count(new)).map(move |at| (id, at)))
            };
            let inputs = || txs.iter().flat_map(|new| new.inputs.iter());
            let outputs = || each(|new| new.spendable.len());
            tx.execute_set(
                TX,
                &[],
                &[
                    Column::ints(ids()),
                    Column::blobs(txs.iter().map(|new| new.txid.0)),
                    Column::ints(txs.iter().map(|new| new.body.len() as i64)),
                ],
            )?;
            tx.execute_set(
                INPUT,
                &[],
                &[
                    Column::ints(each(|new| new.inputs.len()).map(|(id, _)| id)),
                    Column::ints(each(|new| new.inputs.len()).map(|(_, at)| at as i64)),
                    Column::blobs(inputs().map(|coin| coin.tx.0)),
                    Column::ints(inputs().map(|coin| coin.index.into())),
                    Column::blobs(inputs().map(|_| [7_u8; 107])),
                    Column::blobs(inputs().map(|_| [7_u8; 22])),
                ],
            )?;
            tx.execute_set(
                OUTPUT,
                &[],
                &[
                    Column::ints(outputs().map(|(id, _)| id)),
                    Column::ints(outputs().map(|(_, at)| at as i64)),
                    Column::blobs(outputs().map(|_| [7_u8; 22])),
                    Column::ints(outputs().map(|_| 1_000)),
                    Column::blobs(outputs().map(|(id, at)| hash(id, at))),
                ],
            )?;
            let heights = Column::ints(ids().map(|_| height));
            tx.execute_set(BLOCK, &[], &[Column::ints(ids()), heights])?;
            Ok(())
        });
        created.unwrap();
    }

    pub fn spend(&self, children: &[NewTx], height: u64) {
        let spends: Vec<(Outpoint, TxId, u32)> = children
            .iter()
            .flat_map(|child| child.inputs.iter().zip(0..).map(|(c, vin)| (*c, child.txid, vin)))
            .collect();
        let height = height as i64;
        let spent = self.door.write(move |tx| -> Result<(), SqlError> {
            let parents = spend_outputs(tx, &spends, height)?;
            date_parents(tx, &parents, height + 288)
        });
        spent.unwrap();
    }

    pub fn clean(&self, height: u64) -> u64 {
        let height = height as i64;
        self.door.write(move |tx| tx.execute(DELETE, &[Arg::Int(height)])).unwrap()
    }

    pub fn bytes(&self) -> u64 {
        let row = self.door.read(|tx| match tx.backend() {
            Backend::Sqlite => tx.one(SQLITE_BYTES, &[]),
            Backend::Postgres => tx.one(POSTGRES_BYTES, &[]),
        });
        row.and_then(|row: unspent_sql::Row| row.natural("bytes")).unwrap()
    }
}

fn hash(id: i64, at: usize) -> [u8; 32] {
    let mut hash = [9; 32];
    hash[..8].copy_from_slice(&id.to_le_bytes());
    hash[8..16].copy_from_slice(&at.to_le_bytes());
    hash
}

/// Reads the outputs, looks at each, and writes those that nobody has spent.
fn spend_outputs(
    tx: &mut Tx<'_>,
    spends: &[(Outpoint, TxId, u32)],
    height: i64,
) -> Result<BTreeSet<i64>, SqlError> {
    let names = Column::blobs(spends.iter().map(|(coin, ..)| coin.tx.0));
    let places = Column::ints(spends.iter().map(|(coin, ..)| coin.index.into()));
    let rows = tx.query_set(READ_OUTPUT, &[], &[names, places])?;
    let mut found = std::collections::HashMap::with_capacity(rows.len());
    for row in &rows {
        found.insert((row.hash("hash")?, row.int("idx")?), may_be_spent(row, height)?);
    }
    let mut parents = BTreeSet::new();
    let (mut ids, mut places, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for (coin, child, vin) in spends {
        let id = found[&(coin.tx.0, i64::from(coin.index))].expect("nothing stands against it");
        parents.insert(id);
        ids.push(id);
        places.push(coin.index.into());
        data.push([&child.0[..], &vin.to_le_bytes()[..]].concat());
    }
    let columns = [Column::ints(ids), Column::ints(places), Column::blobs(data)];
    assert_eq!(tx.execute_set(SPEND, &[], &columns)?, spends.len() as u64);
    Ok(parents)
}

/// The number of the output's transaction, unless something stands against its spend.
fn may_be_spent(row: &Row, height: i64) -> Result<Option<i64>, SqlError> {
    let (id, at) = (row.int("id")?, row.int("idx")?);
    let is_held = row.flag("is_frozen")? || row.flag("frozen")?;
    let is_out = row.flag("conflicting")? || row.flag("locked")?;
    let waits = row.opt_int("spendable_in")?.is_some_and(|from| from > height);
    let is_young = row.int("coinbase_spending_height")? > height;
    let is_spent = row.opt_blob("spending_data")?.is_some();
    let is_other = row.blob("utxo_hash")? != hash(id, at as usize);
    let refused = is_held || is_out || waits || is_young || is_spent || is_other;
    Ok((!refused).then_some(id))
}

/// Dates the parents that are spent to the last output, mined and not held.
fn date_parents(tx: &mut Tx<'_>, parents: &BTreeSet<i64>, date: i64) -> Result<(), SqlError> {
    let rows = tx.query_set(READ_PARENT, &[], &[Column::ints(parents.iter().copied())])?;
    let mut due = Vec::new();
    for row in &rows {
        let is_done = row.int("unspent")? == 0 && row.flag("has_blocks")?;
        let is_mined = row.opt_int("unmined_since")?.is_none() && !row.flag("conflicting")?;
        let is_free = row.opt_int("preserve_until")?.is_none();
        let is_later = row.opt_int("delete_at_height")?.is_none_or(|known| known < date);
        if is_done && is_mined && is_free && is_later {
            due.push(row.int("id")?);
        }
    }
    tx.execute_set(DATE, &[Arg::Int(date)], &[Column::ints(due)])?;
    Ok(())
}
