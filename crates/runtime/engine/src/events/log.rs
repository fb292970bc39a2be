//! The numbered rows and those who wait for them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::counter;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use unspent_model::Micros;
use unspent_source::wakeup::Wakeup;
use unspent_sql::{Arg, BulkStatement, Column, Door, Row, SqlError, Tx};

use super::{Event, EventPage, LogError, kind::EventKind};
use crate::{
    clock::{self, Time},
    names::RoomName,
    tenant::{Tenant, TenantName},
};

/// Events on one page at most.
pub const MAX_EVENTS: usize = 1_000;

const LAST: &str = "SELECT last_event FROM counter WHERE one = 1";
const MOVE_LAST: &str = "UPDATE counter SET last_event = $1 WHERE one = 1";
const FIRST: &str = "SELECT MIN(id) AS id FROM events";
const PAGE: &str =
    "SELECT id, at, room, kind, tenant_room, tenant, tenant_id, subject, body FROM events
    WHERE id > $1 AND ($3 = '' OR tenant = $3) AND ($4 = '' OR room = $4)
        AND ($5 = '' OR kind = $5) AND ($6 = '' OR tenant_room = $6)
        AND ($7 = '' OR COALESCE(tenant_id, $7) = $7) ORDER BY id LIMIT $2";
const MARK: &str = "SELECT mark FROM marks WHERE room = $1 AND subject = $2";
const SET_MARK: &str = "INSERT INTO marks (room, subject, mark) VALUES ($1, $2, $3)
    ON CONFLICT (room, subject) DO UPDATE SET mark = excluded.mark";
const FORGET: &str = "DELETE FROM events WHERE id <= $1";
const INSERT: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO events (id, at, room, kind, tenant_room, tenant, tenant_id, subject, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    postgres: "INSERT INTO events (id, at, room, kind, tenant_room, tenant, tenant_id, subject,
            body)
        SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
            $6::text[], $7::text[], $8::text[], $9::text[]) k",
};

/// An event before it has a number.
#[derive(Debug, Clone)]
pub struct NewEvent {
    room: &'static str,
    kind: &'static str,
    tenant: Option<Tenant>,
    subject: Option<String>,
    body: Value,
}

impl NewEvent {
    /// An event of a kind, about no tenant and nothing in particular.
    pub fn new<B: Serialize>(kind: EventKind<B>, body: &B) -> Self {
        let EventKind { room, name, .. } = kind;
        let body = serde_json::to_value(body).unwrap_or_else(|error| {
            tracing::error!(%error, kind = name, "can't serialize the body of an event");
            Value::Object(serde_json::Map::new())
        });
        Self { room, kind: name, tenant: None, subject: None, body }
    }

    /// The same about a transaction, coin or block, as people read it.
    #[must_use]
    pub fn about(mut self, subject: Option<String>) -> Self {
        self.subject = subject;
        self
    }

    /// The same about a tenant: webhooks find it by the tenant's id, people by its name.
    #[must_use]
    pub fn of(mut self, tenant: Tenant) -> Self {
        self.tenant = Some(tenant);
        self
    }
}

/// Which events; what isn't named doesn't matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Those about tenants of this room.
    pub tenant_room: Option<String>,
    /// Those about a tenant that was called so then.
    pub tenant: Option<String>,
    /// Those about the tenant with this id, and those of the oldest version, which noted none.
    pub tenant_id: Option<String>,
    /// Those of this room.
    pub room: Option<String>,
    /// Those of this kind.
    pub kind: Option<String>,
}

/// All events that are still kept.
pub struct EventLog {
    door: Arc<Door>,
    kept: u64,
    last: AtomicU64,
    arrived: Wakeup,
    newest: watch::Sender<u64>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("last", &self.last_id()).finish_non_exhaustive()
    }
}

