//! `unspent serve` on the simulated network, in a folder of its own.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Longest wait until every room follows.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A daemon. It ends with this value.
pub(crate) struct Daemon {
    child: Child,
    folder: TempDir,
    settings: Vec<String>,
    /// Where it listens: `http://127.0.0.1:PORT`, or `https:` with a certificate.
    pub(crate) base: String,
}

impl Daemon {
    /// Starts one on a free port, with these settings (`key=value`), and waits until it follows.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let daemon = Self::start_unready(settings);
        daemon.wait_until_ready();
        daemon
    }

    /// As [`Self::start`], for one that never gets that far: some room stops.
    pub(crate) fn start_unready(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        super::world::prepare(&folder.path().join("data"));
        let settings: Vec<_> = settings.iter().map(|&text| text.to_owned()).collect();
        let (child, base) = run(&folder, "127.0.0.1:0", &settings);
        Self { child, folder, settings, base }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same folder and port.
    pub(crate) fn start_again(&mut self) {
        let listen = self.base.strip_prefix("http://").unwrap().to_owned();
        (self.child, self.base) = run(&self.folder, &listen, &self.settings);
        self.wait_until_ready();
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What lets the machine's owner in.
    pub(crate) fn cookie(&self) -> String {
        std::fs::read_to_string(self.data().join(".cookie")).unwrap()
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while ureq::get(format!("{}/readyz", self.base)).call().is_err() {
            assert!(
                Instant::now() < deadline,
                "the daemon doesn't follow: {}",
                self.get("/status")
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads from `/api/v1`.
    pub(crate) fn get(&self, path: &str) -> Value {
        let call = ureq::get(format!("{}/api/v1{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.cookie()));
        let mut answer = call.call().unwrap_or_else(|error| panic!("{path}: {error}"));
        answer.body_mut().read_json().unwrap()
    }

    /// Changes something through `/api/v1`.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).unwrap_or_else(|| panic!("{path} was refused"))
    }

    /// As [`Self::post`]; `None` when it is refused.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<Value> {
        let key = Sha256::digest(format!("{path} {body}"));
        let call = ureq::post(format!("{}/api/v1{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.cookie()))
            .header("Idempotency-Key", hex::encode(key));
        let call = call.config().http_status_as_error(false).build();
        let mut answer = call.send_json(body).unwrap();
        let is_good = answer.status().is_success();
        let answer: Value = answer.body_mut().read_json().unwrap();
        if !is_good {
            eprintln!("{path}: {answer}");
        }
        is_good.then_some(answer)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(folder: &TempDir, listen: &str, settings: &[String]) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspent"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
        command.env_remove(name);
    }
    command.arg("--data-dir").arg(folder.path().join("data"));
    command.args(["serve", "--network", "bitcoin-regtest", "--listen", listen]);
    command.args(["--set", "source.kind=sim", "--set", "log.level=warn"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    // "listening on http://127.0.0.1:PORT; Ctrl-C ends it"
    let base = said.split([' ', ';']).find(|word| word.starts_with("http"));
    let base = base.unwrap_or_else(|| panic!("the daemon said: {said}")).to_owned();
    (child, base)
}
