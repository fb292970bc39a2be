//! Real blocks: their same-block spends, and the live set that is left after cleaning.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{Block, consensus::deserialize, hashes::Hash as _};
use unspent_model::{BlockHash, Network, Outpoint, TxId, txstore::is_unspendable};
use unspent_sql::Options;
use unspent_testkit::data;
use unspent_txstore::{CreateTerms, NewBlock, NewTx, Settings, TxStore};

use crate::desk::*;

fn block_of(height: u64, block: &Block) -> NewBlock {
    let hash = BlockHash(block.block_hash().to_byte_array());
    NewBlock::new(height, hash, block, &[])
}

fn mainnet(d: &Desk, blocks: u64) -> TxStore {
    let settings = Settings { windows: windows(blocks) };
    // The same database server or folder, another store.
    let url = match &d.url {
        unspent_sql::Url::Sqlite(path) => unspent_sql::Url::Sqlite(path.with_extension("mainnet")),
        unspent_sql::Url::Postgres(_) => {
            unspent_testkit::wallet::postgres::database().unwrap().parse().unwrap()
        }
    };
    TxStore::open(&url, Network::Bitcoin, settings, Options::default()).unwrap()
}

/// Inputs of a block: those whose parents are in it, and the others.
fn inputs(block: &NewBlock) -> (usize, Vec<Outpoint>) {
    let inside: BTreeSet<TxId> = block.txs.iter().map(|new| new.txid).collect();
    let all = block.txs.iter().flat_map(|new| new.inputs.iter().copied());
    let (within, outside): (Vec<_>, Vec<_>) = all.partition(|coin| inside.contains(&coin.tx));
    (within.len(), outside)
}

/// Adds empty blocks until everything that can go is gone.
fn grow(store: &TxStore, blocks: u64) {
    for _ in 0..blocks {
        let tip = store.tip().unwrap().unwrap();
        let point = unspent_model::Point {
            height: tip.height + 1,
            slot: tip.height + 1,
            hash: block_hash(tip.height + 1, 1),
        };
        let txs = Vec::new();
        store.apply_block(NewBlock { point, parent: Some(tip.hash), txs }).unwrap();
    }
}

/// Records of a block that have a coin left.
fn live(block: &NewBlock) -> BTreeSet<TxId> {
    let spent: BTreeSet<Outpoint> =
        block.txs.iter().flat_map(|new| new.inputs.iter().copied()).collect();
    let is_live = |new: &&NewTx| {
        let outputs = new.spendable.iter().zip(0..);
        outputs.into_iter().any(|(can, vout)| *can && !spent.contains(&out(new, vout)))
    };
    block.txs.iter().filter(is_live).map(|new| new.txid).collect()
}

fn stored(store: &TxStore, block: &NewBlock) -> BTreeSet<TxId> {
    let names = block.txs.iter().map(|new| new.txid).collect();
    store.records(names).unwrap().into_iter().flatten().map(|record| record.txid).collect()
}

fn same_block_spends(file: &str, height: u64, txs: usize, within: usize, has_parents: bool) {
    let Some(bytes) = data::bytes(file) else { return };
    let block = block_of(height, &deserialize(&bytes).unwrap());
    assert_eq!(block.txs.len(), txs);
    let (inside, outside) = inputs(&block);
    assert_eq!(inside, within);
    on_both(|d| {
        let store = mainnet(&d, 10);
        let parents = if has_parents { parents_of(&outside) } else { Vec::new() };
        let terms = CreateTerms::mined(at(height - 100));
        store.create(parents.clone(), terms).unwrap();
        let applied = store.apply_block(block.clone()).unwrap();
        let absent = if has_parents { 0 } else { outside.len() };
        assert_eq!((applied.created, applied.spent_in_block), (txs, within));
        assert_eq!((applied.absent, applied.spent), (absent, within + outside.len() - absent));
        grow(&store, 9);
        assert_eq!(store.clean(Default::default()).unwrap().deleted, 0);
        grow(&store, 1);
        let live = live(&block);
        let report = store.clean(Default::default()).unwrap();
        assert_eq!(report.deleted, txs - live.len() + parents.len());
        assert_eq!(stored(&store, &block), live);
        assert_eq!(store.status().unwrap().records as usize, live.len());
    });
}

