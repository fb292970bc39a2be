//! Parents that wait for a child to be mined.
//!
//! A parent whose child is unmined or unknown can't be decided at any height that could be named,
//! so it leaves the queue and a row here names the child. When that child is mined, its parents are
//! queued for the height at which it is deep enough. Nothing is polled, and nothing is late.

use unspent_model::{
    TxId,
    txstore::{DeletionWindows, TxRecord},
};
use unspent_sql::{Backend, BulkStatement, Column, Tx};

use crate::{error::TxStoreError, store::txid, working::WorkingSet};

/// The first row, if there is one.
const ANY: &str = "SELECT txid FROM awaited ORDER BY txid LIMIT 1";
const WAITING: BulkStatement = BulkStatement {
    sqlite: "SELECT txid, parent FROM awaited WHERE txid = $1",
    postgres: "SELECT txid, parent FROM awaited WHERE txid = ANY($1::bytea[])",
};
const FORGET: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM awaited WHERE txid = $1",
    postgres: "DELETE FROM awaited WHERE txid = ANY($1::bytea[])",
};
const AWAIT: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO awaited (txid, parent, is_known) VALUES ($1, $2, $3)
        ON CONFLICT (txid, parent) DO UPDATE SET is_known = excluded.is_known",
    postgres: "INSERT INTO awaited (txid, parent, is_known)
        SELECT k.* FROM UNNEST($1::bytea[], $2::bytea[], $3::boolean[]) k
        ON CONFLICT (txid, parent) DO UPDATE SET is_known = excluded.is_known",
};

/// A parent that waits for a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaitingParent {
    pub(crate) child: TxId,
    pub(crate) parent: TxId,
}

pub(crate) fn waiting(
    tx: &mut Tx<'_>,
    children: impl Iterator<Item = TxId>,
) -> Result<Vec<WaitingParent>, TxStoreError> {
    // On SQLite each name is a search of its own, and mostly nobody waits for anybody.
    if tx.backend() == Backend::Sqlite && tx.maybe(ANY, &[])?.is_none() {
        return Ok(Vec::new());
    }
    let names = Column::hashes(children.map(|child| child.0));
    let rows = tx.query_set(WAITING, &[], &[names])?;
    let waiter = |row: &unspent_sql::Row| {
        Ok(WaitingParent { child: txid(row)?, parent: TxId(row.hash("parent")?) })
    };
    rows.iter().map(waiter).collect()
}

/// Queues the parents of children that were mined; both must have been read.
pub(crate) fn wake(working: &mut WorkingSet, waiters: &[WaitingParent], windows: DeletionWindows) {
    for waiter in waiters {
        let mined = working.get(waiter.child).and_then(TxRecord::mined_height);
        // A height beyond all there can be: never settled, so it is kept.
        let Some(settled) = mined.map(|mined| mined.saturating_add(windows.safety)) else {
            continue;
        };
        let Some(parent) = working.get_mut(waiter.parent) else { continue };
        // A preserved parent is judged anew when its time is over, whatever its children do.
        if parent.preserve_until.is_none() {
            parent.due_at = parent.delete_at.map(|at| at.max(settled));
        }
    }
}

/// Notes who waits for whom from now on, and whether the child is in the store.
pub(crate) fn park(tx: &mut Tx<'_>, rows: &[(WaitingParent, bool)]) -> Result<(), TxStoreError> {
    let children = Column::hashes(rows.iter().map(|(waiter, _)| waiter.child.0));
    let parents = Column::hashes(rows.iter().map(|(waiter, _)| waiter.parent.0));
    let known = Column::Flags(rows.iter().map(|(_, known)| *known).collect());
    tx.execute_set(AWAIT, &[], &[children, parents, known])?;
    Ok(())
}

/// Nobody waits for these any longer.
pub(crate) fn forget(
    tx: &mut Tx<'_>,
    children: impl Iterator<Item = TxId>,
) -> Result<(), TxStoreError> {
    tx.execute_set(FORGET, &[], &[Column::hashes(children.map(|child| child.0))])?;
    Ok(())
}

/// The children whose waiters were woken.
pub(crate) fn answered(waiters: &[WaitingParent]) -> impl Iterator<Item = TxId> {
    let mut children: Vec<TxId> = waiters.iter().map(|waiter| waiter.child).collect();
    children.sort_unstable();
    children.dedup();
    children.into_iter()
}
