//! The daemon that has a data folder, as commands of the same machine reach it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use unspent_engine::lock::LOCK_FILE;
use ureq::{Body, http::Response};

use crate::{auth::private_file, config::secret, error::CliError};

/// Where a daemon says how it is reached, in its data folder.
pub const ADDRESS_FILE: &str = "daemon.json";
/// The longest answer read.
const MAX_ANSWER: u64 = 1 << 20;

/// How a running daemon is reached.
#[derive(Serialize, Deserialize)]
pub struct Reached {
    listening: String,
    cookie_file: PathBuf,
    tokens_file: PathBuf,
}

impl Reached {
    /// Tells commands of the same machine where this daemon is.
    pub fn tell(data: &Path, listening: &str, cookie: &Path, tokens: &Path) -> anyhow::Result<()> {
        // A command is started in another folder than the daemon was.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let told = Self {
            listening: listening.to_owned(),
            cookie_file: absolute(cookie),
            tokens_file: absolute(tokens),
        };
        private_file(&data.join(ADDRESS_FILE), &serde_json::to_vec(&told)?)
    }

    /// The daemon that has the folder, if one has.
    pub fn found(data: &Path) -> Option<Self> {
        let lock = fs::File::open(data.join(LOCK_FILE)).ok()?;
        if lock.try_lock().is_ok() {
            // A daemon that was killed leaves its address behind.
            return None;
        }
        serde_json::from_slice(&fs::read(data.join(ADDRESS_FILE)).ok()?).ok()
    }

    /// Whether it is reached by TLS, whose certificate need not name this machine.
    pub fn speaks_tls(&self) -> bool {
        self.listening.starts_with("https")
    }

    /// Where it keeps its tokens.
    pub fn tokens_file(&self) -> PathBuf {
        self.tokens_file.clone()
    }

    /// Asks it with the cookie of its folder.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let agent = agent();
        let request = agent.get(self.url(path)).header("Authorization", self.bearer()?);
        read(&self.checked(request.call())?)
    }

    /// Has it do something.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let agent = agent();
        let request = agent.post(self.url(path)).header("Authorization", self.bearer()?);
        read(&self.checked(request.send_json(body))?)
    }

    /// Has it take something away.
    pub fn delete(&self, path: &str) -> anyhow::Result<()> {
        let agent = agent();
        let request = agent.delete(self.url(path)).header("Authorization", self.bearer()?);
        self.checked(request.call()).map(|_| ())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.listening)
    }

    fn bearer(&self) -> anyhow::Result<String> {
        Ok(format!("Bearer {}", secret(&self.cookie_file)?))
    }

    /// The text of an answer, or why the daemon refuses.
    fn checked(&self, answer: Result<Response<Body>, ureq::Error>) -> anyhow::Result<String> {
        let asked = || format!("can't ask the daemon at {}", self.listening);
        let mut answer = answer.with_context(asked)?;
        let is_fine = answer.status().is_success();
        let text = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
        let text = text.context("the daemon's answer was cut off")?;
        if is_fine {
            return Ok(text);
        }
        Err(CliError::refused(format!("the daemon refuses: {}", said(&text))).into())
    }
}

fn agent() -> ureq::Agent {
    // The daemon is on this machine, and its cookie may do everything: no proxy that the
    // environment names is told of it.
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
    ureq::Agent::new_with_config(config)
}

fn read<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).context("the daemon's answer can't be read")
}

/// The message in an error's body.
fn said(body: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let message = value.pointer("/error/message").and_then(serde_json::Value::as_str);
    message.unwrap_or("it gives no reason").to_owned()
}