/// Parents under their real names, with just the outputs that are spent.
fn parents_of(coins: &[Outpoint]) -> Vec<NewTx> {
    let mut wanted: BTreeMap<TxId, BTreeSet<u32>> = BTreeMap::new();
    for coin in coins {
        wanted.entry(coin.tx).or_default().insert(coin.index);
    }
    let made = wanted.into_iter().zip(0..).map(|((txid, outputs), salt)| {
        let most = outputs.last().copied().unwrap_or_default();
        let outputs: Vec<bool> = (0..=most).map(|vout| outputs.contains(&vout)).collect();
        let made = raw(&[foreign(salt)], &outputs, salt);
        NewTx::with_txid(&made, txid)
    });
    made.collect()
}

#[test]
fn block_866342_with_its_parents_and_4036_same_block_spends() {
    let file = "bitcoin/mainnet-866342.blk.zst";
    let Some(spent) = data::bytes("bitcoin/mainnet-866342.spent_utxos.json.zst") else { return };
    let spent: serde_json::Value = serde_json::from_slice(&spent).unwrap();
    let block: Block = deserialize(&data::bytes(file).unwrap()).unwrap();
    let (within, outside) = inputs(&block_of(866_342, &block));
    let listed = spent.as_array().unwrap().len();
    assert!(listed == outside.len() || listed == outside.len() + within, "{listed}");
    same_block_spends(file, 866_342, 4_864, 4_036, true);
}

#[test]
fn block_866342_without_its_parents() {
    same_block_spends("bitcoin/mainnet-866342.blk.zst", 866_342, 4_864, 4_036, false);
}

#[test]
fn block_702861_has_327_same_block_spends() {
    same_block_spends("bitcoin/mainnet-702861.blk.zst", 702_861, 2_500, 327, false);
}

/// The blocks of a framed file.
fn framed(mut bytes: &[u8]) -> Vec<Block> {
    let mut found = Vec::new();
    while let Some((frame, rest)) = bytes.split_first_chunk::<8>() {
        let length = u32::from_le_bytes(frame[4..].try_into().unwrap()) as usize;
        found.push(deserialize(&rest[..length]).unwrap());
        bytes = &rest[length..];
    }
    found
}

#[test]
fn mainnet_0_to_4312_ends_with_exactly_the_live_set() {
    let Some(bytes) = data::bytes("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    let blocks = framed(&bytes);
    assert_eq!(blocks.len(), 4_313);
    const WINDOW: u64 = 20;
    // The set of coins, and when the last coin of a transaction went.
    let mut coins: BTreeMap<TxId, BTreeSet<u32>> = BTreeMap::new();
    let mut finished: BTreeMap<TxId, u64> = BTreeMap::new();
    for (block, height) in blocks.iter().zip(0_u64..) {
        for tx in &block.txdata {
            for coin in NewTx::from_tx(tx).inputs {
                let left = coins.get_mut(&coin.tx).unwrap();
                assert!(left.remove(&coin.index));
                if left.is_empty() {
                    coins.remove(&coin.tx);
                    finished.insert(coin.tx, height);
                }
            }
            let outputs = tx.output.iter().zip(0..);
            let can = outputs.filter(|(o, _)| !is_unspendable(o.script_pubkey.as_bytes()));
            let txid = TxId(tx.compute_txid().to_byte_array());
            if height > 0 {
                coins.insert(txid, can.map(|(_, vout)| vout).collect());
            }
        }
    }
    let mut wanted: BTreeSet<TxId> = coins.into_keys().collect();
    wanted.extend(finished.iter().filter(|(_, at)| **at + WINDOW > 4_312).map(|(txid, _)| *txid));
    on_both(|d| {
        let store = mainnet(&d, WINDOW);
        let mut absent = 0;
        for (piece, start) in blocks.chunks(100).zip((0_u64..).step_by(100)) {
            let piece = piece.iter().zip(start..).map(|(block, height)| block_of(height, block));
            absent += store
                .apply_blocks(piece.collect())
                .unwrap()
                .iter()
                .map(|a| a.absent)
                .sum::<usize>();
            store.clean(Default::default()).unwrap();
        }
        assert_eq!(absent, 0);
        let all = blocks.iter().flat_map(|block| &block.txdata);
        let all: Vec<TxId> = all.map(|tx| TxId(tx.compute_txid().to_byte_array())).collect();
        let found = store.records(all).unwrap().into_iter().flatten();
        let found: BTreeSet<TxId> = found.map(|record| record.txid).collect();
        assert_eq!(found, wanted);
        assert_eq!(store.status().unwrap().records as usize, wanted.len());
    });
}
