//! `/status`, `/rooms`, `/jobs`, `/history`: how the daemon is doing, and what an operator may do.

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use unspent_engine::{
    error::{JobError, ResumeError},
    status::{JobKind, JobStatus, ROOMS, ReorgView, RoomState, RoomStatus, SourceStatus, TipView},
};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{Admin, ApiPath, May, Read},
    history::HistoryJson,
    state::{App, now},
};
use crate::chain::status::FiguresJson;

/// Every job that may be asked for.
pub(crate) const JOBS: [JobKind; 5] = [
    JobKind::PruneChain,
    JobKind::PurgeLeases,
    JobKind::ReadMempool,
    JobKind::Rebroadcast,
    JobKind::Measure,
];

/// A place on the chain.
#[derive(Serialize, ToSchema)]
pub(crate) struct TipJson {
    height: u64,
    slot: u64,
    hash: String,
}

impl From<TipView> for TipJson {
    fn from(tip: TipView) -> Self {
        Self { height: tip.height, slot: tip.slot, hash: tip.hash }
    }
}

/// Where blocks come from.
#[derive(Serialize, ToSchema)]
pub(crate) struct SourceJson {
    name: String,
    connected: bool,
    error: Option<String>,
    tip: Option<TipJson>,
}

impl From<SourceStatus> for SourceJson {
    fn from(source: SourceStatus) -> Self {
        let SourceStatus { name, tip, connected, error } = source;
        Self { name, connected, error, tip: tip.map(TipJson::from) }
    }
}

/// A change of branch.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReorgJson {
    depth: u64,
    /// The tip that was left
    from: TipJson,
    /// The last common block; null is the origin
    to: Option<TipJson>,
    at: i64,
}

impl From<ReorgView> for ReorgJson {
    fn from(reorg: ReorgView) -> Self {
        let ReorgView { depth, from, to, at } = reorg;
        Self { depth, from: from.into(), to: to.map(TipJson::from), at }
    }
}

/// One room.
#[derive(Serialize, ToSchema)]
pub(crate) struct RoomJson {
    pub(crate) room: &'static str,
    /// `starting`, `catching_up`, `following`, `waiting`, `stopped` or `off`
    pub(crate) state: &'static str,
    reason: Option<String>,
    remedy: Option<String>,
    tip: Option<TipJson>,
    /// Blocks behind the source
    pub(crate) lag: Option<u64>,
    blocks_per_second: f64,
    reorgs: u64,
    last_reorg: Option<ReorgJson>,
}

impl From<RoomStatus> for RoomJson {
    fn from(status: RoomStatus) -> Self {
        let (state, reason, remedy) = room_state(&status.state);
        Self {
            room: status.room.name(),
            state,
            reason,
            remedy,
            tip: status.tip.map(TipJson::from),
            lag: status.lag,
            blocks_per_second: status.blocks_per_second,
            reorgs: status.reorgs,
            last_reorg: status.last_reorg.map(ReorgJson::from),
        }
    }
}

/// What a room is doing, the reason and the remedy.
pub(crate) fn room_state(state: &RoomState) -> (&'static str, Option<String>, Option<String>) {
    match state {
        RoomState::Starting => ("starting", None, None),
        RoomState::CatchingUp => ("catching_up", None, None),
        RoomState::Following => ("following", None, None),
        RoomState::Waiting { reason } => ("waiting", Some(reason.clone()), None),
        RoomState::Stopped { reason, remedy } => {
            ("stopped", Some(reason.clone()), Some(remedy.clone()))
        }
        RoomState::Off => ("off", None, None),
    }
}

/// One job.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobJson {
    job: &'static str,
    every_seconds: f64,
    last_run: Option<i64>,
    last_outcome: Option<String>,
    runs: u64,
    running: bool,
}

impl From<JobStatus> for JobJson {
    fn from(status: JobStatus) -> Self {
        let JobStatus { job, every_seconds, last_run, last_outcome, runs, running } = status;
        Self { job: job.name(), every_seconds, last_run, last_outcome, runs, running }
    }
}

/// Rows and bytes of a table.
#[derive(Serialize, ToSchema)]
pub(crate) struct TableJson {
    name: &'static str,
    rows: u64,
    bytes: u64,
}

/// The wallet room in numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletFiguresJson {
    tables: Vec<TableJson>,
    active_leases: u64,
    expired_leases: u64,
    /// Microseconds that the oldest expired lease has been waiting
    purge_latency: i64,
}

impl From<unspent_wallet::metrics::Metrics> for WalletFiguresJson {
    fn from(found: unspent_wallet::metrics::Metrics) -> Self {
        let tables = found.tables.iter().map(|table| TableJson {
            name: table.name,
            rows: table.rows,
            bytes: table.bytes,
        });
        Self {
            tables: tables.collect(),
            active_leases: found.active_leases,
            expired_leases: found.expired_leases,
            purge_latency: found.purge_latency,
        }
    }
}

/// The newest event.
#[derive(Serialize, ToSchema)]
pub(crate) struct LastEventJson {
    last: u64,
}

