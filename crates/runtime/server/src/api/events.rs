//! `/events` and `/events/stream`: what happened, in pages or live.
//!
//! A stream reads the log in pages and hands them to the client through a queue of fixed length. A
//! client that doesn't read for a while is let go; it comes back with the id it has seen last.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse as _, Response, Sse,
        sse::{self, KeepAlive},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use unspent_engine::{
    Engine,
    events::{Event, EventFilter, EventPage},
    tenant::TenantName,
};
use utoipa::{IntoParams, ToSchema};

use super::{
    error::{ApiError, Failures},
    extract::{ApiQuery, Caller, May, Read},
    state::App,
    streams::{NoPlace, StreamPlace},
};
use crate::{
    auth::Identity,
    request::{page_limit, short},
    room::Rooms,
};

/// Events that wait for one client.
const QUEUE: usize = 64;
/// Events read at a time for one client.
const READ_AT_ONCE: usize = 100;
/// How long a client may not read before it is let go.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a stream looks whether its credential still counts, at least.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// A sign of life.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Pause after the log could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(super) struct EventsJson {
    events: Vec<Event>,
    /// Id of the oldest event kept
    first_kept: u64,
    /// Id of the newest event
    last: u64,
    /// Cursor of the next page; null when there is none yet
    next: Option<u64>,
}

/// A page of events, and what filters them.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Events per page
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// The id of the last event seen
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    after: Option<u64>,
    /// Only events about the wallet of this name
    #[param(min_length = 1, max_length = 100)]
    wallet: Option<String>,
    /// Only events about a tenant of this name: a wallet, an account of ecash
    #[param(min_length = 1, max_length = 100)]
    tenant: Option<String>,
    /// Only events of this room, or of `engine`
    #[param(min_length = 1, max_length = 100)]
    room: Option<String>,
    /// Only events of this kind
    #[param(min_length = 1, max_length = 100)]
    kind: Option<String>,
}

/// Where a stream starts, and which events it has.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// The id of the last event seen; the header `Last-Event-ID` takes precedence
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    after: Option<u64>,
    /// Only events about the wallet of this name
    #[param(min_length = 1, max_length = 100)]
    wallet: Option<String>,
    /// Only events about a tenant of this name: a wallet, an account of ecash
    #[param(min_length = 1, max_length = 100)]
    tenant: Option<String>,
    /// Only events of this room, or of `engine`
    #[param(min_length = 1, max_length = 100)]
    room: Option<String>,
    /// Only events of this kind
    #[param(min_length = 1, max_length = 100)]
    kind: Option<String>,
}

/// What a caller asks for, and may see.
#[derive(Clone)]
struct WantedEvents {
    filter: EventFilter,
    /// The only tenant that the caller sees.
    only: Option<TenantName>,
}

impl WantedEvents {
    /// One who sees a single tenant asks for its events alone.
    fn new(
        rooms: Rooms,
        who: &Identity,
        (wallet, tenant): (Option<String>, Option<String>),
        (room, kind): (Option<String>, Option<String>),
    ) -> Result<Self, ApiError> {
        for text in [&wallet, &tenant, &room, &kind].into_iter().flatten() {
            if text.is_empty() || text.chars().any(char::is_control) {
                return Err(ApiError::malformed("a filter is empty or holds control characters"));
            }
            short(Some(text))?;
        }
        if wallet.is_some() && tenant.is_some() {
            return Err(ApiError::malformed("filter by `wallet` or by `tenant`"));
        }
        let wallet = wallet.map(|name| TenantName::wallet(&name));
        let tenant_room = wallet.as_ref().map(|wallet| wallet.room.clone());
        let tenant = tenant.or(wallet.map(|wallet| wallet.name));
        if let (Some(own), Some(name)) = (&who.tenant, &tenant) {
            let asked = TenantName::new(tenant_room.as_ref().unwrap_or(&own.room), name);
            // As if it weren't there: a refusal of its own would tell that somebody has such a
            // name.
            if *own != asked {
                return Err(rooms.no_tenant(&asked));
            }
        }
        let filter = EventFilter { tenant_room, tenant, room, kind, ..EventFilter::default() };
        Ok(Self { filter, only: who.tenant.clone() })
    }

    /// The filter as it is now; `None` for the events of a tenant that isn't there. By its id, so
    /// that nobody reads what a namesake did before.
    fn now(self, rooms: Rooms, engine: &Engine) -> Result<Option<EventFilter>, ApiError> {
        let Some(only) = self.only else { return Ok(Some(self.filter)) };
        // At each page, by id: whoever gets the name later must not see events of its first owner.
        let Some(tenant) = rooms.tenant(engine, &only)? else { return Ok(None) };
        let (room, name, id) = (tenant.named.room, tenant.named.name, tenant.id);
        let (tenant_room, tenant) = (Some(room), Some(name));
        Ok(Some(EventFilter { tenant_room, tenant, tenant_id: Some(id), ..self.filter }))
    }
}

async fn page(
    app: &App,
    after: u64,
    limit: usize,
    wanted: &WantedEvents,
) -> Result<EventPage, ApiError> {
    let (engine, rooms, wanted) = (app.engine.clone(), app.config.rooms(), wanted.clone());
    let read = move || {
        if let Some(filter) = wanted.now(rooms, &engine)? {
            return Ok(engine.events().matching(after, limit, &filter)?);
        }
        // Whose tenant isn't to be found now, its room being off, reads on from here once it is:
        // told of a gap now, a stream would be sent back to where it stands, again and again.
        let none = engine.events().matching(after, 0, &EventFilter::default())?;
        Ok(EventPage { first_kept: 0, last: none.last.min(after), ..none })
    };
    app.pool.run(read).await
}

