//! Nutshell, the reference mint, on loopback.
//!
//! Its Lightning side is a pretence that does as its settings say. They hold for the whole process:
//! to change one the mint is started again, which it survives, since its state lies in SQLite.
//!
//! | wanted | settings |
//! |---|---|
//! | an invoice that nobody pays, and is paid later | `invoices_are_paid: false`; start again with `true` |
//! | a payment on its way for some time | `outgoing_delay`, and [`Lightning::Pending`] for `asked_later`: with `Settled` a question during the delay settles the quote, and the melt itself then fails with a database error |
//! | a payment that fails | [`Lightning::Failed`] for both |
//! | a payment on its way for ever | [`Lightning::Pending`] for both; start again with `asked_later` settled or failed |
//! | another keyset | `rotates`, then [`Nutshell::rotate`] |
#![allow(clippy::expect_used, clippy::panic)]

use std::{
    env,
    fs::File,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::peers::python::environment;

/// The version that the tests were written against. Without the other two it doesn't start.
const PACKAGES: [&str; 3] = ["cashu==0.20.2", "marshmallow<4", "limits<4"];
const ENVIRONMENT: &str = "nutshell-0.20.2";
/// How long a mint may take to answer after its start; a loaded machine takes long over Python.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// A free port can be taken by somebody else before the mint has it.
const START_TRIES: usize = 5;
/// As many as it gives a keyset by itself.
const KEYS_OF_A_KEYSET: &str = "64";
/// Seconds since 1970; far away.
const END_OF_A_KEYSET: &str = "4102444800";
const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// Of its log, as much is shown when it doesn't start.
const LOG_LINES: usize = 40;

/// What the pretended Lightning side says of an outgoing payment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lightning {
    /// It is paid.
    Settled,
    /// It failed.
    Failed,
    /// It is on its way.
    Pending,
}

impl Lightning {
    fn name(self) -> &'static str {
        match self {
            Self::Settled => "SETTLED",
            Self::Failed => "FAILED",
            Self::Pending => "PENDING",
        }
    }
}

/// Reads the books out of a mint's database. An output that the mint noted and hasn't signed is
/// no debt.
const OWED: &str = "import pathlib, sqlite3, sys
file = next(pathlib.Path(sys.argv[1]).rglob('*.sqlite3'))
print(sqlite3.connect(file).execute('''SELECT
    (SELECT COALESCE(SUM(amount), 0) FROM promises WHERE c_ IS NOT NULL)
    - (SELECT COALESCE(SUM(amount), 0) FROM proofs_used)''').fetchone()[0])";

/// How a mint behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MintSettings {
    /// Fee of a thousand inputs.
    pub input_fee_ppk: u64,
    /// Whether invoices of mint quotes get paid.
    pub invoices_are_paid: bool,
    /// How long until such an invoice is paid without being asked about. A question settles it.
    pub incoming_delay: Duration,
    /// How long an outgoing payment takes.
    pub outgoing_delay: Duration,
    /// What becomes of an outgoing payment.
    pub paid_at_once: Lightning,
    /// What the Lightning side says of it when it is asked again.
    pub asked_later: Lightning,
    /// Life of a mint quote in seconds; without it the mint names no end.
    pub mint_quote_ttl: Option<u64>,
    /// Life of a melt quote in seconds; without it the invoice's.
    pub melt_quote_ttl: Option<u64>,
    /// Whether its keysets can be rotated.
    pub rotates: bool,
    /// Further settings, as environment variables.
    pub extra: Vec<(String, String)>,
}

impl Default for MintSettings {
    fn default() -> Self {
        Self {
            input_fee_ppk: 100,
            invoices_are_paid: true,
            incoming_delay: Duration::from_millis(200),
            outgoing_delay: Duration::ZERO,
            paid_at_once: Lightning::Settled,
            asked_later: Lightning::Pending,
            mint_quote_ttl: None,
            melt_quote_ttl: None,
            rotates: false,
            extra: Vec::new(),
        }
    }
}

