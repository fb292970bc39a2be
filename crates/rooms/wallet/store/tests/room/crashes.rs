//! `kill -9` at random moments: what is left is a prefix of the history, and it goes on.

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use bitcoin::{
    OutPoint, Transaction,
    consensus::encode::{deserialize_hex, serialize_hex},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use unspent_model::Micros;
use unspent_wallet::{
    TxBatch, TxSource, WalletError, history::TxListing, placed_block::PlacedBlock,
    prune::PruneRequest,
};

use crate::{ledger::*, random::tangle};

/// One step of a history, atomic in the room.
enum Step {
    See(Transaction, TxSource),
    Apply(PlacedBlock),
    Undo(u64),
    Lease(Vec<OutPoint>, u8),
    Purge,
    Prune(u64),
}

/// Kills on each database; `make soak` raises it.
fn kills() -> u32 {
    std::env::var("UNSPENT_WALLET_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

const STEPS: usize = 60;
const PRUNE_DEPTH: u64 = 3;

impl Step {
    /// A random step that makes sense at this point.
    fn random(rng: &mut StdRng, l: &Ledger, world: &[Transaction]) -> Self {
        let mut pick = || world[rng.random_range(0..world.len())].clone();
        let (tx, other) = (pick(), pick());
        match rng.random_range(0..20) {
            0..8 => Self::See(
                tx,
                if rng.random_bool(0.5) { TxSource::Mempool } else { TxSource::Relayed },
            ),
            8..13 if tx != other => Self::Apply(l.block(&[&tx, &other])),
            8..13 => Self::Apply(l.block(&[&tx])),
            13..15 => Self::Undo(l.height().saturating_sub(rng.random_range(1..4))),
            15..18 => Self::Lease(vec![out(&tx, 0)], rng.random_range(1..4)),
            18 => Self::Purge,
            _ => Self::Prune(l.height()),
        }
    }

    fn perform(&self, l: &Ledger, at: usize) -> Result<(), WalletError> {
        let now = at as i64 * 400 * SECOND;
        match self {
            Self::See(tx, how) => {
                l.room.record(&TxBatch::one(tx.clone(), *how), Micros(now)).map(drop)
            }
            Self::Apply(block) => l.room.apply_blocks(vec![block.clone()], Micros(now)).map(drop),
            Self::Undo(keep) => l.room.disconnect_above(Some(*keep), Micros(now)).map(drop),
            Self::Lease(coins, byte) => {
                l.room.lease(l.wallet, coins, l.terms(*byte), Micros(now)).map(drop)
            }
            Self::Purge => l.room.purge_leases(None, Micros(now)).map(drop),
            Self::Prune(to) => {
                let request = PruneRequest::UpTo(*to);
                l.room.prune(l.wallet, &request, PRUNE_DEPTH, Micros(now)).map(drop)
            }
        }
    }

    fn to_line(&self) -> String {
        match self {
            Self::See(tx, TxSource::Mempool) => format!("mempool {}", serialize_hex(tx)),
            Self::See(tx, _) => format!("relayed {}", serialize_hex(tx)),
            Self::Apply(placed) => {
                format!("apply {} {}", placed.height, serialize_hex(&*placed.block))
            }
            Self::Undo(keep) => format!("undo {keep}"),
            Self::Lease(coins, byte) => format!("lease {byte} {}", coins[0]),
            Self::Purge => "purge".into(),
            Self::Prune(to) => format!("prune {to}"),
        }
    }

    fn from_line(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["mempool", tx] => Self::See(deserialize_hex(tx).unwrap(), TxSource::Mempool),
            ["relayed", tx] => Self::See(deserialize_hex(tx).unwrap(), TxSource::Relayed),
            ["apply", height, block] => Self::Apply(PlacedBlock::of(
                height.parse().unwrap(),
                deserialize_hex(block).unwrap(),
            )),
            ["undo", keep] => Self::Undo(keep.parse().unwrap()),
            ["lease", byte, coin] => {
                Self::Lease(vec![coin.parse().unwrap()], byte.parse().unwrap())
            }
            ["purge"] => Self::Purge,
            ["prune", to] => Self::Prune(to.parse().unwrap()),
            _ => panic!("no step: {line}"),
        }
    }
}

/// A random history that was lived through once, with what was there after each step.
struct History {
    steps: Vec<Step>,
    known: Vec<Vec<String>>,
    /// The steps in a file, for the process that is killed.
    file: tempfile::NamedTempFile,
}

impl History {
    fn random(seed: u64) -> Self {
        let clean = Ledger::sqlite();
        let mut rng = StdRng::seed_from_u64(seed);
        let world = tangle(&mut rng, &clean, &[]);
        let (mut steps, mut known) = (Vec::new(), vec![snapshot(&clean)]);
        while steps.len() < STEPS {
            let step = Step::random(&mut rng, &clean, &world);
            // What the room refuses changes nothing and is no step.
            if step.perform(&clean, steps.len()).is_err() {
                continue;
            }
            match &step {
                Step::Apply(block) => clean.chain.borrow_mut().push(block.clone()),
                Step::Undo(keep) => {
                    clean.chain.borrow_mut().retain(|block| block.height <= *keep);
                }
                _ => {}
            }
            steps.push(step);
            known.push(snapshot(&clean));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines: Vec<String> = steps.iter().map(Step::to_line).collect();
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        Self { steps, known, file }
    }
}

fn snapshot(l: &Ledger) -> Vec<String> {
    let mut lines = Vec::new();
    for found in l.room.txs(l.wallet, TxListing::Latest(None), 1_000).unwrap() {
        lines.push(format!("{} {} {:?}", found.txid, found.status, found.height));
    }
    for coin in l.room.all_coins(l.wallet, 0, 1_000, Micros(0)).unwrap() {
        lines.push(format!("{} {:?} {:?}", coin.outpoint, coin.spent_by, coin.lock));
    }
    lines.push(format!("{:?}", l.room.wallets(None).unwrap()[0].scanned));
    let last = l.room.journal(l.wallet, None, 0, 1_000).unwrap().len();
    lines.push(format!("{last} lines"));
    lines.sort();
    lines
}

/// The process that gets killed: goes on from a step and says which are done.
#[test]
#[allow(clippy::print_stdout)]
fn worker_that_is_killed_does_nothing_unless_asked() {
    let Ok(url) = std::env::var("UNSPENT_KILL_URL") else { return };
    let from: usize = std::env::var("UNSPENT_KILL_FROM").unwrap().parse().unwrap();
    let lines = std::fs::read_to_string(std::env::var("UNSPENT_KILL_STEPS").unwrap()).unwrap();
    println!("START");
    let l = Ledger::attach(&url);
    println!("OPEN");
    for (at, line) in lines.lines().enumerate().skip(from) {
        Step::from_line(line).perform(&l, at).unwrap();
        println!("DONE {at}");
    }
}

/// A worker and what it has said so far.
struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    born: Instant,
    started: bool,
    opened: Option<Duration>,
    /// Steps of the history that are certainly done.
    reported: usize,
}

impl Worker {
    fn start(url: &str, history: &History, from: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::worker_that_is_killed_does_nothing_unless_asked", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env("UNSPENT_KILL_URL", url)
            .env("UNSPENT_KILL_STEPS", history.file.path())
            .env("UNSPENT_KILL_FROM", from.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (started, opened) = (false, None);
        Self { child, lines, born: Instant::now(), started, opened, reported: from }
    }

    /// Hears one line; `false` at the end.
    fn hear(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else { return false };
        self.started |= line.contains("START");
        if line.contains("OPEN") {
            self.opened = Some(self.born.elapsed());
        }
        if let Some(at) = line.split("DONE ").nth(1) {
            self.reported = at.trim().parse::<usize>().unwrap() + 1;
        }
        true
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        while self.hear() {}
    }
}

/// What the kills have hit.
#[derive(Default, Debug)]
struct Hits {
    opening: u32,
    midway: u32,
    histories: u32,
}

#[test]
fn a_killed_process_leaves_a_prefix_and_loses_nothing_it_reported() {
    on_both(kill_often);
}

fn kill_often(mut l: Ledger) {
    let mut rng = StdRng::seed_from_u64(9);
    let (mut hits, mut opening) = (Hits::default(), Duration::from_millis(50));
    let (mut history, mut from) = (History::random(0), 0);
    for kill in 0..kills() {
        let mut worker = Worker::start(&text_of(&l.url), &history, from);
        if kill % 3 == 0 {
            // Aimed at the opening, which is the recovery from the kill before.
            while !worker.started && worker.hear() {}
            std::thread::sleep(opening.mul_f64(rng.random_range(0.0..1.1)));
        } else {
            let wanted = from + rng.random_range(1..8);
            while worker.reported < wanted && worker.hear() {}
            // Somewhere inside the next step.
            std::thread::sleep(Duration::from_micros(rng.random_range(0..4_000)));
        }
        opening = worker.opened.unwrap_or(opening);
        worker.kill();
        hits.opening += u32::from(worker.started && worker.opened.is_none());
        let at = settled(&l, &history.known, worker.reported);
        hits.midway += u32::from(at > from && at < STEPS);
        from = at;
        l.check();
        if from == STEPS {
            hits.histories += 1;
            l = if is_server(&l) { l.emptied() } else { Ledger::sqlite() };
            (history, from) = (History::random(hits.histories.into()), 0);
        }
    }
    eprintln!("{} kills on {}: {hits:?}", kills(), l.url);
    assert!(hits.midway > 0, "some kill must hit a history");
    assert!(hits.opening > 0, "some kill must hit a worker that is opening what another left");
    for (at, step) in history.steps.iter().enumerate().skip(from) {
        step.perform(&l, at).unwrap();
    }
    assert_eq!(snapshot(&l), history.known[STEPS]);
    l.check();
}

fn is_server(l: &Ledger) -> bool {
    matches!(l.url, unspent_sql::Url::Postgres(_))
}

fn text_of(url: &unspent_sql::Url) -> String {
    match url {
        unspent_sql::Url::Sqlite(path) => format!("sqlite:{}", path.display()),
        unspent_sql::Url::Postgres(text) => text.clone(),
    }
}

/// How many steps are stored: those reported, and perhaps the one under way. A server may take a
/// moment to notice that its client is gone.
fn settled(l: &Ledger, known: &[Vec<String>], reported: usize) -> usize {
    // A step may change nothing that is seen: then the earlier one is as good an answer.
    let place = |found: &Vec<String>| {
        (reported..known.len().min(reported + 2)).find(|at| known[*at] == *found)
    };
    for _ in 0..50 {
        let mut at = place(&snapshot(l));
        if is_server(l) {
            // The dead client's last statement may still be under way on the server.
            std::thread::sleep(Duration::from_millis(30));
            at = place(&snapshot(l));
        }
        if let Some(at) = at {
            return at;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("what is left is no prefix of the history: {reported} steps were reported");
}
