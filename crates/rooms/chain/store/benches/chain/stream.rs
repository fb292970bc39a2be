//! Blocks of modern Bitcoin shape, made once from a fixed seed and kept in a file.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Write},
    path::PathBuf,
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, bounded};
use unspent_chain::{PreparedBlock, prepare as prepare_block};
use unspent_model::Network;
use unspent_networks::decode_block;
use unspent_sim::shape::{ModernChain, Shape};

pub const NETWORK: Network = Network::BitcoinRegtest;
pub const SEED: u64 = 7;
/// Names the coins to start with.
pub const COINS: &str = "UNSPENT_BENCH_COINS";
/// Decoded blocks that may wait for the applying thread.
const AHEAD: usize = 16;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

pub fn start_coins() -> usize {
    setting(COINS, 5_000_000)
}

/// Names the blocks that are measured.
pub const BLOCKS: &str = "UNSPENT_BENCH_BLOCKS";

/// Blocks of the mixture that are measured.
pub fn measured() -> usize {
    setting(BLOCKS, 576)
}

fn path() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_TMPDIR").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    std::fs::create_dir_all(&folder).expect("a folder for benchmark data");
    folder.join(format!("modern-{SEED}-{}-{}.blocks", start_coins(), measured()))
}

/// Makes the file if it isn't there; says what it holds.
pub fn prepare() -> String {
    let path = path();
    if !path.exists() {
        eprintln!("making blocks (once) ...");
        let half_made = path.with_extension("part");
        write(&half_made);
        std::fs::rename(&half_made, &path).expect("rename");
    }
    let numbers = header();
    let number = |at: usize| numbers[at];
    let (blocks, per) = (number(1), |at: usize| number(at) / number(1));
    format!(
        "{} coins to start, then {blocks} blocks of {} transactions, {} inputs \
         ({} % of the same block), {} outputs",
        start_coins(),
        per(2),
        per(3),
        100 * number(5) / number(3),
        per(4)
    )
}

fn write(path: &PathBuf) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    file.write_all(&[0; 48]).expect("space for the header");
    let coins = u32::try_from(start_coins()).expect("fewer than 2^32 coins");
    let shape = Shape { start_coins: coins, ..Shape::default() };
    let (mut before, mut modern) = (0_u64, [0_u64; 5]);
    for block in ModernChain::new(SEED, shape) {
        let stats = block.stats;
        if stats.is_modern() {
            if modern[0] == measured() as u64 {
                break;
            }
            let same = u64::from(stats.same_block_spends());
            let [tx, inputs, outputs] =
                [stats.transactions, stats.inputs, stats.outputs].map(u64::from);
            let sums = [1, tx, inputs, outputs, same];
            modern.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
        } else {
            before += 1;
        }
        let length = u32::try_from(block.bytes.len()).expect("a block under 4 GB");
        file.write_all(&length.to_le_bytes()).expect("written");
        file.write_all(&block.bytes).expect("written");
    }
    let mut file = file.into_inner().expect("flushed");
    let header = [before, modern[0], modern[1], modern[2], modern[3], modern[4]];
    std::io::Seek::rewind(&mut file).expect("rewound");
    file.write_all(&header.map(u64::to_le_bytes).concat()).expect("header written");
}

/// What the file says of itself: blocks before the measured ones, those, and their transactions, inputs,
/// outputs and inputs of the same block.
fn header() -> [u64; 6] {
    let mut header = [0; 48];
    File::open(path()).expect("blocks").read_exact(&mut header).expect("a header");
    std::array::from_fn(|at| u64::from_le_bytes(header[at * 8..at * 8 + 8].try_into().unwrap()))
}

/// Blocks that only make the coins to start with.
pub fn before() -> usize {
    header()[0] as usize
}

/// Inputs and outputs of the measured blocks.
pub fn changes() -> u64 {
    header()[3] + header()[4]
}

/// Raw blocks, in order.
pub fn raw() -> impl Iterator<Item = Vec<u8>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path()).expect("blocks"));
    file.read_exact(&mut [0; 48]).expect("a header");
    std::iter::from_fn(move || {
        let mut length = [0; 4];
        file.read_exact(&mut length).ok()?;
        let mut block = vec![0; u32::from_le_bytes(length) as usize];
        file.read_exact(&mut block).expect("a whole block");
        Some(block)
    })
}

/// Blocks decoded and prepared on a thread of their own.
pub fn decoded() -> (Receiver<PreparedBlock>, JoinHandle<()>) {
    let (send, receive) = bounded(AHEAD);
    let decoder = thread::spawn(move || {
        for (height, block) in raw().enumerate() {
            let block = decode_block(NETWORK, &block, Some(height as u64)).expect("a valid block");
            if send.send(prepare_block(block)).is_err() {
                return;
            }
        }
    });
    (receive, decoder)
}
