//! `/healthz`, `/readyz` and `/metrics`: for whoever watches over the daemon.

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::{Value, json};
use unspent_engine::RoomState;

use super::recorder;
use crate::api::{May, Read, error::ApiError, state::App};

/// What Prometheus expects.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
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
    let ready = status.rooms.iter().all(|room| is_fine(&room.state));
    let rooms: Vec<Value> = status
        .rooms
        .iter()
        .map(|room| json!({ "room": room.room, "state": room.state.name(), "lag": room.lag }))
        .collect();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({ "ready": ready, "rooms": rooms })))
}

/// Everything that is counted and measured.
async fn metrics(State(app): State<App>, may: Result<May<Read>, ApiError>) -> Response {
    if !app.settings.is_loopback
        && let Err(error) = may
    {
        return error.into_response();
    }
    ([(CONTENT_TYPE, TEXT)], recorder::render()).into_response()
}
