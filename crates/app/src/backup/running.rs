//! A backup while the daemon runs: the daemon makes it, since RocksDB has one writer. It may take
//! longer than a request, so it is begun by one and looked at by others.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use axum::{Json, extract::State, http::StatusCode};
use clap::Args;
use serde::{Deserialize, Serialize};
use unspent_engine::lock::LOCK_FILE;
use utoipa::ToSchema;

use super::make;
use crate::{
    api::{
        May,
        error::{ApiError, Failures},
        extract::{Admin, ApiJson},
        state::App,
    },
    config::secret,
    error::CliError,
};

/// Where a daemon says how it is reached, in its data folder.
pub(crate) const ADDRESS_FILE: &str = "daemon.json";
/// How often the command line looks whether a backup is done.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The longest answer read.
const MAX_ANSWER: u64 = 1 << 20;

/// What is to be saved, and where.
#[derive(Args, Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupRequest {
    /// The folder to make
    #[arg(value_name = "FOLDER")]
    #[schema(value_type = String)]
    pub(super) folder: PathBuf,
    /// A room whose data is in PostgreSQL or elsewhere and is saved by other means; may be repeated
    #[arg(long, value_name = "ROOM")]
    #[serde(default)]
    pub(super) without: Vec<String>,
}

/// How far the last backup has come.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackupState {
    /// None was asked for since the start
    #[default]
    None,
    Running,
    Done,
    /// What was begun is of no use
    Failed,
}

/// The last backup that was asked for.
#[derive(Serialize, Deserialize, ToSchema, Clone, Default, Debug)]
pub(crate) struct BackupJson {
    state: BackupState,
    folder: Option<String>,
    files: u64,
    bytes: u64,
    /// Why it failed
    reason: Option<String>,
}

/// The daemon's backups: one at a time.
#[derive(Clone, Default)]
pub(crate) struct Backups(Arc<Mutex<BackupJson>>);

impl Backups {
    fn last(&self) -> MutexGuard<'_, BackupJson> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, folder: &Path) -> Result<BackupJson, ApiError> {
        let mut last = self.last();
        if last.state == BackupState::Running {
            return Err(ApiError::refused("another backup is being made; nothing was begun"));
        }
        let folder = Some(folder.display().to_string());
        *last = BackupJson { state: BackupState::Running, folder, ..BackupJson::default() };
        Ok(last.clone())
    }

    fn end(&self, made: anyhow::Result<(u64, u64)>) {
        let mut last = self.last();
        match made {
            Ok((files, bytes)) => {
                (last.state, last.files, last.bytes) = (BackupState::Done, files, bytes);
            }
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "a backup failed");
                last.state = BackupState::Failed;
                last.reason = Some(format!("{error:#}"));
            }
        }
    }
}

/// Save everything into a new folder of the daemon's machine; GET tells how far it has come
#[utoipa::path(post, path = "/backup", tag = "daemon", request_body = BackupRequest,
    responses((status = 202, body = BackupJson), Failures))]
pub(crate) async fn begin(
    _: May<Admin>,
    State(app): State<App>,
    ApiJson(request): ApiJson<BackupRequest>,
) -> Result<(StatusCode, Json<BackupJson>), ApiError> {
    if !request.folder.is_absolute() {
        return Err(ApiError::invalid("the folder must be an absolute path"));
    }
    let begun = app.backups.begin(&request.folder)?;
    let (backups, engine, data) =
        (app.backups.clone(), app.engine.clone(), app.config.data_dir.clone());
    // Whoever asked may go away; the work goes on.
    tokio::task::spawn_blocking(move || {
        let made = make::beside(&engine, &data, &request.folder, &request.without);
        backups.end(made.map(|list| list.size()));
    });
    Ok((StatusCode::ACCEPTED, Json(begun)))
}

/// The last backup that was asked for
#[utoipa::path(get, path = "/backup", tag = "daemon",
    responses((status = 200, body = BackupJson), Failures))]
pub(crate) async fn last(_: May<Admin>, State(app): State<App>) -> Json<BackupJson> {
    Json(app.backups.last().clone())
}

/// How a running daemon is reached.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reached {
    listening: String,
    cookie_file: PathBuf,
}

impl Reached {
    /// Tells commands of the same machine where this daemon is.
    pub(crate) fn tell(data: &Path, listening: &str, cookie: &Path) -> anyhow::Result<()> {
        let cookie_file = std::path::absolute(cookie).unwrap_or_else(|_| cookie.to_owned());
        let told = Self { listening: listening.to_owned(), cookie_file };
        let path = data.join(ADDRESS_FILE);
        fs::write(&path, serde_json::to_vec(&told)?)
            .with_context(|| format!("can't write {}", path.display()))
    }

    /// Has the daemon make a backup, and waits for it.
    pub(super) fn back_up(&self, request: &BackupRequest) -> anyhow::Result<(u64, u64)> {
        if self.listening.starts_with("https") {
            let message = "the daemon that has the data folder speaks TLS; nothing was copied";
            let hint = "ask it for POST /api/v1/backup, or end it first";
            return Err(CliError::refused(message).hint(hint).into());
        }
        let folder = std::path::absolute(&request.folder).context("no such folder can be")?;
        let request = BackupRequest { folder, ..request.clone() };
        let mut state = self.send(Some(&request))?;
        while state.state == BackupState::Running {
            std::thread::sleep(LOOK_AGAIN);
            state = self.send(None)?;
        }
        match state.state {
            BackupState::Done => Ok((state.files, state.bytes)),
            BackupState::None | BackupState::Running | BackupState::Failed => {
                let why = state.reason.unwrap_or_else(|| "the daemon was started anew".into());
                Err(CliError::refused(format!("the daemon made no backup: {why}")).into())
            }
        }
    }

    fn send(&self, request: Option<&BackupRequest>) -> anyhow::Result<BackupJson> {
        let url = format!("{}/api/v1/backup", self.listening);
        let bearer = format!("Bearer {}", secret(&self.cookie_file)?);
        let agent = ureq::Agent::new_with_config(
            ureq::Agent::config_builder().http_status_as_error(false).build(),
        );
        let sent = match request {
            Some(request) => agent.post(&url).header("Authorization", bearer).send_json(request),
            None => agent.get(&url).header("Authorization", bearer).call(),
        };
        let mut answer = sent.with_context(|| format!("can't ask the daemon at {url}"))?;
        let is_fine = answer.status().is_success();
        let text = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
        let text = text.context("the daemon's answer breaks off")?;
        if !is_fine {
            return Err(CliError::refused(format!("the daemon refuses: {}", said(&text))).into());
        }
        serde_json::from_str(&text).context("the daemon's answer can't be read")
    }
}

/// The message in an error's body.
fn said(body: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let message = value.pointer("/error/message").and_then(serde_json::Value::as_str);
    message.unwrap_or("it doesn't say why").to_owned()
}

/// The daemon that has the folder, if one has.
pub(super) fn found(data: &Path) -> Option<Reached> {
    let lock = fs::File::open(data.join(LOCK_FILE)).ok()?;
    if lock.try_lock().is_ok() {
        // A daemon that was killed leaves its address behind.
        return None;
    }
    serde_json::from_slice(&fs::read(data.join(ADDRESS_FILE)).ok()?).ok()
}