impl EventLog {
    pub(crate) fn open(door: Arc<Door>, kept: u64) -> Result<Self, LogError> {
        let last = door.read(|tx| -> Result<u64, LogError> {
            Ok(tx.one(LAST, &[])?.natural("last_event")?)
        })?;
        let (newest, _) = watch::channel(last);
        Ok(Self { door, kept, last: AtomicU64::new(last), arrived: Wakeup::default(), newest })
    }

    /// Events after the one numbered `id`.
    ///
    /// # Errors
    ///
    /// [`LogError`] when the database can't be read.
    pub fn after(&self, id: u64, limit: usize) -> Result<EventPage, LogError> {
        self.matching(id, limit, &EventFilter::default())
    }

    /// Events after the one numbered `id` that match. A page with fewer than `limit` has all of
    /// them up to its `last`.
    ///
    /// # Errors
    ///
    /// [`LogError`] when the database can't be read.
    pub fn matching(
        &self,
        id: u64,
        limit: usize,
        filter: &EventFilter,
    ) -> Result<EventPage, LogError> {
        let EventFilter { tenant_room, tenant, tenant_id, room, kind } = filter.clone();
        let after = i64::try_from(id).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit.min(MAX_EVENTS)).unwrap_or(0);
        self.door.read(move |tx| {
            // In one snapshot with the rows: readers skip to `last` when a page isn't full.
            let last = tx.one(LAST, &[])?.natural("last_event")?;
            let first_kept = tx.one(FIRST, &[])?.opt_int("id")?.unwrap_or(0);
            let wanted = [&tenant, &room, &kind, &tenant_room, &tenant_id]
                .map(|text| Arg::Text(text.as_deref().unwrap_or("")));
            let place = [Arg::Int(after), Arg::Int(limit)];
            let rows = tx.query(PAGE, &[&place[..], &wanted].concat())?;
            let events = rows.iter().map(event).collect::<Result<_, LogError>>()?;
            let first_kept = u64::try_from(first_kept).unwrap_or(0);
            Ok(EventPage { events, first_kept, last })
        })
    }

    /// The newest event's number; 0 when there is none.
    pub fn last_id(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Waits until there is an event after `id`; says whether there is.
    pub fn wait(&self, after: u64, timeout: Duration) -> bool {
        let deadline = std::time::Instant::now() + timeout;
        loop {
            // Counted before the look, so that an event written in between ends the wait.
            let known = self.arrived.count();
            if self.last_id() > after {
                return true;
            }
            let rest = deadline.saturating_duration_since(std::time::Instant::now());
            if rest.is_zero() || self.arrived.is_stopping() {
                return false;
            }
            self.arrived.wait(known, rest);
        }
    }

    /// A receiver that always shows the newest event's number.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Lets everybody who waits go.
    pub(crate) fn close(&self) {
        self.arrived.stop();
    }

    /// The database that it is kept in, for marks of a room's own shape.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Writes events that stand for themselves.
    ///
    /// # Errors
    ///
    /// [`LogError`]; none is written then.
    pub fn write(&self, events: Vec<NewEvent>) -> Result<(), LogError> {
        self.write_with(events, |_| Ok(()))
    }

    /// Writes events of a room, together with the mark of how far they have come. A mark is a
    /// number that grows; each room has as many as it has subjects.
    ///
    /// # Errors
    ///
    /// [`LogError`]; neither events nor mark are written then.
    pub fn write_marked(
        &self,
        events: Vec<NewEvent>,
        room: RoomName,
        subject: &str,
        mark: i64,
    ) -> Result<(), LogError> {
        let subject = subject.to_owned();
        self.write_with(events, move |tx: &mut Tx<'_>| {
            let args = [Arg::Text(room.name()), Arg::Text(&subject), Arg::Int(mark)];
            tx.execute(SET_MARK, &args)?;
            Ok(())
        })
    }

    /// How far a room's events have come; 0 before the first.
    ///
    /// # Errors
    ///
    /// [`LogError`] when the database can't be read.
    pub fn mark(&self, room: RoomName, subject: &str) -> Result<i64, LogError> {
        let subject = subject.to_owned();
        self.door.read(move |tx| {
            let row = tx.maybe(MARK, &[Arg::Text(room.name()), Arg::Text(&subject)])?;
            Ok(row.map(|row| row.int("mark")).transpose()?.unwrap_or(0))
        })
    }

    /// Writes events together with the mark of how far their room has come.
    ///
    /// # Errors
    ///
    /// [`LogError`]; nothing is written then.
    pub fn write_with(
        &self,
        events: Vec<NewEvent>,
        mark: impl Fn(&mut Tx<'_>) -> Result<(), LogError> + Send + 'static,
    ) -> Result<(), LogError> {
        let (now, kept, count) = (clock::now(), self.kept, events.len() as u64);
        let last = self.door.write(move |tx| -> Result<u64, LogError> {
            mark(tx)?;
            append(tx, &events, now, kept)
        })?;
        counter!("unspent_engine_events_total").increment(count);
        // Two writers may come here in another order than the one in which they were committed.
        self.last.fetch_max(last, Ordering::AcqRel);
        self.newest.send_if_modified(|newest| {
            let is_newer = last > *newest;
            *newest = last.max(*newest);
            is_newer
        });
        self.arrived.wake();
        Ok(())
    }
}

