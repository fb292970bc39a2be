//! The curve: the same mixture of blocks onto sets of several sizes, and what reading them costs then.
//!
//! `make bench SIZE=large` runs it. Sizes are 5, 20 and 60 million coins, or those in
//! `UNSPENT_BENCH_SIZES`; the folders lie in cargo's folder for temporary files, or in
//! `UNSPENT_BENCH_DIR`, and go when their size is done. Blocks are made once for each size and stay.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use unspent_chain::{CoinState, Options, Owner, PageOrder, Reader, StoreKind};
use unspent_model::{Family, Outpoint};
use unspent_sim::shape::{ModernChain, Shape};

use crate::{
    bitcoin,
    measure::{self, Clock, Figures, percentile},
    stream,
};

const SIZES: [usize; 3] = [5_000_000, 20_000_000, 60_000_000];
/// Measured blocks of each size: two weeks in bulk, and two days near the tip. A flush comes every
/// hundred blocks and a merge every few flushes, so fewer would show the accident of one more merge.
const BLOCKS: &str = "2316";
/// Larger sets don't fit in memory as maps.
const LARGEST_FLOOR: usize = 6_000_000;
/// Coins that are looked up, and whose owners are asked for.
const SAMPLES: usize = 20_000;
/// Where a size's folder lies, for its phases.
const FOLDER: &str = "UNSPENT_BENCH_FOLDER";

fn sizes() -> Vec<usize> {
    let Ok(given) = std::env::var("UNSPENT_BENCH_SIZES") else { return SIZES.to_vec() };
    given.split(',').map(|size| size.trim().parse().expect("a number of coins")).collect()
}

/// Measures every size, each phase in a process of its own.
pub fn run_all() {
    println!("# chain room, by the size of the set\n");
    let place = std::env::var_os("UNSPENT_BENCH_DIR").map(PathBuf::from);
    let place = place.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let blocks = std::env::var(stream::BLOCKS).unwrap_or(BLOCKS.to_owned());
    for size in sizes() {
        let folder = tempfile::tempdir_in(&place).expect("a folder");
        let coins = size.to_string();
        let settings = [
            (stream::COINS, coins.as_str()),
            (stream::BLOCKS, blocks.as_str()),
            (FOLDER, folder.path().to_str().expect("a path that is text")),
        ];
        let phase = |name: &str| measure::child_with(name, &settings);
        phase("curve-prepare");
        let floor = (size <= LARGEST_FLOOR).then(|| phase("curve-floor"));
        let bulk = phase("curve-bulk");
        println!("\n## {size} coins to start\n");
        if let Some(floor) = &floor {
            floor.show("floor: coins and ordered lists", None);
        }
        bulk.show("index, bulk, far from the tip", floor.as_ref().map(|floor| (floor, "floor")));
        bulk.show_extras();
        for (name, what) in [
            ("curve-reads", "reading"),
            ("curve-verify", "verify"),
            ("curve-digest", "digest"),
            ("curve-muhash", "muhash"),
        ] {
            println!("{what}");
            phase(name).show_extras();
        }
    }
}

pub fn run_phase(phase: &str) -> Option<Figures> {
    let figures = match phase {
        "curve-prepare" => prepare(),
        "curve-floor" => bitcoin::floor(true),
        "curve-bulk" => bitcoin::grow(&folder(), StoreKind::Classic),
        "curve-reads" => reads(),
        "curve-verify" => whole("entries", |reader, progress| {
            let report = reader.verify(progress).expect("a report");
            assert!(report.is_clean(), "{:?}", report.findings);
        }),
        "curve-digest" => whole("coins", |reader, progress| {
            reader.digest_watched(progress).expect("a digest");
        }),
        "curve-muhash" => whole("coins", |reader, progress| {
            reader.muhash(progress).expect("a muhash");
        }),
        _ => return None,
    };
    Some(figures)
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the parent names a folder"))
}

fn prepare() -> Figures {
    let clock = Clock::start();
    stream::prepare();
    clock.stop(0, 0)
}

fn open() -> Reader {
    let cache = Options::for_network(stream::NETWORK).block_cache;
    Reader::open(&folder(), cache).expect("opened")
}

