//! What happened to payments as events: each line of the journal once.

use serde_json::json;
use unspent_ecash::{EcashError, EcashStore, JournalLine};

use super::room::NAME;
use crate::events::{EventLog, LogError, NewEvent};

/// A payment was begun.
pub const CREATED: &str = "ecash_created";
/// A payment went on, or came to its end.
pub const MOVED: &str = "ecash_moved";

/// Lines of the journal written at once.
const LINES_TOGETHER: u32 = 500;
const JOURNAL: &str = "journal";

/// Writes what happened since the last time; says whether there may be more.
pub(super) fn write(log: &EventLog, store: &EcashStore) -> Result<bool, LogError> {
    let after = u64::try_from(log.mark(NAME, JOURNAL)?).unwrap_or(0);
    let lines = store.journal(after, LINES_TOGETHER).map_err(unreadable)?;
    let Some(last) = lines.last().map(|line| line.number) else {
        let is_known = after == 0
            || !store.journal(after.saturating_sub(1), 1).map_err(unreadable)?.is_empty();
        if !is_known {
            // Another store than the one that was told of: it is told from its start.
            log.write_marked(Vec::new(), NAME, JOURNAL, 0)?;
        }
        return Ok(!is_known);
    };
    let events = lines.iter().map(event).collect();
    log.write_marked(events, NAME, JOURNAL, i64::try_from(last).unwrap_or(i64::MAX))?;
    Ok(lines.len() >= LINES_TOGETHER as usize)
}

fn event(line: &JournalLine) -> NewEvent {
    let body = json!({
        "kind": line.kind.name(), "event": line.event, "from": line.from, "to": line.to,
        "version": line.version, "account": line.account_id,
        "transaction_state": line.transaction_state.name(), "note": line.note,
    });
    NewEvent {
        room: NAME.name(),
        kind: if line.from.is_none() { CREATED } else { MOVED },
        wallet: None,
        wallet_id: None,
        subject: Some(line.entity_id.clone()),
        body,
    }
}

fn unreadable(error: EcashError) -> LogError {
    LogError::room(NAME, error)
}