/// Everything at a glance.
#[derive(Serialize, ToSchema)]
pub(crate) struct OverviewJson {
    version: &'static str,
    network: &'static str,
    started_at: i64,
    source: SourceJson,
    rooms: Vec<RoomJson>,
    jobs: Vec<JobJson>,
    chain: Option<FiguresJson>,
    wallet: Option<WalletFiguresJson>,
    events: LastEventJson,
}

/// The rooms.
#[derive(Serialize, ToSchema)]
pub(crate) struct RoomsJson {
    rooms: Vec<RoomJson>,
}

/// The jobs.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobsJson {
    jobs: Vec<JobJson>,
}

/// Everything at a glance
#[utoipa::path(get, path = "/status", tag = "daemon",
    responses((status = 200, body = OverviewJson), Failures))]
pub(crate) async fn status(
    _: May<Read>,
    State(app): State<App>,
) -> Result<Json<OverviewJson>, ApiError> {
    let (engine, asked) = (app.engine.clone(), app.clone());
    let found = app.desk.run(move || {
        let status = engine.status();
        // A room that can't be asked says so in its state; the rest is shown all the same.
        let chain = engine.chain().and_then(|reader| reader.status().ok());
        let now = now()?;
        let wallet = engine.wallets().and_then(|room| asked.figures.of(&room, now));
        Ok(OverviewJson {
            version: env!("CARGO_PKG_VERSION"),
            network: status.network.name(),
            started_at: status.started_at,
            source: status.source.into(),
            rooms: status.rooms.into_iter().map(RoomJson::from).collect(),
            jobs: status.jobs.into_iter().map(JobJson::from).collect(),
            chain: chain.as_ref().map(FiguresJson::new),
            wallet: wallet.map(WalletFiguresJson::from),
            events: LastEventJson { last: engine.events().last_id() },
        })
    });
    Ok(Json(found.await?))
}

/// Samples of coin set, storage and leases since the start
#[utoipa::path(get, path = "/history", tag = "daemon",
    responses((status = 200, body = HistoryJson), Failures))]
pub(crate) async fn history(_: May<Read>, State(app): State<App>) -> Json<HistoryJson> {
    Json(app.history.shown())
}

/// The rooms and their states
#[utoipa::path(get, path = "/rooms", tag = "daemon",
    responses((status = 200, body = RoomsJson), Failures))]
pub(crate) async fn rooms(_: May<Read>, State(app): State<App>) -> Json<RoomsJson> {
    let rooms = app.engine.status().rooms.into_iter().map(RoomJson::from).collect();
    Json(RoomsJson { rooms })
}

/// Start a stopped room again, after its trouble was mended
#[utoipa::path(post, path = "/rooms/{room}/resume", tag = "daemon",
    params(("room" = String, Path, description = "`chain` or `wallet`")),
    responses((status = 202, body = RoomsJson), Failures))]
pub(crate) async fn resume(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<(StatusCode, Json<RoomsJson>), ApiError> {
    let room = ROOMS.into_iter().find(|room| room.name() == name);
    let room = room.ok_or_else(|| ApiError::not_found("no room has such a name"))?;
    let engine = app.engine.clone();
    let rooms = app.desk.run(move || {
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
    let rooms = rooms.await?.into_iter().map(RoomJson::from).collect();
    Ok((StatusCode::ACCEPTED, Json(RoomsJson { rooms })))
}

/// The jobs and their last runs
#[utoipa::path(get, path = "/jobs", tag = "daemon",
    responses((status = 200, body = JobsJson), Failures))]
pub(crate) async fn jobs(_: May<Read>, State(app): State<App>) -> Json<JobsJson> {
    Json(JobsJson { jobs: app.engine.status().jobs.into_iter().map(JobJson::from).collect() })
}

/// Run a job now
#[utoipa::path(post, path = "/jobs/{job}/run", tag = "daemon",
    params(("job" = String, Path, description = "Name of the job")),
    responses((status = 202, body = JobsJson), Failures))]
pub(crate) async fn run_job(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<(StatusCode, Json<JobsJson>), ApiError> {
    let job = JOBS.into_iter().find(|job| job.name() == name);
    let job = job.ok_or_else(|| ApiError::not_found("no job has such a name"))?;
    let engine = app.engine.clone();
    let jobs = app.desk.run(move || {
        match engine.run_job(job) {
            // It was asked for; that it takes longer is no failure.
            Ok(()) | Err(JobError::Late(_)) => {}
            Err(JobError::Absent(_)) => {
                return Err(ApiError::refused("its room is off, or there is no node"));
            }
            Err(error) => {
                tracing::warn!(%error, "a job that was asked for failed");
                return Err(ApiError::busy("the job failed; the log says more"));
            }
        }
        Ok(engine.status().jobs)
    });
    let jobs = jobs.await?.into_iter().map(JobJson::from).collect();
    Ok((StatusCode::ACCEPTED, Json(JobsJson { jobs })))
}
