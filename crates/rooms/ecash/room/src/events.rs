//! What happened to payments as events: each line of the journal once.

use std::collections::HashMap;

use serde::Serialize;
use unspent_ecash::{EcashError, EcashJournalLine, EcashStore, PageRequest};
use unspent_engine::{
    event_kinds,
    events::{EventLog, LogError, NewEvent},
    tenant::Tenant,
};
use utoipa::ToSchema;

use super::room::NAME;

event_kinds! {
    NAME.name();
    /// A payment was begun.
    CREATED: EcashStepBody = "ecash_created";
    /// A payment went on, or came to its end.
    MOVED: EcashStepBody = "ecash_moved";
}

/// A line of the journal of payments.
#[derive(Debug, Serialize, ToSchema)]
pub struct EcashStepBody {
    /// Which kind of payment
    kind: &'static str,
    /// What happened; `create` for the first line
    event: String,
    /// The state before; null for the first line
    from: Option<String>,
    /// The state now
    to: String,
    /// The payment's version then
    version: u64,
    /// Whose money
    account: String,
    transaction_state: &'static str,
    /// Why, for people
    note: Option<String>,
}

/// An account as events and webhooks know it.
pub fn tenant(account: &str, name: &str) -> Tenant {
    Tenant::new(NAME.name(), account, name)
}

/// Lines of the journal written at once.
const LINES_TOGETHER: u32 = 500;
const JOURNAL: &str = "journal";

/// Writes what happened since the last time; says whether there may be more.
pub(super) fn write(log: &EventLog, store: &EcashStore) -> Result<bool, LogError> {
    let after = u64::try_from(log.mark(NAME, JOURNAL)?).unwrap_or(0);
    let lines =
        |after, limit| store.journal(PageRequest { after: Some(after), limit }).map_err(unreadable);
    let found = lines(after, LINES_TOGETHER)?;
    let Some(last) = found.last().map(|line| line.number) else {
        let is_known = after == 0
            // Lines are numbered from 1.
            || !lines(after.saturating_sub(1), 1)?.is_empty();
        if !is_known {
            // Another store than the one that was told of: it is told from its start.
            log.write_marked(Vec::new(), NAME, JOURNAL, 0)?;
        }
        return Ok(!is_known);
    };
    let accounts = store.accounts().map_err(unreadable)?;
    let named: HashMap<&str, &str> =
        accounts.iter().map(|account| (&*account.id, &*account.name)).collect();
    let of = |line: &EcashJournalLine| {
        let name = named.get(&*line.account_id).copied();
        event(line).of(tenant(&line.account_id, name.unwrap_or(&line.account_id)))
    };
    let events = found.iter().map(of).collect();
    log.write_marked(events, NAME, JOURNAL, i64::try_from(last).unwrap_or(i64::MAX))?;
    Ok(found.len() >= LINES_TOGETHER as usize)
}

fn event(line: &EcashJournalLine) -> NewEvent {
    let body = EcashStepBody {
        kind: line.kind.name(),
        event: line.event.clone(),
        from: line.from.clone(),
        to: line.to.clone(),
        version: line.version,
        account: line.account_id.clone(),
        transaction_state: line.transaction_state.name(),
        note: line.note.clone(),
    };
    let kind = if line.from.is_none() { CREATED } else { MOVED };
    NewEvent::new(kind, &body).about(Some(line.entity_id.clone()))
}

fn unreadable(error: EcashError) -> LogError {
    LogError::room(NAME, error)
}
