//! How many questions the daemon answers, and how fast, while it applies blocks. Prints a table.
//!
//! The daemon is the real binary on the simulated network (seed 7), with a block of some hundred
//! payments each second; eight clients with connections of their own ask without pause.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    missing_docs
)]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

const CLIENTS: usize = 8;
const SECONDS: u64 = 10;
/// Blocks there before the first question.
const BLOCKS: u64 = 300;
/// Payments of each block that comes meanwhile.
const PAYMENTS: u64 = 300;

struct Daemon {
    child: Child,
    url: String,
    token: String,
    _folder: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_unspent"));
        command.arg("--data-dir").arg(folder.path()).args(["--json", "serve"]);
        let (blocks, payments) =
            (format!("source.sim.blocks={BLOCKS}"), format!("source.sim.payments={PAYMENTS}"));
        for setting in [
            "http.listen=127.0.0.1:0",
            "log.level=warn",
            "source.sim.seed=7",
            "source.sim.block_seconds=1",
            &blocks,
            &payments,
        ] {
            command.args(["--set", setting]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut text = String::new();
        let told: Value = loop {
            text.push_str(&lines.next().unwrap().unwrap());
            if let Ok(told) = serde_json::from_str(&text) {
                break told;
            }
        };
        let token = std::fs::read_to_string(told["cookie_file"].as_str().unwrap()).unwrap();
        let url = told["listening"].as_str().unwrap().to_owned();
        Self { child, url, token: token.trim().to_owned(), _folder: folder }
    }

    fn get(&self, agent: &ureq::Agent, path: &str) -> Value {
        let asked = agent.get(format!("{}/api/v1/{path}", self.url));
        let asked = asked.header("Authorization", format!("Bearer {}", self.token));
        let mut answer = asked.call().unwrap();
        serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
    }

    fn height(&self, agent: &ureq::Agent) -> u64 {
        let status = self.get(agent, "status");
        let chain = status["rooms"].as_array().unwrap().iter().find(|r| r["room"] == "chain");
        chain.unwrap()["tip"]["height"].as_u64().unwrap_or(0)
    }
}

/// What there is to ask for: coins of the last blocks and their addresses.
fn questions(daemon: &Daemon, agent: &ureq::Agent) -> (Vec<String>, Vec<String>) {
    let tip = daemon.height(agent);
    let (mut coins, mut pages) = (Vec::new(), BTreeSet::new());
    for height in (tip - 5)..=tip {
        let delta = daemon.get(agent, &format!("deltas/{height}"));
        for coin in delta["deltas"][0]["created"].as_array().unwrap().iter().take(200) {
            let name = coin["outpoint"].as_str().unwrap();
            let coin = daemon.get(agent, &format!("utxos/{name}"));
            let owner = coin["address"].as_str().unwrap();
            pages.insert(format!("addresses/{owner}/utxos?limit=100"));
            coins.push(format!("utxos/{name}"));
        }
    }
    (coins, pages.into_iter().collect())
}

fn measure(daemon: &Arc<Daemon>, what: &str, asked: &[String]) {
    let from = daemon.height(&ureq::Agent::new_with_defaults());
    let started = Instant::now();
    let until = started + Duration::from_secs(SECONDS);
    let client = |id: usize| {
        let (daemon, asked) = (daemon.clone(), asked.to_vec());
        std::thread::spawn(move || {
            let agent = ureq::Agent::new_with_defaults();
            let (mut taken, mut next) = (Vec::new(), id * 7_919);
            while Instant::now() < until {
                next = next.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                let start = Instant::now();
                daemon.get(&agent, &asked[(next >> 8) % asked.len()]);
                taken.push(start.elapsed());
            }
            taken
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let mut taken: Vec<Duration> = clients.into_iter().flat_map(|c| c.join().unwrap()).collect();
    let rate = taken.len() as f64 / started.elapsed().as_secs_f64();
    taken.sort_unstable();
    let ms = |part: usize| taken[taken.len() * part / 1000].as_secs_f64() * 1e3;
    let blocks = daemon.height(&ureq::Agent::new_with_defaults()) - from;
    println!(
        "{what:<28} {rate:>9.0} /s   p50 {:>7.2} ms   p99 {:>7.2} ms   {blocks} blocks meanwhile",
        ms(500),
        ms(990)
    );
}

fn main() {
    let daemon = Arc::new(Daemon::start());
    let agent = ureq::Agent::new_with_defaults();
    while daemon.height(&agent) < BLOCKS + 8 {
        std::thread::sleep(Duration::from_millis(200));
    }
    let (coins, pages) = questions(&daemon, &agent);
    println!("{CLIENTS} clients, {} coins, {} addresses", coins.len(), pages.len());
    measure(&daemon, "outpoint look-ups", &coins);
    measure(&daemon, "address pages of 100", &pages);
}
