//! Trees against a naive rebuild, proofs against every lie that fits into them, and the vectors
//! that other languages check (`check_vectors.py` does, with code of its own).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    missing_docs
)]

use std::{collections::BTreeMap, path::PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use unspent_verify::{
    Hash, Head, Leaf, LiveChunk, Proof, ProofError, Verdict,
    hash::{self, Domain},
    tree::{self, Forest, exists, needed, peaks},
};

/// The root as it is defined, from nothing but the leaves.
fn naive_root(domain: Domain, leaves: &[Hash]) -> Hash {
    fn perfect(domain: Domain, first: usize, leaves: &[Hash]) -> Hash {
        if leaves.len() == 1 {
            return leaves[0];
        }
        let half = leaves.len() / 2;
        let left = perfect(domain, first, &leaves[..half]);
        let right = perfect(domain, first + half, &leaves[half..]);
        let height = leaves.len().ilog2() as u8;
        domain.node(height, (first / leaves.len()) as u64, &left, &right)
    }
    let (mut tops, mut at) = (Vec::new(), 0);
    while at < leaves.len() {
        let size = 1 << (leaves.len() - at).ilog2();
        tops.push(perfect(domain, at, &leaves[at..at + size]));
        at += size;
    }
    domain.bag(leaves.len() as u64, &tops)
}

#[test]
fn many_outputs_at_once_hash_as_each_alone() {
    let leaves: Vec<Leaf> =
        (0..150).map(|n| Leaf { record: vec![n as u8; n as usize * 3], ..leaf(n) }).collect();
    let parts: Vec<_> =
        leaves.iter().map(|leaf| (&leaf.txid, leaf.vout, leaf.record.as_slice())).collect();
    let alone: Vec<Hash> = (7..).zip(&leaves).map(|(at, leaf)| leaf.hash(at)).collect();
    assert_eq!(hash::outputs(7, &parts), alone);
}

fn leaf(n: u64) -> Leaf {
    let mut txid = [0; 32];
    txid[..8].copy_from_slice(&(n / 3).to_le_bytes());
    Leaf { txid, vout: (n % 3) as u32, record: format!("record {n}").into_bytes() }
}

/// Outputs in memory, some of them spent.
struct Set {
    head: Head,
    leaves: Vec<Leaf>,
    chunks: Vec<LiveChunk>,
    outputs: Forest,
    live: Forest,
}

impl Set {
    fn new(network: &str, height: u64, count: u64, is_live: impl Fn(u64) -> bool) -> Self {
        let leaves: Vec<Leaf> = (0..count).map(leaf).collect();
        let mut chunks = vec![LiveChunk([0; 128]); count.div_ceil(1024) as usize];
        for place in (0..count).filter(|place| is_live(*place)) {
            let bit = place as usize % 1024;
            chunks[place as usize / 1024].0[bit / 8] |= 0x80 >> (bit % 8);
        }
        let live = (0..count).filter(|place| is_live(*place)).count() as u64;
        let hashes: Vec<Hash> = (0..).zip(&leaves).map(|(at, leaf)| leaf.hash(at)).collect();
        let bits: Vec<Hash> =
            (0..).zip(&chunks).map(|(at, bits)| hash::chunk(at, &bits.0)).collect();
        let network = network.to_owned();
        let head = Head { network, height, block_hash: [height as u8; 32], leaves: count, live };
        let (outputs, live) = (Forest::outputs(&hashes), Forest::live(&bits));
        assert_eq!(outputs.root(), naive_root(Domain::OUTPUTS, &hashes));
        assert_eq!(live.root(), naive_root(Domain::LIVE, &bits));
        Self { head, leaves, chunks, outputs, live }
    }

    fn root(&self) -> Hash {
        self.head.root(&self.outputs.root(), &self.live.root())
    }

    /// A proof of outputs at these places, in ascending order.
    fn proof(&self, places: &[u64]) -> Proof {
        let mut numbers: Vec<u64> = places.iter().map(|place| place / 1024).collect();
        numbers.dedup();
        Proof {
            head: self.head.clone(),
            coins: places.iter().map(|at| (*at, self.leaves[*at as usize].clone())).collect(),
            output_nodes: self.outputs.nodes_for(places),
            chunks: numbers.iter().map(|number| self.chunks[*number as usize]).collect(),
            live_nodes: self.live.nodes_for(&numbers),
        }
    }
}

#[test]
fn peaks_are_the_bits_of_the_number() {
    let seven: Vec<_> = peaks(7).collect();
    assert_eq!(seven, [(2, 0), (1, 2), (0, 6)]);
    assert_eq!(peaks(0).count(), 0);
    assert_eq!(peaks(u64::MAX).count(), 64);
    assert_eq!(peaks(1 << 40).collect::<Vec<_>>(), [(40, 0)]);
    for leaves in 1..200_u64 {
        for peak in peaks(leaves) {
            assert!(exists(leaves, peak) && !exists(leaves, (peak.0 + 1, peak.1 / 2)));
        }
        assert_eq!(needed(leaves, &[]), peaks(leaves).collect::<Vec<_>>());
    }
}

#[test]
fn growing_and_changing_step_by_step_equals_building_anew() {
    let mut nodes: BTreeMap<tree::Node, Hash> = BTreeMap::new();
    let mut leaves: Vec<Hash> = Vec::new();
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for step in 0..120_u64 {
        let mut touched: BTreeMap<u64, Hash> = BTreeMap::new();
        for _ in 0..random(4) {
            if !leaves.is_empty() {
                let at = random(leaves.len() as u64);
                leaves[at as usize] = hash::chunk(step, &[at as u8; 128]);
                touched.insert(at, leaves[at as usize]);
            }
        }
        for _ in 0..random(9) {
            let at = leaves.len() as u64;
            leaves.push(hash::chunk(at, &[7; 128]));
            touched.insert(at, leaves[at as usize]);
        }
        let known = nodes.clone();
        let get = |node| known.get(&node).copied().ok_or(node);
        let put = |node, hash| {
            nodes.insert(node, hash);
        };
        let count = leaves.len() as u64;
        let root = tree::update(Domain::LIVE, count, touched.into_iter().collect(), get, put);
        assert_eq!(root, Ok(naive_root(Domain::LIVE, &leaves)), "step {step}, {count} leaves");
    }
    assert!(leaves.len() > 300, "too few to say anything");
}

#[test]
fn every_coin_of_a_set_proves_what_it_is() {
    for count in [1, 2, 3, 7, 8, 1023, 1024, 1025, 2500] {
        let set = Set::new("bitcoin", 7, count, |place| place % 3 != 1);
        let root = set.root();
        for place in 0..count {
            let proof = set.proof(&[place]);
            let said = if place % 3 == 1 { Verdict::Spent } else { Verdict::Unspent };
            assert_eq!(proof.check(&root), Ok(vec![said]), "{place} of {count}");
            let bytes = proof.to_bytes();
            assert_eq!(Proof::from_bytes(&bytes), Ok(proof));
        }
    }
}

#[test]
fn no_changed_byte_is_believed() {
    let set = Set::new("cardano-preview", 12, 2_100, |place| place % 2 == 0);
    let root = set.root();
    let mut tried = 0_u32;
    for places in [vec![5], vec![1030], vec![0, 1, 700, 2_099]] {
        let bytes = set.proof(&places).to_bytes();
        assert!(Proof::from_bytes(&bytes).unwrap().check(&root).is_ok());
        for at in 0..bytes.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let believed = Proof::from_bytes(&changed).and_then(|proof| proof.check(&root));
                assert!(believed.is_err(), "byte {at} of a proof of {places:?}");
                tried += 1;
            }
            let cut = Proof::from_bytes(&bytes[..at]).and_then(|proof| proof.check(&root));
            assert!(cut.is_err(), "cut at {at}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Proof::from_bytes(&longer), Err(ProofError::Encoding), "something behind it");
    }
    assert!(tried > 5_000, "{tried}");
}

#[test]
fn proofs_of_other_blocks_networks_and_shapes_are_refused() {
    let set = Set::new("bitcoin", 7, 1_500, |place| place % 2 == 0);
    let root = set.root();
    let later = Set::new("bitcoin", 8, 1_500, |place| place % 2 == 0 && place != 10);
    let abroad = Set::new("bitcoin-signet", 7, 1_500, |place| place % 2 == 0);
    let proof = set.proof(&[10]);
    assert_eq!(proof.check(&root), Ok(vec![Verdict::Unspent]));
    assert_eq!(proof.check(&later.root()), Err(ProofError::Root), "a stale root");
    assert_eq!(proof.check(&abroad.root()), Err(ProofError::Root), "another network");
    assert_eq!(later.proof(&[10]).check(&later.root()), Ok(vec![Verdict::Spent]));
    let told = |change: &dyn Fn(&mut Proof)| {
        let mut changed = set.proof(&[10, 11]);
        change(&mut changed);
        changed.check(&root)
    };
    assert_eq!(told(&|proof| proof.coins.swap(0, 1)), Err(ProofError::Places));
    assert_eq!(told(&|proof| proof.coins[1] = proof.coins[0].clone()), Err(ProofError::Places));
    assert_eq!(told(&|proof| proof.coins[1].0 = 1_500), Err(ProofError::Places));
    assert_eq!(told(&|proof| proof.coins.clear()), Err(ProofError::Empty));
    assert_eq!(told(&|proof| proof.output_nodes.truncate(1)), Err(ProofError::Shape));
    assert_eq!(told(&|proof| proof.output_nodes.push([0; 32])), Err(ProofError::Shape));
    assert_eq!(told(&|proof| proof.live_nodes.push([0; 32])), Err(ProofError::Shape));
    assert_eq!(told(&|proof| proof.chunks.push(LiveChunk([0; 128]))), Err(ProofError::Shape));
    let last = set.proof(&[10, 11]).output_nodes.len() - 1;
    assert_eq!(told(&|proof| proof.output_nodes.swap(last, last - 1)), Err(ProofError::Root));
    assert_eq!(told(&|proof| proof.head.live += 1), Err(ProofError::Root));
    assert_eq!(told(&|proof| proof.chunks[0].0[1] ^= 0x20), Err(ProofError::Root));
    assert_eq!(told(&|proof| proof.coins[0].1.record.push(0)), Err(ProofError::Root));
}

#[test]
fn a_number_written_at_length_is_refused() {
    let set = Set::new("bitcoin", 7, 20, |_| true);
    let bytes = set.proof(&[3]).to_bytes();
    // The version as two bytes instead of one.
    let longer = [&bytes[..1], &[0x18, 0x01], &bytes[2..]].concat();
    assert_eq!(Proof::from_bytes(&longer), Err(ProofError::Encoding));
    // An array without a length.
    let open = [&[0x9f], &bytes[1..], &[0xff]].concat();
    assert_eq!(Proof::from_bytes(&open), Err(ProofError::Encoding));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn many_coins_share_their_nodes(
        count in 1_u64..3_000,
        picks in prop::collection::btree_set(any::<u64>(), 1..30),
        spent in any::<u64>(),
    ) {
        let is_live = |place: u64| (spent >> (place % 64)) & 1 == 0;
        let set = Set::new("cardano-mainnet", 3, count, is_live);
        let places: std::collections::BTreeSet<u64> = picks.iter().map(|n| n % count).collect();
        let places: Vec<u64> = places.into_iter().collect();
        let proof = set.proof(&places);
        let said = proof.check(&set.root()).unwrap();
        for (place, verdict) in places.iter().zip(said) {
            prop_assert_eq!(verdict == Verdict::Unspent, is_live(*place));
        }
        let apart: usize = places.iter().map(|at| set.proof(&[*at]).to_bytes().len()).sum();
        prop_assert!(proof.to_bytes().len() <= apart);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Proof::from_bytes(&bytes).and_then(|proof| proof.check(&[0; 32])).is_err());
    }
}

