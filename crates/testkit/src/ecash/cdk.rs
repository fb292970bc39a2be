//! cdk-mintd, the second implementation of a mint, on loopback.
//!
//! It takes long to build, so it isn't fetched by the tests: `make test-cdk-mintd` builds it and
//! names its program in [`PROGRAM`]. Its Lightning side is a pretence that does as the invoice's
//! description says ([`CdkMint::invoice`]).
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::nutshell::free_port;

/// Names the program.
pub const PROGRAM: &str = "UNSPENT_CDK_MINTD";
const START_PATIENCE: Duration = Duration::from_secs(60);
const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// Any twelve words will do: it is a mint of tests.
const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

/// How a mint behaves.
#[derive(Clone, Copy, Debug)]
pub struct CdkSettings {
    /// Fee of a thousand inputs; another one retires the keyset.
    pub input_fee_ppk: u64,
    /// So many seconds an answer is given again to the same request (NUT-19).
    pub repeats_for: u64,
}

impl Default for CdkSettings {
    fn default() -> Self {
        Self { input_fee_ppk: 100, repeats_for: 60 }
    }
}

/// A running mint. Dropping it ends the mint and removes its folder.
pub struct CdkMint {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
    agent: ureq::Agent,
}

impl CdkMint {
    /// Starts a mint with the unit sat; `None` after saying that the test is skipped.
    ///
    /// # Panics
    ///
    /// When the program is named but the mint doesn't come up.
    pub fn start(settings: CdkSettings) -> Option<Self> {
        let Some(program) = env::var_os(PROGRAM).map(PathBuf::from) else {
            eprintln!("SKIPPED: cdk-mintd isn't part of `make test`; see `make test-cdk-mintd`");
            return None;
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(CALL_DEADLINE))
            .http_status_as_error(false)
            .proxy(None);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let agent = config.build().new_agent();
        let mut mint = Self { program, folder, port: free_port(), child: None, agent };
        mint.configure(settings, &["init", "--new-mint"]);
        mint.run();
        Some(mint)
    }

    /// Ends the mint, and starts it with other settings.
    ///
    /// # Panics
    ///
    /// When it doesn't come up.
    pub fn restart(&mut self, settings: CdkSettings) {
        self.kill();
        self.configure(settings, &["apply"]);
        self.run();
    }

    fn configure(&self, settings: CdkSettings, how: &[&str]) {
        let file = self.folder.path().join("mint.toml");
        fs::write(&file, document(self.port, settings)).expect("a file can be written");
        let mut command = self.command();
        let (first, rest) = how.split_first().expect("a word");
        command.args(["config", first, "--file"]).arg(&file).args(rest);
        let done = command.output().expect("the mint's program can be started");
        let told = String::from_utf8_lossy(&done.stderr);
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "config {how:?} failed: {said}{told}");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-w").arg(self.folder.path()).env("CDK_MINTD_MNEMONIC", WORDS);
        command
    }

    fn run(&mut self) {
        let log = File::create(self.folder.path().join("log")).expect("a log can be written");
        let also = log.try_clone().expect("a file has another handle");
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(log).stderr(also);
        self.child = Some(command.spawn().expect("the mint's program can be started"));
        let until = Instant::now() + START_PATIENCE;
        while !self.is_up() {
            assert!(Instant::now() < until, "cdk-mintd doesn't start; its log:\n{}", self.log());
            sleep(Duration::from_millis(100));
        }
    }

    fn is_up(&self) -> bool {
        let answer = self.agent.get(format!("{}/v1/info", self.url())).call();
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// An invoice over so many satoshis. Who pays it fares as `fate` says: `pay_invoice_state` and
    /// `check_payment_state` (PAID, UNPAID, PENDING, FAILED), `pay_err`, `check_err`.
    ///
    /// # Panics
    ///
    /// When the mint gives none.
    pub fn invoice(&self, satoshis: u64, fate: &Value) -> String {
        let wanted = json!({ "unit": "sat", "amount": satoshis, "description": fate.to_string() });
        let url = format!("{}/v1/mint/quote/bolt11", self.url());
        let mut answer = self.agent.post(url).send_json(&wanted).expect("the mint answers");
        let quote: Value = answer.body_mut().read_json().expect("an answer in JSON");
        let invoice = quote.get("request").and_then(Value::as_str);
        invoice.unwrap_or_else(|| panic!("no invoice: {quote}")).to_owned()
    }

    fn log(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for CdkMint {
    fn drop(&mut self) {
        self.kill();
    }
}

fn document(port: u16, settings: CdkSettings) -> String {
    let CdkSettings { input_fee_ppk, repeats_for } = settings;
    format!(
        r#"[info]
url = "http://127.0.0.1:{port}/"
listen_host = "127.0.0.1"
listen_port = {port}
mnemonic = "env:CDK_MINTD_MNEMONIC"
input_fee_ppk = {input_fee_ppk}
[info.quote_ttl]
mint_ttl = 600
melt_ttl = 120
[info.http_cache]
backend = "memory"
ttl = {repeats_for}
tti = {repeats_for}
[mint_info]
name = "loopback"
[database]
engine = "sqlite"
[[payment_backend]]
backend = "fakewallet"
unit = "sat"
[fake_wallet]
fee_percent = 0.02
reserve_fee_min = 2
custom_payment_methods = []
min_delay_time = 1
max_delay_time = 2
"#
    )
}
