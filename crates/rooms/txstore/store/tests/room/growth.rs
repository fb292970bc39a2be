//! Storage stays bounded in a long run: what is there is what is live, and the last window.
//!
//! `UNSPENT_TXSTORE_BLOCKS` sets how long; the course is plotted.

use std::collections::VecDeque;

use unspent_model::Outpoint;
use unspent_sql::Backend;
use unspent_txstore::NewTx;

use crate::desk::*;

const WINDOW: u64 = 5;
/// Coins that are in circulation at any time.
const COINS: usize = 60;
const PER_BLOCK: usize = 12;

/// What was there after a block.
struct Reading {
    height: u64,
    /// Transactions that ever came in.
    made: u64,
    records: u64,
    bytes: u64,
}

/// A life of so many blocks; each spends some coins and the reward of the block before.
fn live(d: &Desk, blocks: u64) -> Vec<Reading> {
    let first: Vec<NewTx> = (0..COINS).map(|_| d.fresh(1)).collect();
    let mut coins: VecDeque<Outpoint> = first.iter().map(|new| out(new, 0)).collect();
    let start = d.block(100, 1, &first.iter().collect::<Vec<_>>());
    let mut reward = out(&start.txs[0], 0);
    d.store.apply_block(start).unwrap();
    let (mut readings, mut made) = (Vec::new(), COINS as u64 + 1);
    for height in 101..101 + blocks {
        let spent: Vec<Outpoint> = coins.drain(..PER_BLOCK).collect();
        let mut txs: Vec<NewTx> = spent[1..].iter().map(|coin| tx(&[*coin], 1)).collect();
        txs.push(tx(&[spent[0], reward], 1));
        coins.extend(txs.iter().map(|new| out(new, 0)));
        let block = d.block(height, 1, &txs.iter().collect::<Vec<_>>());
        reward = out(&block.txs[0], 0);
        made += block.txs.len() as u64;
        d.store.apply_block(block).unwrap();
        d.clean();
        let status = d.store.status().unwrap();
        let (records, bytes) = (status.records, status.bytes);
        readings.push(Reading { height, made, records, bytes });
    }
    readings
}

/// `+` is what ever came in, `#` what is there.
fn plot(readings: &[Reading]) -> String {
    const ROWS: u64 = 12;
    const COLUMNS: usize = 60;
    let Some(last) = readings.last() else { return String::new() };
    let at = |column: usize| &readings[(column + 1) * readings.len() / COLUMNS - 1];
    let mut lines = String::new();
    for row in (0..ROWS).rev() {
        let over = |count: u64| count * ROWS > last.made * row;
        let mark = |reading: &Reading| match (over(reading.records), over(reading.made)) {
            (true, _) => '#',
            (false, true) => '+',
            (false, false) => ' ',
        };
        let line: String = (0..COLUMNS).map(|column| mark(at(column))).collect();
        lines += &format!("{:>8} |{}\n", last.made * (row + 1) / ROWS, line.trim_end());
    }
    let (from, to) = (readings[0].height, last.height);
    lines += &format!("         +{}\n", "-".repeat(COLUMNS));
    lines + &format!("          block {from} to {to}; {} records at the end", last.records)
}

#[test]
fn storage_stays_bounded_in_a_long_run() {
    let asked = std::env::var("UNSPENT_TXSTORE_BLOCKS").ok();
    let blocks: u64 = asked.and_then(|text| text.parse().ok()).unwrap_or(250).max(60);
    on_both_with(windows(WINDOW), |d| {
        let readings = live(&d, blocks);
        eprintln!("{:?}\n{}", d.store.backend(), plot(&readings));
        // The live coins with the last reward, those finished within the window, and no more.
        let limit = COINS as u64 + 1 + (PER_BLOCK as u64 + 1) * WINDOW;
        assert_eq!(readings.iter().map(|reading| reading.records).max(), Some(limit));
        // The servers of the tests never vacuum; there only the rows are bounded.
        if d.store.backend() == Backend::Sqlite {
            let early = readings[readings.len() / 2].bytes;
            let most = readings.iter().map(|reading| reading.bytes).max().unwrap_or_default();
            assert!(most <= 2 * early, "{early} bytes grew to {most}");
        }
    });
}
