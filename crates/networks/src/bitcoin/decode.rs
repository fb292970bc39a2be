//! Bitcoin blocks.
//!
//! Invariant: a decoded body is the one its header commits to. Proof of work isn't checked, so that
//! generated chains work too.

use bitcoin::{
    Transaction, TxOut, VarInt,
    blockdata::{
        block::Header as WireHeader,
        constants::ChainHash,
        opcodes::{Opcode, all as opcodes},
        script::{Instruction, Script, read_scriptint},
    },
    consensus::Decodable,
    hashes::{Hash, HashEngine, sha256d},
};
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Block, Era, Header, Output, Tx, Work},
};

use super::{MAX_BLOCK_BYTES, MAX_SCRIPT_BYTES};
use crate::{DecodeError, spends::without_repeats};

/// A transaction has at least this many bytes: what a count of transactions can promise at most.
const SMALLEST_TX: usize = 60;
/// Version, then the marker and flag of BIP 144.
const SEGWIT_BODY_START: usize = 6;
const VERSION_BYTES: usize = 4;
const LOCK_TIME_BYTES: usize = 4;

/// What the header chain needs of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawHeader {
    /// The block.
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

/// The hash of a Bitcoin network's first block; `None` for Cardano, where genesis is no block.
pub fn genesis_hash(network: Network) -> Option<BlockHash> {
    let network = super::of(network)?;
    Some(BlockHash(ChainHash::using_genesis_block_const(network).to_bytes()))
}

pub(crate) fn decode(
    network: Network,
    raw: &[u8],
    height: Option<u64>,
) -> Result<Block<Output>, DecodeError> {
    if raw.len() > MAX_BLOCK_BYTES {
        return Err(DecodeError::TooLarge { size: raw.len(), limit: MAX_BLOCK_BYTES });
    }
    let mut rest = raw;
    let wire = wire_header(&mut rest)?;
    let summary = summary(&wire);
    let Body { named_height, mut txs } = read_body(&mut rest, &wire)?;
    if !rest.is_empty() {
        return Err(DecodeError::TrailingBytes { count: rest.len() });
    }
    let ids = txs.iter().map(|tx| sha256d::Hash::from_byte_array(tx.id.0)).collect();
    if merkle_root(ids) != Some(wire.merkle_root.to_raw_hash()) {
        return Err(DecodeError::MerkleRoot);
    }
    let is_first = genesis_hash(network) == Some(summary.hash);
    let height = height.or_else(|| is_first.then_some(0)).or(named_height);
    let height = height.ok_or(DecodeError::HeightUnknown)?;
    if height == 0 {
        // The first coinbase was never added to the coin set.
        txs.iter_mut().for_each(|tx| tx.creates.clear());
    }
    Ok(Block { header: header(&summary, height), txs })
}

