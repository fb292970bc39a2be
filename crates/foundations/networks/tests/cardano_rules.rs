//! Rules of Cardano that no block at hand shows, on blocks built for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use pallas_codec::minicbor::{Encoder, data::IanaTag};
use pallas_crypto::hash::Hasher;
use serde_json::Value;
use unspent_model::{
    BlockHash, Network, Outpoint, TxId,
    chain::{Asset, Block, Output, Tx},
};
use unspent_networks::{DecodeError, cardano::head::block_head, decode_block};
use unspent_testkit::data;

const NETWORK: Network = Network::CardanoPreview;

type Cbor = Encoder<Vec<u8>>;

/// CBOR by hand, so that what is on the wire is in plain sight.
fn cbor(write: impl FnOnce(&mut Cbor)) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    write(&mut e);
    e.into_writer()
}

fn raw(e: &mut Cbor, bytes: &[u8]) {
    e.writer_mut().extend_from_slice(bytes);
}

fn header(body_hash: &[u8]) -> Vec<u8> {
    cbor(|e| {
        e.array(2).unwrap().array(10).unwrap().u64(7).unwrap().u64(100).unwrap();
        e.bytes(&[1; 32]).unwrap().bytes(&[2; 32]).unwrap().bytes(&[3; 32]).unwrap();
        e.array(2).unwrap().bytes(&[4; 64]).unwrap().bytes(&[5; 80]).unwrap();
        e.u64(0).unwrap().bytes(body_hash).unwrap();
        e.array(4).unwrap().bytes(&[7; 32]).unwrap().u64(0).unwrap().u64(0).unwrap();
        e.bytes(&[8; 64]).unwrap();
        e.array(2).unwrap().u64(9).unwrap().u64(0).unwrap();
        e.bytes(&[9; 448]).unwrap();
    })
}

/// The header of Shelley to Alonzo, with the fields of later ones in flat order and two VRF proofs.
fn alonzo_header(body_hash: &[u8]) -> Vec<u8> {
    cbor(|e| {
        e.array(2).unwrap().array(15).unwrap().u64(7).unwrap().u64(100).unwrap();
        e.bytes(&[1; 32]).unwrap().bytes(&[2; 32]).unwrap().bytes(&[3; 32]).unwrap();
        for _ in 0..2 {
            e.array(2).unwrap().bytes(&[4; 64]).unwrap().bytes(&[5; 80]).unwrap();
        }
        e.u64(0).unwrap().bytes(body_hash).unwrap();
        e.bytes(&[7; 32]).unwrap().u64(0).unwrap().u64(0).unwrap().bytes(&[8; 64]).unwrap();
        e.u64(6).unwrap().u64(0).unwrap().bytes(&[9; 448]).unwrap();
    })
}

fn block_of(era: u8, bodies: &[Vec<u8>], invalid: &[u32]) -> Vec<u8> {
    let parts = parts_of(bodies, invalid);
    let hash = body_hash(&parts);
    cbor(|e| {
        e.array(2).unwrap().u8(era).unwrap().array(5).unwrap();
        raw(e, &if era < 6 { alonzo_header(&hash) } else { header(&hash) });
        parts.iter().for_each(|part| raw(e, part));
    })
}

fn parts_of(bodies: &[Vec<u8>], invalid: &[u32]) -> [Vec<u8>; 4] {
    let count = bodies.len() as u64;
    let list = |items: &dyn Fn(&mut Cbor)| {
        cbor(|e| {
            e.array(count).unwrap();
            items(e);
        })
    };
    [
        list(&|e| bodies.iter().for_each(|body| raw(e, body))),
        list(&|e| bodies.iter().for_each(|_| raw(e, &[0xa0]))),
        vec![0xa0],
        cbor(|e| drop(e.encode(invalid).map(|_| ()))),
    ]
}

fn body_hash(parts: &[Vec<u8>; 4]) -> Vec<u8> {
    let hashes = parts.each_ref().map(|part| *Hasher::<256>::hash(part));
    Hasher::<256>::hash(&hashes.concat()).to_vec()
}

