//! Proofs that a coin is unspent, or was spent, at a block, checked by anybody who has the root.
//!
//! A node of ours keeps two trees over all outputs that its chain ever created:
//!
//! | tree | leaf | changes |
//! |---|---|---|
//! | outputs | one for each output, in the order of the chain: its place, its outpoint, its record | only by growing |
//! | live | 1,024 bits each, one for each leaf of the first tree: 1 while it is unspent | with every spend |
//!
//! The root of a block is one hash over network, block, number of leaves, number of live leaves and
//! both trees' roots. A [`Proof`] leads from outputs and bits up to that root, and holds nothing
//! that the root doesn't bind:
//!
//! | bit | says |
//! |---|---|
//! | 1 | [`Verdict::Unspent`]: created at or before the block, and unspent after it |
//! | 0 | [`Verdict::Spent`]: created at or before the block, and spent at or before it |
//!
//! What can't be proved: that an outpoint never existed (leaves are ordered by the chain, not by
//! name), and that the chain itself agrees with the root. No block of Bitcoin or Cardano names it;
//! take it from somebody you trust, or from several who don't know each other.
//!
//! | module | does |
//! |---|---|
//! | [`hash`] | every hash with its domain |
//! | [`tree`] | which nodes there are, how they change, which a proof needs |
//! | [`proof`] | a proof, and its checking |
//! | [`wire`] | a proof as bytes: canonical CBOR |
//!
//! ```
//! use unspent_verify::{Head, Leaf, LiveChunk, Proof, Verdict, hash, tree::Forest};
//!
//! // Three outputs; the second was spent since.
//! let coin = |vout| Leaf { txid: [7; 32], vout, record: b"a record".to_vec() };
//! let leaves: Vec<_> = (0..3).map(|at| coin(at).hash(at.into())).collect();
//! let mut chunk = [0; 128];
//! chunk[0] = 0b1010_0000;
//! let outputs = Forest::outputs(&leaves);
//! let live = Forest::live(&[hash::chunk(0, &chunk)]);
//! let head = Head { network: "bitcoin".into(), height: 9, block_hash: [1; 32], leaves: 3, live: 2 };
//! let root = head.root(&outputs.root(), &live.root());
//!
//! let proof = Proof {
//!     head,
//!     coins: vec![(1, coin(1))],
//!     output_nodes: outputs.nodes_for(&[1]),
//!     chunks: vec![LiveChunk(chunk)],
//!     live_nodes: live.nodes_for(&[0]),
//! };
//! let bytes = proof.to_bytes();
//! let proof = Proof::from_bytes(&bytes)?;
//! assert_eq!(proof.check(&root)?, [Verdict::Spent]);
//! assert!(proof.check(&[0; 32]).is_err());
//! # Ok::<(), unspent_verify::ProofError>(())
//! ```
#![no_std]

extern crate alloc;

pub mod hash;
pub mod proof;
pub mod tree;
pub mod wire;

pub use hash::Hash;
pub use proof::{Head, Leaf, LiveChunk, Proof, ProofError, Verdict};
