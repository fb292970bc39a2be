//! One parse for all readers: what is shared says the same as what is decoded for one reader, and
//! both refuse the same bytes for the same reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use bitcoin::{Block, Transaction, consensus, hashes::Hash};
use unspent_model::Network;
use unspent_networks::{
    DecodeError,
    bitcoin::{MAX_BLOCK_BYTES, ParsedBlock, framing},
    bitcoin_header, decode_block, genesis_hash,
};
use unspent_sim::shape::{ModernChain, Shape};
use unspent_testkit::data;

const NETWORK: Network = Network::Bitcoin;

/// Both answers, which must be one.
fn refusal(raw: &[u8]) -> DecodeError {
    let decoded = decode_block(NETWORK, raw, Some(9)).unwrap_err();
    assert_eq!(ParsedBlock::parse(raw).unwrap_err(), decoded);
    decoded
}

fn assert_shared_equals_decoded(raw: &[u8]) {
    let parsed = ParsedBlock::parse(raw).unwrap();
    for height in [None, Some(0), Some(866_342)] {
        assert_eq!(parsed.to_model(NETWORK, height), decode_block(NETWORK, raw, height));
    }
    let theirs: Block = consensus::deserialize(raw).unwrap();
    let ids: Vec<_> = theirs.txdata.iter().map(Transaction::compute_txid).collect();
    assert_eq!(**parsed.txids(), *ids);
    assert_eq!(parsed.header().hash.0, theirs.block_hash().to_byte_array());
    assert_eq!(*parsed.header(), bitcoin_header(raw).unwrap());
    assert_eq!(**parsed.block(), theirs, "witnesses included");
}

fn real_blocks() -> Vec<Vec<u8>> {
    let names = [
        "mainnet-227835.blk",
        "mainnet-227836.blk",
        "mainnet-367891.blk.zst",
        "mainnet-413567.blk.zst",
        "mainnet-481829.blk.zst",
        "mainnet-702861.blk.zst",
        "mainnet-866342.blk.zst",
    ];
    names.iter().filter_map(|name| data::bytes(&format!("bitcoin/{name}"))).collect()
}

#[test]
fn real_blocks_are_the_same_shared_and_decoded() {
    real_blocks().iter().for_each(|raw| assert_shared_equals_decoded(raw));
    let Some(file) = data::bytes("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    for raw in framing::split_frames(NETWORK, &file).unwrap().step_by(50) {
        assert_shared_equals_decoded(raw.unwrap());
    }
}

#[test]
fn blocks_of_modern_shape_are_the_same_shared_and_decoded() {
    let shape = Shape { start_coins: 2_000, transactions: 200 };
    let modern = ModernChain::new(11, shape).filter(|block| block.stats.is_modern()).take(5);
    modern.for_each(|block| assert_shared_equals_decoded(&block.bytes));
}

#[test]
fn the_first_block_creates_nothing_either_way() {
    let first = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
    let raw = consensus::serialize(&first);
    assert_shared_equals_decoded(&raw);
    let parsed = ParsedBlock::parse(&raw).unwrap();
    assert_eq!(Some(parsed.header().hash), genesis_hash(NETWORK));
    let block = parsed.to_model(NETWORK, None).unwrap();
    assert!(block.header.point.height == 0 && block.txs[0].creates.is_empty());
}

#[test]
fn a_repeated_tail_is_refused_either_way() {
    for raw in real_blocks() {
        let mut block: Block = consensus::deserialize(&raw).unwrap();
        // An odd number on the lowest level, so that a second copy of the last leaves the root.
        block.txdata.truncate(7);
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        assert_shared_equals_decoded(&consensus::serialize(&block));
        block.txdata.push(block.txdata[6].clone());
        assert!(block.check_merkle_root(), "the library is fooled");
        assert_eq!(refusal(&consensus::serialize(&block)), DecodeError::MerkleRoot);
    }
}

#[test]
fn other_mutations_are_refused_either_way() {
    for raw in real_blocks() {
        let mut other_root = raw.clone();
        other_root[36] ^= 1;
        assert_eq!(refusal(&other_root), DecodeError::MerkleRoot);

        let trailing = [raw.as_slice(), &[0]].concat();
        assert_eq!(refusal(&trailing), DecodeError::TrailingBytes { count: 1 });

        let too_large = [raw.as_slice(), &vec![0; MAX_BLOCK_BYTES]].concat();
        assert!(matches!(refusal(&too_large), DecodeError::TooLarge { .. }));
        assert!(matches!(refusal(&raw[..raw.len() - 1]), DecodeError::Malformed { .. }));
        assert!(matches!(refusal(&raw[..79]), DecodeError::Malformed { .. }));

        let mut block: Block = consensus::deserialize(&raw).unwrap();
        block.txdata.swap(0, 1);
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        let misplaced = refusal(&consensus::serialize(&block));
        assert!(matches!(misplaced, DecodeError::Malformed { what: "block", .. }));
    }
}

#[test]
fn a_clone_shares_everything() {
    let first = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    let parsed = ParsedBlock::parse(&consensus::serialize(&first)).unwrap();
    let other = parsed.clone();
    assert!(Arc::ptr_eq(parsed.block(), other.block()));
    assert!(Arc::ptr_eq(parsed.txids(), other.txids()));
}
