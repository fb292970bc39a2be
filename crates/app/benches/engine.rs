//! How long a block takes from the node to each room, and what the engine costs in catching up.
//!
//! Two questions, each with a fixed seed:
//! 1. From the moment the simulated network has a block, how long until each room has it on disk?
//! 2. How fast does the whole engine catch up with blocks of modern Bitcoin's shape, against the
//!    chain room alone, fed by a thread that reads and decodes ahead as well? All in one run, so
//!    that the ratios mean something.
//!
//! `UNSPENT_BENCH_TIMED`, `UNSPENT_BENCH_BLOCKS` and `UNSPENT_BENCH_COINS` change how much is done.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs
)]

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bitcoin::hashes::Hash as _;
use crossbeam_channel::bounded;
use unspent_chain::{ChainIndex, Options, prepare};
use unspent_chain_room::ChainRoom;
use unspent_engine::{Config, Engine, RoomName};
use unspent_model::{BlockHash, Micros, Network, Point};
use unspent_networks::decode_block;
use unspent_sim::shape::{ModernChain, Shape};
use unspent_source::{Node, Origin, RawBlock, Source, SourceError, Step, sim::SimNetwork};
use unspent_wallet::{NewAccount, NewWallet, WalletId};
use unspent_wallet_room::WalletRoom;

const SEED: u64 = 1;
const NETWORK: Network = Network::BitcoinRegtest;
/// Random payments in each timed block.
const PAYMENTS: u32 = 40;
/// Transactions in each block of the mixture.
const TRANSACTIONS: u32 = 1_000;
const RUNS: usize = 3;
/// Decoded blocks that may wait for the chain room alone.
const AHEAD: usize = 16;
/// A well-known test key; nothing of worth is on it.
const DESCRIPTOR: &str = "wpkh(tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp/<0;1>/*)";

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn config(folder: &Path, origin: Arc<dyn Origin>) -> Config {
    let config = Config::new(folder.to_owned(), origin);
    let config = config.with(ChainRoom::new(folder, NETWORK)).with(WalletRoom::new(folder));
    let mut config = config;
    // Nothing but following.
    let never = Duration::from_secs(86_400);
    config.room::<ChainRoom>().unwrap().prune_every = never;
    config.room::<WalletRoom>().unwrap().mempool_every = never;
    config.measure_every = never;
    config
}

/// The wallet that follows; made before the engine starts, so that its room has work at once.
fn wallet(folder: &Path) -> WalletId {
    let url = unspent_sql::Url::Sqlite(folder.join("wallet.db"));
    let options = unspent_sql::Options::default();
    let room = unspent_wallet::WalletStore::open(&url, NETWORK, options).unwrap();
    let account = NewAccount { name: "main".into(), receive: DESCRIPTOR.into(), change: None };
    let accounts = vec![account];
    let new = NewWallet { name: "bench".into(), accounts, birthday: 0, gap_limit: 20 };
    room.create_wallet(&new, Micros(1)).unwrap()
}

/// Waits until a room stands at a block.
fn wait(engine: &Engine, tip: &str, room: RoomName) {
    loop {
        let status = engine.status();
        let found = status.rooms.iter().find(|status| status.room == room).unwrap();
        if found.tip.as_ref().is_some_and(|at| at.block_hash == tip) {
            return;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn shown(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{name}: p50 {:.2} ms, p99 {:.2} ms, worst {:.2} ms over {} blocks",
        millis(at(0.5)),
        millis(at(0.99)),
        millis(at(1.0)),
        times.len()
    );
}

fn node_to_rooms() {
    let folder = tempfile::tempdir().unwrap();
    let network = SimNetwork::in_memory(SEED);
    network.mine(120).unwrap();
    network.mine_busy(20, PAYMENTS).unwrap();
    let ours = wallet(folder.path());
    let engine = Engine::start(config(folder.path(), Arc::new(network.clone()))).unwrap();
    let script = unspent_wallet_room::wallets(&engine)
        .unwrap()
        .addresses(ours, 0, 1)
        .unwrap()
        .remove(0)
        .script;
    let tip = || network.look(|sim| sim.tip()).to_string();
    for room in [unspent_chain_room::NAME, unspent_wallet_room::NAME] {
        wait(&engine, &tip(), room);
    }
    let (mut chain, mut wallet) = (Vec::new(), Vec::new());
    for _ in 0..setting("UNSPENT_BENCH_TIMED", 300) {
        network.pay(&script, 10_000, 300).unwrap();
        network.mine_busy(1, PAYMENTS).unwrap();
        // The clock starts when the node has the block.
        let (mined, tip) = (Instant::now(), tip());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                wait(&engine, &tip, unspent_wallet_room::NAME);
                mined.elapsed()
            });
            wait(&engine, &tip, unspent_chain_room::NAME);
            chain.push(mined.elapsed());
            wallet.push(waits.join().unwrap());
        });
    }
    println!("From the node's block to the room's commit ({PAYMENTS} payments per block):");
    shown("  chain ", chain);
    shown("  wallet", wallet);
}

