//! A headless Chromium that is told what to do through a pipe.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for an answer of the browser.
const ANSWER: Duration = Duration::from_secs(30);

/// Programs that will do, best first.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The browser. It ends with this value.
pub(crate) struct Browser {
    child: Child,
    pipe: ChildStdin,
    inbox: Receiver<Value>,
    /// What came without being asked for.
    pub(crate) told: VecDeque<Value>,
    last_id: u64,
    _profile: TempDir,
}

/// Where Chromium is; `None` (said aloud) where it isn't and needn't be.
fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        let must = std::env::var("UNSPENT_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!must, "Chromium is missing: run scripts/deps chromium");
        eprintln!("skipped: Chromium is missing (scripts/deps chromium installs it)");
    }
    found
}

impl Browser {
    /// Starts one, or says why not.
    pub(crate) fn start() -> Option<Self> {
        let program = program()?;
        let profile = tempfile::tempdir().unwrap();
        // Chromium reads commands from descriptor 3 and answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 1>&2"#])
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--force-color-profile=srgb",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pipe = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, inbox) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap();
                message.clear();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let told = VecDeque::new();
        Some(Self { child, pipe, inbox, told, last_id: 0, _profile: profile })
    }

    /// Asks for something that can't be refused, and waits for the answer.
    pub(crate) fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        let answer = self.ask(session, method, params);
        answer.unwrap_or_else(|refusal| panic!("{method}: {refusal}"))
    }

    /// Asks for something and waits for the answer or the refusal; what else is told meanwhile is
    /// kept.
    pub(crate) fn ask(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.pipe.write_all(message.to_string().as_bytes()).unwrap();
        self.pipe.write_all(&[0]).unwrap();
        self.pipe.flush().unwrap();
        let deadline = Instant::now() + ANSWER;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.inbox.recv_timeout(left);
            let mut message = message.unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] != id {
                self.told.push_back(message);
                continue;
            }
            let refusal = message["error"].take();
            return if refusal.is_null() { Ok(message["result"].take()) } else { Err(refusal) };
        }
    }

    /// Takes in what was told by now.
    pub(crate) fn listen(&mut self) {
        loop {
            match self.inbox.try_recv() {
                Ok(message) => self.told.push_back(message),
                Err(_) => return,
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let close = b"{\"id\":0,\"method\":\"Browser.close\"}\0";
        let _ = self.pipe.write_all(close).and_then(|()| self.pipe.flush());
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            match self.inbox.recv_timeout(Duration::from_millis(100)) {
                Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