fn decode(bodies: &[Vec<u8>], invalid: &[u32]) -> Block<Output> {
    decode_block(NETWORK, &block_of(7, bodies, invalid), None).unwrap()
}

fn inputs(e: &mut Cbor, key: u64, spends: &[(u8, u64)]) {
    e.u64(key).unwrap().array(spends.len() as u64).unwrap();
    for (seed, index) in spends {
        e.array(2).unwrap().bytes(&[*seed; 32]).unwrap().u64(*index).unwrap();
    }
}

fn address() -> Vec<u8> {
    [&[0x60][..], &[0xaa; 28]].concat()
}

fn plain_output(value: u64) -> Vec<u8> {
    cbor(|e| {
        e.map(2).unwrap().u64(0).unwrap().bytes(&address()).unwrap();
        e.u64(1).unwrap().u64(value).unwrap();
    })
}

fn outputs(e: &mut Cbor, outputs: &[Vec<u8>]) {
    e.u64(1).unwrap().array(outputs.len() as u64).unwrap();
    outputs.iter().for_each(|output| raw(e, output));
}

/// Spends 1#0 twice and 2#1, creates two coins, offers 3#0 twice as collateral, refers to 4#0.
fn full_body(has_return: bool) -> Vec<u8> {
    cbor(|e| {
        e.map(if has_return { 6 } else { 5 }).unwrap();
        inputs(e, 0, &[(1, 0), (2, 1), (1, 0)]);
        outputs(e, &[plain_output(10), plain_output(11)]);
        e.u64(2).unwrap().u64(0).unwrap();
        inputs(e, 13, &[(3, 0), (3, 0)]);
        if has_return {
            e.u64(16).unwrap();
            raw(e, &plain_output(12));
        }
        inputs(e, 18, &[(4, 0)]);
    })
}

fn coin(seed: u8, index: u32) -> Outpoint {
    Outpoint::new(TxId([seed; 32]), index)
}

fn amounts(tx: &Tx<Output>) -> Vec<(u32, u64, bool)> {
    let creates = tx.creates.iter();
    creates.map(|(i, o)| (*i, o.value, o.is_collateral_return)).collect()
}

#[test]
fn a_valid_transaction_ignores_its_collateral_and_return_and_never_spends_references() {
    let body = full_body(true);
    let bodies = std::slice::from_ref(&body);
    let hash = body_hash(&parts_of(bodies, &[]));
    let block = decode(bodies, &[]);
    let tx = &block.txs[0];
    assert_eq!(tx.id.0, *Hasher::<256>::hash(&body));
    assert_eq!(tx.spends, [coin(1, 0), coin(2, 1)]);
    assert_eq!(amounts(tx), [(0, 10, false), (1, 11, false)]);
    assert!(!tx.is_invalid);
    assert_eq!((block.header.point.height, block.header.point.slot), (7, 100));
    assert_eq!(block.header.parent, BlockHash([1; 32]));
    assert_eq!(block.header.point.hash.0, *Hasher::<256>::hash(&header(&hash)));
}

#[test]
fn an_invalid_transaction_spends_collateral_and_creates_only_the_return() {
    let block = decode(&[full_body(false), full_body(true), full_body(true)], &[1]);
    let tx = &block.txs[1];
    assert!(tx.is_invalid && !block.txs[0].is_invalid && !block.txs[2].is_invalid);
    assert_eq!(tx.spends, [coin(3, 0)]);
    assert_eq!(amounts(tx), [(2, 12, true)], "the index after the outputs");
}

#[test]
fn an_invalid_transaction_without_a_return_creates_nothing() {
    for era in [5, 6, 7] {
        let raw = block_of(era, &[full_body(false)], &[0]);
        let block = decode_block(NETWORK, &raw, None).unwrap();
        assert_eq!(block.txs[0].spends, [coin(3, 0)]);
        assert!(block.txs[0].creates.is_empty() && block.txs[0].is_invalid);
    }
}

