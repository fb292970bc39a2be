//! `/status`, `/rooms`, `/jobs`, `/history`: how the daemon is doing, and what an operator may do.

use std::collections::BTreeMap;

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use serde_json::Value;
use unspent_engine::{JobError, JobStatus, ResumeError, RoomStatus, Status};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{Admin, ApiPath, May, Read},
    history::HistoryJson,
    state::App,
};

/// The newest event.
#[derive(Serialize, ToSchema)]
pub(super) struct LastEventJson {
    last: u64,
}

/// Everything at a glance.
#[derive(Serialize, ToSchema)]
pub(super) struct OverviewJson {
    version: &'static str,
    #[serde(flatten)]
    status: Status,
    events: LastEventJson,
    /// The figures of each room by its name; null for one that can't be asked
    #[serde(flatten)]
    #[schema(value_type = Object, additional_properties)]
    figures: BTreeMap<&'static str, Value>,
}

/// The rooms.
#[derive(Serialize, ToSchema)]
pub(super) struct RoomsJson {
    rooms: Vec<RoomStatus>,
}

/// The jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct JobsJson {
    jobs: Vec<JobStatus>,
}

/// Everything at a glance
#[utoipa::path(get, path = "/status", operation_id = "get_status", tag = "daemon",
    responses((status = 200, body = OverviewJson), Failures))]
pub(super) async fn status(
    _: May<Read>,
    State(app): State<App>,
) -> Result<Json<OverviewJson>, ApiError> {
    let (engine, asked) = (app.engine.clone(), app.clone());
    let found = app.pool.run(move || {
        let status = engine.status();
        // A room that can't be asked says so in its state; the rest is shown all the same.
        Ok(OverviewJson {
            version: env!("CARGO_PKG_VERSION"),
            status,
            events: LastEventJson { last: engine.events().last_id() },
            figures: asked.figures.all(&engine, asked.config.rooms()),
        })
    });
    Ok(Json(found.await?))
}

/// Samples of coin set, storage and leases since the start
#[utoipa::path(get, path = "/history", operation_id = "get_history", tag = "daemon",
    responses((status = 200, body = HistoryJson), Failures))]
pub(super) async fn history(_: May<Read>, State(app): State<App>) -> Json<HistoryJson> {
    Json(app.history.shown())
}

/// The rooms and their states
#[utoipa::path(get, path = "/rooms", operation_id = "list_rooms", tag = "daemon",
    responses((status = 200, body = RoomsJson), Failures))]
pub(super) async fn rooms(_: May<Read>, State(app): State<App>) -> Json<RoomsJson> {
    Json(RoomsJson { rooms: app.engine.status().rooms })
}

/// Resume a stopped room after its cause was fixed
#[utoipa::path(post, path = "/rooms/{room}/resume", operation_id = "resume_room", tag = "daemon",
    params(("room" = String, Path, description = "Name of the room")),
    responses((status = 202, body = RoomsJson), Failures))]
pub(super) async fn resume(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<(StatusCode, Json<RoomsJson>), ApiError> {
    let mut known = app.engine.status().rooms.into_iter().map(|status| status.room);
    let room = known.find(|room| room.name() == name);
    let room = room.ok_or_else(|| ApiError::not_found("no room has this name"))?;
    let engine = app.engine.clone();
    let rooms = app.pool.run(move || {
        engine.resume(room).map_err(|error| {
            let is_off = matches!(error, ResumeError::Off(_));
            if is_off {
                ApiError::room_off(room.name())
            } else {
                ApiError::refused(error.to_string())
            }
        })?;
        Ok(engine.status().rooms)
    });
    Ok((StatusCode::ACCEPTED, Json(RoomsJson { rooms: rooms.await? })))
}

/// The jobs and their last runs
#[utoipa::path(get, path = "/jobs", operation_id = "list_jobs", tag = "daemon",
    responses((status = 200, body = JobsJson), Failures))]
pub(super) async fn jobs(_: May<Read>, State(app): State<App>) -> Json<JobsJson> {
    Json(JobsJson { jobs: app.engine.status().jobs })
}

/// Run a job now
#[utoipa::path(post, path = "/jobs/{job}/run", operation_id = "run_job", tag = "daemon",
    params(("job" = String, Path, description = "Name of the job")),
    responses((status = 202, body = JobsJson), Failures))]
pub(super) async fn run_job(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<(StatusCode, Json<JobsJson>), ApiError> {
    let mut known = app.engine.status().jobs.into_iter().map(|status| status.job);
    let job = known.find(|job| job.name() == name);
    let job = job.ok_or_else(|| ApiError::not_found("no job has this name, or its room is off"))?;
    let engine = app.engine.clone();
    let jobs = app.pool.run(move || {
        match engine.run_job(job) {
            // It was asked for; that it takes longer is no failure.
            Ok(()) | Err(JobError::Late(_)) => {}
            Err(JobError::Absent(_)) => {
                return Err(ApiError::refused("its room is off, or there is no node"));
            }
            Err(error) => {
                tracing::warn!(%error, "a requested job failed");
                return Err(ApiError::busy("the job failed; see the log for details"));
            }
        }
        Ok(engine.status().jobs)
    });
    Ok((StatusCode::ACCEPTED, Json(JobsJson { jobs: jobs.await? })))
}
