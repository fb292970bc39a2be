//! `/events` and `/events/stream`: what happened, in pages or live.
//!
//! A stream reads the log in pages and hands them to the client through a queue of fixed length. A
//! client that doesn't read for a while is let go; it comes back with the id it has seen last.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse as _, Response, Sse,
        sse::{self, KeepAlive},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use unspent_engine::events::{Event, EventPage};
use utoipa::{IntoParams, ToSchema};

use super::{
    error::{ApiError, Failures},
    extract::{ApiQuery, May, Read},
    state::App,
};
use crate::request::page_limit;

/// Events that wait for one client.
const QUEUE: usize = 64;
/// Events read at a time for one client.
const READ_AT_ONCE: usize = 100;
/// How long a client may not read before it is let go.
const PATIENCE: Duration = Duration::from_secs(20);
/// A sign of life.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Pause after the log could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventsJson {
    events: Vec<Event>,
    /// The oldest that is kept
    first_kept: u64,
    /// The newest there is
    last: u64,
    /// Where the next page starts; null when there is none yet
    next: Option<u64>,
}

/// Which events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Events on the page
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// The id of the last event seen
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    after: Option<u64>,
}

/// Where a stream starts.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// The id of the last event seen; the header `Last-Event-ID` counts more
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    after: Option<u64>,
}

async fn page(app: &App, after: u64, limit: usize) -> Result<EventPage, ApiError> {
    let engine = app.engine.clone();
    let read = move || engine.events().after(after, limit).map_err(|error| ApiError::bug(&error));
    app.pool.run(read).await
}

/// A page of events, oldest first
#[utoipa::path(get, path = "/events", tag = "daemon", params(EventsQuery),
    responses((status = 200, body = EventsJson), Failures))]
pub(crate) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<EventsQuery>,
) -> Result<Json<EventsJson>, ApiError> {
    let limit = usize::try_from(page_limit(query.limit)?).unwrap_or(1);
    let EventPage { events, first_kept, last } =
        page(&app, query.after.unwrap_or(0), limit).await?;
    let next = events.last().map(|event| event.id).filter(|id| *id < last);
    Ok(Json(EventsJson { events, first_kept, last, next }))
}

/// Live events (server-sent events), from an id on
#[utoipa::path(get, path = "/events/stream", tag = "daemon", params(StreamQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event seen")),
    responses((status = 200, body = String, content_type = "text/event-stream"), Failures))]
pub(crate) async fn stream(
    _: May<Read>,
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
    let place = app.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| {
        let message = "too many live streams are open";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).after(5)
    })?;
    let (send, receive) = mpsc::channel(QUEUE);
    let start = seen.unwrap_or_else(|| app.engine.events().last_id());
    tokio::spawn(Feed { app, send, after: start, _place: place }.run());
    let alive = KeepAlive::new().interval(HEARTBEAT);
    Ok(Sse::new(ReceiverStream::new(receive)).keep_alive(alive).into_response())
}

/// One client's stream.
struct Feed {
    app: App,
    send: mpsc::Sender<Result<sse::Event, Infallible>>,
    after: u64,
    _place: OwnedSemaphorePermit,
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
            newest.mark_unchanged();
            match page(&self.app, self.after, READ_AT_ONCE).await {
                Ok(page) if self.is_gap(&page) => {
                    let (first_kept, last) = (page.first_kept, page.last);
                    let data = json!({ "first_kept": first_kept, "last": last });
                    if !self.put(last, "reset", data).await {
                        return;
                    }
                    self.after = last;
                    continue;
                }
                Ok(page) if !page.events.is_empty() => {
                    if !self.all(page.events).await {
                        return;
                    }
                    continue;
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { return },
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = self.send.closed() => return,
                // News can't be missed for longer than this, whatever happens to the signal.
                () = tokio::time::sleep(HEARTBEAT) => {}
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
            sent = self.send.send_timeout(Ok(message), PATIENCE) => sent.is_ok(),
            _ = stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}
