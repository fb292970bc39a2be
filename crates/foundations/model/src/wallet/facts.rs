//! What is known of the neighbourhood of a change, as far as it has been loaded.
//!
//! Absence is a fact only where somebody looked: each map says for a key that was looked up what
//! was found, and a key that is missing has to be asked for.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{LockId, TxStatus};
use crate::{Micros, Outpoint, TxId};

/// Where a transaction stands in the best chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Confirmation {
    /// Height of its block.
    pub height: u64,
    /// Its place in the block.
    pub position: u64,
}

/// A transaction as the wallet knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTx {
    /// In wire order, as hashed.
    pub txid: TxId,
    /// Validity.
    pub status: TxStatus,
    /// Confirmation.
    pub confirmed: Option<Confirmation>,
    /// Whether it makes new money.
    pub is_coinbase: bool,
    /// Whether it ever was published: decides what a revival brings back.
    pub ever_published: bool,
    /// Whether its maker took it back: then nothing revives it but the network itself.
    pub withdrawn: bool,
    /// Whether every input is ours.
    pub is_own: bool,
    /// What it pays to miners, where all inputs are known.
    pub fee: Option<u64>,
    /// What all its outputs hold together.
    pub output_total: u64,
    /// When we first heard of it, in microseconds.
    pub received: Micros,
    /// When the mempool was found without it.
    pub evicted_at: Option<Micros>,
    /// What it spends, ours or not, in order.
    pub inputs: Vec<Outpoint>,
}

impl StoredTx {
    /// Whether its inputs count as spent and its outputs as coins.
    pub fn is_live(&self) -> bool {
        self.status.is_live()
    }
}

/// An address of a wallet, by whatever its store finds it again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AddressId(pub i64);

/// An output that is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coin {
    /// Satoshis.
    pub amount: u64,
    /// The address it belongs to.
    pub address: AddressId,
    /// The live transaction that spends it, and with which input.
    pub spent_by: Option<(TxId, u32)>,
    /// Who holds an active lease on it.
    pub holder: Option<LockId>,
}

/// Everything loaded so far.
#[derive(Clone, Debug, Default)]
pub struct KnownFacts {
    /// Stored transactions by name; `None` when there is none.
    pub txs: HashMap<TxId, Option<StoredTx>>,
    /// All stored transactions that spend an outpoint, live or dead.
    pub spenders: HashMap<Outpoint, Vec<TxId>>,
    /// All stored transactions that spend any output of a transaction.
    pub children: HashMap<TxId, Vec<TxId>>,
    /// Coins by outpoint; `None` when the output isn't ours.
    pub coins: HashMap<Outpoint, Option<Coin>>,
    /// Transactions all of whose coins are in `coins`, with the indexes of those.
    pub credits: HashMap<TxId, Vec<u32>>,
}

/// What has to be loaded before a plan can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededFacts {
    /// Transactions by name.
    pub txs: BTreeSet<TxId>,
    /// Spenders of outpoints.
    pub spenders: BTreeSet<Outpoint>,
    /// All descendants of transactions, with their inputs.
    pub children: BTreeSet<TxId>,
    /// Coins at outpoints.
    pub coins: BTreeSet<Outpoint>,
    /// All coins of transactions.
    pub credits: BTreeSet<TxId>,
}

impl NeededFacts {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.txs.is_empty()
            && self.spenders.is_empty()
            && self.children.is_empty()
            && self.coins.is_empty()
            && self.credits.is_empty()
    }
}

/// Names in first-come order, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered<T> {
    seen: HashSet<T>,
    order: Vec<T>,
}

impl<T: Copy + Eq + std::hash::Hash> Ordered<T> {
    /// Adds a name; false when it was there.
    pub(super) fn insert(&mut self, item: T) -> bool {
        let is_new = self.seen.insert(item);
        if is_new {
            self.order.push(item);
        }
        is_new
    }

    /// The names in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.order.iter().copied()
    }

    /// The name at a place.
    pub(super) fn at(&self, place: usize) -> Option<T> {
        self.order.get(place).copied()
    }
}
