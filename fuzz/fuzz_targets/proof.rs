//! Proofs: bytes from anywhere neither panic nor lead to a root that is not theirs, and what is
//! read is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_verify::{
    Head, Leaf, LiveChunk, Proof, Verdict, hash,
    tree::Forest,
};

const LEAVES: u64 = 11;

/// A true proof of an output out of eleven, every third of them spent, and its root.
fn truth(place: u64) -> (Proof, [u8; 32]) {
    let leaf = |at: u64| Leaf { txid: [at as u8; 32], vout: 1, record: vec![at as u8; 3] };
    let leaves: Vec<_> = (0..LEAVES).map(|at| leaf(at).hash(at)).collect();
    let mut bits = [0; 128];
    for at in (0..LEAVES).filter(|at| at % 3 != 0) {
        bits[at as usize / 8] |= 0x80 >> (at % 8);
    }
    let (outputs, live) = (Forest::outputs(&leaves), Forest::live(&[hash::chunk(0, &bits)]));
    let head = Head {
        network: "bitcoin".into(),
        height: 7,
        block_hash: [9; 32],
        leaves: LEAVES,
        live: LEAVES - LEAVES.div_ceil(3),
    };
    let root = head.root(&outputs.root(), &live.root());
    let proof = Proof {
        head,
        coins: vec![(place, leaf(place))],
        output_nodes: outputs.nodes_for(&[place]),
        chunks: vec![LiveChunk(bits)],
        live_nodes: live.nodes_for(&[0]),
    };
    (proof, root)
}

fuzz_target!(|bytes: &[u8]| {
    let place = u64::from(bytes.first().copied().unwrap_or(0)) % LEAVES;
    let (proof, root) = truth(place);
    let expected = if place % 3 == 0 { Verdict::Spent } else { Verdict::Unspent };
    assert_eq!(proof.check(&root), Ok(vec![expected]));
    if let Ok(read) = Proof::from_bytes(bytes) {
        assert_eq!(read.to_bytes(), bytes);
        // Whoever has no second preimage has no other proof that leads here.
        let is_true = (0..LEAVES).any(|place| truth(place).0 == read);
        assert!(read.check(&root).is_err() || is_true);
    }
    // The true bytes with the input laid over them: changed anywhere, they prove nothing.
    let mut changed = proof.to_bytes();
    for (byte, change) in changed.iter_mut().zip(bytes.iter().skip(1)) {
        *byte ^= change;
    }
    if changed != proof.to_bytes() {
        let accepted = Proof::from_bytes(&changed).is_ok_and(|lie| lie.check(&root).is_ok());
        assert!(!accepted, "a changed proof was accepted");
    }
});
