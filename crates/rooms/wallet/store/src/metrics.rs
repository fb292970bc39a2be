//! Figures for monitoring: rows and bytes per table, active leases.

use unspent_model::Micros;
use unspent_sql::{Arg, Backend};

use crate::{error::WalletError, store::WalletStore};

/// Rows of a table and the space it takes with its indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// As the schema calls it.
    pub name: &'static str,
    /// Counted, not estimated.
    pub rows: u64,
    /// Its bytes, indexes included.
    pub bytes: u64,
}

/// What a monitor wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalletMetrics {
    /// Every table of the room.
    pub tables: Vec<TableSize>,
    /// Leases that have not run out.
    pub active_leases: u64,
    /// Leases that have run out and wait for a purge.
    pub expired_leases: u64,
    /// How long the oldest of those has been waiting, in microseconds.
    pub purge_latency: i64,
}

/// Each table with the statement that counts it.
const COUNTS: [(&str, &str); 15] = [
    ("wallets", "SELECT COUNT(*) AS rows FROM wallets"),
    ("blocks", "SELECT COUNT(*) AS rows FROM blocks"),
    ("accounts", "SELECT COUNT(*) AS rows FROM accounts"),
    ("addresses", "SELECT COUNT(*) AS rows FROM addresses"),
    ("transactions", "SELECT COUNT(*) AS rows FROM transactions"),
    ("tx_inputs", "SELECT COUNT(*) AS rows FROM tx_inputs"),
    ("utxos", "SELECT COUNT(*) AS rows FROM utxos"),
    ("tx_replacements", "SELECT COUNT(*) AS rows FROM tx_replacements"),
    ("pruned_txs", "SELECT COUNT(*) AS rows FROM pruned_txs"),
    ("utxo_leases", "SELECT COUNT(*) AS rows FROM utxo_leases"),
    ("labels", "SELECT COUNT(*) AS rows FROM labels"),
    ("label_origins", "SELECT COUNT(*) AS rows FROM label_origins"),
    ("frozen_outputs", "SELECT COUNT(*) AS rows FROM frozen_outputs"),
    ("backfills", "SELECT COUNT(*) AS rows FROM backfills"),
    ("journal", "SELECT COUNT(*) AS rows FROM journal"),
];
const POSTGRES_BYTES: &str = "SELECT pg_total_relation_size(to_regclass($1)) AS bytes";
const SQLITE_BYTES: &str = "SELECT COALESCE(SUM(s.pgsize), 0) AS bytes FROM sqlite_master m
    JOIN dbstat s ON s.name = m.name AND s.aggregate = TRUE WHERE m.tbl_name = $1";
const LEASES: &str = "SELECT COUNT(*) AS rows FROM utxo_leases WHERE expires_at > $1";
/// A lease that is held until its spend is deep enough waits for that, not for a purge.
const EXPIRED: &str = "SELECT COUNT(*) AS rows, MIN(l.expires_at) AS oldest
    FROM utxo_leases l /*by idx_utxo_leases_expires_at*/
    WHERE l.expires_at <= $1 AND (l.hold_confirmations IS NULL OR NOT EXISTS (
        SELECT 1 FROM utxos u
        JOIN /*then*/ transactions s /*by pidx_transactions*/
            ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        JOIN /*then*/ wallets w ON w.id = u.wallet_id
        WHERE u.wallet_id = l.wallet_id AND u.id = l.utxo_id
            AND (s.block_height IS NULL
                OR COALESCE(w.scanned_height, 0) - s.block_height + 1 < l.hold_confirmations)))";

impl WalletStore {
    /// The figures now.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn metrics(&self, now: Micros) -> Result<WalletMetrics, WalletError> {
        self.door.read(move |tx| {
            let mut tables = Vec::with_capacity(COUNTS.len());
            for (name, sql) in COUNTS {
                let rows = tx.one(sql, &[])?.natural("rows")?;
                let sql = match tx.backend() {
                    Backend::Postgres => POSTGRES_BYTES,
                    Backend::Sqlite => SQLITE_BYTES,
                };
                let bytes = tx.one(sql, &[Arg::Text(name)])?.natural("bytes")?;
                tables.push(TableSize { name, rows, bytes });
            }
            let expired = tx.one(EXPIRED, &[Arg::Int(now.0)])?;
            Ok(WalletMetrics {
                tables,
                active_leases: tx.one(LEASES, &[Arg::Int(now.0)])?.natural("rows")?,
                expired_leases: expired.natural("rows")?,
                purge_latency: expired.opt_int("oldest")?.map_or(0, |oldest| now.0 - oldest),
            })
        })
    }
}