impl MintSettings {
    fn variables(&self) -> Vec<(String, String)> {
        let flag = |set: bool| if set { "TRUE" } else { "FALSE" }.to_owned();
        let seconds = |delay: Duration| delay.as_secs_f64().to_string();
        let mut all = vec![
            ("MINT_INPUT_FEE_PPK", self.input_fee_ppk.to_string()),
            ("FAKEWALLET_BRR", flag(self.invoices_are_paid)),
            ("FAKEWALLET_DELAY_INCOMING_PAYMENT", seconds(self.incoming_delay)),
            ("FAKEWALLET_DELAY_OUTGOING_PAYMENT", seconds(self.outgoing_delay)),
            ("FAKEWALLET_PAY_INVOICE_STATE", self.paid_at_once.name().to_owned()),
            ("FAKEWALLET_PAYMENT_STATE", self.asked_later.name().to_owned()),
            ("FAKEWALLET_BALANCE_SAT", "100000000".to_owned()),
            ("FAKEWALLET_BALANCE_USD", "100000000".to_owned()),
        ];
        let lives =
            [("MINT_QUOTE_TTL", self.mint_quote_ttl), ("MELT_QUOTE_TTL", self.melt_quote_ttl)];
        all.extend(lives.into_iter().filter_map(|(name, ttl)| Some((name, ttl?.to_string()))));
        let all = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        all.chain(self.extra.iter().cloned()).collect()
    }
}

/// A running mint. Dropping it ends the mint and removes its folder.
pub struct Nutshell {
    programs: PathBuf,
    folder: TempDir,
    /// Its keys follow from it, so that two mints differ and one stays the same.
    key: String,
    settings: MintSettings,
    port: u16,
    /// Where its operator speaks to it.
    operator_port: u16,
    child: Option<Child>,
    agent: ureq::Agent,
}