fn header(summary: &RawHeader, height: u64) -> Header {
    Header {
        point: Point { height, slot: height, hash: summary.hash },
        parent: summary.parent,
        era: Era::Bitcoin,
        is_boundary: false,
        epoch: None,
        time: summary.time,
        work: summary.work,
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

/// The transactions, and the height that the first of them names.
struct Body {
    named_height: Option<u64>,
    txs: Vec<Tx<Output>>,
}

fn read_body(rest: &mut &[u8], header: &WireHeader) -> Result<Body, DecodeError> {
    let malformed = |e| DecodeError::malformed("transaction", e);
    let count = VarInt::consensus_decode(rest).map_err(malformed)?.0;
    let room = usize::try_from(count).unwrap_or(usize::MAX).min(rest.len() / SMALLEST_TX);
    let mut body = Body { named_height: None, txs: Vec::with_capacity(room) };
    for i in 0..count {
        let before = *rest;
        let tx = Transaction::consensus_decode_from_finite_reader(rest).map_err(malformed)?;
        let raw = before.get(..before.len() - rest.len()).unwrap_or_default();
        if i == 0 {
            body.named_height = named_height(header, &tx);
        }
        body.txs.push(to_model(txid(&tx, raw)?, tx, i == 0)?);
    }
    Ok(body)
}

/// The hash of the transaction without its witness, from the bytes at hand: encoding it again, as
/// `compute_txid` does, costs about as much as hashing.
fn txid(tx: &Transaction, raw: &[u8]) -> Result<sha256d::Hash, DecodeError> {
    let base_size = tx.base_size();
    if base_size == raw.len() {
        return Ok(sha256d::Hash::hash(raw));
    }
    let body = base_size - VERSION_BYTES - LOCK_TIME_BYTES;
    let parts = [
        raw.get(..VERSION_BYTES),
        raw.get(SEGWIT_BODY_START..SEGWIT_BODY_START + body),
        raw.get(raw.len().saturating_sub(LOCK_TIME_BYTES)..),
    ];
    let mut engine = sha256d::Hash::engine();
    for part in parts {
        let part = part.ok_or_else(|| DecodeError::malformed("transaction", "size mismatch"))?;
        engine.input(part);
    }
    Ok(sha256d::Hash::from_engine(engine))
}

/// The root of the tree over `level`, or `None` when there is no transaction, or when a pair of
/// equal hashes lets two different lists have the same root (CVE-2012-2459).
fn merkle_root(mut level: Vec<sha256d::Hash>) -> Option<sha256d::Hash> {
    while level.len() > 1 {
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

/// The height a coinbase names (BIP 34), if its block promises to name one.
fn named_height(header: &WireHeader, coinbase: &Transaction) -> Option<u64> {
    if header.version.to_consensus() < 2 {
        return None;
    }
    let script = &coinbase.input.first()?.script_sig;
    match script.instructions_minimal().next()?.ok()? {
        Instruction::PushBytes(bytes) => read_scriptint(bytes.as_bytes()).ok()?.try_into().ok(),
        Instruction::Op(code) => small_number(code),
    }
}

/// Heights 1 to 16 are a single opcode.
fn small_number(code: Opcode) -> Option<u64> {
    let number = code.to_u8().checked_sub(opcodes::OP_PUSHNUM_1.to_u8())?.checked_add(1)?;
    (number <= 16).then_some(u64::from(number))
}

fn to_model(id: sha256d::Hash, tx: Transaction, is_first: bool) -> Result<Tx<Output>, DecodeError> {
    let is_coinbase = tx.is_coinbase();
    if is_coinbase != is_first {
        let reason = "the coinbase must be the first transaction and no other";
        return Err(DecodeError::malformed("block", reason));
    }
    let spends = if is_coinbase { Vec::new() } else { spends(&tx) };
    // Sized at once: almost everything is kept, and outputs are large.
    let mut creates = Vec::with_capacity(tx.output.len());
    let outputs = (0_u32..).zip(tx.output);
    let kept = outputs.filter(|(_, out)| !is_unspendable(&out.script_pubkey));
    creates.extend(kept.map(|(index, out)| (index, output(out, is_coinbase))));
    let id = TxId(id.to_byte_array());
    Ok(Tx { id, spends, creates, is_invalid: false, is_coinbase })
}

fn output(out: TxOut, is_coinbase: bool) -> Output {
    Output {
        addr: out.script_pubkey.into_bytes(),
        lovelace: out.value.to_sat(),
        is_coinbase,
        ..Output::default()
    }
}

fn spends(tx: &Transaction) -> Vec<Outpoint> {
    let inputs = tx.input.iter().map(|input| input.previous_output);
    let named = inputs.map(|out| Outpoint::new(TxId(out.txid.to_byte_array()), out.vout));
    without_repeats(named.collect())
}

fn is_unspendable(script: &Script) -> bool {
    script.is_op_return() || script.len() > MAX_SCRIPT_BYTES
}
