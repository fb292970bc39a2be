//! Figures for monitoring: how much is there, how much is due, what stays and why.

use unspent_model::Point;
use unspent_sql::{Arg, Backend, BulkStatement, Column, SQLITE_BYTES, Tx};

use crate::{
    changes::Tallies,
    error::TxStoreError,
    store::{TIP, TipRow, TxStore, sql_int},
};

pub(crate) const DELETED: &str = "deleted";
pub(crate) const LOSERS_DELETED: &str = "losers_deleted";
pub(crate) const DROPPED: &str = "dropped";
pub(crate) const REPAIRED: &str = "repaired";

const ADD: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO tallies (name, total) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET total = tallies.total + excluded.total",
    postgres: "INSERT INTO tallies (name, total)
        SELECT k.* FROM UNNEST($1::text[], $2::bigint[]) k
        ON CONFLICT (name) DO UPDATE SET total = tallies.total + excluded.total",
};
pub(crate) const TALLIES: &str = "SELECT name, total FROM tallies";
const DUE: &str = "SELECT COUNT(*) AS rows, MIN(height) AS oldest FROM due WHERE height <= $1";
const QUEUED: &str = "SELECT COUNT(*) AS rows FROM due WHERE height > $1";
const AWAITED: &str = "SELECT COUNT(*) AS rows,
    COALESCE(SUM(CASE WHEN is_known THEN 1 ELSE 0 END), 0) AS known FROM awaited";
const RECORDS: &str = "SELECT COUNT(*) AS rows FROM transactions";
const UNMINED_COUNT: &str = "SELECT COUNT(*) AS rows FROM transactions
    /*by idx_transactions_unmined*/ WHERE unmined_since IS NOT NULL";
const ABSENT: &str = "SELECT absent_inputs FROM store WHERE one = 1";
const POSTGRES_BYTES: &str = "SELECT (pg_total_relation_size('transactions')
    + pg_total_relation_size('parts') + pg_total_relation_size('due')
    + pg_total_relation_size('awaited') + pg_total_relation_size('blocks')) AS bytes";

/// The store in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// The newest block.
    pub tip: Option<Point>,
    /// The height that deletions are judged by.
    pub height: Option<u64>,
    /// No block at or below it can be undone.
    pub horizon: u64,
    /// Transactions in the store; counted, so it takes a while in a large one.
    pub records: u64,
    /// Of these, unmined ones.
    pub unmined: u64,
    /// Records whose height has come and that no cleaner has looked at since.
    pub due_backlog: u64,
    /// The lowest height among them.
    pub oldest_due: Option<u64>,
    /// Records that wait in the queue for a later height.
    pub queued: u64,
    /// Parents that stay because a child is unmined.
    pub kept_by_unmined_child: u64,
    /// Parents that stay because a child isn't in the store and never was, as far as we know.
    pub kept_by_unknown_child: u64,
    /// Records deleted since the store was made, without losers.
    pub deleted: u64,
    /// Losers of conflicts deleted.
    pub losers_deleted: u64,
    /// Unmined transactions dropped by hand.
    pub dropped: u64,
    /// Outputs cleared by hand.
    pub repaired: u64,
    /// Inputs of blocks whose parents were not in the store.
    pub absent_inputs: u64,
    /// Bytes on disk that are in use.
    pub bytes: u64,
}

impl TxStore {
    /// The figures now.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn status(&self) -> Result<StoreStatus, TxStoreError> {
        self.door.read(|tx| {
            let tip = TipRow::read(tx, TIP)?;
            let height = Arg::Int(sql_int(tip.height.unwrap_or(0))?);
            let due = tx.one(DUE, &[height])?;
            let awaited = tx.one(AWAITED, &[])?;
            let known = awaited.natural("known")?;
            let bytes = match tx.backend() {
                Backend::Sqlite => tx.one(SQLITE_BYTES, &[])?,
                Backend::Postgres => tx.one(POSTGRES_BYTES, &[])?,
            };
            let tallies = Tallies::read(tx)?;
            Ok(StoreStatus {
                tip: tip.point(),
                height: tip.height,
                horizon: tip.horizon,
                records: tx.one(RECORDS, &[])?.natural("rows")?,
                unmined: tx.one(UNMINED_COUNT, &[])?.natural("rows")?,
                due_backlog: due.natural("rows")?,
                oldest_due: due.opt_natural("oldest")?,
                queued: tx.one(QUEUED, &[height])?.natural("rows")?,
                kept_by_unmined_child: known,
                // Told to people; on PostgreSQL a row may come between the two counts.
                kept_by_unknown_child: awaited.natural("rows")?.saturating_sub(known),
                deleted: tallies.deleted,
                losers_deleted: tallies.losers_deleted,
                dropped: tallies.dropped,
                repaired: tallies.repaired,
                absent_inputs: tx.one(ABSENT, &[])?.natural("absent_inputs")?,
                bytes: bytes.natural("bytes")?,
            })
        })
    }
}

/// Adds to what was counted since the store was made; zeros are not written.
pub(crate) fn add_to_tally(
    tx: &mut Tx<'_>,
    counted: &[(&'static str, usize)],
) -> Result<(), TxStoreError> {
    let counted = counted.iter().filter(|(_, count)| *count > 0);
    let names = Column::texts(counted.clone().map(|(name, _)| *name));
    let totals = counted.map(|(_, count)| sql_int(*count as u64));
    let totals = Column::ints(totals.collect::<Result<Vec<_>, _>>()?);
    tx.execute_set(ADD, &[], &[names, totals])?;
    Ok(())
}