impl Nutshell {
    /// Starts a mint with units sat and usd; `None` after saying that the test is skipped.
    ///
    /// # Panics
    ///
    /// When the mint is there but doesn't come up, or is absent though required.
    pub fn start(settings: MintSettings) -> Option<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let programs = programs()?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(CALL_DEADLINE))
            .http_status_as_error(false)
            .proxy(None);
        let mut mint = Self {
            programs,
            folder: tempfile::tempdir().expect("a temporary folder can be made"),
            key: format!("mint {number} of process {}", std::process::id()),
            settings,
            port: 0,
            operator_port: 0,
            child: None,
            agent: config.build().new_agent(),
        };
        for _ in 0..START_TRIES {
            (mint.port, mint.operator_port) = (free_port(), free_port());
            if mint.try_start() {
                return Some(mint);
            }
        }
        panic!("the mint doesn't start; its log:\n{}", mint.log());
    }

    fn try_start(&mut self) -> bool {
        let log = File::create(self.log_file()).expect("a log can be written");
        let also = log.try_clone().expect("a file has another handle");
        let mut command = Command::new(self.programs.join("mint"));
        command.current_dir(self.folder.path());
        command
            .env("MINT_PRIVATE_KEY", &self.key)
            .env("MINT_LISTEN_HOST", "127.0.0.1")
            .env("MINT_LISTEN_PORT", self.port.to_string())
            .env("MINT_DATABASE", self.folder.path().join("mint"))
            .env("CASHU_DIR", self.folder.path().join("cashu"))
            .env("MINT_BACKEND_BOLT11_SAT", "FakeWallet")
            .env("MINT_BACKEND_BOLT11_USD", "FakeWallet")
            .env("MINT_DERIVATION_PATH_LIST", r#"["m/0'/0'/0'","m/0'/2'/0'"]"#)
            .env("MINT_RATE_LIMIT", "FALSE")
            // It compares whole seconds: at 0 a second question within one second goes unheard.
            .env("MINT_QUOTE_BACKEND_CHECK_RATE_LIMIT", "-1")
            .env("TOR", "FALSE")
            .envs(self.settings.variables());
        if self.settings.rotates {
            command
                .env("MINT_RPC_SERVER_ENABLE", "TRUE")
                .env("MINT_RPC_SERVER_ADDR", "127.0.0.1")
                .env("MINT_RPC_SERVER_PORT", self.operator_port.to_string())
                .env("MINT_RPC_SERVER_MUTUAL_TLS", "FALSE");
        }
        command.stdin(Stdio::null()).stdout(log).stderr(also);
        self.child = Some(command.spawn().expect("the mint's program can be started"));
        let until = Instant::now() + START_PATIENCE;
        while Instant::now() < until {
            if self.try_get("/v1/info").is_ok_and(|info| info.get("nuts").is_some()) {
                return true;
            }
            let child = self.child.as_mut().expect("it was started");
            if child.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            sleep(Duration::from_millis(100));
        }
        false
    }

    /// Ends the mint at once, as a power cut would; its folder stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a killed mint again, at the same address and with its state.
    ///
    /// # Panics
    ///
    /// When it doesn't come up.
    pub fn start_again(&mut self, settings: MintSettings) {
        assert!(self.child.is_none(), "it is running");
        self.settings = settings;
        assert!(self.try_start(), "the mint doesn't start again; its log:\n{}", self.log());
    }

    /// Ends the mint and starts it with other settings.
    ///
    /// # Panics
    ///
    /// When it doesn't come up.
    pub fn restart(&mut self, settings: MintSettings) {
        self.kill();
        self.start_again(settings);
    }

    /// Retires the keyset of a unit in favour of a new one.
    ///
    /// # Panics
    ///
    /// When the mint doesn't do it, or wasn't started with `rotates`.
    pub fn rotate(&self, unit: &str) {
        let before = self.get("/v1/keysets");
        let mut command = Command::new(self.programs.join("mint-cli"));
        command.args(["--insecure", "--host", "127.0.0.1", "--port"]);
        command.arg(self.operator_port.to_string());
        // Without an end it would be said to end at 0, from which other programs derive another id.
        let fee = self.settings.input_fee_ppk.to_string();
        command.args(["next-keyset", unit, &fee, KEYS_OF_A_KEYSET, END_OF_A_KEYSET]);
        let done = command.output().expect("the operator's program can be started");
        let is_done = done.status.success() && self.get("/v1/keysets") != before;
        assert!(is_done, "{}\n{}", String::from_utf8_lossy(&done.stderr), self.log());
    }

    /// Its address, as wallets write it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How it behaves now.
    pub fn settings(&self) -> &MintSettings {
        &self.settings
    }

    /// What it answers to a question.
    ///
    /// # Panics
    ///
    /// When it doesn't answer.
    pub fn get(&self, path: &str) -> Value {
        self.try_get(path).unwrap_or_else(|error| panic!("GET {path}: {error}\n{}", self.log()))
    }

    /// What it answers to a demand, whatever that is.
    ///
    /// # Panics
    ///
    /// When it doesn't answer.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let sent = self.agent.post(format!("{}{path}", self.url())).send_json(body);
        let read = sent.and_then(|mut answer| answer.body_mut().read_json());
        read.unwrap_or_else(|error| panic!("POST {path}: {error}\n{}", self.log()))
    }

    /// An invoice over so many satoshis that somebody may pay; the mint's own quote for it.
    ///
    /// # Panics
    ///
    /// When the mint gives none.
    pub fn invoice(&self, satoshis: u64) -> (String, String) {
        let wanted = serde_json::json!({ "unit": "sat", "amount": satoshis });
        let quote = self.post("/v1/mint/quote/bolt11", &wanted);
        let text = |name: &str| quote.get(name).and_then(Value::as_str).map(str::to_owned);
        text("request").zip(text("quote")).unwrap_or_else(|| panic!("no invoice: {quote}"))
    }

    /// What the mint owes by its own database: all that it signed less all that came back to it.
    ///
    /// # Panics
    ///
    /// When its database can't be read.
    pub fn owed(&self) -> i64 {
        let mut command = Command::new(self.programs.join("python"));
        command.args(["-c", OWED]).arg(self.folder.path().join("mint"));
        let done = command.output().expect("the mint's Python can be started");
        let sum = String::from_utf8_lossy(&done.stdout).trim().parse();
        sum.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)))
    }

    fn try_get(&self, path: &str) -> Result<Value, String> {
        let answer = self.agent.get(format!("{}{path}", self.url())).call();
        let mut answer = answer.map_err(|error| error.to_string())?;
        answer.body_mut().read_json().map_err(|error| error.to_string())
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("mint.log")
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.log_file()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().rev().take(LOG_LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Nutshell {
    fn drop(&mut self) {
        self.kill();
    }
}

fn programs() -> Option<PathBuf> {
    match environment(ENVIRONMENT, &PACKAGES) {
        Ok(programs) => Some(programs),
        Err(reason) if env::var_os("UNSPENT_REQUIRE_PEERS").is_some() => {
            panic!("the mint (Nutshell) is required and can't be had: {reason}")
        }
        Err(reason) => {
            skipped(&reason);
            None
        }
    }
}

#[allow(clippy::print_stderr)]
fn skipped(reason: &str) {
    eprintln!("SKIPPED: the mint (Nutshell) can't be had: {reason}");
}

pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    listener.local_addr().expect("a socket has an address").port()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(mint: &Nutshell, quote: &str) -> Value {
        mint.get(&format!("/v1/mint/quote/bolt11/{quote}"))["state"].clone()
    }

    #[test]
    fn a_mint_keeps_its_quotes_when_it_is_started_again_with_other_settings() {
        let unpaid = MintSettings { invoices_are_paid: false, ..MintSettings::default() };
        let Some(mut mint) = Nutshell::start(unpaid) else { return };
        let keysets = mint.get("/v1/keysets");
        let units: Vec<_> =
            keysets["keysets"].as_array().unwrap().iter().map(|k| k["unit"].clone()).collect();
        assert_eq!(units, [json!("sat"), json!("usd")]);
        let (_, quote) = mint.invoice(21);
        assert_eq!(state(&mint, &quote), "UNPAID");
        mint.restart(MintSettings::default());
        assert_eq!(mint.get("/v1/keysets"), keysets);
        assert_eq!(state(&mint, &quote), "PAID");
    }

    #[test]
    fn every_question_about_a_quote_reaches_the_lightning_side() {
        let extra = vec![("LOG_LEVEL".to_owned(), "TRACE".to_owned())];
        let unpaid = MintSettings { invoices_are_paid: false, extra, ..MintSettings::default() };
        let Some(mint) = Nutshell::start(unpaid) else { return };
        let (_, quote) = mint.invoice(21);
        for _ in 0..20 {
            assert_eq!(state(&mint, &quote), "UNPAID");
        }
        let log = std::fs::read_to_string(mint.log_file()).unwrap();
        let told = |what: &str| log.matches(what).count();
        let heard = told("Lightning: checking invoice");
        assert_eq!((heard, told("skipped due to rate limit")), (20, 0), "{log}");
    }

    #[test]
    fn a_keyset_is_retired_on_demand() {
        let settings = MintSettings { rotates: true, ..MintSettings::default() };
        let Some(mint) = Nutshell::start(settings) else { return };
        let active = || {
            let keysets = mint.get("/v1/keysets")["keysets"].as_array().unwrap().clone();
            let sat = keysets.into_iter().filter(|k| k["unit"] == "sat" && k["active"] == true);
            sat.map(|keyset| keyset["id"].clone()).collect::<Vec<_>>()
        };
        let before = active();
        mint.rotate("sat");
        let after = active();
        assert!(before.len() == 1 && after.len() == 1 && before != after, "{before:?} {after:?}");
    }

    #[test]
    fn two_mints_have_keys_of_their_own() {
        let settings = MintSettings { input_fee_ppk: 0, ..MintSettings::default() };
        let Some(one) = Nutshell::start(settings.clone()) else { return };
        let Some(two) = Nutshell::start(settings) else { return };
        let ids = |mint: &Nutshell| mint.get("/v1/keysets")["keysets"][0]["id"].clone();
        assert_ne!(ids(&one), ids(&two));
        assert_eq!(one.get("/v1/keysets")["keysets"][0]["input_fee_ppk"], 0);
    }
}
