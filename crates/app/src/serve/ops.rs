//! `/healthz`, `/readyz` and `/metrics`: for whoever watches over the daemon.

use std::path::Path;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::{Value, json};
use unspent_engine::RoomState;
use unspent_server::api::{ApiError, App, May, Read};

use super::recorder::{self, METRICS_ROUTE};

/// Bytes without which the next block may not find room.
const LEAST_FREE: u64 = 1 << 20;
/// What Prometheus expects.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(METRICS_ROUTE, get(metrics))
}

/// The process answers.
async fn healthz() -> Json<Value> {
    Json(json!({ "healthy": true }))
}

/// Every room that is on follows the chain, or does its own work.
async fn readyz(State(app): State<App>) -> (StatusCode, Json<Value>) {
    let status = app.engine.status();
    let is_fine = |state: &RoomState| {
        matches!(state, RoomState::Following | RoomState::Working | RoomState::Off)
    };
    let folder = app.config.data_dir.clone();
    // A folder on a network disk that is away lets this call hang, which must not hold a worker.
    let is_full = tokio::task::spawn_blocking(move || is_full(&folder)).await.unwrap_or(false);
    let ready = !is_full && status.rooms.iter().all(|room| is_fine(&room.state));
    let reason = is_full.then_some("the disk of the data folder is full");
    let rooms: Vec<Value> = status
        .rooms
        .iter()
        .map(|room| json!({ "room": room.room, "state": room.state.name(), "lag": room.lag }))
        .collect();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({ "ready": ready, "reason": reason, "rooms": rooms })))
}

/// Whether nothing can be kept any more. What can't be asked isn't called full.
fn is_full(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < LEAST_FREE)
}

/// Everything that is counted and measured.
async fn metrics(State(app): State<App>, may: Result<May<Read>, ApiError>) -> Response {
    // A scraper on the same machine needs no token; routes and rooms are nobody else's business.
    if !app.settings.is_loopback
        && let Err(error) = may
    {
        return error.into_response();
    }
    ([(CONTENT_TYPE, TEXT)], recorder::render()).into_response()
}
