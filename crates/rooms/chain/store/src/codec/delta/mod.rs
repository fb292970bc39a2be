//! `BlockDelta`: what undoing a block needs, one packed value per block.
//!
//! A modern Bitcoin block spends some six thousand coins. A record for each, under a key of its
//! own, is written to the log, sorted, merged and deleted again by the thousand; one value per
//! block is written once and goes as a whole (Core keeps such data in its rev files). What can be
//! said once is: transactions and the blocks that coins come from stand in tables, and of a
//! created coin only what deleting it takes is kept, so that undoing neither reads nor hashes it.
//!
//! Inside the frame (see [`packed`](super::packed)) is one canonical CBOR array:
//!
//! | | field | item |
//! |---|---|---|
//! | 0 | point | `[block number, slot, block hash]` |
//! | 1 | block time | |
//! | 2 | epoch | `[]` on Bitcoin, else `[epoch]` |
//! | 3 | is self-contained | |
//! | 4 | transactions | `[position in the block, hash]`, by position, those that 6 and 7 name |
//! | 5 | blocks | fields 8 to 12 of a record, in the order in which 7, 8 and 6 first name them |
//! | 6 | created | see below |
//! | 7 | spent | `[coin, index, block, body, position, input]` |
//! | 8 | overwritten | `[tx hash, index, block, body]` |
//! | 9 | missing inputs | `[tx hash, index]` |
//! | 10 | tx flags | `[tx hash, is invalid, had collateral return]` |
//! | 11 | leaves | `[]`, or `[rewind]` in the MMR store: [`TreeRewind`] |
//!
//! A body is a record without its block's fields (8 to 12). The coin of a spend is a transaction's
//! hash, or its position if the same block created the coin. Position and input are the spender's;
//! they are left out when a new era withdrew the coin.
//!
//! A created coin is `[position, index]` when the block spends it again: the body is in 7. Else it
//! is `[position, index, address, value]`, with a payment credential behind it if there is one;
//! both are the 28 bytes of its list keys. In a self-contained delta it is `[position, index,
//! address, block, body]`.
//!
//! The design's two kinds of delta differ in what the outside sees: a self-contained one shows all
//! bodies, and its spends may be forgotten before it. Inside they share this layout, and either can
//! be undone by itself.

mod read;
mod write;

use unspent_model::{
    Outpoint, Point,
    chain::{Record, SpendingInput, TxFlags},
};

use super::TreeRewind;
use crate::{coin::Coin, schema::Owner};

pub use read::{DeltaCounts, decode_counts, decode_delta, decode_spend};
pub use write::{UndoData, encode_delta};

/// What deleting a coin takes, without its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoinListing {
    /// Hash of its address, as in its list key.
    pub address: [u8; 28],
    /// Its payment credential.
    pub credential: Option<[u8; 28]>,
    /// In base units.
    pub value: u64,
    /// Position of its transaction in the block.
    pub tx_position: u32,
}

impl CoinListing {
    /// Of a whole coin.
    pub fn of(coin: &Coin) -> Self {
        let (address, credential) = coin.owners();
        Self {
            address: *address.hash(),
            credential: credential.map(|owner: Owner| *owner.hash()),
            value: coin.value(),
            tx_position: coin.tx_position(),
        }
    }
}

/// A coin created, as the delta stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredCreated {
    /// The coin.
    pub outpoint: Outpoint,
    /// What deleting it takes; `None` when the same block spent it.
    pub listing: Option<CoinListing>,
    /// Its body; `None` in a compact delta.
    pub record: Option<Record>,
}

/// A coin spent, as the delta stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSpent {
    /// The coin.
    pub outpoint: Outpoint,
    /// Its body before the spend.
    pub record: Record,
    /// The spender; `None` when a new era withdrew the coin.
    pub by: Option<SpendingInput>,
    /// The same block created it.
    pub born_here: bool,
}

/// A delta as it lies on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredDelta {
    /// The block that the delta undoes.
    pub point: Point,
    /// Unix time of the block, in seconds.
    pub time: u64,
    /// Epoch of the block; `None` on Bitcoin.
    pub epoch: Option<u64>,
    /// Bodies of created coins are inside too.
    pub self_contained: bool,
    /// Coins created, in block order.
    pub created: Vec<StoredCreated>,
    /// Coins spent, in block order.
    pub spent: Vec<StoredSpent>,
    /// Transactions that failed in phase 2.
    pub tx_flags: Vec<TxFlags>,
    /// Coins lost to a repeated coinbase, as they were.
    pub overwritten: Vec<(Outpoint, Record)>,
    /// Inputs that were not in the set: none on a chain without holes.
    pub missing: Vec<Outpoint>,
    /// What undoing the block does to both trees; MMR store only.
    pub rewind: Option<TreeRewind>,
}
