//! A Bitcoin block, read once for everybody who needs it.
//!
//! The rooms want different things of one block: the chain room its coins, a wallet room its
//! transactions. Reading, hashing and checking are most of the work, so they are done once, here;
//! the result is cheap to share.
//!
//! A header commits to its transactions by the root of a merkle tree over their ids. The tree pairs
//! the last of an odd number with itself, so a list whose tail is repeated has the same root as the
//! honest one ([CVE-2012-2459]): one header, two bodies, and the forged one spends its coins twice.
//! A tree with two equal neighbours is therefore no match, as in Core's [`merkle.cpp`].
//!
//! An id leaves the witness out ([BIP 141]), which in the bytes stands between the outputs and the
//! lock time ([BIP 144]). So the root says nothing about witnesses, and nothing here relies on
//! them.
//!
//! Invariant: the transactions are those that the header commits to, the first and no other is a
//! coinbase, and the ids are theirs. Proof of work isn't checked, so that generated chains work
//! too.
//!
//! [CVE-2012-2459]: https://nvd.nist.gov/vuln/detail/CVE-2012-2459
//! [`merkle.cpp`]: https://github.com/bitcoin/bitcoin/blob/master/src/consensus/merkle.cpp
//! [BIP 141]: https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki#transaction-id
//! [BIP 144]: https://github.com/bitcoin/bips/blob/master/bip-0144.mediawiki#serialization

use std::sync::Arc;

use bitcoin::{
    Block, Transaction, Txid, VarInt,
    blockdata::block::Header as WireHeader,
    consensus::Decodable,
    hashes::{Hash, HashEngine, sha256d},
};
use unspent_model::{BlockHash, chain::Work};

use super::MAX_BLOCK_BYTES;
use crate::DecodeError;

/// A transaction has at least this many bytes: what a count of transactions can promise at most.
const SMALLEST_TX: usize = 60;
/// Version, then the marker and flag of BIP 144.
const SEGWIT_BODY_START: usize = 6;
const VERSION_BYTES: usize = 4;
const LOCK_TIME_BYTES: usize = 4;

/// What the header chain needs of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawHeader {
    /// The block's own hash, in wire order.
    pub hash: BlockHash,
    /// The block it builds on; all zeros for the first.
    pub parent: BlockHash,
    /// Work of this block alone.
    pub work: Work,
    /// Unix time in seconds.
    pub time: u64,
}

/// Reads a header of 80 bytes, or the header at the start of a block.
///
/// # Errors
///
/// When there are fewer than 80 bytes.
pub fn bitcoin_header(mut raw: &[u8]) -> Result<RawHeader, DecodeError> {
    wire_header(&mut raw).map(|header| summary(&header))
}

/// A whole block whose transactions are those of its header, with all hashes worked out. A clone
/// shares everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParsedBlock {
    header: RawHeader,
    block: Arc<Block>,
    txids: Arc<[Txid]>,
}

impl ParsedBlock {
    /// Reads exactly one block.
    ///
    /// # Errors
    ///
    /// When the bytes aren't one whole block, or its transactions aren't those of its header.
    pub fn parse(raw: &[u8]) -> Result<Self, DecodeError> {
        if raw.len() > MAX_BLOCK_BYTES {
            return Err(DecodeError::TooLarge { size: raw.len(), limit: MAX_BLOCK_BYTES });
        }
        let mut rest = raw;
        let header = wire_header(&mut rest)?;
        let (txdata, txids) = read_body(&mut rest)?;
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { count: rest.len() });
        }
        let leaves = txids.iter().map(|id| id.to_raw_hash()).collect();
        if merkle_root(leaves) != Some(header.merkle_root.to_raw_hash()) {
            return Err(DecodeError::MerkleRoot);
        }
        let block = Arc::new(Block { header, txdata });
        Ok(Self { header: summary(&header), block, txids: txids.into() })
    }

    /// What the header chain needs of the block.
    pub fn header(&self) -> &RawHeader {
        &self.header
    }

    /// The block as rust-bitcoin has it, witnesses included.
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// The ids of the block's transactions, in block order.
    pub fn txids(&self) -> &Arc<[Txid]> {
        &self.txids
    }

    pub(super) fn into_parts(self) -> (Arc<Block>, Arc<[Txid]>) {
        (self.block, self.txids)
    }
}

