//! What happened in the store as events: each line of its outbox once, and each of its tallies as
//! far as it has grown. A tally is its own mark.

use std::collections::BTreeMap;

use serde::Serialize;
use unspent_engine::{
    event_kinds,
    events::{EventLog, LogError, NewEvent},
};
use unspent_model::Network;
use unspent_txstore::{OutboxLine, TxStore, TxStoreError};
use utoipa::ToSchema;

use crate::name::NAME;

event_kinds! {
    NAME.name();
    /// Blocks came in; several at once while the room catches up.
    APPLIED: TransactionsAppliedBody = "transactions_applied";
    /// A block was undone.
    UNDONE: TransactionsUndoneBody = "transactions_undone";
    /// The cleaner deleted records.
    DELETED: TallyBody = "transactions_deleted";
    /// The cleaner deleted losers of conflicts.
    LOSERS_DELETED: TallyBody = "losers_deleted";
    /// Somebody dropped unmined transactions.
    DROPPED: TallyBody = "transactions_dropped";
    /// Somebody cleared outputs that named a spender which never existed.
    REPAIRED: TallyBody = "outputs_repaired";
    /// The cleaner looked at due records that have to stay.
    KEPT: TransactionsKeptBody = "transactions_kept";
}

/// What blocks did to the store.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionsAppliedBody {
    /// Height of the last block
    height: Option<u64>,
    /// How many blocks
    blocks: u64,
    /// Transactions that were new to the store
    created: u64,
    /// Transactions that were known and are mined now
    mined: u64,
    /// Outputs spent
    spent: u64,
    /// Inputs whose parents are not in the store
    absent: u64,
    /// Transactions that lost
    losers: u64,
}

/// What the undoing of a block did to the store.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionsUndoneBody {
    height: Option<u64>,
    /// How many blocks
    blocks: u64,
    /// Transactions that are unmined again
    unmined: u64,
    /// Transactions that lost
    losers: u64,
}

/// How many since the last such event, and in all.
#[derive(Debug, Serialize, ToSchema)]
pub struct TallyBody {
    count: u64,
    total: u64,
}

/// How many have to stay, by reason.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionsKeptBody {
    /// The height that they were judged by
    pub(super) height: u64,
    pub(super) kept: BTreeMap<&'static str, usize>,
}

/// Lines of the outbox written at once.
const LINES_TOGETHER: u32 = 500;
const CHANGES: &str = "changes";

/// Writes what happened since the last time; says whether there may be more.
pub(super) fn write(log: &EventLog, store: &TxStore) -> Result<bool, LogError> {
    write_tallies(log, store)?;
    write_changes(log, store)
}

fn write_changes(log: &EventLog, store: &TxStore) -> Result<bool, LogError> {
    let mark = log.mark(NAME, CHANGES)?;
    let after = u64::try_from(mark).unwrap_or(0);
    let page = store.changes(after, LINES_TOGETHER).map_err(unreadable)?;
    if page.last < after {
        // Another store than the one that was told of: it is told from its start.
        log.write_marked(Vec::new(), NAME, CHANGES, 0)?;
        return Ok(true);
    }
    let Some(last) = page.changes.last().map(|change| change.number) else { return Ok(false) };
    let network = store.network();
    let events = page.changes.iter().map(|change| block_event(network, change)).collect();
    // The mark moves with the events: apart from them, a crash would tell a line twice or never.
    log.write_marked(events, NAME, CHANGES, i64::try_from(last).unwrap_or(i64::MAX))?;
    Ok(page.changes.len() >= LINES_TOGETHER as usize)
}

fn block_event(network: Network, change: &OutboxLine) -> NewEvent {
    let height = change.point.map(|point| point.height);
    let OutboxLine { blocks, created, mined, unmined, spent, absent, losers, .. } = *change;
    let event = if change.is_undone {
        NewEvent::new(UNDONE, &TransactionsUndoneBody { height, blocks, unmined, losers })
    } else {
        let body =
            TransactionsAppliedBody { height, blocks, created, mined, spent, absent, losers };
        NewEvent::new(APPLIED, &body)
    };
    event.about(change.point.map(|point| network.show_hash(&point.hash.0)))
}

fn write_tallies(log: &EventLog, store: &TxStore) -> Result<(), LogError> {
    let found = store.tallies().map_err(unreadable)?;
    let tallies = [
        (DELETED, found.deleted),
        (LOSERS_DELETED, found.losers_deleted),
        (DROPPED, found.dropped),
        (REPAIRED, found.repaired),
    ];
    for (kind, total) in tallies {
        let told = u64::try_from(log.mark(NAME, kind.name)?).unwrap_or(0);
        if told == total {
            continue;
        }
        // Less than was told: another store, which is told from its start.
        let count = total.checked_sub(told).unwrap_or(total);
        let event = NewEvent::new(kind, &TallyBody { count, total });
        let events = if count > 0 { vec![event] } else { Vec::new() };
        log.write_marked(events, NAME, kind.name, i64::try_from(total).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

fn unreadable(error: TxStoreError) -> LogError {
    LogError::room(NAME, error)
}
