//! A running daemon, and a client that speaks HTTP with it.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything in a test may take to come true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary with no settings from outside.
pub(crate) fn unspent(data: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("unspent"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
        command.env_remove(name);
    }
    command.arg("--data-dir").arg(data);
    command
}

/// The same command under another umask.
pub(crate) fn umasked(mask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {mask}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Runs a command to its end: exit code, standard output, standard error.
pub(crate) fn ended(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// A data folder that outlives daemons.
pub(crate) struct Folder {
    room: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { room: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.room.path().join("data")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.room.path().join(name)
    }

    /// Starts a daemon on a simulated network that stands still unless told otherwise.
    pub(crate) fn start(&self, settings: &[&str]) -> Daemon {
        Daemon::start(&self.data(), settings)
    }
}

/// A daemon; ended by force when dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) cookie: String,
}

impl Daemon {
    pub(crate) fn start(data: &Path, settings: &[&str]) -> Self {
        Self::spawn(Self::command(data, settings))
    }

    /// The same under another umask.
    pub(crate) fn start_umasked(mask: &str, data: &Path, settings: &[&str]) -> Self {
        Self::spawn(umasked(mask, &Self::command(data, settings)))
    }

    /// The command that starts a daemon.
    pub(crate) fn command(data: &Path, settings: &[&str]) -> Command {
        let mut command = unspent(data);
        command.args(["--json", "serve"]);
        let still = ["http.listen=127.0.0.1:0", "source.sim.block_seconds=0"];
        let quick = ["source.sim.blocks=0", "wallet.mempool_seconds=1", "log.level=warn"];
        for setting in still.iter().chain(&quick).chain(settings) {
            command.args(["--set", setting]);
        }
        command
    }

    /// Starts it, and waits until it says where it listens.
    pub(crate) fn spawn(command: Command) -> Self {
        Self::spawn_told(command).0
    }

    /// The same, with all that it says.
    pub(crate) fn spawn_told(mut command: Command) -> (Self, Value) {
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.trim_end().ends_with('}') {
            assert!(lines.read_line(&mut text).unwrap() > 0, "it ended: {text}");
        }
        let told: Value = serde_json::from_str(&text).unwrap();
        let url = told["listening"].as_str().unwrap();
        let address = url.split("://").nth(1).unwrap().parse().unwrap();
        let cookie = std::fs::read_to_string(told["cookie_file"].as_str().unwrap()).unwrap();
        (Self { child, address, cookie }, told)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Memory of the process, in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.id())).unwrap();
        (text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096) >> 20
    }

    /// Somebody who may do everything.
    pub(crate) fn admin(&self) -> Client {
        Client::new(self.address, Some(self.cookie.clone()))
    }

    pub(crate) fn nobody(&self) -> Client {
        Client::new(self.address, None)
    }

    pub(crate) fn with(&self, token: &str) -> Client {
        Client::new(self.address, Some(token.to_owned()))
    }

    /// Waits until every room stands at a height.
    pub(crate) fn wait_for(&self, what: &str, mut is_true: impl FnMut(&Client) -> bool) {
        let client = self.admin();
        let started = Instant::now();
        while !is_true(&client) {
            assert!(started.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it as an operator does; returns its exit code.
    pub(crate) fn end(mut self) -> i32 {
        self.signal("-TERM");
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Ends it as a power cut does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The JSON of a request that was met.
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text);
        self.json()
    }

    /// The error code of a request that was refused with this status.
    pub(crate) fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        let error = &self.json()["error"];
        assert!(error["message"].is_string() && error.get("hint").is_some(), "{error}");
        error["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Somebody who asks.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) base: String,
    token: Option<String>,
    agent: ureq::Agent,
}

impl Client {
    fn new(address: SocketAddr, token: Option<String>) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        Self { base: format!("http://{address}"), token, agent: config.into() }
    }

    /// Sends anything at all.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let (status, headers, body) = self.fetch(method, path, headers, body);
        Answer { status, headers, text: String::from_utf8(body).unwrap() }
    }

    /// What a GET answers in another form than JSON.
    pub(crate) fn bytes(&self, path: &str, form: &str) -> Vec<u8> {
        let (status, headers, body) = self.fetch("GET", path, &[("accept", form)], None);
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, form));
        body
    }

    fn fetch(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> (u16, ureq::http::HeaderMap, Vec<u8>) {
        let url = format!("{}{path}", self.base);
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = match body {
            Some(body) => self.agent.run(request.body(body.to_vec()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap();
        (status, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    /// A POST without a key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let kind = [("content-type", "application/json")];
        self.send("POST", path, &kind, Some(body.to_string().as_bytes()))
    }

    /// A POST that moves value.
    pub(crate) fn keyed(&self, path: &str, key: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        self.send("POST", path, &headers, Some(body.to_string().as_bytes()))
    }
}
