//! A proof, and its checking.

use alloc::{string::String, vec::Vec};
use core::fmt;

use crate::{
    hash::{self, Domain, Hash},
    tree::climb,
};

/// Live bits in one leaf of the second tree.
pub const CHUNK_BITS: u64 = 1024;

/// The block that a proof is about, and how much there is at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The network's name, such as `bitcoin` or `cardano-preview`.
    pub network: String,
    /// The block's number.
    pub height: u64,
    /// The block's hash, in the order in which it is stored.
    pub block_hash: [u8; 32],
    /// Outputs ever created, up to this block.
    pub leaves: u64,
    /// Outputs unspent after this block.
    pub live: u64,
}

impl Head {
    /// The root of the block.
    pub fn root(&self, outputs: &Hash, live: &Hash) -> Hash {
        let numbers = [self.height, self.leaves, self.live];
        hash::root(&self.network, numbers, &self.block_hash, [outputs, live])
    }
}

/// An output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The transaction that created it, in the order in which it is stored.
    pub txid: [u8; 32],
    /// Its number among that transaction's outputs.
    pub vout: u32,
    /// Its record in canonical CBOR: owner, value and what else it holds.
    pub record: Vec<u8>,
}

impl Leaf {
    /// Its hash at its place among all outputs.
    pub fn hash(&self, place: u64) -> Hash {
        hash::output(place, &self.txid, self.vout, &self.record)
    }
}

/// 1,024 live bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveChunk(pub [u8; 128]);

impl LiveChunk {
    /// Whether the output at a place of this chunk is unspent.
    pub fn is_live(&self, place: u64) -> bool {
        let bit = usize::try_from(place % CHUNK_BITS).unwrap_or(0);
        self.0.get(bit / 8).is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1)
    }
}

/// Leads from outputs and their bits to the root of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    /// The block.
    pub head: Head,
    /// Outputs with their places, in the order of places.
    pub coins: Vec<(u64, Leaf)>,
    /// Nodes of the tree of outputs that the outputs don't lead to themselves, in the order of
    /// [`needed`](crate::tree::needed).
    pub output_nodes: Vec<Hash>,
    /// The chunks that hold the outputs' bits, each once, in order.
    pub chunks: Vec<LiveChunk>,
    /// The same of the tree of live bits.
    pub live_nodes: Vec<Hash>,
}

/// What a proof says of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Created at or before the block, and not spent.
    Unspent,
    /// Created and spent at or before the block.
    Spent,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspent => "UNSPENT",
            Self::Spent => "SPENT",
        })
    }
}

/// Why a proof proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProofError {
    /// The bytes are no proof in canonical form.
    Encoding,
    /// It names no output.
    Empty,
    /// Its outputs are not in order, repeat, or lie beyond the last one.
    Places,
    /// There are more or fewer nodes or chunks than it takes.
    Shape,
    /// It leads to another root: another block or network, or something in it isn't true.
    Root,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encoding => "this is not a proof in canonical form",
            Self::Empty => "the proof covers no output",
            Self::Places => "the proof's outputs are not in order",
            Self::Shape => "the proof holds more or fewer nodes than it needs",
            Self::Root => "the proof leads to another root",
        })
    }
}

impl core::error::Error for ProofError {}

impl Proof {
    /// What the proof says of each of its outputs, if it leads to this root.
    ///
    /// # Errors
    ///
    /// [`ProofError`]: then it says nothing.
    pub fn check(&self, root: &Hash) -> Result<Vec<Verdict>, ProofError> {
        let Head { leaves, .. } = self.head;
        let mut places = self.coins.iter().map(|(place, _)| *place);
        if !places.clone().is_sorted_by(|a, b| a < b) || places.any(|place| place >= leaves) {
            return Err(ProofError::Places);
        }
        if self.coins.is_empty() {
            return Err(ProofError::Empty);
        }
        let outputs: Vec<_> =
            self.coins.iter().map(|(place, leaf)| (*place, leaf.hash(*place))).collect();
        let outputs = climb(Domain::OUTPUTS, leaves, &outputs, &self.output_nodes);
        let chunks = self.numbered_chunks()?;
        let bits: Vec<_> =
            chunks.iter().map(|(number, bits)| (*number, hash::chunk(*number, &bits.0))).collect();
        let live = climb(Domain::LIVE, leaves.div_ceil(CHUNK_BITS), &bits, &self.live_nodes);
        let (Some(outputs), Some(live)) = (outputs, live) else { return Err(ProofError::Shape) };
        if self.head.root(&outputs, &live) != *root {
            return Err(ProofError::Root);
        }
        self.coins.iter().map(|(place, _)| verdict(*place, &chunks)).collect()
    }

    /// The chunks with their numbers, in order.
    fn numbered_chunks(&self) -> Result<Vec<(u64, &LiveChunk)>, ProofError> {
        let mut numbers: Vec<u64> =
            self.coins.iter().map(|(place, _)| place / CHUNK_BITS).collect();
        numbers.dedup();
        if numbers.len() != self.chunks.len() {
            return Err(ProofError::Shape);
        }
        Ok(numbers.into_iter().zip(&self.chunks).collect())
    }
}

fn verdict(place: u64, chunks: &[(u64, &LiveChunk)]) -> Result<Verdict, ProofError> {
    let at = chunks.binary_search_by_key(&(place / CHUNK_BITS), |(number, _)| *number);
    let at = at.map_err(|_| ProofError::Shape)?;
    let (_, chunk) = chunks.get(at).ok_or(ProofError::Shape)?;
    Ok(if chunk.is_live(place) { Verdict::Unspent } else { Verdict::Spent })
}