/// Blocks in memory, as a source that costs next to nothing.
#[derive(Clone)]
struct Blocks {
    blocks: Arc<Vec<RawBlock>>,
    places: Arc<HashMap<Point, usize>>,
}

impl Blocks {
    fn make() -> Self {
        let shape = Shape {
            start_coins: setting("UNSPENT_BENCH_COINS", 300_000) as u32,
            transactions: TRANSACTIONS,
        };
        let mut left = setting("UNSPENT_BENCH_BLOCKS", 300);
        let mut blocks: Vec<RawBlock> = Vec::new();
        for block in ModernChain::new(SEED, shape) {
            let height = u64::from(block.height);
            let hash = BlockHash(block.hash.to_byte_array());
            let parent = blocks.last().map(|last| last.point.hash);
            let point = Point { height, slot: height, hash };
            blocks.push(RawBlock::new(point, parent, block.bytes));
            left -= usize::from(block.stats.is_modern());
            if left == 0 {
                break;
            }
        }
        let places = blocks.iter().enumerate().map(|(at, block)| (block.point, at)).collect();
        Self { blocks: Arc::new(blocks), places: Arc::new(places) }
    }

    fn tip(&self) -> String {
        NETWORK.show_hash(&self.blocks.last().unwrap().point.hash.0)
    }
}

impl Origin for Blocks {
    fn network(&self) -> Network {
        NETWORK
    }

    fn name(&self) -> String {
        "blocks in memory".into()
    }

    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(Reader { origin: self.clone(), next: 0 }))
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        None
    }
}

struct Reader {
    origin: Blocks,
    next: usize,
}

impl Source for Reader {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        let place = |point: &Point| self.origin.places.get(point).copied();
        let found = points.iter().find_map(|point| Some((*point, place(point)?)));
        self.next = found.map_or(0, |(_, at)| at + 1);
        Ok(found.map(|(point, _)| point))
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let Some(block) = self.origin.blocks.get(self.next).cloned() else {
            std::thread::sleep(patience);
            return Ok(Step::Nothing);
        };
        self.next += 1;
        Ok(Step::Forward(block))
    }

    fn tip(&self) -> Option<Point> {
        self.origin.blocks.last().map(|block| block.point)
    }
}

/// The chain room alone, fed by a thread that decodes ahead.
fn chain_alone(blocks: &Blocks) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::for_network(NETWORK);
    let started = Instant::now();
    let (mut index, _) = ChainIndex::open(folder.path(), NETWORK, options, &[]).unwrap();
    let list = blocks.blocks.clone();
    std::thread::scope(|scope| {
        let (to, from) = bounded(AHEAD);
        let coming = list.len() as u64;
        scope.spawn(move || {
            for raw in list.iter() {
                let block = decode_block(NETWORK, &raw.bytes, Some(raw.point.height)).unwrap();
                to.send(prepare(block)).unwrap();
            }
        });
        let mut bulk = index.bulk(coming);
        for block in from {
            bulk.apply(block).unwrap();
        }
        bulk.finish().unwrap();
    });
    started.elapsed()
}

fn whole_engine(blocks: &Blocks, with_wallet: bool) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), Arc::new(blocks.clone()));
    if with_wallet {
        wallet(folder.path());
    } else {
        config.without(unspent_wallet_room::NAME);
    }
    let started = Instant::now();
    let engine = Engine::start(config).unwrap();
    wait(&engine, &blocks.tip(), unspent_chain_room::NAME);
    if with_wallet {
        wait(&engine, &blocks.tip(), unspent_wallet_room::NAME);
    }
    let took = started.elapsed();
    engine.shutdown();
    took
}

fn catching_up() {
    let blocks = Blocks::make();
    let count = blocks.blocks.len() as f64;
    let bytes: usize = blocks.blocks.iter().map(|block| block.bytes.len()).sum();
    let median = |run: &dyn Fn() -> Duration| {
        let mut times: Vec<Duration> = (0..RUNS).map(|_| run()).collect();
        times.sort_unstable();
        times[RUNS / 2].as_secs_f64()
    };
    let alone = median(&|| chain_alone(&blocks));
    let chain_only = median(&|| whole_engine(&blocks, false));
    let both = median(&|| whole_engine(&blocks, true));
    println!("Catching up with {count} blocks, {} MiB, median of {RUNS}:", bytes >> 20);
    println!("  chain room alone:          {:.1} blocks/s", count / alone);
    for (name, time) in [("chain room only: ", chain_only), ("chain and wallet:", both)] {
        let speed = count / time;
        println!("  engine, {name}  {speed:.1} blocks/s, {:.2} of the speed", alone / time);
    }
}

fn main() {
    node_to_rooms();
    catching_up();
}
