//! Storage stays bounded in a long run: what is there is what is live, and the last window.
//!
//! `UNSPENT_TXSTORE_BLOCKS` sets how long; the course is printed, for plotting.

use std::collections::VecDeque;

use unspent_model::Outpoint;
use unspent_sql::Backend;
use unspent_txstore::NewTx;

use crate::desk::*;

const WINDOW: u64 = 5;
/// Coins that are in circulation at any time.
const COINS: usize = 60;
const PER_BLOCK: usize = 12;

#[test]
fn storage_stays_bounded_in_a_long_run() {
    let asked = std::env::var("UNSPENT_TXSTORE_BLOCKS").ok();
    let blocks: u64 = asked.and_then(|text| text.parse().ok()).unwrap_or(250);
    on_both_with(windows(WINDOW), |d| {
        let first: Vec<NewTx> = (0..COINS).map(|_| d.fresh(1)).collect();
        d.apply(100, 1, &first.iter().collect::<Vec<_>>());
        let mut coins: VecDeque<Outpoint> = first.iter().map(|new| out(new, 0)).collect();
        let (mut bytes, mut most) = (Vec::new(), 0);
        for height in 101..101 + blocks {
            let spent: Vec<Outpoint> = coins.drain(..PER_BLOCK).collect();
            let made: Vec<NewTx> = spent.iter().map(|coin| tx(&[*coin], 1)).collect();
            coins.extend(made.iter().map(|new| out(new, 0)));
            d.apply(height, 1, &made.iter().collect::<Vec<_>>());
            d.clean();
            let status = d.store.status().unwrap();
            // A coinbase of each block is never spent here.
            let others = status.records as usize - (height - 100 + 1) as usize;
            most = most.max(others);
            bytes.push(status.bytes);
            if height % 50 == 0 {
                eprintln!("{height} {} records {} bytes", status.records, status.bytes);
            }
        }
        // The live coins, those finished within the window, and no more.
        let limit = COINS + PER_BLOCK * WINDOW as usize;
        assert_eq!(most, limit);
        // The servers of the tests never vacuum; there only the rows are bounded.
        if d.store.backend() == Backend::Sqlite {
            let (early, late) = (bytes[bytes.len() / 2], bytes[bytes.len() - 1]);
            let coinbases = blocks / 2 * 600;
            assert!(late <= early + coinbases, "{early} bytes grew to {late}");
        }
    });
}
