//! Proofs: how many a second, how large, and what the trees take on disk.

use std::time::Instant;

use unspent_chain::{ChainIndex, Options, StoreKind, prepare};
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Block, Era, Header, Output, Tx, Work},
};
use unspent_testkit::crash::Rng;
use unspent_verify::{Proof, tree::needed};

use crate::measure::{Clock, Figures};

const NETWORK: Network = Network::BitcoinRegtest;
/// Outputs of one block.
const WIDTH: u64 = 1_000;
/// Proofs made and checked.
const PROOFS: usize = 2_000;
/// Outputs that a main network may have had.
const MANY: u64 = 300_000_000;
/// Live bits in one leaf of the second tree.
const CHUNK: u64 = 1_024;

fn id(n: u64) -> TxId {
    TxId(unspent_verify::hash::chunk(n, &[0; 128]))
}

/// Each block makes a thousand coins and spends three quarters of those made ten blocks before.
fn block(height: u64) -> Block<Output> {
    let coin = |vout: u64| {
        let script = [&[0x00, 0x14][..], &id(height * WIDTH + vout).0[..20]].concat();
        (vout as u32, Output { addr: script, value: 1 + vout, ..Output::default() })
    };
    let older = height.checked_sub(10).into_iter();
    let spends = older.flat_map(|older| {
        (0..WIDTH).filter(|n| n % 4 != 0).map(move |n| Outpoint::new(id(older), n as u32))
    });
    let tx = Tx {
        id: id(height),
        spends: spends.collect(),
        creates: (0..WIDTH).map(coin).collect(),
        is_invalid: false,
        is_coinbase: false,
    };
    let hash = |height: u64| BlockHash(id(u64::MAX - height).0);
    let header = Header {
        point: Point { height, slot: height, hash: hash(height) },
        parent: height.checked_sub(1).map_or(BlockHash([0; 32]), hash),
        era: Era::Bitcoin,
        is_boundary: false,
        epoch: None,
        time: 1_700_000_000 + height,
        work: Work::default(),
    };
    Block { header, txs: vec![tx] }
}

/// Hashes that a proof of one output needs in both trees, on average.
fn nodes(leaves: u64, rng: &mut Rng) -> f64 {
    let one = |rng: &mut Rng| {
        let leaf = rng.below(leaves);
        needed(leaves, &[leaf]).len() + needed(leaves.div_ceil(CHUNK), &[leaf / CHUNK]).len()
    };
    (0..PROOFS).map(|_| one(rng)).sum::<usize>() as f64 / PROOFS as f64
}

pub fn measure(leaves: u64) -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { store: StoreKind::Mmr, ..Options::for_network(NETWORK) };
    let (mut index, _) = ChainIndex::open(folder.path(), NETWORK, options, &[]).expect("opened");
    let clock = Clock::start();
    let blocks = leaves / WIDTH;
    let mut bulk = index.bulk(blocks);
    for height in 0..blocks {
        bulk.apply(prepare(block(height))).expect("applied");
    }
    bulk.finish().expect("finished");
    let figures = clock.stop(blocks as usize, 0);
    index.compact().expect("compacted");
    let mut rng = Rng::new(7);
    let reader = index.reader();
    let coin = |rng: &mut Rng| {
        let height = rng.below(blocks);
        Outpoint::new(id(height), (rng.below(WIDTH / 4) * 4) as u32)
    };
    let coins: Vec<Outpoint> = (0..PROOFS).map(|_| coin(&mut rng)).collect();
    let root = reader.snapshot().root(None).expect("a root").root;
    let started = Instant::now();
    let prove = |coins: &[Outpoint]| reader.snapshot().prove(coins, None).expect("a proof");
    let proofs: Vec<Vec<u8>> = coins.iter().map(|coin| prove(&[*coin]).proof.to_bytes()).collect();
    let made = PROOFS as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    for bytes in &proofs {
        Proof::from_bytes(bytes).expect("a proof").check(&root).expect("a true one");
    }
    let checked = PROOFS as f64 / started.elapsed().as_secs_f64();
    let bytes = proofs.iter().map(Vec::len).sum::<usize>() as f64 / PROOFS as f64;
    let hundred = prove(&coins[..100]).proof.to_bytes().len();
    let rest = bytes - 32.0 * nodes(leaves, &mut rng);
    let many = rest + 32.0 * nodes(MANY, &mut rng);
    let status = reader.status().expect("status");
    let trees = status.sizes.iter().find(|(name, _)| *name == "utxo_mmr_nodes");
    let per_coin = trees.map_or(0, |(_, bytes)| *bytes) as f64 / status.cursor.coins as f64;
    figures
        .with("proofs made a second, one thread", format!("{made:.0}"))
        .with("proofs checked a second, one thread", format!("{checked:.0}"))
        .with("bytes of a proof of one coin", format!("{bytes:.0}"))
        .with("bytes of a proof of 100 coins", hundred.to_string())
        .with("bytes at 300 million outputs, by the number of nodes", format!("{many:.0}"))
        .with("coins", status.cursor.coins.to_string())
        .with("bytes of trees on disk per coin", format!("{per_coin:.1}"))
}
