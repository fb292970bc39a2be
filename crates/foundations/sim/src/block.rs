//! Putting a block together so that a regtest node accepts it.
//!
//! Invariant: whatever transactions are given, the block has a BIP34 coinbase, the right merkle
//! root, a witness commitment and enough work. Whether the transactions themselves are valid is
//! the caller's affair.

use bitcoin::block::{Header, Version};
use bitcoin::blockdata::locktime::absolute::LockTime;
use bitcoin::hashes::Hash;
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn,
    TxMerkleNode, TxOut, Txid, Witness, WitnessMerkleNode, Wtxid, merkle_tree, transaction,
};

/// Blocks between two halvings of the subsidy on regtest.
pub const HALVING_INTERVAL: u32 = 150;
/// How many blocks deep a coinbase must be before it may be spent.
pub const COINBASE_MATURITY: u32 = 100;
/// Heaviest block that consensus allows, in weight units.
pub const MAX_BLOCK_WEIGHT: u64 = 4_000_000;
/// Weight that transactions may fill: the limit less header, counts and a coinbase.
pub(crate) const WEIGHT_FOR_TRANSACTIONS: u64 = MAX_BLOCK_WEIGHT - 4_000;

/// Regtest's only difficulty: one hash in two is good enough.
const REGTEST_BITS: u32 = 0x207f_ffff;
const SUBSIDY_SATS: u64 = 5_000_000_000;
const SECONDS_PER_BLOCK: u32 = 600;
/// What precedes the commitment in its output: OP_RETURN, push of 36, BIP141's four bytes.
const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// New coins that the block at `height` may create, on regtest.
pub fn subsidy(height: u32) -> Amount {
    // Core forces the subsidy to 0 from the 64th halving on: shifting further means nothing.
    let sats = SUBSIDY_SATS.checked_shr(height / HALVING_INTERVAL).unwrap_or(0);
    Amount::from_sat(sats)
}

/// The genesis block of regtest.
pub fn genesis() -> Block {
    bitcoin::constants::genesis_block(bitcoin::Network::Regtest)
}

/// Header time of the block at `height`: ten minutes after its parent.
pub(crate) fn time_at(genesis_time: u32, height: u32) -> u32 {
    genesis_time.saturating_add(height.saturating_mul(SECONDS_PER_BLOCK))
}

/// Where a block goes and whom it pays; the transactions come beside it.
pub(crate) struct Draft {
    pub(crate) parent: BlockHash,
    pub(crate) height: u32,
    pub(crate) time: u32,
    pub(crate) payout: ScriptBuf,
    /// Subsidy and fees together.
    pub(crate) reward: Amount,
    /// Makes coinbases of competing blocks differ.
    pub(crate) extra_nonce: u64,
}

/// Builds and mines the block. `txids` are those of `transactions`, in order.
pub(crate) fn assemble(draft: Draft, transactions: Vec<Transaction>, txids: &[Txid]) -> Block {
    let coinbase = coinbase(&draft, witness_commitment(&transactions));
    let root = merkle_root(coinbase.compute_txid(), txids);
    let mut txdata = Vec::with_capacity(transactions.len().saturating_add(1));
    txdata.push(coinbase);
    txdata.extend(transactions);
    let header = Header {
        // The top bits of BIP 9, and no deployment signalled.
        version: Version::from_consensus(0x2000_0000),
        prev_blockhash: draft.parent,
        merkle_root: root,
        time: draft.time,
        bits: CompactTarget::from_consensus(REGTEST_BITS),
        nonce: 0,
    };
    Block { header: mined(header), txdata }
}

fn coinbase(draft: &Draft, commitment: ScriptBuf) -> Transaction {
    let script_sig = Builder::new()
        .push_int(i64::from(draft.height))
        // Consensus asks for 2 bytes at least, which a small height alone doesn't fill.
        .push_slice(draft.extra_nonce.to_be_bytes())
        .into_script();
    let mut witness = Witness::new();
    // BIP 141: a coinbase under a commitment carries the reserved value as its witness.
    witness.push([0_u8; 32]);
    Transaction {
        version: transaction::Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig,
            sequence: Sequence::MAX,
            witness,
        }],
        output: vec![
            TxOut { value: draft.reward, script_pubkey: draft.payout.clone() },
            TxOut { value: Amount::ZERO, script_pubkey: commitment },
        ],
    }
}

fn witness_commitment(transactions: &[Transaction]) -> ScriptBuf {
    // The coinbase holds the commitment, so it can't be in it: BIP 141 has zeros in its place.
    let coinbase_slot = std::iter::once(Wtxid::all_zeros().to_raw_hash());
    let others = transactions.iter().map(|tx| tx.compute_wtxid().to_raw_hash());
    let root = merkle_tree::calculate_root(coinbase_slot.chain(others))
        .map_or_else(WitnessMerkleNode::all_zeros, WitnessMerkleNode::from_raw_hash);
    let commitment = Block::compute_witness_commitment(&root, &[0; 32]);
    let mut script = COMMITMENT_PREFIX.to_vec();
    script.extend_from_slice(commitment.as_byte_array());
    ScriptBuf::from_bytes(script)
}

fn merkle_root(coinbase: Txid, others: &[Txid]) -> TxMerkleNode {
    let leaves = std::iter::once(coinbase).chain(others.iter().copied()).map(Txid::to_raw_hash);
    merkle_tree::calculate_root(leaves)
        .map_or_else(TxMerkleNode::all_zeros, TxMerkleNode::from_raw_hash)
}

/// Tries nonces until the hash is below regtest's target; two are enough on average.
fn mined(mut header: Header) -> Header {
    let target = header.target();
    while header.validate_pow(target).is_err() {
        header.nonce = header.nonce.wrapping_add(1);
    }
    header
}