/// A page of events, oldest first
#[utoipa::path(get, path = "/events", operation_id = "list_events",
    tag = "daemon", params(EventsQuery),
    responses((status = 200, body = EventsJson), Failures))]
pub(super) async fn list(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<EventsQuery>,
) -> Result<Json<EventsJson>, ApiError> {
    let limit = usize::try_from(page_limit(query.limit)?).unwrap_or(1);
    let whose = (query.wallet, query.tenant);
    let wanted = WantedEvents::new(app.config.rooms(), &who, whose, (query.room, query.kind))?;
    let EventPage { events, first_kept, last } =
        page(&app, query.after.unwrap_or(0), limit, &wanted).await?;
    // A page that isn't full has everything there is.
    let is_full = events.len() >= limit;
    let next = events.last().map(|event| event.id).filter(|id| is_full && *id < last);
    Ok(Json(EventsJson { events, first_kept, last, next }))
}

/// Live events (server-sent events), from an id on
#[utoipa::path(get, path = "/events/stream", operation_id = "stream_events",
    tag = "daemon", params(StreamQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event seen")),
    responses((status = 200, body = String, content_type = "text/event-stream"), Failures))]
pub(super) async fn stream(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let seen = match headers.get("last-event-id") {
        Some(value) => {
            let id = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
            Some(id.ok_or_else(|| ApiError::malformed("Last-Event-ID is a number"))?)
        }
        None => query.after,
    };
    let whose = (query.wallet, query.tenant);
    let wanted = WantedEvents::new(app.config.rooms(), &who, whose, (query.room, query.kind))?;
    // Taken before anything is spawned: the task holds it, so it is free again however that ends.
    let place = app.streams.take(&who).map_err(|why| {
        let message = match why {
            NoPlace::All => "too many live streams are open",
            NoPlace::Yours => "you have too many live streams open",
        };
        ApiError::busy(message).after(5)
    })?;
    let (send, receive) = mpsc::channel(QUEUE);
    // Without a place a client wants news; the past is there in pages.
    let start = seen.unwrap_or_else(|| app.engine.events().last_id());
    tokio::spawn(Feed { app, who, wanted, send, after: start, _place: place }.run());
    let alive = KeepAlive::new().interval(HEARTBEAT);
    Ok(Sse::new(ReceiverStream::new(receive)).keep_alive(alive).into_response())
}

/// One client's stream.
struct Feed {
    app: App,
    who: Identity,
    wanted: WantedEvents,
    send: mpsc::Sender<Result<sse::Event, Infallible>>,
    after: u64,
    _place: StreamPlace,
}

impl Feed {
    async fn run(mut self) {
        metrics::gauge!("unspent_http_streams").increment(1);
        self.feed().await;
        metrics::gauge!("unspent_http_streams").decrement(1);
    }

    async fn feed(&mut self) {
        let mut newest = self.app.engine.events().subscribe();
        let mut stopping = self.app.stopping.clone();
        loop {
            // Before the reading: an event that is written during it then ends the wait below at
            // once.
            newest.mark_unchanged();
            // It ends with the credential that opened it.
            if !self.app.auth.is_live(&self.who) {
                return;
            }
            match page(&self.app, self.after, READ_AT_ONCE, &self.wanted).await {
                Ok(page) if self.is_gap(&page) => {
                    let (first_kept, last) = (page.first_kept, page.last);
                    let data = json!({ "first_kept": first_kept, "last": last });
                    if !self.put(last, "reset", data).await {
                        return;
                    }
                    self.after = last;
                    continue;
                }
                Ok(page) => {
                    let (is_full, last) = (page.events.len() >= READ_AT_ONCE, page.last);
                    if !self.all(page.events).await {
                        return;
                    }
                    if is_full {
                        continue;
                    }
                    // What didn't match isn't looked at again.
                    self.after = last;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { return },
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = self.send.closed() => return,
                // News can't be missed for longer than this, whatever happens to the signal, nor
                // that the credential ended.
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// What the client wants next is no longer kept, or was never there.
    fn is_gap(&self, page: &EventPage) -> bool {
        let too_old = page.first_kept > 0 && self.after + 1 < page.first_kept;
        too_old || self.after > page.last
    }

    async fn all(&mut self, events: Vec<Event>) -> bool {
        for event in events {
            let (id, kind) = (event.id, event.kind.clone());
            let Ok(data) = serde_json::to_value(event) else { return false };
            if !self.put(id, &kind, data).await {
                return false;
            }
            self.after = id;
        }
        true
    }

    /// Waits for a place in the client's queue, but not for ever.
    async fn put(&self, id: u64, kind: &str, data: Value) -> bool {
        let message = sse::Event::default().id(id.to_string()).event(kind).data(data.to_string());
        let mut stopping = self.app.stopping.clone();
        tokio::select! {
            // A client that stopped reading would keep a task, a place and pages in memory for
            // ever.
            sent = self.send.send_timeout(Ok(message), PATIENCE) => sent.is_ok(),
            _ = stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}