fn body_with(output: &[u8]) -> Vec<u8> {
    cbor(|e| {
        e.map(3).unwrap();
        inputs(e, 0, &[(1, 0)]);
        outputs(e, &[output.to_vec()]);
        e.u64(2).unwrap().u64(0).unwrap();
    })
}

fn decode_output(output: &[u8]) -> Output {
    decode_output_of(NETWORK, output).unwrap()
}

fn decode_output_of(network: Network, output: &[u8]) -> Result<Output, DecodeError> {
    let block = decode_block(network, &block_of(7, &[body_with(output)], &[]), None);
    block.map(|mut block| block.txs.remove(0).creates.remove(0).1)
}

fn rich_output(datum: &[u8], script: Option<&[u8]>) -> Vec<u8> {
    cbor(|e| {
        e.map(3 + u64::from(script.is_some())).unwrap();
        e.u64(0).unwrap().bytes(&address()).unwrap().u64(1).unwrap().u64(5).unwrap();
        e.u64(2).unwrap().array(2).unwrap().u64(1).unwrap();
        e.tag(IanaTag::Cbor).unwrap().bytes(datum).unwrap();
        if let Some(script) = script {
            e.u64(3).unwrap().tag(IanaTag::Cbor).unwrap().bytes(script).unwrap();
        }
    })
}

#[test]
fn assets_come_in_order_with_any_bytes_in_their_name() {
    let output = cbor(|e| {
        e.array(2).unwrap().bytes(&address()).unwrap();
        e.array(2).unwrap().u64(5).unwrap().map(2).unwrap();
        e.bytes(&[9; 28]).unwrap().map(1).unwrap().bytes(b"z").unwrap().u64(u64::MAX).unwrap();
        e.bytes(&[3; 28]).unwrap().map(4).unwrap();
        for name in [&b"b"[..], b"", b"a\0b", b"\0"] {
            e.bytes(name).unwrap().u64(1).unwrap();
        }
    });
    let asset = |policy, name: &[u8], quantity| Asset {
        policy: [policy; 28],
        name: name.to_vec(),
        quantity,
    };
    let expected = [
        asset(3, b"", 1),
        asset(3, b"\0", 1),
        asset(3, b"a\0b", 1),
        asset(3, b"b", 1),
        asset(9, b"z", u64::MAX),
    ];
    assert_eq!(decode_output(&output).assets, expected);
}

