//! Real chains against oracles computed by others. Skipped, and said so, where the data is absent.

use std::collections::HashMap;

use serde_json::Value;
use unspent_chain::{CoinState, Options, Owner, PageOrder, Reader, RollbackTarget, prepare};
use unspent_model::{
    BlockHash, Network, Outpoint, TxId,
    chain::{Block, GenesisCoin, Output},
};
use unspent_networks::{
    bitcoin::framing::split_frames,
    cardano::{framing::split_cbor_items, genesis::genesis_coins},
    decode_block,
};
use unspent_testkit::data;

use crate::{
    driver::{Store, all_pages, bytes},
    trees::{Naive, mmr},
};

const PREVIEW: Network = Network::CardanoPreview;

/// The preview run in feed order, and its oracle.
struct Preview {
    genesis: Vec<GenesisCoin>,
    blocks: Vec<Block<Output>>,
    expected: Value,
}

fn preview() -> Option<Preview> {
    let genesis = data::bytes("cardano/genesis/preview-byron-genesis.json")?;
    let genesis = genesis_coins(PREVIEW, &[&genesis]).unwrap();
    let files = [
        "00000.chunk",
        "block-04330.cbor",
        "block-08645.cbor",
        "block-13065.cbor",
        "chunks-00150-00199.zst",
        "chunks-00200-00249.zst",
        "chunks-00250-00299.zst",
    ];
    let mut blocks = Vec::new();
    for file in files {
        let bytes = data::bytes(&format!("cardano/preview/{file}"))?;
        for item in split_cbor_items(&bytes) {
            blocks.push(decode_block(PREVIEW, item.unwrap(), None).unwrap());
        }
    }
    assert_eq!(blocks.len(), 27_179);
    let expected = data::bytes("cardano/preview/expected.json")?;
    Some(Preview { genesis, blocks, expected: serde_json::from_slice(&expected).unwrap() })
}

fn open(network: Network, options: Options, genesis: &[GenesisCoin]) -> Store {
    let mut store = Store::new(network, options, genesis);
    store.index().allow_holes();
    store
}

fn check_digest(reader: &Reader, checkpoint: &Value, value_name: &str) {
    let digest = reader.digest().unwrap();
    assert_eq!(digest.coins, checkpoint["utxos"].as_u64().unwrap());
    assert_eq!(digest.value, u128::from(checkpoint[value_name].as_u64().unwrap()));
    assert_eq!(hex::encode(digest.sha256), checkpoint["sha256"].as_str().unwrap());
    if let Some(assets) = checkpoint["asset_entries"].as_u64() {
        assert_eq!(digest.asset_entries, assets);
    }
    let at = digest.at.unwrap();
    let shown = reader.network().show_hash(&at.hash.0);
    assert_eq!(shown, checkpoint["block_hash"].as_str().unwrap());
}

/// Applies everything, stopping at each checkpoint to compare.
fn run_preview(preview: &Preview, self_contained: bool, bulk: bool) -> Store {
    let options = Options { self_contained, ..Options::for_network(PREVIEW) };
    let mut store = open(PREVIEW, options, &preview.genesis);
    let checkpoints = preview.expected["checkpoints"].as_object().unwrap();
    let mut from = 0;
    let mut heights: Vec<u64> = checkpoints.keys().map(|height| height.parse().unwrap()).collect();
    heights.sort_unstable();
    for height in heights {
        let to = preview.blocks.partition_point(|block| block.header.point.height <= height);
        feed(&mut store, &preview.blocks[from..to], preview.blocks.len() - from, bulk);
        from = to;
        check_digest(&store.reader(), &checkpoints[&height.to_string()], "lovelace");
    }
    feed(&mut store, &preview.blocks[from..], preview.blocks.len() - from, bulk);
    store
}

fn feed(store: &mut Store, blocks: &[Block<Output>], coming: usize, bulk: bool) {
    if bulk {
        store.bulk(blocks, coming as u64);
    } else {
        store.apply_all(blocks);
    }
}

