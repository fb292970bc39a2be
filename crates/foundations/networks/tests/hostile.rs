//! Bytes from an enemy: any answer is right, as long as there is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::Cursor;

use proptest::prelude::*;
use unspent_model::{Family, Network, network::NETWORKS};
use unspent_networks::{
    address::{parse_query, show_address, show_stake_address},
    bitcoin::framing::Scanner,
    bitcoin_header,
    cardano::{
        framing::split_cbor_items,
        genesis::genesis_coins,
        head::{block_head, read_header},
    },
    decode_block,
};
use unspent_testkit::data;

fn feed_everything(bytes: &[u8]) {
    for (network, _) in NETWORKS {
        let _ = decode_block(network, bytes, None);
        let _ = decode_block(network, bytes, Some(u64::MAX));
        let _ = genesis_coins(network, &[bytes]);
        let shown = show_address(network, bytes);
        assert!(bytes.is_empty() || !shown.is_empty());
        let _ = show_stake_address(network, bytes);
        let _ = parse_query(network, &String::from_utf8_lossy(bytes));
        let _ = parse_query(network, &hex::encode(bytes));
        let head = block_head(network, bytes).map(|head| head.point);
        if let Ok(block) = decode_block(network, bytes, None)
            && network.family() == Family::Cardano
        {
            assert_eq!(head, Ok(block.header.point));
        }
        (0..9).for_each(|era| drop(read_header(network, era, bytes)));
        let key = [1, 0, 2, 0, 3, 0, 4, 0];
        if let Ok(scanner) = Scanner::new(network, bytes, key) {
            let found: Vec<_> = scanner.flatten().collect();
            assert!(found.len() <= bytes.len());
            let seeking = Scanner::seeking(network, Cursor::new(bytes), key, 0).unwrap();
            assert_eq!(seeking.flatten().collect::<Vec<_>>(), found);
        }
    }
    let _ = bitcoin_header(bytes);
    assert!(split_cbor_items(bytes).count() <= bytes.len() + 1);
}

fn real_blocks() -> Vec<(Network, Vec<u8>)> {
    let names = [
        (Network::Bitcoin, "bitcoin/mainnet-227836.blk"),
        (Network::CardanoMainnet, "cardano/eras/byron-mainnet-4490505.cbor"),
        (Network::CardanoMainnet, "cardano/eras/shelley-mainnet-4662237.cbor"),
        (Network::CardanoMainnet, "cardano/eras/mary-mainnet-5616812.cbor"),
        (Network::CardanoMainnet, "cardano/eras/alonzo-mainnet-6538269.cbor"),
        (Network::CardanoMainnet, "cardano/eras/babbage-mainnet-8346782.cbor"),
        (Network::CardanoMainnet, "cardano/eras/conway-mainnet-11544518.cbor"),
    ];
    names.into_iter().filter_map(|(network, name)| Some((network, data::bytes(name)?))).collect()
}

fn mutate(raw: &mut Vec<u8>, kind: u8, at: usize, value: u8) {
    let at = at % raw.len();
    match kind {
        0 => raw[at] ^= 1 << (value % 8),
        1 => raw[at] = value,
        2 => raw.truncate(at),
        3 => raw.insert(at, value),
        4 => drop(raw.remove(at)),
        5 => raw.extend_from_within(at..),
        _ => raw[at..].iter_mut().take(9).for_each(|byte| *byte = 0xff),
    }
    if raw.is_empty() {
        raw.push(value);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        feed_everything(&bytes);
    }

    #[test]
    fn random_bytes_behind_an_era_never_panic(
        era in 0..9_u8,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        feed_everything(&[&[0x82, era][..], &bytes].concat());
    }

    #[test]
    fn random_text_never_panics(text in "\\PC{0,120}|(addr|addr_test|stake|script|bc|tb)1[a-z0-9]{0,110}") {
        for (network, _) in NETWORKS {
            let _ = parse_query(network, &text);
        }
    }

    #[test]
    fn json_of_any_shape_never_panics(
        magic in any::<i64>(),
        key in "[A-Za-z0-9_=-]{0,50}",
        amount in "-?[0-9]{1,25}|\"[0-9a-z]{0,25}\"|null|\\{\\}|\\[\\]",
    ) {
        let magic = if magic % 2 == 0 { magic } else { 2 };
        let field = ["nonAvvmBalances", "avvmDistr", "initialFunds"];
        for field in field {
            let file = format!(
                r#"{{"protocolConsts": {{"protocolMagic": {magic}}}, "networkMagic": {magic}, "{field}": {{"{key}": {amount}}}}}"#
            );
            feed_everything(file.as_bytes());
            let shelley = file.replace("protocolConsts", "x");
            let _ = genesis_coins(Network::CardanoPreview, &[shelley.as_bytes()]);
        }
    }
}