#[test]
fn datums_and_scripts_keep_their_bytes_even_if_another_form_is_shorter() {
    // 1 in nine bytes, and an array that doesn't say its length.
    let datum = [0x9f, 0x1b, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
    let script = [0x9f, 0x18, 0x02, 0x59, 0x00, 0x03, 0x46, 0x47, 0x48, 0xff];
    let output = decode_output(&rich_output(&datum, Some(&script)));
    assert_eq!(output.inline_datum.as_deref(), Some(&datum[..]));
    assert_eq!(output.data_hash, Some(*Hasher::<256>::hash(&datum)));
    assert_eq!(output.script_ref.as_deref(), Some(&script[..]));
    let hash = Hasher::<224>::hash(&[2, 0x46, 0x47, 0x48]);
    assert_eq!(output.reference_script_hash, Some(*hash));
    assert_eq!(output.payment_credential, Some([0xaa; 28]));
}

#[test]
fn reference_scripts_are_hashed_by_their_language() {
    let native = [0x82, 0x00, 0x82, 0x04, 0x19, 0x01, 0x00];
    let output = decode_output(&rich_output(&[0x01], Some(&native)));
    let hash = Hasher::<224>::hash(&[&[0][..], &native[2..]].concat());
    assert_eq!(output.reference_script_hash, Some(*hash));
    for language in [1, 2, 3] {
        let script = [0x82, language, 0x42, 0xca, 0xfe];
        let output = decode_output(&rich_output(&[0x01], Some(&script)));
        let hash = Hasher::<224>::hash(&[language, 0xca, 0xfe]);
        assert_eq!(output.reference_script_hash, Some(*hash));
    }
}

#[test]
fn a_datum_or_script_that_is_not_one_item_is_refused() {
    for (datum, script) in [(&[1, 2][..], None), (&[][..], None), (&[1][..], Some(&[0x81, 1][..]))]
    {
        let block = block_of(7, &[body_with(&rich_output(datum, script))], &[]);
        let answer = decode_block(NETWORK, &block, None);
        assert!(matches!(answer, Err(DecodeError::Malformed { .. })), "{datum:?}");
    }
}

#[test]
fn credentials_come_from_the_address_and_stake_addresses_keep_network_and_kind() {
    let stake = |kind: u8| match kind {
        0 | 1 => Some(0xe0),
        2 | 3 => Some(0xf0),
        _ => None,
    };
    for (network, network_id) in [(NETWORK, 0), (Network::CardanoMainnet, 1)] {
        for kind in 0..8_u8 {
            let tail: &[u8] = if kind < 4 { &[0xbb; 28] } else { &[1, 2, 3] };
            let tail = if kind > 5 { &[] } else { tail };
            let addr = [&[kind << 4 | network_id][..], &[0xaa; 28], tail].concat();
            let output = cbor(|e| {
                e.array(2).unwrap().bytes(&addr).unwrap().u64(1).unwrap();
            });
            let other = if network_id == 0 { Network::CardanoMainnet } else { NETWORK };
            let refused = decode_output_of(other, &output);
            assert!(matches!(refused, Err(DecodeError::OtherNetwork { .. })), "{refused:?}");
            let output = decode_output_of(network, &output).unwrap();
            assert_eq!(output.addr, addr);
            assert_eq!(output.payment_credential, Some([0xaa; 28]));
            assert_eq!(output.stake_credential, stake(kind).map(|_| [0xbb; 28]));
            let expected = stake(kind).map(|k| [&[k | network_id][..], &[0xbb; 28]].concat());
            assert_eq!(output.stake_addr, expected);
        }
    }
}

#[test]
fn an_index_past_32_bits_is_refused() {
    let body = cbor(|e| {
        e.map(3).unwrap();
        inputs(e, 0, &[(1, 1 << 32)]);
        outputs(e, &[]);
        e.u64(2).unwrap().u64(0).unwrap();
    });
    let answer = decode_block(NETWORK, &block_of(7, &[body], &[]), None);
    assert!(matches!(answer, Err(DecodeError::Malformed { what: "input index", .. })));
}

fn boundary(epoch: u64, difficulty: u64) -> (Vec<u8>, Vec<u8>) {
    let header = cbor(|e| {
        e.array(5).unwrap().u32(764_824_073).unwrap().bytes(&[1; 32]).unwrap();
        e.bytes(&[2; 32]).unwrap();
        e.array(2).unwrap().u64(epoch).unwrap().array(1).unwrap().u64(difficulty).unwrap();
        e.array(1).unwrap().map(0).unwrap();
    });
    let block = cbor(|e| {
        e.array(2).unwrap().u8(0).unwrap().array(3).unwrap();
        raw(e, &header);
        e.begin_array().unwrap().bytes(&[3; 28]).unwrap().end().unwrap();
        e.array(1).unwrap().map(0).unwrap();
    });
    (header, block)
}

#[test]
fn a_boundary_block_has_no_transactions_and_the_number_of_its_predecessor() {
    let (header, raw) = boundary(100, 2_000_000);
    let block = decode_block(Network::CardanoMainnet, &raw, None).unwrap();
    assert!(block.header.is_boundary && block.txs.is_empty());
    let point = block.header.point;
    assert_eq!((point.height, point.slot), (2_000_000, 2_160_000));
    assert_eq!(point.hash.0, *Hasher::<256>::hash(&[&[0x82, 0x00], &header[..]].concat()));
    assert_eq!(block.header.parent, BlockHash([1; 32]));
    let head = block_head(Network::CardanoMainnet, &raw).unwrap();
    assert_eq!((head.point, head.parent), (point, block.header.parent));
    assert_eq!((block.header.epoch, block.header.time), (Some(100), 1_549_403_091));
    for epoch in [u64::MAX, u64::MAX / 21_600] {
        let answer = decode_block(Network::CardanoMainnet, &boundary(epoch, 1).1, None);
        assert!(matches!(answer, Err(DecodeError::Malformed { what: "slot", .. })));
    }
}

#[test]
fn a_body_that_is_not_the_headers_is_refused() {
    let honest = block_of(7, &[full_body(true)], &[]);
    assert!(decode_block(NETWORK, &honest, None).is_ok());
    // The last byte is the empty list of failed transactions; before it, metadata and a witness.
    for (back, byte) in [(1, 0x9f), (2, 0xbf), (3, 0xf6)] {
        let mut raw = honest.clone();
        let at = raw.len() - back;
        raw[at] = byte;
        if byte != 0xf6 {
            raw.insert(at + 1, 0xff);
        }
        assert_eq!(decode_block(NETWORK, &raw, None), Err(DecodeError::BodyHash));
    }
}

#[test]
fn an_era_that_is_still_to_come_is_named() {
    let raw = block_of(8, &[], &[]);
    assert_eq!(decode_block(NETWORK, &raw, None), Err(DecodeError::UnknownEra(8)));
}

/// The body of `[body, witnesses, is_valid, metadata]`.
fn scenario_body(name: &str) -> Option<Vec<u8>> {
    let json = data::bytes(&format!("cardano/scenarios/{name}.json"))?;
    let json: Value = serde_json::from_slice(&json).unwrap();
    let tx = hex::decode(json["transaction"].as_str().unwrap()).unwrap();
    let mut d = pallas_codec::minicbor::Decoder::new(&tx);
    d.array().unwrap();
    let start = d.position();
    d.skip().unwrap();
    Some(tx[start..d.position()].to_vec())
}

#[test]
fn published_scenarios_of_failed_scripts_move_the_coins_they_should() {
    let known = [
        ("00016-pass-collateral-return-carrying-a-datum-hash", "9c3e7f1b", Some(true)),
        ("00017-pass-invalid-transaction-collects-fee-from-collateral", "33333333", None),
        ("00052-fail-unknown-collateral-input-on-an-invalid-transaction", "44444444", None),
    ];
    for (name, collateral, has_datum) in known {
        let Some(body) = scenario_body(name) else { return };
        let tx = decode(&[body], &[0]).txs.remove(0);
        assert_eq!(tx.spends.len(), 1, "{name}");
        assert!(hex::encode(tx.spends[0].tx.0).starts_with(collateral), "{name}");
        let returned = tx.creates.first().map(|(i, o)| {
            assert!(*i == 1 && o.is_collateral_return && o.inline_datum.is_none());
            o.data_hash.is_some()
        });
        assert_eq!(returned, has_datum, "{name}");
    }
}

proptest::proptest! {
    /// The header promises whatever the body is, so that nothing is refused before it is read.
    #[test]
    fn damaged_bodies_under_an_honest_header_never_panic(
        at in 0..400_usize,
        value in proptest::prelude::any::<u8>(),
        length in 0..400_usize,
        invalid in proptest::prelude::any::<bool>(),
    ) {
        let script = [0x82, 0x02, 0x43, 1, 2, 3];
        let output = rich_output(&[0x9f, 0x01, 0xff], Some(&script));
        for mut body in [full_body(true), body_with(&output)] {
            let at = at % body.len();
            body[at] = value;
            for era in [2, 5, 6, 7] {
                let invalid: &[u32] = if invalid { &[0] } else { &[] };
                let _ = decode_block(NETWORK, &block_of(era, &[body.clone()], invalid), None);
            }
            body.truncate(length);
            let _ = decode_block(NETWORK, &block_of(7, &[body], &[]), None);
        }
    }
}