fn append(tx: &mut Tx<'_>, events: &[NewEvent], at: Micros, kept: u64) -> Result<u64, LogError> {
    // From a counter and not MAX(id): a number must never come again, even when all rows are gone.
    let before = tx.one(LAST, &[])?.int("last_event")?;
    if events.is_empty() {
        return Ok(u64::try_from(before).unwrap_or(0));
    }
    let last = before + i64::try_from(events.len()).unwrap_or(0);
    let optional = |value: fn(&NewEvent) -> Option<&String>| {
        Column::Texts(events.iter().map(|event| value(event).cloned()).collect())
    };
    let columns = [
        Column::ints(before + 1..=last),
        Column::ints(events.iter().map(|_| at.0)),
        Column::texts(events.iter().map(|event| event.room)),
        Column::texts(events.iter().map(|event| event.kind)),
        optional(|event| event.tenant.as_ref().map(|tenant| &tenant.named.room)),
        optional(|event| event.tenant.as_ref().map(|tenant| &tenant.named.name)),
        optional(|event| event.tenant.as_ref().map(|tenant| &tenant.id)),
        optional(|event| event.subject.as_ref()),
        Column::texts(events.iter().map(|event| event.body.to_string())),
    ];
    tx.execute_set(INSERT, &[], &columns)?;
    tx.execute(MOVE_LAST, &[Arg::Int(last)])?;
    // Numbers are dense, so how many are kept can be told without counting rows.
    let forget = last.saturating_sub(i64::try_from(kept).unwrap_or(i64::MAX));
    if forget > 0 {
        tx.execute(FORGET, &[Arg::Int(forget)])?;
    }
    Ok(u64::try_from(last).unwrap_or(0))
}

fn event(row: &Row) -> Result<Event, LogError> {
    let body = row.text("body")?;
    let damaged = |_| SqlError::Damaged { what: "an event's body is not JSON".into() };
    let named = row.opt_text("tenant_room")?.zip(row.opt_text("tenant")?);
    let named = named.map(|(room, name)| TenantName { room, name });
    Ok(Event {
        id: row.natural("id")?,
        at: Time(row.int("at")?),
        room: row.text("room")?,
        kind: row.text("kind")?,
        wallet: named.as_ref().and_then(TenantName::as_wallet).map(ToOwned::to_owned),
        tenant_room: named.as_ref().map(|named| named.room.clone()),
        tenant: named.map(|named| named.name),
        tenant_id: row.opt_text("tenant_id")?,
        subject: row.opt_text("subject")?,
        body: serde_json::from_str(&body).map_err(damaged)?,
    })
}