fn wire_header(raw: &mut &[u8]) -> Result<WireHeader, DecodeError> {
    WireHeader::consensus_decode(raw).map_err(|e| DecodeError::malformed("block header", e))
}

fn summary(header: &WireHeader) -> RawHeader {
    RawHeader {
        hash: BlockHash(header.block_hash().to_byte_array()),
        parent: BlockHash(header.prev_blockhash.to_byte_array()),
        work: Work(header.work().to_be_bytes()),
        time: u64::from(header.time),
    }
}

/// The transactions and their ids.
fn read_body(rest: &mut &[u8]) -> Result<(Vec<Transaction>, Vec<Txid>), DecodeError> {
    let malformed = |e| DecodeError::malformed("transaction", e);
    let count = VarInt::consensus_decode(rest).map_err(malformed)?.0;
    // A count is only a claim: what it may reserve is bounded by the bytes that are there.
    let room = usize::try_from(count).unwrap_or(usize::MAX).min(rest.len() / SMALLEST_TX);
    let (mut txs, mut ids) = (Vec::with_capacity(room), Vec::with_capacity(room));
    for i in 0..count {
        let before = *rest;
        let tx = Transaction::consensus_decode_from_finite_reader(rest).map_err(malformed)?;
        let raw = before.get(..before.len() - rest.len()).unwrap_or_default();
        ids.push(txid(&tx, raw)?);
        // Anywhere else it would create coins and spend none.
        if tx.is_coinbase() != (i == 0) {
            let reason = "the first transaction, and no other, must be a coinbase";
            return Err(DecodeError::malformed("block", reason));
        }
        txs.push(tx);
    }
    Ok((txs, ids))
}

/// The hash of the transaction without its witness, from the bytes at hand: encoding it again, as
/// `compute_txid` does, costs about as much as hashing.
fn txid(tx: &Transaction, raw: &[u8]) -> Result<Txid, DecodeError> {
    let base_size = tx.base_size();
    if base_size == raw.len() {
        return Ok(Txid::hash(raw));
    }
    let body = base_size - VERSION_BYTES - LOCK_TIME_BYTES;
    let parts = [
        raw.get(..VERSION_BYTES),
        raw.get(SEGWIT_BODY_START..SEGWIT_BODY_START + body),
        raw.get(raw.len().saturating_sub(LOCK_TIME_BYTES)..),
    ];
    let mut engine = Txid::engine();
    for part in parts {
        let part = part.ok_or_else(|| DecodeError::malformed("transaction", "size mismatch"))?;
        engine.input(part);
    }
    Ok(Txid::from_engine(engine))
}

/// The root of the tree over `level`, or `None` when there is no transaction, or when a pair of
/// equal hashes lets two different lists have the same root (CVE-2012-2459).
fn merkle_root(mut level: Vec<sha256d::Hash>) -> Option<sha256d::Hash> {
    while level.len() > 1 {
        // Whole pairs alone: the last of an odd number is rightly paired with itself.
        if level.chunks_exact(2).any(|pair| pair.first() == pair.last()) {
            return None;
        }
        level = level.chunks(2).map(node).collect();
    }
    level.pop()
}

/// The node over a pair; the last of an odd number is paired with itself.
fn node(pair: &[sha256d::Hash]) -> sha256d::Hash {
    let mut engine = sha256d::Hash::engine();
    for hash in pair.first().into_iter().chain(pair.last()) {
        engine.input(hash.as_byte_array());
    }
    sha256d::Hash::from_engine(engine)
}