#[test]
fn mutated_real_blocks_never_panic() {
    let blocks = real_blocks();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut refused = 0;
    for (network, raw) in &blocks {
        for _ in 0..1_500 {
            let mut bytes = raw.clone();
            for _ in 0..1 + next() % 3 {
                let [kind, value, ..] = next().to_le_bytes();
                // Half of the mutations hit the start, where lengths and headers stand.
                let reach = if next() % 2 == 0 { 2_000 } else { bytes.len() };
                let at = usize::try_from(next() % reach as u64).unwrap();
                mutate(&mut bytes, kind % 7, at, value);
            }
            refused += usize::from(decode_block(*network, &bytes, Some(1)).is_err());
        }
    }
    assert!(blocks.is_empty() || refused > 1_000, "mutations must bite: {refused}");
}

/// A Conway block with one transaction whose only output has this inline datum, under a header
/// that promises it.
fn block_with_datum(datum: &[u8]) -> Vec<u8> {
    use pallas_crypto::hash::Hasher;
    let Some(real) = data::bytes("cardano/eras/conway-mainnet-11544518.cbor") else {
        return Vec::new();
    };
    let block = pallas_traverse::MultiEraBlock::decode(&real).unwrap();
    let header = block.header();
    let promised = header.as_babbage().unwrap().header_body.block_body_hash;
    let mut header = header.cbor().to_vec();
    let mut bodies = vec![0x81, 0xa3, 0x00, 0x80, 0x01, 0x81, 0xa3, 0x00, 0x58, 29, 0x61];
    bodies.extend_from_slice(&[7; 28]);
    bodies.extend_from_slice(&[0x01, 0x05, 0x02, 0x82, 0x01, 0xd8, 0x18, 0x5a]);
    bodies.extend_from_slice(&u32::try_from(datum.len()).unwrap().to_be_bytes());
    bodies.extend_from_slice(datum);
    bodies.extend_from_slice(&[0x02, 0x00]);
    let parts = [bodies.as_slice(), &[0x81, 0xa0], &[0xa0], &[0x80]];
    let hashes = parts.map(|part| *Hasher::<256>::hash(part)).concat();
    let at = header.windows(32).position(|window| window == promised.as_slice()).unwrap();
    header[at..at + 32].copy_from_slice(Hasher::<256>::hash(&hashes).as_slice());
    [&[0x82, 0x07, 0x85][..], &header, &parts.concat()].concat()
}

#[test]
fn datums_nested_a_million_deep_are_kept_and_do_not_exhaust_the_stack() {
    let shallow = block_with_datum(&[0x01]);
    if shallow.is_empty() {
        return;
    }
    assert!(decode_block(Network::CardanoMainnet, &shallow, None).is_ok());
    for open in [&[0x81][..], &[0xd8, 0x79, 0x81], &[0xa1, 0x01]] {
        let mut datum = open.repeat(1_000_000);
        datum.push(0x01);
        let raw = block_with_datum(&datum);
        let block = decode_block(Network::CardanoMainnet, &raw, None).unwrap();
        let (_, output) = &block.txs[0].creates[0];
        assert_eq!(output.inline_datum.as_deref(), Some(datum.as_slice()));
    }
}

#[test]
fn nesting_and_huge_counts_anywhere_do_not_exhaust_stack_or_memory() {
    for open in [0x81, 0x9f, 0xa1, 0xbf, 0xc1, 0xd8, 0x9b, 0xbb, 0x5b, 0x7b] {
        let mut raw = vec![0x82, 0x07, 0x85];
        raw.resize(1_000_000, open);
        feed_cardano(&raw);
        for era in 0..8 {
            let mut raw = vec![0x82, era];
            raw.resize(100_000, open);
            feed_cardano(&raw);
        }
    }
    let json = [b"[".repeat(1_000_000), b"{\"a\":".repeat(200_000)];
    for json in &json {
        assert!(genesis_coins(Network::CardanoPreview, &[json]).is_err());
    }
}

fn feed_cardano(raw: &[u8]) {
    assert!(decode_block(Network::CardanoMainnet, raw, None).is_err());
    let _ = split_cbor_items(raw).count();
}
