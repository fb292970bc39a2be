//! The Bitcoin-shaped chain: far from the tip, inside the window, at the tip, and back.

use std::{path::Path, time::Instant};

use unspent_chain::{ChainIndex, Options, Owner, PageOrder, RollbackTarget, StoreKind};
use unspent_model::{Family, chain::Block};

use crate::{
    curve,
    floor::Floor,
    measure::{Clock, Figures, percentile},
    stream,
};

/// Blocks applied one by one at the end, and then undone.
const NEAR_TIP: usize = 100;
/// The same on the curve: a merge of files falls into some hundred blocks or doesn't, and decides
/// what a short run shows.
const NEAR_TIP_OF_CURVE: usize = 300;

pub fn decode() -> Figures {
    let (before, mut clock, mut changes) = (stream::before(), Clock::start(), 0);
    let (blocks, decoder) = stream::decoded();
    for (n, block) in blocks.iter().enumerate() {
        if n == before {
            clock = Clock::start();
        }
        changes += if n >= before { block.coin_changes() } else { 0 };
    }
    decoder.join().expect("decoder");
    clock.stop(stream::measured(), changes)
}

pub fn floor(lists: bool) -> Figures {
    let before = stream::before();
    let mut floor = Floor::new(lists);
    let (blocks, decoder) = stream::decoded();
    let (mut clock, mut changes) = (Clock::start(), 0);
    for (n, block) in blocks.iter().enumerate() {
        if n == before {
            clock = Clock::start();
        }
        changes += if n >= before { block.coin_changes() } else { 0 };
        floor.apply(block);
    }
    decoder.join().expect("decoder");
    clock.stop(stream::measured(), changes).with("coins", floor.coins().to_string())
}

fn open(folder: &Path, store: StoreKind) -> ChainIndex {
    let options = Options { store, ..Options::for_network(stream::NETWORK) };
    ChainIndex::open(folder, stream::NETWORK, options, &[]).expect("opened").0
}

/// The coins to start with, then the measured blocks in bulk; `coming` as the source would say.
fn run(
    index: &mut ChainIndex,
    coming: u64,
    keep: usize,
) -> (Figures, Vec<Block<unspent_chain::SharedCoin>>) {
    let measured = stream::measured().checked_sub(keep);
    let (before, measured) = (stream::before(), measured.expect("more than 100 blocks to measure"));
    let (blocks, decoder) = stream::decoded();
    let mut bulk = index.bulk(u64::MAX / 2);
    for block in blocks.iter().take(before) {
        bulk.apply(block).expect("applied");
    }
    bulk.finish().expect("finished");
    index.settle().expect("settled");
    let (clock, mut changes) = (Clock::start(), 0);
    let mut bulk = index.bulk(coming);
    for block in blocks.iter().take(measured) {
        changes += block.coin_changes();
        bulk.apply(block).expect("applied");
    }
    bulk.finish().expect("finished");
    let wall = clock.stop(measured, changes).wall_s;
    index.settle().expect("settled");
    let figures = clock.stop(measured, changes);
    let drained = figures.wall_s;
    let figures = Figures { wall_s: wall, ..figures }
        .with("blocks/s with compactions drained", format!("{:.1}", measured as f64 / drained));
    let rest = blocks.iter().collect();
    decoder.join().expect("decoder");
    (figures, rest)
}

/// Far from the tip: no undo data yet.
pub fn index(store: StoreKind) -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let mut index = open(folder.path(), store);
    run(&mut index, u64::MAX / 2, 0).0
}

/// Inside the window: undo data is kept. Then block by block, pages, and back.
pub fn window(store: StoreKind) -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let mut index = open(folder.path(), store);
    let (mut figures, rest) = run(&mut index, 0, NEAR_TIP);
    figures = sizes(figures, &index);
    figures = near_tip(figures, &mut index, rest);
    figures = pages(figures, &index);
    let tip = index.tip().expect("a tip").height;
    let started = Instant::now();
    index.rollback(RollbackTarget::Height(tip - NEAR_TIP as u64)).expect("rolled back");
    figures.with(
        "rollback of 100 blocks (and compaction)",
        format!("{:.1} s", started.elapsed().as_secs_f64()),
    )
}

/// Far from the tip, then block by block, into a folder that stays.
pub fn grow(folder: &Path, store: StoreKind) -> Figures {
    let mut index = open(folder, store);
    let keep = NEAR_TIP_OF_CURVE.min(stream::measured() / 2);
    let (mut figures, rest) = run(&mut index, u64::MAX / 2, keep);
    figures = sizes(figures, &index);
    figures = near_tip(figures, &mut index, rest);
    index.settle().expect("settled");
    let peak = Clock::start().stop(0, 0).extras.remove("peak memory").unwrap_or_default();
    let bytes = format!("{} MB", curve::bytes_of(folder) >> 20);
    figures.with("the folder takes", bytes).with("peak memory, near the tip too", peak)
}

fn near_tip(
    figures: Figures,
    index: &mut ChainIndex,
    rest: Vec<Block<unspent_chain::SharedCoin>>,
) -> Figures {
    let mut times: Vec<f64> = Vec::new();
    let clock = Clock::start();
    for block in rest {
        let started = Instant::now();
        index.apply(block).expect("applied");
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    let near = clock.stop(times.len(), 0);
    let (p50, p99) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
    let cpu = format!("{:.1} ms", 1_000.0 * near.cpu_s / near.blocks);
    figures
        .with("near the tip: p50 / p99 per block", format!("{p50:.1} / {p99:.1} ms"))
        .with("near the tip: CPU per block", cpu)
}

fn sizes(figures: Figures, index: &ChainIndex) -> Figures {
    let status = index.reader().status().expect("status");
    let of =
        |name: &str| status.sizes.iter().filter(|(n, _)| *n == name).map(|(_, b)| b).sum::<u64>();
    let coins = status.cursor.coins;
    let per_coin =
        (of("utxo_unspent") + of("utxo_addr") + of("utxo_mmr_nodes")) as f64 / coins as f64;
    figures
        .with("coins", coins.to_string())
        .with("bytes on disk per coin, list included", format!("{per_coin:.1}"))
}

/// Pages of 100 on the busiest address, first, middle and last.
fn pages(figures: Figures, index: &ChainIndex) -> Figures {
    let script = unspent_sim::shape::ModernChain::new(
        7,
        unspent_sim::shape::Shape { start_coins: 1, transactions: 1 },
    );
    let owner = Owner::address(Family::Bitcoin, script.hot_script(0).as_bytes());
    let reader = index.reader();
    let (mut after, mut times, mut coins) = (None, Vec::new(), 0);
    loop {
        let started = Instant::now();
        let page = reader.page(owner, PageOrder::Ascending, 100, after.as_ref()).expect("a page");
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
        coins += page.coins.len();
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let (p50, p99) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
    figures.with(
        "page of 100 on the busiest script",
        format!("{p50:.2} / {p99:.2} ms p50 / p99 over {coins} coins"),
    )
}