/// Something that reads the whole set.
fn whole(what: &str, read: impl FnOnce(&Reader, &mut dyn FnMut(u64))) -> Figures {
    let reader = open();
    let (clock, mut count) = (Clock::start(), 0);
    read(&reader, &mut |more| count += more);
    let figures = clock.stop(0, 0);
    let coins = reader.status().expect("status").cursor.coins as f64;
    let (wall, cpu) = (figures.wall_s, figures.cpu_s);
    let rate = format!("{wall:.1} s, {cpu:.1} s CPU, {count} {what}");
    figures.with("took", rate).with("coins a second of CPU", format!("{:.0}", coins / cpu))
}

/// Coins from everywhere in the chain, and their owners, in an order that no file has.
fn samples() -> Vec<(Outpoint, Owner)> {
    let (blocks, decoder) = stream::decoded();
    let mut all = Vec::new();
    // Prime, so that no rhythm of the blocks shows.
    let step = (stream::start_coins() / SAMPLES).max(1) | 1;
    let mut count = 0_usize;
    for block in blocks {
        for tx in block.txs {
            for (index, coin) in tx.creates {
                count += 1;
                if count.is_multiple_of(step) {
                    let outpoint = Outpoint::new(tx.id, index);
                    all.extend(coin.list_keys(&outpoint).map(|key| (outpoint, key.owner)));
                }
            }
        }
    }
    decoder.join().expect("decoder");
    let mut state = 7_u64;
    for at in (1..all.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        all.swap(at, (state >> 33) as usize % (at + 1));
    }
    all
}

fn reads() -> Figures {
    let samples = samples();
    let reader = open();
    let clock = Clock::start();
    let mut lines = Figures::default();
    for (round, name) in [(1, "first"), (2, "again")] {
        let (mut unspent, mut coins) = (0, 0);
        let lookup = each(&samples, |(outpoint, _)| {
            let found = reader.coin(outpoint).expect("an answer");
            unspent += usize::from(matches!(found, CoinState::Unspent(_)));
        });
        let page = each(&samples, |(_, owner)| {
            coins +=
                reader.page(*owner, PageOrder::Ascending, 100, None).expect("a page").coins.len();
        });
        // Owners with many coins are asked for in `busiest`: adding those up takes a while.
        let few = samples.iter().filter(|(_, owner)| {
            let page = reader.page(*owner, PageOrder::Ascending, 100, None).expect("a page");
            page.next.is_none()
        });
        let few: Vec<_> = few.copied().collect();
        let balance = each(&few, |(_, owner)| {
            reader.balance(*owner).expect("a balance");
        });
        assert!(round == 1 || unspent > 0, "no sampled coin is there");
        lines = lines
            .with(&format!("look-up, {name}"), format!("{lookup} ({unspent} unspent)"))
            .with(&format!("page of 100, {name}"), format!("{page} ({coins} coins)"))
            .with(&format!("balance of up to 100 coins, {name}"), balance);
    }
    let done = clock.stop(0, 0);
    let peak = done.extras.get("peak memory").cloned().unwrap_or_default();
    busiest(lines, &reader).with("peak memory", peak)
}

fn busiest(lines: Figures, reader: &Reader) -> Figures {
    let chain = ModernChain::new(stream::SEED, Shape { start_coins: 1, transactions: 1 });
    let owner = Owner::address(Family::Bitcoin, chain.hot_script(0).as_bytes());
    let page = each(&[owner; 100], |owner| {
        reader.page(*owner, PageOrder::Ascending, 100, None).expect("a page");
    });
    let started = Instant::now();
    let balance = reader.balance(owner).expect("a balance");
    let took = started.elapsed().as_secs_f64() * 1_000.0;
    lines
        .with("busiest script, page of 100", page)
        .with("busiest script, balance", format!("{took:.1} ms over {} coins", balance.coins))
}

/// Times `ask` on each; p50 and p99.
fn each<T>(all: &[T], mut ask: impl FnMut(&T)) -> String {
    let mut times: Vec<f64> = Vec::with_capacity(all.len());
    for one in all {
        let started = Instant::now();
        ask(one);
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    let (p50, p99) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
    format!("p50 {p50:.3}, p99 {p99:.3} ms")
}

/// Bytes of a folder's files.
pub fn bytes_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let size = |entry: std::fs::DirEntry| match entry.metadata().expect("metadata") {
        data if data.is_dir() => bytes_of(&entry.path()),
        data => data.len(),
    };
    entries.map(|entry| size(entry.expect("an entry"))).sum()
}
