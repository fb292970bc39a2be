//! A backup while the daemon runs: the daemon makes it, since RocksDB has one writer. It may take
//! longer than a request, so it is begun by one and looked at by others.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use axum::{Extension, Json, extract::State, http::StatusCode};
use clap::Args;
use serde::{Deserialize, Serialize};
use unspent_server::{
    CliError,
    api::{Admin, ApiError, ApiJson, App, Failures, May},
    reached::Reached,
};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    make::{self, MadeBackup},
    plan::SavedRooms,
};

/// Where backups are asked for.
const ROUTE: &str = "/api/v1/backup";
/// How often the command line looks whether a backup is done.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What is to be saved, and where.
#[derive(Args, Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupRequest {
    /// The folder to create
    #[arg(value_name = "FOLDER")]
    #[schema(value_type = String)]
    pub(super) folder: PathBuf,
    /// A room to leave out, because it is in PostgreSQL and saved by other means; may be repeated
    #[arg(long, value_name = "ROOM")]
    #[serde(default)]
    pub(super) without: Vec<String>,
    /// Save only this room: no other rooms, events, webhooks or tokens; may be repeated
    #[arg(long, value_name = "ROOM", conflicts_with = "without")]
    #[serde(default)]
    pub(super) only: Vec<String>,
}

impl BackupRequest {
    pub(super) fn choice(&self) -> SavedRooms<'_> {
        SavedRooms { without: &self.without, only: &self.only }
    }
}

/// How far the last backup has come.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackupState {
    /// None has been requested since the start
    #[default]
    None,
    Running,
    Done,
    /// It failed; what it wrote is of no use
    Failed,
}

/// The last backup requested.
#[derive(Serialize, Deserialize, ToSchema, Clone, Default, Debug)]
pub(crate) struct BackupJson {
    state: BackupState,
    folder: Option<String>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The files saved, by their names in the backup
    pub(super) holds: Vec<String>,
    /// What isn't in it although one might expect it, with the reason
    pub(super) left_out: Vec<String>,
    /// Why it failed
    reason: Option<String>,
}

impl BackupJson {
    /// A backup that was made.
    pub(super) fn done(folder: Option<String>, made: MadeBackup) -> Self {
        let (files, bytes) = made.list.size();
        let names = made.list.top_names();
        let holds = names.iter().map(|name| name.to_string_lossy().into()).collect();
        let (state, left_out) = (BackupState::Done, made.left_out);
        Self { state, folder, files, bytes, holds, left_out, reason: None }
    }
}

/// The daemon's backups: one at a time.
#[derive(Clone, Default)]
pub(crate) struct Backups(Arc<Mutex<BackupJson>>);

impl Backups {
    fn last(&self) -> MutexGuard<'_, BackupJson> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, folder: &Path) -> Result<BackupUnderWay, ApiError> {
        let mut last = self.last();
        if last.state == BackupState::Running {
            return Err(ApiError::refused("another backup is running; no new one was started"));
        }
        // Noted under the same lock that showed none running: two requests can't both begin.
        let folder = Some(folder.display().to_string());
        *last = BackupJson { state: BackupState::Running, folder, ..BackupJson::default() };
        Ok(BackupUnderWay(self.clone()))
    }
}

/// A backup that has begun. One that is given up without a word, as by a panic, has failed: another
/// one may be asked for, and whoever waits for this one is told.
struct BackupUnderWay(Backups);

impl BackupUnderWay {
    fn end(self, made: anyhow::Result<MadeBackup>) {
        let mut last = self.0.last();
        match made {
            Ok(made) => *last = BackupJson::done(last.folder.take(), made),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "a backup failed");
                last.state = BackupState::Failed;
                last.reason = Some(format!("{error:#}"));
            }
        }
    }
}

impl Drop for BackupUnderWay {
    fn drop(&mut self) {
        let mut last = self.0.last();
        if last.state == BackupState::Running {
            last.state = BackupState::Failed;
            last.reason = Some("a fault in the program ended it".to_owned());
        }
    }
}

/// `/backup`, with the memory of the last one that was asked for.
pub(crate) fn routes(backups: &Backups) -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(last, begin)).layer(Extension(backups.clone()))
}

/// Save everything into a new folder on the daemon's machine; GET reports progress
#[utoipa::path(post, path = "/backup", operation_id = "begin_backup",
    tag = "daemon", request_body = BackupRequest,
    responses((status = 202, body = BackupJson), Failures))]
async fn begin(
    _: May<Admin>,
    State(app): State<App>,
    Extension(backups): Extension<Backups>,
    ApiJson(request): ApiJson<BackupRequest>,
) -> Result<(StatusCode, Json<BackupJson>), ApiError> {
    // The daemon runs in another folder than whoever asks, who would look in the wrong place.
    if !request.folder.is_absolute() {
        return Err(ApiError::invalid("the folder must be an absolute path"));
    }
    if !request.only.is_empty() && !request.without.is_empty() {
        return Err(ApiError::invalid("list rooms in either `only` or `without`, not both"));
    }
    let under_way = backups.begin(&request.folder)?;
    let begun = backups.last().clone();
    let (engine, config) = (app.engine.clone(), app.config.clone());
    // Whoever asked may go away; the work goes on.
    tokio::task::spawn_blocking(move || {
        under_way.end(make::beside(&engine, &config, &request.folder, request.choice()));
    });
    Ok((StatusCode::ACCEPTED, Json(begun)))
}

/// The last backup requested
#[utoipa::path(get, path = "/backup", operation_id = "get_backup", tag = "daemon",
    responses((status = 200, body = BackupJson), Failures))]
async fn last(_: May<Admin>, Extension(backups): Extension<Backups>) -> Json<BackupJson> {
    Json(backups.last().clone())
}

/// Has the daemon that has the data folder make a backup, and waits for it.
pub(super) fn back_up(daemon: &Reached, request: &BackupRequest) -> anyhow::Result<BackupJson> {
    if daemon.speaks_tls() {
        let message = "the daemon using this data folder serves TLS only; nothing was copied";
        let hint = "send it POST /api/v1/backup, or stop it first";
        return Err(CliError::refused(message).hint(hint).into());
    }
    let folder =
        std::path::absolute(&request.folder).context("the backup folder's path is invalid")?;
    let request = BackupRequest { folder, ..request.clone() };
    let mut state: BackupJson = daemon.post(ROUTE, &request)?;
    while state.state == BackupState::Running {
        std::thread::sleep(LOOK_AGAIN);
        state = daemon.get(ROUTE)?;
    }
    match state.state {
        BackupState::Done => Ok(state),
        BackupState::None | BackupState::Running | BackupState::Failed => {
            let why = state.reason.unwrap_or_else(|| "the daemon was restarted meanwhile".into());
            Err(CliError::refused(format!("the daemon's backup failed: {why}")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_a_panic_ends_has_failed_and_leaves_room_for_another() {
        let backups = Backups::default();
        let begun = backups.begin(Path::new("/one")).unwrap();
        assert!(backups.begin(Path::new("/two")).is_err(), "one at a time");
        let making = std::thread::spawn(move || {
            let _under_way = begun;
            panic!("a fault");
        });
        assert!(making.join().is_err());
        assert_eq!(backups.last().state, BackupState::Failed);
        assert!(backups.last().reason.as_ref().is_some_and(|reason| reason.contains("fault")));
        let begun = backups.begin(Path::new("/two")).unwrap();
        begun.end(Err(anyhow::anyhow!("the disk is full")));
        assert_eq!(backups.last().reason.as_deref(), Some("the disk is full"));
        assert!(backups.begin(Path::new("/three")).is_ok());
    }
}
