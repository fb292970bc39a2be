//! Real Bitcoin blocks of every kind at hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;

use serde_json::Value;
use unspent_model::{
    BlockHash, Network, Outpoint, TxId,
    chain::{Block, Era, Output, Work},
};
use unspent_networks::{DecodeError, bitcoin::framing, bitcoin_header, decode_block, genesis_hash};
use unspent_testkit::data;

fn mainnet(raw: &[u8], height: Option<u64>) -> Block<Output> {
    decode_block(Network::Bitcoin, raw, height).unwrap()
}

fn json(name: &str) -> Option<Value> {
    Some(serde_json::from_slice(&data::bytes(name)?).unwrap())
}

fn created(block: &Block<Output>) -> HashSet<Outpoint> {
    let txs = block.txs.iter();
    txs.flat_map(|tx| tx.creates.iter().map(|(i, _)| Outpoint::new(tx.id, *i))).collect()
}

fn spent(block: &Block<Output>) -> Vec<Outpoint> {
    block.txs.iter().flat_map(|tx| tx.spends.clone()).collect()
}

type Moves = (TxId, Vec<Outpoint>, Vec<(u32, Vec<u8>, u64)>);

/// What a list of transactions gave and took, computed by rust-bitcoin from the same bytes.
fn by_the_library(raw: &[u8]) -> Vec<Moves> {
    use bitcoin::hashes::Hash;
    let block: bitcoin::Block = bitcoin::consensus::deserialize(raw).unwrap();
    let txs = block.txdata.into_iter().map(|tx| {
        let id = TxId(tx.compute_txid().to_byte_array());
        let inputs = tx.input.iter().filter(|_| !tx.is_coinbase()).map(|i| i.previous_output);
        let inputs = inputs.map(|o| Outpoint::new(TxId(o.txid.to_byte_array()), o.vout)).collect();
        let outputs = (0..).zip(&tx.output).filter(|(_, o)| !o.script_pubkey.is_op_return());
        let outputs = outputs.map(|(i, o)| (i, o.script_pubkey.to_bytes(), o.value.to_sat()));
        (id, inputs, outputs.collect())
    });
    txs.collect()
}

fn assert_as_the_library(block: &Block<Output>, raw: &[u8]) {
    let theirs = by_the_library(raw);
    assert_eq!(block.txs.len(), theirs.len());
    for (i, (ours, (id, inputs, outputs))) in block.txs.iter().zip(theirs).enumerate() {
        assert_eq!(ours.id, id);
        assert_eq!(ours.spends, inputs);
        assert_eq!(ours.is_coinbase, i == 0);
        assert!(!ours.is_invalid);
        let got = ours.creates.iter().map(|(i, o)| (*i, o.addr.clone(), o.value));
        assert_eq!(got.collect::<Vec<_>>(), outputs);
        for (_, output) in &ours.creates {
            assert_eq!(output.is_coinbase, ours.is_coinbase);
            assert_eq!((output.payment_credential, output.stake_credential), (None, None));
        }
    }
}

#[test]
fn large_blocks_spend_exactly_the_outputs_listed() {
    let known = [(367_891, 420, 20_817, None), (866_342, 4_864, 7_972, Some(4_036))];
    for (height, txs, inputs, same_block) in known {
        let name = format!("bitcoin/mainnet-{height}.blk.zst");
        let Some(raw) = data::bytes(&name) else { return };
        let list = json(&format!("bitcoin/mainnet-{height}.spent_utxos.json.zst")).unwrap();
        let block = mainnet(&raw, None);
        assert_eq!(block.header.point.height, height, "from the coinbase");
        assert_eq!(block, mainnet(&raw, Some(height)));
        assert_as_the_library(&block, &raw);
        assert_eq!((block.txs.len(), spent(&block).len()), (txs, inputs));
        assert_eq!(list.as_array().unwrap().len(), inputs);
        let created = created(&block);
        let inside = spent(&block).iter().filter(|spend| created.contains(spend)).count();
        assert!(same_block.is_none_or(|expected| expected == inside), "{inside}");
    }
}

#[test]
fn blocks_of_every_age_decode_as_the_library_does() {
    let known = [
        ("mainnet-227835.blk", 227_835, 122),
        ("mainnet-227836.blk", 227_836, 100),
        ("mainnet-413567.blk.zst", 413_567, 1_557),
        ("mainnet-481829.blk.zst", 481_829, 2_020),
        ("mainnet-702861.blk.zst", 702_861, 2_500),
    ];
    for (name, height, txs) in known {
        let Some(raw) = data::bytes(&format!("bitcoin/{name}")) else { return };
        let block = mainnet(&raw, Some(height));
        assert_as_the_library(&block, &raw);
        assert_eq!(block.txs.len(), txs, "{name}");
        assert_eq!((block.header.point.height, block.header.point.slot), (height, height));
        assert_eq!((block.header.era, block.header.epoch), (Era::Bitcoin, None));
    }
}

