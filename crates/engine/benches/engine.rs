//! How long a block takes from the node to each room, and what the engine costs in catching up.
//!
//! Two questions, each on the simulated network with a fixed seed:
//! 1. From the moment a block is mined, how long until each room has it on disk?
//! 2. How fast does the whole engine catch up, against the chain room alone on the same blocks,
//!    read and decoded ahead in the same way? Both in one run, so that the ratio means something.
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
    sync::Arc,
    time::{Duration, Instant},
};

use bitcoin::consensus::encode;
use crossbeam_channel::bounded;
use unspent_chain::{ChainIndex, Options, prepare};
use unspent_engine::{Config, Engine, RoomName, source::sim::SimNetwork};
use unspent_model::Network;
use unspent_networks::decode_block;
use unspent_wallet::{NewAccount, NewWallet};

const SEED: u64 = 1;
const NETWORK: Network = Network::BitcoinRegtest;
/// Blocks whose way is timed.
const TIMED: usize = 300;
/// Blocks and payments per block to catch up with.
const BLOCKS: u32 = 3_000;
const PAYMENTS: u32 = 60;
const RUNS: usize = 3;
/// A well-known test key; nothing of worth is on it.
const DESCRIPTOR: &str = "wpkh(tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp/<0;1>/*)";

fn config(folder: &std::path::Path, network: &SimNetwork) -> Config {
    let mut config = Config::new(folder.to_owned(), Arc::new(network.clone()));
    // Nothing but following.
    let never = Duration::from_secs(86_400);
    config.jobs.prune_every = never;
    config.jobs.mempool_every = never;
    config.jobs.measure_every = never;
    config
}

fn start(folder: &std::path::Path, network: &SimNetwork) -> Engine {
    let engine = Engine::start(config(folder, network)).unwrap();
    let account = NewAccount { name: "main".into(), receive: DESCRIPTOR.into(), change: None };
    let new =
        NewWallet { name: "bench".into(), accounts: vec![account], birthday: 0, gap_limit: 20 };
    engine.wallets().unwrap().create_wallet(&new, 1).unwrap();
    engine.wake();
    engine
}

/// Waits until a room stands at the network's tip.
fn wait(engine: &Engine, network: &SimNetwork, room: RoomName) {
    let tip = network.look(|sim| sim.tip()).to_string();
    loop {
        let status = engine.status();
        let found = status.rooms.iter().find(|status| status.room == room).unwrap();
        if found.tip.as_ref().is_some_and(|at| at.hash == tip) {
            return;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn shown(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    println!(
        "{name}: p50 {:.2} ms, p99 {:.2} ms, worst {:.2} ms over {} blocks",
        at(0.5).as_secs_f64() * 1e3,
        at(0.99).as_secs_f64() * 1e3,
        at(1.0).as_secs_f64() * 1e3,
        times.len()
    );
}

fn node_to_rooms() {
    let folder = tempfile::tempdir().unwrap();
    let network = SimNetwork::in_memory(SEED);
    network.mine(120).unwrap();
    network.mine_busy(20, PAYMENTS).unwrap();
    let engine = start(folder.path(), &network);
    let script = engine.wallets().unwrap().addresses(
        engine.wallets().unwrap().wallet("bench").unwrap(),
        0,
        1,
    );
    let script = script.unwrap().remove(0).script;
    for room in [RoomName::Chain, RoomName::Wallet] {
        wait(&engine, &network, room);
    }
    let (mut chain, mut wallet) = (Vec::new(), Vec::new());
    for _ in 0..TIMED {
        network.pay(&script, 10_000, 300).unwrap();
        network.mine_busy(1, PAYMENTS).unwrap();
        // The clock starts when the node has the block.
        let mined = Instant::now();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                wait(&engine, &network, RoomName::Wallet);
                mined.elapsed()
            });
            wait(&engine, &network, RoomName::Chain);
            chain.push(mined.elapsed());
            wallet.push(waits.join().unwrap());
        });
    }
    println!("From the node's block to the room's commit ({PAYMENTS} payments per block):");
    shown("  chain ", chain);
    shown("  wallet", wallet);
}

/// The chain room alone, fed by a thread that reads and decodes ahead.
fn chain_alone(network: &SimNetwork) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::for_network(NETWORK);
    let (mut index, _) = ChainIndex::open(folder.path(), NETWORK, options, &[]).unwrap();
    let started = Instant::now();
    let height = u32::try_from(network.height()).unwrap();
    std::thread::scope(|scope| {
        let (to, from) = bounded(256);
        scope.spawn(move || {
            for height in 0..=height {
                let raw =
                    network.look(|sim| encode::serialize(&sim.block_at(height).unwrap().block));
                let block = decode_block(NETWORK, &raw, Some(height.into())).unwrap();
                to.send(prepare(block)).unwrap();
            }
        });
        let mut bulk = index.bulk(u64::from(height) + 1);
        for block in from {
            bulk.apply(block).unwrap();
        }
        bulk.finish().unwrap();
    });
    started.elapsed()
}

fn whole_engine(network: &SimNetwork, with_wallet: bool) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let engine = if with_wallet {
        start(folder.path(), network)
    } else {
        let mut config = config(folder.path(), network);
        config.wallet = None;
        Engine::start(config).unwrap()
    };
    wait(&engine, network, RoomName::Chain);
    if with_wallet {
        wait(&engine, network, RoomName::Wallet);
    }
    let took = started.elapsed();
    engine.shutdown();
    took
}

fn catching_up() {
    let network = SimNetwork::in_memory(SEED);
    network.mine(120).unwrap();
    network.mine_busy(BLOCKS, PAYMENTS).unwrap();
    let blocks = network.height() as f64 + 1.0;
    let median = |run: &dyn Fn() -> Duration| {
        let mut times: Vec<Duration> = (0..RUNS).map(|_| run()).collect();
        times.sort_unstable();
        times[RUNS / 2].as_secs_f64()
    };
    let alone = median(&|| chain_alone(&network));
    let chain_only = median(&|| whole_engine(&network, false));
    let both = median(&|| whole_engine(&network, true));
    println!("Catching up over {blocks} blocks ({PAYMENTS} payments each), median of {RUNS}:");
    println!("  chain room alone:          {:.0} blocks/s", blocks / alone);
    println!(
        "  engine, chain room only:   {:.0} blocks/s, {:.2} x",
        blocks / chain_only,
        alone / chain_only
    );
    println!("  engine, chain and wallet:  {:.0} blocks/s, {:.2} x", blocks / both, alone / both);
}

fn main() {
    node_to_rooms();
    catching_up();
}
