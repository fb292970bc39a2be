//! The same blocks into electrs, an index of Bitcoin by script: a part of `make bench-chain-peers`.
//!
//! electrs takes blocks, and the outputs that they spend, from a node over HTTP. It writes a row
//! for each script that a transaction touches, a row for each transaction's name, and where each
//! transaction lies in its block. It keeps no coins, no values and no undo data, looks nothing up,
//! and checks nothing: what a block spends, the node finds and hands over. So its figure is what a
//! list of history by script costs, and a part of the work is the node's: that is shown beside it,
//! and not counted.
//!
//! One run in two stages, as our own index is measured: electrs sees the blocks before the measured
//! ones, and comes to rest; then it sees all ([`Rest`]). CPU is user and system time of its process
//! between the two rests, compactions included. Time is from its first request of a stage until it
//! finds no more.
//!
//! The node is Knots with all blocks loaded before. It thinks that it is still catching up, since
//! the last block is old, and electrs is told not to wait for that. The program is named in
//! `UNSPENT_ELECTRS`.

use std::{
    ffi::OsString,
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;
use unspent_chain::{Options, Reader, StoreKind};
use unspent_testkit::peers::{self, Knots};

use crate::{
    balances, bitcoin, curve,
    measure::{self, Figures},
    peers::{MEMORY, tail, write_frames},
    rest::Rest,
    stream,
};

/// Names the program.
pub const PROGRAM: &str = "UNSPENT_ELECTRS";
/// It has come to rest when it used next to nothing for so long. It looks for new blocks each
/// second.
const REST: Duration = Duration::from_secs(3);
const NEXT_TO_NOTHING_S: f64 = 0.03;
/// How long a stage may take, and the node to load all blocks.
const PATIENCE: Duration = Duration::from_secs(6 * 60 * 60);

/// What the measured blocks cost electrs; nothing where it or the node can't be had.
pub fn measure() -> Figures {
    let Some(program) = peers::required("electrs", program()) else { return Figures::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let frames = folder.path().join("blocks.dat");
    let (before, all) = write_frames(&frames);
    let Some(node) = loaded_node(folder.path(), &frames, all) else { return Figures::default() };
    let rest = Rest::start(node.url().trim_start_matches("http://"), &frames);
    rest.show(before - 1);
    let mut electrs = Electrs::start(&program, &rest, &node, folder.path());
    let start = electrs.stage(&rest, &node);
    rest.show(all - 1);
    let measured = electrs.stage(&rest, &node);
    let blocks = (all - before) as f64;
    let figures = Figures {
        blocks,
        changes: stream::changes() as f64,
        wall_s: measured.wall_s,
        cpu_s: measured.cpu_s,
        extras: Default::default(),
    };
    let node_ms = 1_000.0 * measured.node_cpu_s / blocks;
    let peak = measure::peak_mb(&electrs.child.id().to_string());
    let figures = figures
        .with("electrs: blocks before", start.shown())
        .with("electrs: measured blocks", measured.shown())
        .with("electrs: CPU of the node, not counted", format!("{node_ms:.1} ms/block"))
        .with("electrs: index on disk", megabytes(&electrs.index))
        .with("electrs: peak memory", format!("{peak} MB"));
    beside_ours(figures, &electrs, folder.path())
}

/// Our own index of the same blocks: its size, and what balances cost at both.
fn beside_ours(figures: Figures, electrs: &Electrs, folder: &Path) -> Figures {
    let ours = folder.join("ours");
    bitcoin::grow(&ours, StoreKind::Classic);
    let cache = Options::for_network(stream::NETWORK).block_cache;
    let reader = Reader::open(&ours, cache).expect("opened");
    let size = format!("{}, coins, lists and the last undo data", megabytes(&ours));
    balances::compare(figures.with("index: on disk", size), &electrs.electrum, &reader)
}

fn program() -> Result<PathBuf, String> {
    let named = std::env::var_os(PROGRAM).ok_or_else(|| format!("{PROGRAM} names no program"))?;
    let program = PathBuf::from(named);
    if program.is_file() { Ok(program) } else { Err(format!("{PROGRAM} names no file")) }
}

/// A node that has all blocks. Its block files lie beside ours, not in memory.
fn loaded_node(folder: &Path, frames: &Path, all: usize) -> Option<Knots> {
    let blocks = folder.join("node");
    fs::create_dir(&blocks).expect("a folder");
    let load = format!("-loadblock={}", frames.display());
    let place = format!("-blocksdir={}", blocks.display());
    let checks = ["-checkblockindex=0", "-checkmempool=0", MEMORY];
    let node = Knots::start(&[&["-rest", &load, &place][..], &checks].concat())?;
    let until = Instant::now() + PATIENCE;
    while node.call("getblockcount", json!([])) != json!(all - 1) {
        assert!(Instant::now() < until, "the node didn't load the blocks");
        sleep(Duration::from_millis(200));
    }
    Some(node)
}

fn megabytes(folder: &Path) -> String {
    format!("{:.1} MB", curve::bytes_of(folder) as f64 / 1e6)
}

/// What happened until a rest.
struct Stage {
    wall_s: f64,
    cpu_s: f64,
    node_cpu_s: f64,
}

impl Stage {
    fn shown(&self) -> String {
        format!("{:.1} s, {:.2} s CPU", self.wall_s, self.cpu_s)
    }
}

/// A running electrs, killed when dropped.
struct Electrs {
    child: Child,
    index: PathBuf,
    log: PathBuf,
    /// Where it speaks Electrum's protocol.
    electrum: String,
    /// Its CPU and the node's at the last rest.
    counted: (f64, f64),
}

impl Electrs {
    fn start(program: &Path, rest: &Rest, node: &Knots, folder: &Path) -> Self {
        let (index, log) = (folder.join("electrs"), folder.join("electrs.log"));
        let (electrum, monitoring) = (free_address(), free_address());
        let mut command = Command::new(program);
        command.args(["--skip-default-conf-files", "--network", "regtest", "--ignore-mempool"]);
        command.args(["--skip-block-download-wait", "--wait-duration-secs", "1"]);
        let places: [(&str, OsString); 5] = [
            ("--db-dir", index.clone().into()),
            ("--cookie-file", node.cookie().into()),
            ("--daemon-rpc-addr", rest.address.clone().into()),
            ("--electrum-rpc-addr", electrum.clone().into()),
            ("--monitoring-addr", monitoring.into()),
        ];
        for (name, value) in places {
            command.arg(name).arg(value);
        }
        let file = File::create(&log).expect("a log");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let child = command.spawn().expect("electrs can be started");
        let counted = (0.0, node_cpu(node));
        Self { child, index, log, electrum, counted }
    }

    /// Waits until it has indexed what it sees, and compacted that.
    fn stage(&mut self, rest: &Rest, node: &Knots) -> Stage {
        let until = Instant::now() + PATIENCE;
        let took = loop {
            self.must_run(until);
            match rest.took() {
                Some(took) => break took,
                None => sleep(Duration::from_millis(50)),
            }
        };
        let id = self.child.id().to_string();
        let mut cpu = measure::cpu_seconds(&id);
        loop {
            sleep(REST);
            self.must_run(until);
            let now = measure::cpu_seconds(&id);
            if now - cpu < NEXT_TO_NOTHING_S {
                break;
            }
            cpu = now;
        }
        let counted = std::mem::replace(&mut self.counted, (cpu, node_cpu(node)));
        Stage {
            wall_s: took.as_secs_f64(),
            cpu_s: self.counted.0 - counted.0,
            node_cpu_s: self.counted.1 - counted.1,
        }
    }

    fn must_run(&mut self, until: Instant) {
        let ended = self.child.try_wait().expect("a child can be asked");
        if ended.is_some() || Instant::now() > until {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            panic!("electrs failed or is too slow: {}", tail(&log));
        }
    }
}

impl Drop for Electrs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn node_cpu(node: &Knots) -> f64 {
    measure::cpu_seconds(&node.process().expect("it runs").to_string())
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}
