//! What happened in the store as events: each line of its outbox once, and each of its tallies as
//! far as it has grown. A tally is its own mark.

use serde_json::json;
use unspent_model::Network;
use unspent_txstore::{Change, TxStore, TxStoreError};

use super::NAME;
use crate::events::{EventLog, LogError, NewEvent};

/// Blocks came in; several at once while the room catches up.
pub const APPLIED: &str = "transactions_applied";
/// A block was undone.
pub const UNDONE: &str = "transactions_undone";
/// The cleaner deleted records.
pub const DELETED: &str = "transactions_deleted";
/// The cleaner deleted losers of conflicts.
pub const LOSERS_DELETED: &str = "losers_deleted";
/// Somebody dropped unmined transactions.
pub const DROPPED: &str = "transactions_dropped";
/// Somebody cleared outputs that named a spender which never existed.
pub const REPAIRED: &str = "outputs_repaired";
/// The cleaner looked at due records that have to stay.
pub const KEPT: &str = "transactions_kept";

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
    log.write_marked(events, NAME, CHANGES, i64::try_from(last).unwrap_or(i64::MAX))?;
    Ok(page.changes.len() >= LINES_TOGETHER as usize)
}

fn block_event(network: Network, change: &Change) -> NewEvent {
    let height = change.point.map(|point| point.height);
    let (kind, body) = if change.is_undone {
        let body = json!({
            "height": height, "blocks": change.blocks, "unmined": change.unmined,
            "losers": change.losers,
        });
        (UNDONE, body)
    } else {
        let body = json!({
            "height": height, "blocks": change.blocks, "created": change.created,
            "mined": change.mined, "spent": change.spent, "absent": change.absent,
            "losers": change.losers,
        });
        (APPLIED, body)
    };
    let subject = change.point.map(|point| network.show_hash(&point.hash.0));
    NewEvent { room: NAME.name(), kind, wallet: None, wallet_id: None, subject, body }
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
        let told = u64::try_from(log.mark(NAME, kind)?).unwrap_or(0);
        if told == total {
            continue;
        }
        // Less than was told: another store, which is told from its start.
        let count = total.checked_sub(told).unwrap_or(total);
        let body = json!({ "count": count, "total": total });
        let event = NewEvent {
            room: NAME.name(),
            kind,
            wallet: None,
            wallet_id: None,
            subject: None,
            body,
        };
        let events = if count > 0 { vec![event] } else { Vec::new() };
        log.write_marked(events, NAME, kind, i64::try_from(total).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

fn unreadable(error: TxStoreError) -> LogError {
    LogError::room(NAME, error)
}
