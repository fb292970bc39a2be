//! `kill -9` at random moments: what is left is a prefix of the history, and it goes on (R4).

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
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

fn kills() -> u32 {
    std::env::var("UNSPENT_WALLET_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
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
    let l = Ledger::attach(&url);
    for (at, step) in history(&l).iter().enumerate().skip(from) {
        perform(&l, at, step);
        println!("DONE {at}");
    }
}

#[test]
fn a_killed_process_leaves_a_prefix_and_loses_nothing_it_reported() {
    on_both(|l| {
        let clean = Ledger::sqlite();
        let steps = history(&clean);
        let mut known = vec![snapshot(&clean)];
        for (at, step) in steps.iter().enumerate() {
            perform(&clean, at, step);
            known.push(snapshot(&clean));
        }
        let url = match &l.url {
            unspent_sql::Url::Sqlite(path) => format!("sqlite:{}", path.display()),
            unspent_sql::Url::Postgres(text) => text.clone(),
        };
        let mut rng = StdRng::seed_from_u64(9);
        let (mut from, mut midway, mut killed) = (0, 0, 0);
        while from < steps.len() && killed < kills() {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["crashes::worker_that_is_killed_does_nothing_unless_asked", "--exact"])
                .args(["--nocapture", "--test-threads=1"])
                .env("UNSPENT_KILL_URL", &url)
                .env("UNSPENT_KILL_FROM", from.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut reported = from;
            let wanted = rng.random_range(1..8);
            for _ in 0..wanted + 6 {
                let Some(Ok(line)) = lines.next() else { break };
                if let Some(at) = line.split("DONE ").nth(1) {
                    reported = at.trim().parse::<usize>().unwrap() + 1;
                }
                if reported >= from + wanted {
                    break;
                }
            }
            // Somewhere inside the next step.
            std::thread::sleep(Duration::from_micros(rng.random_range(0..4_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
            for line in lines.map_while(Result::ok) {
                if let Some(at) = line.split("DONE ").nth(1) {
                    reported = at.trim().parse::<usize>().unwrap() + 1;
                }
            }
            let left = settled(&l, &known[reported..], &url);
            let at = reported + left.expect("what is left is a prefix of the history");
            assert!(at <= reported + 1, "at most the step under way is done and not reported");
            midway += u32::from(at < steps.len());
            from = at;
            l.check();
        }
        assert!(midway > 0, "some kill must hit the history");
        for (at, step) in steps.iter().enumerate().skip(from) {
            perform(&l, at, step);
        }
        assert_eq!(snapshot(&l), known[steps.len()]);
        l.check();
    });
}

/// The place of what is stored among the known states; a server may take a moment to notice that
/// its client is gone.
fn settled(l: &Ledger, known: &[Vec<String>], url: &str) -> Option<usize> {
    for _ in 0..50 {
        let found = snapshot(l);
        if let Some(at) = known.iter().position(|state| *state == found) {
            if url.starts_with("sqlite") {
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