// ---- vectors

fn shown(proof: &Proof) -> Value {
    let hex = |bytes: &[u8]| Value::from(hex::encode(bytes));
    let hashes = |all: &[Hash]| all.iter().map(|hash| hex(hash)).collect::<Vec<_>>();
    let coin = |(place, coin): &(u64, Leaf)| {
        json!({
            "place": place, "txid": hex(&coin.txid), "vout": coin.vout,
            "record": hex(&coin.record),
        })
    };
    json!({
        "network": proof.head.network, "height": proof.head.height,
        "block_hash": hex(&proof.head.block_hash), "leaves": proof.head.leaves,
        "live": proof.head.live, "coins": proof.coins.iter().map(coin).collect::<Vec<_>>(),
        "output_nodes": hashes(&proof.output_nodes),
        "chunks": proof.chunks.iter().map(|chunk| hex(&chunk.0)).collect::<Vec<_>>(),
        "live_nodes": hashes(&proof.live_nodes),
    })
}

fn vectors() -> Value {
    let cases = [
        ("bitcoin", 1, vec![0]),
        ("bitcoin", 7, vec![3]),
        ("bitcoin-regtest", 1_025, vec![0, 5, 1_024]),
        ("cardano-preview", 2_500, vec![700]),
        ("cardano-mainnet", 2_049, vec![1, 2_048]),
    ];
    let good = cases.iter().map(|(network, count, places)| {
        let set = Set::new(network, count + 1, *count, |place| place % 5 != 0);
        let proof = set.proof(places);
        let said: Vec<_> =
            proof.check(&set.root()).unwrap().iter().map(ToString::to_string).collect();
        json!({
            "root": hex::encode(set.root()), "cbor": hex::encode(proof.to_bytes()),
            "proof": shown(&proof), "verdicts": said,
        })
    });
    let good: Vec<Value> = good.collect();
    let bad: Vec<Value> = good
        .iter()
        .flat_map(|case| {
            let bytes = hex::decode(case["cbor"].as_str().unwrap()).unwrap();
            let root = case["root"].clone();
            (0..bytes.len()).step_by(bytes.len() / 9 + 1).map(move |at| {
                let mut changed = bytes.clone();
                changed[at] ^= 0x04;
                json!({ "root": root, "cbor": hex::encode(changed) })
            })
        })
        .collect();
    json!({ "version": 1, "good": good, "bad": bad })
}

#[test]
fn the_vectors_in_the_repository_are_these() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/proofs.json");
    let text = format!("{:#}\n", vectors());
    if std::env::var_os("UNSPENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "{} is another; write it with UNSPENT_WRITE_DOCS=1", path.display());
}

/// A second implementation, which shares no code with ours, says the same of every vector.
#[test]
fn a_checker_in_another_language_agrees() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let script = folder.join("check_vectors.py");
    let run =
        std::process::Command::new("python3").arg(&script).arg(folder.join("vectors")).output();
    let Ok(run) = run else {
        assert!(std::env::var_os("UNSPENT_REQUIRE_PEERS").is_none(), "python3 is missing");
        eprintln!("SKIPPED: python3 is missing");
        return;
    };
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{told}{}", String::from_utf8_lossy(&run.stderr));
    assert!(told.contains("5 proofs hold"), "{told}");
}
