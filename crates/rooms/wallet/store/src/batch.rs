//! Transactions as they come in: each with where it was seen, and what recording them did.

use std::collections::BTreeSet;

use bitcoin::Transaction;
use unspent_model::{BlockHash, wallet::LockId};

use crate::ids::WalletId;

/// A block, by all that a wallet keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// Blocks between it and genesis.
    pub height: u64,
    /// Its hash, in wire order.
    pub hash: BlockHash,
    /// Its time, in seconds, as its header says.
    pub time: u32,
}

/// Where a transaction comes from. It decides what is believed of it: a block settles it, a node's
/// mempool vouches for it, hearsay does neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxSource {
    /// Made here; its leases may be those of `lock`, others only by `force`.
    Created {
        /// Whose leases it may use.
        lock: Option<LockId>,
        /// Whether it may take coins that others leased.
        force: bool,
    },
    /// Heard of, without a node that vouches for it.
    Relayed,
    /// In a node's mempool.
    Mempool,
    /// In a block, at a place.
    Block(BlockRef, u64),
}

/// A transaction that was seen.
#[derive(Clone, Debug)]
pub struct ObservedTx {
    /// With its signatures, as it was seen.
    pub tx: Transaction,
    /// Where it comes from.
    pub source: TxSource,
    /// Its fee where the teller knows it.
    pub fee: Option<u64>,
    /// A label to give it.
    pub label: Option<String>,
    /// Wallets that are not told, because they know it: their own view of it stays.
    pub known_to: Vec<WalletId>,
}

impl ObservedTx {
    /// A transaction without further news about it.
    pub fn new(tx: Transaction, source: TxSource) -> Self {
        Self { tx, source, fee: None, label: None, known_to: Vec::new() }
    }
}

/// Transactions that belong together, with the tip they lead to.
#[derive(Clone, Debug, Default)]
pub struct TxBatch {
    /// In any order.
    pub txs: Vec<ObservedTx>,
    /// Blocks that may be stored along the way.
    pub blocks: Vec<BlockRef>,
    /// Where the wallet stands afterwards. Only for a batch of one wallet.
    pub tip: Option<BlockRef>,
}

impl TxBatch {
    /// One transaction.
    pub fn one(tx: Transaction, source: TxSource) -> Self {
        Self { txs: vec![ObservedTx::new(tx, source)], ..Self::default() }
    }
}

/// What a batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedChanges {
    /// Wallets that it concerned.
    pub wallets: BTreeSet<WalletId>,
    /// Transactions stored for the first time, over all wallets.
    pub new_txs: usize,
    /// Transactions whose state changed, over all wallets.
    pub changed_txs: usize,
    /// Coins found, over all wallets.
    pub new_coins: usize,
}
