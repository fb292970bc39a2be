//! The reference's shape: a row per transaction with a number of its own, a row per input, a row per
//! output, and the one-statement deletion of the document. Batched as ours is.

use unspent_model::{Outpoint, TxId};
use unspent_sql::{Arg, Backend, Column, Door, Migration, Options, Schema, Set, SqlError, Url};
use unspent_txstore::NewTx;

const SQLITE: &str = "
    CREATE TABLE transactions (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,
        fee BIGINT, size_in_bytes BIGINT NOT NULL, coinbase BOOLEAN NOT NULL,
        conflicting BOOLEAN NOT NULL, locked BOOLEAN NOT NULL, delete_at_height BIGINT,
        unmined_since BIGINT, preserve_until BIGINT);
    CREATE TABLE inputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, previous_hash BLOB NOT NULL,
        previous_idx BIGINT NOT NULL, script BLOB NOT NULL, PRIMARY KEY (transaction_id, idx));
    CREATE TABLE outputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, script BLOB NOT NULL, satoshis BIGINT NOT NULL,
        utxo_hash BLOB NOT NULL, spending_data BLOB, PRIMARY KEY (transaction_id, idx));
    CREATE TABLE block_ids (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, block_id BIGINT NOT NULL, block_height BIGINT NOT NULL,
        PRIMARY KEY (transaction_id, block_id));
    CREATE INDEX by_date ON transactions (delete_at_height) WHERE delete_at_height IS NOT NULL;
    CREATE INDEX by_wait ON transactions (unmined_since) WHERE unmined_since IS NOT NULL;
    CREATE INDEX unspent ON outputs (transaction_id) WHERE spending_data IS NULL;";

const POSTGRES: &str = "
    CREATE TABLE transactions (id BIGINT PRIMARY KEY, hash BYTEA NOT NULL UNIQUE,
        fee BIGINT, size_in_bytes BIGINT NOT NULL, coinbase BOOLEAN NOT NULL,
        conflicting BOOLEAN NOT NULL, locked BOOLEAN NOT NULL, delete_at_height BIGINT,
        unmined_since BIGINT, preserve_until BIGINT);
    CREATE TABLE inputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, previous_hash BYTEA NOT NULL,
        previous_idx BIGINT NOT NULL, script BYTEA NOT NULL, PRIMARY KEY (transaction_id, idx));
    CREATE TABLE outputs (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, idx BIGINT NOT NULL, script BYTEA NOT NULL, satoshis BIGINT NOT NULL,
        utxo_hash BYTEA NOT NULL, spending_data BYTEA, PRIMARY KEY (transaction_id, idx));
    CREATE TABLE block_ids (transaction_id BIGINT NOT NULL REFERENCES transactions (id)
        ON DELETE CASCADE, block_id BIGINT NOT NULL, block_height BIGINT NOT NULL,
        PRIMARY KEY (transaction_id, block_id));
    CREATE INDEX by_date ON transactions (delete_at_height) WHERE delete_at_height IS NOT NULL;
    CREATE INDEX by_wait ON transactions (unmined_since) WHERE unmined_since IS NOT NULL;
    CREATE INDEX unspent ON outputs (transaction_id) WHERE spending_data IS NULL;";

const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS baseline; SET search_path TO baseline",
    migrations: &[Migration { version: 1, name: "rows", sqlite: SQLITE, postgres: POSTGRES }],
};

const TX: Set = Set {
    sqlite: "INSERT INTO transactions (id, hash, size_in_bytes, coinbase, conflicting, locked)
        VALUES ($1, $2, $3, FALSE, FALSE, FALSE)",
    postgres: "INSERT INTO transactions (id, hash, size_in_bytes, coinbase, conflicting, locked)
        SELECT k.*, FALSE, FALSE, FALSE FROM UNNEST($1::bigint[], $2::bytea[], $3::bigint[]) k",
};
const INPUT: Set = Set {
    sqlite: "INSERT INTO inputs VALUES ($1, $2, $3, $4, $5)",
    postgres: "INSERT INTO inputs SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[],
        $4::bigint[], $5::bytea[]) k",
};
const OUTPUT: Set = Set {
    sqlite: "INSERT INTO outputs VALUES ($1, $2, $3, $4, $5, NULL)",
    postgres: "INSERT INTO outputs SELECT k.*, NULL FROM UNNEST($1::bigint[], $2::bigint[],
        $3::bytea[], $4::bigint[], $5::bytea[]) k",
};
const BLOCK: Set = Set {
    sqlite: "INSERT INTO block_ids VALUES ($1, $2, $2)",
    postgres: "INSERT INTO block_ids
        SELECT k.id, k.height, k.height FROM UNNEST($1::bigint[], $2::bigint[]) k (id, height)",
};
const SPEND: Set = Set {
    sqlite: "UPDATE outputs SET spending_data = $3 WHERE transaction_id =
        (SELECT id FROM transactions WHERE hash = $1) AND idx = $2 AND spending_data IS NULL",
    postgres: "UPDATE outputs o SET spending_data = k.data
        FROM UNNEST($1::bytea[], $2::bigint[], $3::bytea[]) k (hash, idx, data)
        JOIN transactions t ON t.hash = k.hash
        WHERE o.transaction_id = t.id AND o.idx = k.idx AND o.spending_data IS NULL",
};
const DATE: Set = Set {
    sqlite: "UPDATE transactions SET delete_at_height = $1 WHERE hash = $2 AND NOT EXISTS
        (SELECT 1 FROM outputs o WHERE o.transaction_id = transactions.id
            AND o.spending_data IS NULL)",
    postgres: "UPDATE transactions t SET delete_at_height = $1 WHERE t.hash = ANY($2::bytea[])
        AND NOT EXISTS (SELECT 1 FROM outputs o WHERE o.transaction_id = t.id
            AND o.spending_data IS NULL)",
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
    + pg_total_relation_size('block_ids')) AS bytes";
const SQLITE_BYTES: &str = "SELECT (c.page_count - f.freelist_count) * s.page_size AS bytes
    FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size s";

pub struct Baseline {
    door: Door,
    next: i64,
}

impl Baseline {
    pub fn open(url: &Url) -> Self {
        Self { door: Door::open(url, &SCHEMA, Options::default()).unwrap(), next: 1 }
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
        let date = height as i64 + 288;
        let spent = self.door.write(move |tx| -> Result<(), SqlError> {
            let data = spends
                .iter()
                .map(|(_, child, vin)| [&child.0[..], &vin.to_le_bytes()[..]].concat());
            tx.execute_set(
                SPEND,
                &[],
                &[
                    Column::blobs(spends.iter().map(|(coin, ..)| coin.tx.0)),
                    Column::ints(spends.iter().map(|(coin, ..)| coin.index.into())),
                    Column::blobs(data),
                ],
            )?;
            let mut parents: Vec<_> = spends.iter().map(|(coin, ..)| coin.tx.0).collect();
            parents.sort_unstable();
            parents.dedup();
            tx.execute_set(DATE, &[Arg::Int(date)], &[Column::blobs(parents)])?;
            Ok(())
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
