//! `kill -9` at random moments: what is left is a prefix of the history, and it goes on (R4).

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use bitcoin::{OutPoint, Transaction};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use unspent_wallet::{Batch, How, block::PlacedBlock, history::Listing};

use crate::ledger::*;

/// One step of the history, atomic in the room.
enum Step {
    See(Transaction, How),
    Apply(PlacedBlock),
    Undo(u64),
    Lease(Vec<OutPoint>, u8),
}

/// Kills on each database; `make soak` raises it.
fn kills() -> u32 {
    std::env::var("UNSPENT_WALLET_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// A history with payments, replacements, leases and reorganisations; always the same.
fn history(l: &Ledger) -> Vec<Step> {
    let mut steps = Vec::new();
    let apply = |steps: &mut Vec<Step>, txs: &[&Transaction]| {
        let block = l.block(txs);
        l.chain.borrow_mut().push(block.clone());
        steps.push(Step::Apply(block));
    };
    for round in 0..8_u32 {
        let script = l.ours(round);
        let funding = tx(&[foreign(round)], &vec![(&script, 10_000); 30]);
        apply(&mut steps, &[&funding]);
        steps.push(Step::Lease(vec![out(&funding, 0), out(&funding, 1)], 1 + round as u8));
        let mut last = out(&funding, 2);
        for n in 0..10_u64 {
            let next = tx(&[last], &[(&l.ours(round + 1), 9_990 - n)]);
            last = out(&next, 0);
            steps.push(Step::See(next, How::Mempool));
        }
        let rival = tx(&[out(&funding, 2)], &[(&theirs(1), 5_000)]);
        steps.push(Step::See(rival.clone(), How::Mempool));
        apply(&mut steps, &[&rival]);
        if round % 2 == 1 {
            let keep = l.height() - 3;
            l.chain.borrow_mut().truncate((keep - FIRST + 1) as usize);
            steps.push(Step::Undo(keep));
            apply(&mut steps, &[&funding]);
        }
    }
    steps
}

fn perform(l: &Ledger, at: usize, step: &Step) {
    let now = at as i64 * SECOND;
    match step {
        Step::See(tx, how) => drop(l.room.record(&Batch::one(tx.clone(), *how), now).unwrap()),
        Step::Apply(block) => drop(l.room.apply_blocks(vec![block.clone()], now).unwrap()),
        Step::Undo(keep) => drop(l.room.disconnect_above(Some(*keep), now).unwrap()),
        Step::Lease(coins, byte) => {
            l.room.lease(l.wallet, coins, l.terms(*byte), now).unwrap();
        }
    }
}

fn snapshot(l: &Ledger) -> Vec<String> {
    let mut lines = Vec::new();
    for found in l.room.txs(l.wallet, Listing::Latest(None), 1_000).unwrap() {
        lines.push(format!("{} {} {:?}", found.txid, found.status, found.height));
    }
    for coin in l.room.all_coins(l.wallet, 0, 1_000, 0).unwrap() {
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
    println!("START");
    let l = Ledger::attach(&url);
    println!("OPEN");
    for (at, step) in history(&l).iter().enumerate().skip(from) {
        perform(&l, at, step);
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
    fn start(url: &str, from: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::worker_that_is_killed_does_nothing_unless_asked", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env("UNSPENT_KILL_URL", url)
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
    let clean = Ledger::sqlite();
    let steps = history(&clean);
    let mut known = vec![snapshot(&clean)];
    for (at, step) in steps.iter().enumerate() {
        perform(&clean, at, step);
        known.push(snapshot(&clean));
    }
    on_both(|l| kill_often(l, &steps, &known));
}

fn kill_often(mut l: Ledger, steps: &[Step], known: &[Vec<String>]) {
    let url = text_of(&l.url);
    let is_server = !url.starts_with("sqlite");
    let mut rng = StdRng::seed_from_u64(9);
    let mut hits = Hits::default();
    let (mut from, mut l_url, mut opening) = (0, url, Duration::from_millis(50));
    for kill in 0..kills() {
        let mut worker = Worker::start(&l_url, from);
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
        let early = worker.opened.is_none();
        worker.kill();
        match worker.opened {
            None if worker.started => hits.opening += 1,
            None => {}
            Some(taken) if !early => opening = taken.min(Duration::from_millis(200)),
            Some(_) => {}
        }
        let reported = worker.reported;
        let at = settled(&l, &known[reported..], is_server);
        let at = reported + at.expect("what is left is a prefix of the history");
        assert!(at <= reported + 1, "at most the step under way is done and not reported");
        hits.midway += u32::from(at > from && at < steps.len());
        from = at;
        l.check();
        if from == steps.len() {
            hits.histories += 1;
            l = if is_server { l.emptied() } else { Ledger::sqlite() };
            (from, l_url) = (0, text_of(&l.url));
        }
    }
    eprintln!("{} kills on {}: {hits:?}", kills(), l.url);
    assert!(hits.midway > 0, "some kill must hit the history");
    assert!(hits.opening > 0, "some kill must hit a worker that is opening what another left");
    for (at, step) in steps.iter().enumerate().skip(from) {
        perform(&l, at, step);
    }
    assert_eq!(snapshot(&l), known[steps.len()]);
    l.check();
}

fn text_of(url: &unspent_sql::Url) -> String {
    match url {
        unspent_sql::Url::Sqlite(path) => format!("sqlite:{}", path.display()),
        unspent_sql::Url::Postgres(text) => text.clone(),
    }
}

/// The place of what is stored among the known states; a server may take a moment to notice that
/// its client is gone.
fn settled(l: &Ledger, known: &[Vec<String>], is_server: bool) -> Option<usize> {
    for _ in 0..50 {
        let found = snapshot(l);
        if let Some(at) = known.iter().position(|state| *state == found) {
            if !is_server {
                return Some(at);
            }
            // The dead client's last statement may still be under way on the server.
            std::thread::sleep(Duration::from_millis(30));
            let again = snapshot(l);
            return known.iter().position(|state| *state == again);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