#[test]
fn the_coinbase_names_the_height_from_the_block_that_made_it_a_rule() {
    let Some(before) = data::bytes("bitcoin/mainnet-227835.blk") else { return };
    let Some(after) = data::bytes("bitcoin/mainnet-227836.blk") else { return };
    assert_eq!(
        decode_block(Network::Bitcoin, &before, None),
        Err(DecodeError::HeightUnknown),
        "version 1 promises nothing"
    );
    assert_eq!(mainnet(&after, None).header.point.height, 227_836);
    assert_eq!(
        mainnet(&after, None).header.parent,
        mainnet(&before, Some(227_835)).header.point.hash
    );
}

#[test]
fn the_first_4313_blocks_are_one_chain() {
    let Some(file) = data::bytes("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    let mut parent = BlockHash::default();
    let (mut txs, mut spends, mut height) = (0, 0, 0);
    for raw in framing::split_frames(Network::Bitcoin, &file).unwrap() {
        let raw = raw.unwrap();
        let block = mainnet(raw, Some(height));
        assert_eq!(block.header.parent, parent);
        assert_eq!(bitcoin_header(&raw[..80]).unwrap().hash, block.header.point.hash);
        let mut work = [0; 32];
        work[27..].copy_from_slice(&0x0001_0001_0001_u64.to_be_bytes()[3..]);
        assert_eq!(block.header.work, Work(work), "difficulty 1");
        parent = block.header.point.hash;
        txs += block.txs.len();
        spends += spent(&block).len();
        height += 1;
    }
    assert_eq!((height, txs, spends), (4_313, 4_371, 247));
}

#[test]
fn the_first_coinbase_is_never_created() {
    let networks = [
        (Network::Bitcoin, bitcoin::Network::Bitcoin),
        (Network::BitcoinTestnet4, bitcoin::Network::Testnet4),
        (Network::BitcoinSignet, bitcoin::Network::Signet),
        (Network::BitcoinRegtest, bitcoin::Network::Regtest),
    ];
    for (network, theirs) in networks {
        let first = bitcoin::constants::genesis_block(theirs);
        let raw = bitcoin::consensus::serialize(&first);
        let block = decode_block(network, &raw, None).unwrap();
        assert_eq!(block.header.point.height, 0);
        assert_eq!(Some(block.header.point.hash), genesis_hash(network));
        assert_eq!(block.txs.len(), 1);
        assert!(block.txs[0].is_coinbase && block.txs[0].creates.is_empty());
    }
    assert_eq!(genesis_hash(Network::CardanoPreview), None);
}

#[test]
fn electrumx_blocks_have_the_fields_their_node_gave() {
    let known = [
        ("bitcoin/electrumx-bitcoin_mainnet_951658.json", Network::Bitcoin),
        ("bitcoin/electrumx-bitcoin_testnet4_40000.json", Network::BitcoinTestnet4),
    ];
    for (name, network) in known {
        let Some(fields) = json(name) else { return };
        let raw = hex::decode(fields["block"].as_str().unwrap()).unwrap();
        let block = decode_block(network, &raw, None).unwrap();
        let header = block.header;
        assert_eq!(Some(header.point.height), fields["height"].as_u64());
        assert_eq!(Some(header.time), fields["time"].as_u64());
        assert_eq!(network.show_hash(&header.point.hash.0), fields["hash"].as_str().unwrap());
        assert_eq!(network.show_hash(&header.parent.0), fields["previousblockhash"]);
        let ids = block.txs.iter().map(|tx| network.show_hash(&tx.id.0));
        let theirs = fields["tx"].as_array().unwrap().iter().map(|id| id.as_str().unwrap());
        assert!(ids.eq(theirs), "{name}");
    }
}

#[test]
fn signet_and_regtest_blocks_form_chains_that_name_their_heights() {
    let Some(signet) = json("bitcoin/signet-blocks-000-120.json") else { return };
    let mut parent = BlockHash::default();
    for (height, entry) in (0..).zip(signet.as_array().unwrap()) {
        let raw = hex::decode(entry["block"].as_str().unwrap()).unwrap();
        let block = decode_block(Network::BitcoinSignet, &raw, None).unwrap();
        assert_eq!((block.header.point.height, block.header.parent), (height, parent));
        parent = block.header.point.hash;
    }
    let Some(regtest) = data::bytes("bitcoin/regtest-utreexod-blocks.txt") else { return };
    let mut parent = BlockHash::default();
    let mut count = 0;
    for line in String::from_utf8(regtest).unwrap().lines().filter(|line| !line.is_empty()) {
        let raw = hex::decode(line.trim()).unwrap();
        let block = decode_block(Network::BitcoinRegtest, &raw, Some(count)).unwrap();
        assert_eq!(block.header.parent, parent);
        parent = block.header.point.hash;
        count += 1;
    }
    assert_eq!(count, 151);
}

#[test]
fn both_reorganisation_sets_decode() {
    for (name, blocks) in [("0_to_4", 5), ("3A", 1), ("4A", 1), ("5A", 1)] {
        let path = format!("bitcoin/armory-reorg-blk_{name}.blk");
        let Some(file) = data::bytes(&path) else { return };
        let raws: Vec<_> = framing::split_frames(Network::Bitcoin, &file)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(raws.len(), blocks);
        for raw in raws {
            mainnet(raw, Some(1));
        }
    }
    let Some(sets) = json("bitcoin/reorg-floresta.json") else { return };
    for set in sets.as_array().unwrap() {
        for raw in set.as_array().unwrap() {
            let raw = hex::decode(raw.as_str().unwrap()).unwrap();
            decode_block(Network::BitcoinRegtest, &raw, Some(1)).unwrap();
        }
    }
}

#[test]
fn a_body_that_is_not_the_headers_is_refused() {
    let Some(raw) = data::bytes("bitcoin/mainnet-227836.blk") else { return };
    let decode = |raw: &[u8]| decode_block(Network::Bitcoin, raw, Some(227_836));
    let mut flipped = raw.clone();
    let last = flipped.len() - 10;
    flipped[last] ^= 1;
    assert_eq!(decode(&flipped), Err(DecodeError::MerkleRoot));
    let mut longer = raw.clone();
    longer.push(0);
    assert_eq!(decode(&longer), Err(DecodeError::TrailingBytes { count: 1 }));
    assert!(matches!(decode(&raw[..raw.len() - 1]), Err(DecodeError::Malformed { .. })));
    assert!(matches!(decode(&raw[..80]), Err(DecodeError::Malformed { .. })));
    assert!(matches!(decode(&[]), Err(DecodeError::Malformed { .. })));
}

#[test]
fn a_list_with_its_tail_repeated_is_refused_although_its_root_is_the_same() {
    let Some(raw) = data::bytes("bitcoin/mainnet-227836.blk") else { return };
    let mut block: bitcoin::Block = bitcoin::consensus::deserialize(&raw).unwrap();
    block.txdata.truncate(3);
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    let honest = bitcoin::consensus::serialize(&block);
    block.txdata.push(block.txdata[2].clone());
    assert!(block.check_merkle_root(), "the library is fooled");
    let mutated = bitcoin::consensus::serialize(&block);
    assert!(decode_block(Network::Bitcoin, &honest, Some(1)).is_ok());
    let answer = decode_block(Network::Bitcoin, &mutated, Some(1));
    assert_eq!(answer, Err(DecodeError::MerkleRoot));
}

#[test]
fn what_can_never_be_spent_is_left_out() {
    use bitcoin::{Amount, ScriptBuf, TxOut};
    let mut block = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    let scripts = [vec![0x6a], vec![], vec![0x51; 10_000], vec![0x51; 10_001], vec![0x6a, 1, 2]];
    let output = |script| TxOut { value: Amount::from_sat(7), script_pubkey: script };
    block.txdata[0].output = scripts.map(|s| output(ScriptBuf::from_bytes(s))).to_vec();
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    let raw = bitcoin::consensus::serialize(&block);
    let block = decode_block(Network::BitcoinRegtest, &raw, Some(9)).unwrap();
    let kept = block.txs[0].creates.iter().map(|(i, o)| (*i, o.addr.len()));
    assert_eq!(kept.collect::<Vec<_>>(), [(1, 0), (2, 10_000)]);
}

#[test]
fn small_heights_are_read_from_their_opcode() {
    let mut block = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    block.header.version = bitcoin::block::Version::TWO;
    block.header.nonce = 1;
    let known = [
        (vec![0x51, 0x00], Some(1)),
        (vec![0x60, 0x00], Some(16)),
        (vec![0x00, 0x00], Some(0)),
        (vec![0x01, 0x11], Some(17)),
        (vec![0x61, 0x00], None),
        (vec![0x01, 0x81], None),
        (vec![], None),
    ];
    for (script, height) in known {
        block.txdata[0].input[0].script_sig = script.clone().into();
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        let raw = bitcoin::consensus::serialize(&block);
        let got = decode_block(Network::BitcoinRegtest, &raw, None);
        let got = got.map(|block| block.header.point.height);
        assert_eq!(got, height.ok_or(DecodeError::HeightUnknown), "{script:?}");
    }
}

/// Not a check: prints how long a modern block takes. `cargo test --release -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, no check: `cargo test --release -p unspent-networks -- --ignored`"]
#[allow(clippy::print_stdout)]
fn measure_decoding_of_a_modern_block() {
    let Some(raw) = data::bytes("bitcoin/mainnet-866342.blk.zst") else { return };
    let mut best = f64::MAX;
    for _ in 0..100 {
        let start = std::time::Instant::now();
        std::hint::black_box(decode_block(Network::Bitcoin, &raw, Some(866_342)).unwrap());
        best = best.min(start.elapsed().as_secs_f64() * 1000.0);
    }
    println!("mainnet-866342: {best:.2} ms at best, {} bytes", raw.len());
}