/// The oracle lists coins by (slot, hash, index), as the format was first drawn; we list them in chain
/// order, where the position in the block comes before the hash.
fn check_order(reader: &Reader, owner: Owner, address: &Value) {
    let listed = all_pages(reader, owner, PageOrder::Ascending, 500);
    let place = |outpoint: &Outpoint| match reader.coin(outpoint).unwrap() {
        CoinState::Unspent(record) => (record.born.slot, record.born.tx_position, *outpoint),
        other => panic!("{other:?}"),
    };
    let mut places: Vec<_> = listed.iter().map(place).collect();
    assert!(places.is_sorted());
    places.sort_unstable_by_key(|(slot, _, outpoint)| (*slot, *outpoint));
    let shown = |(_, _, o): &(u64, u32, Outpoint)| format!("{}#{}", hex::encode(o.tx.0), o.index);
    let first = address["first_in_index_order"].as_array().unwrap();
    for (coin, expected) in places.iter().zip(first) {
        assert_eq!(shown(coin), expected.as_str().unwrap());
    }
    assert_eq!(places.last().map(shown).as_deref(), address["last_in_index_order"].as_str());
}

fn check_tip(store: &Store, expected: &Value) {
    let reader = store.reader();
    let status = reader.status().unwrap();
    assert_eq!(status.cursor.coins, 32_662);
    assert_eq!(status.cursor.missing_inputs, 0);
    assert_eq!(reader.digest().unwrap().at.unwrap().height, 59_314);
    for address in expected["addresses_at_tip"].as_array().unwrap() {
        let raw = hex::decode(address["address_hex"].as_str().unwrap()).unwrap();
        let owner = Owner::address(store.network.family(), &raw);
        let balance = reader.balance(owner).unwrap();
        assert_eq!(balance.coins, address["utxo_count"].as_u64().unwrap());
        assert_eq!(balance.value, u128::from(address["lovelace"].as_u64().unwrap()));
        check_order(&reader, owner, address);
    }
    for credential in expected["top_payment_credentials_at_tip"].as_array().unwrap() {
        let hash = hex::decode(credential["credential"].as_str().unwrap()).unwrap();
        let owner = Owner::Credential(hash.try_into().unwrap());
        let coins = reader.balance(owner).unwrap().coins;
        assert_eq!(coins, credential["utxo_count"].as_u64().unwrap());
    }
    let report = reader.verify(&mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Undoes the whole window and applies it again, ending with the same bytes.
fn roll_and_reapply(store: &mut Store, preview: &Preview) {
    let before = bytes(&store.reader());
    let blocks = &preview.blocks;
    let kept = blocks.len() - usize::try_from(store.options.rollback_window).unwrap();
    let point = blocks[kept - 1].header.point;
    let target = RollbackTarget::Point { height: point.height, hash: point.hash };
    let done = store.index().rollback(target).unwrap();
    assert_eq!(done.blocks, store.options.rollback_window);
    store.apply_all(&blocks[kept..]);
    if store.options.self_contained {
        assert_eq!(bytes(&store.reader())["utxo_unspent"], before["utxo_unspent"]);
        assert_eq!(bytes(&store.reader())["utxo_addr"], before["utxo_addr"]);
    } else {
        assert_eq!(bytes(&store.reader()), before);
    }
}

#[test]
fn preview_in_bulk_equals_the_oracle_at_every_checkpoint_with_compact_deltas() {
    let Some(preview) = preview() else { return };
    let mut store = run_preview(&preview, false, true);
    check_tip(&store, &preview.expected);
    check_invalid(&preview);
    roll_and_reapply(&mut store, &preview);
    check_tip(&store, &preview.expected);
}

#[test]
fn preview_in_bulk_equals_the_oracle_with_self_contained_deltas() {
    let Some(preview) = preview() else { return };
    let mut store = run_preview(&preview, true, true);
    check_tip(&store, &preview.expected);
    roll_and_reapply(&mut store, &preview);
    check_tip(&store, &preview.expected);
}

#[test]
fn preview_block_by_block_equals_the_oracle_and_the_bytes_of_bulk_in_both_delta_modes() {
    let Some(preview) = preview() else { return };
    for self_contained in [false, true] {
        let slow = run_preview(&preview, self_contained, false);
        check_tip(&slow, &preview.expected);
        let fast = run_preview(&preview, self_contained, true);
        assert_eq!(bytes(&slow.reader()), bytes(&fast.reader()));
    }
}

/// Blocks between two comparisons with the naive trees, unless `UNSPENT_ROOTS_EVERY` says otherwise: a
/// rebuild hashes tens of thousands of nodes, so that comparing all 27,179 blocks takes minutes.
const COMPARED_EVERY: usize = 250;

/// Blocks that one call takes in.
const FED_AT_ONCE: usize = 250;

#[test]
fn preview_in_the_mmr_store_has_the_roots_of_a_naive_rebuild() {
    let Some(preview) = preview() else { return };
    let mut store = open(PREVIEW, mmr(Options::for_network(PREVIEW)), &preview.genesis);
    let mut naive = Naive::with_genesis(&preview.genesis);
    let mut roots = Vec::new();
    let mut compared = 0;
    let every = std::env::var("UNSPENT_ROOTS_EVERY").ok().and_then(|n| n.parse().ok());
    let every = every.unwrap_or(COMPARED_EVERY);
    let mut left = preview.blocks.len();
    for blocks in preview.blocks.chunks(FED_AT_ONCE) {
        // To ask for every root, the tip must look near: far from it only the last root of a call is made.
        let coming = if every < FED_AT_ONCE { blocks.len() } else { left };
        feed(&mut store, blocks, coming, true);
        left -= blocks.len();
        let reader = store.reader();
        let moment = reader.snapshot();
        for (n, block) in (1..).zip(blocks) {
            naive.apply(block);
            if n % every != 0 && n != blocks.len() {
                continue;
            }
            let point = block.header.point;
            let expected = naive.root(PREVIEW, Some(point));
            let stored = moment.root(Some(point.height)).unwrap();
            assert_eq!((stored.point, stored.root), (Some(point), expected));
            compared += 1;
            if n == blocks.len() {
                roots.push((point, expected));
            }
        }
    }
    println!("roots of {compared} blocks are those of a rebuild from all outputs");
    check_tip(&store, &preview.expected);
    let reader = store.reader();
    let moment = reader.snapshot();
    let kept = roots.len() - 4_320 / FED_AT_ONCE;
    for (point, expected) in &roots[kept..] {
        let found = moment.root(Some(point.height)).unwrap();
        assert_eq!((found.point, found.root), (Some(*point), *expected));
    }
    let coins = naive.unspent().step_by(97);
    let coins: Vec<Outpoint> = coins.collect();
    for coins in coins.chunks(10) {
        let proven = moment.prove(coins, None).unwrap();
        let said = proven.proof.check(&roots.last().unwrap().1).unwrap();
        assert_eq!(said, vec![unspent_verify::Verdict::Unspent; coins.len()]);
    }
    let (point, expected) = roots[kept];
    let target = RollbackTarget::Point { height: point.height, hash: point.hash };
    store.index().rollback(target).unwrap();
    assert_eq!(store.reader().snapshot().root(None).unwrap().root, expected);
    let report = store.reader().verify(&mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Each failed transaction took its collateral and returned change behind its outputs.
fn check_invalid(preview: &Preview) {
    let by_height: HashMap<u64, &Block<Output>> =
        preview.blocks.iter().map(|block| (block.header.point.height, block)).collect();
    for invalid in preview.expected["invalid_transactions"].as_array().unwrap() {
        let block = by_height[&invalid["height"].as_u64().unwrap()];
        let tx = &block.txs[usize::try_from(invalid["tx_index"].as_u64().unwrap()).unwrap()];
        assert!(tx.is_invalid);
        assert_eq!(hex::encode(tx.id.0), invalid["tx"].as_str().unwrap());
        let (index, coin) = &tx.creates[0];
        assert_eq!(u64::from(*index), invalid["return_index"].as_u64().unwrap());
        assert_eq!(coin.value, invalid["return_lovelace"].as_u64().unwrap());
        assert!(coin.is_collateral_return);
    }
}

fn framed(network: Network, bytes: &[u8], first_height: u64) -> Vec<Block<Output>> {
    let frames = split_frames(network, bytes).unwrap();
    let decoded = frames.enumerate().map(|(i, raw)| {
        decode_block(network, raw.unwrap(), Some(first_height + i as u64)).unwrap()
    });
    decoded.collect()
}

#[test]
fn bitcoin_0_to_4312_equals_the_oracle_in_every_mode() {
    let Some(raw) = data::bytes("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    let Some(expected) = data::bytes("bitcoin/expected-00000-04312.json") else { return };
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let blocks = framed(Network::Bitcoin, &raw, 0);
    assert_eq!(blocks.len(), 4_313);
    let checkpoints = expected["checkpoints"].as_object().unwrap();
    for (self_contained, bulk) in [(false, true), (true, true), (false, false), (true, false)] {
        let options = Options { self_contained, ..Options::for_network(Network::Bitcoin) };
        let mut store = Store::new(Network::Bitcoin, options, &[]);
        let mut from = 0;
        let mut heights: Vec<usize> = checkpoints.keys().map(|h| h.parse().unwrap()).collect();
        heights.sort_unstable();
        for height in heights {
            feed(&mut store, &blocks[from..=height], blocks.len() - from, bulk);
            from = height + 1;
            check_digest(&store.reader(), &checkpoints[&height.to_string()], "sats");
        }
        feed(&mut store, &blocks[from..], blocks.len() - from, bulk);
        // What a full node says of height 4312.
        let digest = store.reader().digest().unwrap();
        assert_eq!((digest.coins, digest.value), (4_149, 215_600 * 100_000_000));
        assert_eq!(store.reader().status().unwrap().cursor.missing_inputs, 0);
        store.index().rollback(RollbackTarget::Height(4_312 - 288)).unwrap();
        store.apply_all(&blocks[4_312 - 287..]);
        assert_eq!(store.reader().digest().unwrap(), digest);
        assert!(store.reader().verify(&mut |_| {}).unwrap().is_clean());
    }
}

/// Blocks from the middle of mainnet spend exactly the outputs that a node's undo data lists: we put
/// those outputs there first and look whether each is found, with its amount, and no other is missing.
#[test]
fn blocks_367891_and_866342_spend_exactly_the_outputs_listed() {
    for (height, inputs) in [(367_891, 20_817), (866_342, 7_972)] {
        let name = format!("bitcoin/mainnet-{height}");
        let Some(raw) = data::bytes(&format!("{name}.blk.zst")) else { return };
        let Some(listed) = data::bytes(&format!("{name}.spent_utxos.json.zst")) else { return };
        let listed: Vec<Value> = serde_json::from_slice(&listed).unwrap();
        let mut block = decode_block(Network::Bitcoin, &raw, Some(height)).unwrap();
        let spends: Vec<Outpoint> =
            block.txs.iter().flat_map(|tx| tx.spends.iter().copied()).collect();
        assert_eq!((spends.len(), listed.len()), (inputs, inputs));
        let born: HashMap<Outpoint, &Output> = block
            .txs
            .iter()
            .flat_map(|tx| tx.creates.iter().map(|(i, coin)| (Outpoint::new(tx.id, *i), coin)))
            .collect();
        let mut before: HashMap<TxId, Vec<(u32, Output)>> = HashMap::new();
        for (outpoint, entry) in spends.iter().zip(&listed) {
            let coin = Output {
                addr: hex::decode(entry["txout"]["script_pubkey"].as_str().unwrap()).unwrap(),
                value: entry["txout"]["value"].as_u64().unwrap(),
                is_coinbase: entry["is_coinbase"].as_bool().unwrap(),
                ..Output::default()
            };
            match born.get(outpoint) {
                Some(created) => assert_eq!(**created, coin, "same-block spend"),
                None => before.entry(outpoint.tx).or_default().push((outpoint.index, coin)),
            }
        }
        let mut store = Store::new(Network::Bitcoin, Options::for_network(Network::Bitcoin), &[]);
        let mut earlier = block.clone();
        earlier.header.point.height = height - 1;
        earlier.header.point.slot = height - 1;
        earlier.header.point.hash = BlockHash([1; 32]);
        earlier.txs = before
            .into_iter()
            .map(|(id, mut creates)| {
                creates.sort_by_key(|(index, _)| *index);
                unspent_model::chain::Tx {
                    id,
                    spends: vec![],
                    creates,
                    is_invalid: false,
                    is_coinbase: false,
                }
            })
            .collect();
        block.header.parent = earlier.header.point.hash;
        store.index().allow_holes();
        store.apply(&earlier);
        let counts = store.apply(&block).counts();
        assert_eq!((counts.spent, counts.missing), (inputs, 0));
        for (outpoint, entry) in spends.iter().zip(&listed) {
            let CoinState::Spent(spent) = store.reader().coin(outpoint).unwrap() else {
                panic!("{outpoint:?} is not spent")
            };
            assert_eq!(spent.record.output.value, entry["txout"]["value"].as_u64().unwrap());
        }
        store.index().rollback(RollbackTarget::Height(height - 1)).unwrap();
        let left = store.reader().digest().unwrap().coins;
        assert_eq!(left as usize, inputs - counts.same_block);
    }
}

fn hex_blocks(network: Network, blocks: &Value, first_height: u64) -> Vec<Block<Output>> {
    let raw = blocks.as_array().unwrap().iter();
    let raw = raw.map(|block| hex::decode(block.as_str().unwrap()).unwrap());
    raw.enumerate()
        .map(|(i, raw)| decode_block(network, &raw, Some(first_height + i as u64)).unwrap())
        .collect()
}

#[test]
fn the_longer_regtest_branch_replaces_the_blocks_above_the_fork() {
    let Some(raw) = data::bytes("bitcoin/reorg-floresta.json") else { return };
    let sets: Value = serde_json::from_slice(&raw).unwrap();
    let network = Network::BitcoinRegtest;
    let (short, long) = (hex_blocks(network, &sets[0], 1), hex_blocks(network, &sets[1], 6));
    assert_eq!(long[0].header.parent, short[4].header.point.hash, "they part after the fifth");
    let mut store = open(network, Options::for_network(network), &[]);
    store.apply_all(&short);
    store.index().rollback(RollbackTarget::Height(5)).unwrap();
    store.apply_all(&long);
    assert_eq!(store.index().tip().unwrap().height, 16);
    let mut straight = open(network, Options::for_network(network), &[]);
    straight.apply_all(&short[..5]);
    straight.apply_all(&long);
    assert_eq!(bytes(&store.reader()), bytes(&straight.reader()));
}

#[test]
fn the_armory_fork_ends_like_its_own_branch() {
    let network = Network::Bitcoin;
    let Some(base) = data::bytes("bitcoin/armory-reorg-blk_0_to_4.blk") else { return };
    let base = framed(network, &base, 0);
    let mut fork = Vec::new();
    for (name, height) in [("3A", 3), ("4A", 4), ("5A", 5)] {
        let Some(raw) = data::bytes(&format!("bitcoin/armory-reorg-blk_{name}.blk")) else {
            return;
        };
        fork.extend(framed(network, &raw, height));
    }
    let mut store = Store::new(network, Options::for_network(network), &[]);
    store.apply_all(&base);
    store.index().rollback(RollbackTarget::Height(2)).unwrap();
    store.apply_all(&fork);
    assert_eq!(store.index().tip().unwrap().height, 5);
    let mut straight = Store::new(network, Options::for_network(network), &[]);
    straight.apply_all(&base[..3]);
    straight.apply_all(&fork);
    assert_eq!(bytes(&store.reader()), bytes(&straight.reader()));
    assert_eq!(store.reader().status().unwrap().cursor.missing_inputs, 0);
}

#[test]
fn a_preprod_run_from_the_middle_applies_and_counts_what_it_misses() {
    let Some(raw) = data::bytes("cardano/preprod/01836.chunk.zst") else { return };
    let network = Network::CardanoPreprod;
    let mut store = open(network, Options::for_network(network), &[]);
    let mut bulk = store.index().bulk(913);
    let mut same_block = 0;
    for item in split_cbor_items(&raw) {
        let block = decode_block(network, item.unwrap(), None).unwrap();
        same_block += bulk.apply(prepare(block)).unwrap().counts().same_block;
    }
    bulk.finish().unwrap();
    assert_eq!(same_block, 24);
    let status = store.reader().status().unwrap();
    assert_eq!(status.cursor.missing_inputs, 10_741);
    assert_eq!(status.holes[0].resumes_at, 1_405_105);
    assert!(store.reader().verify(&mut |_| {}).unwrap().is_clean());
}
