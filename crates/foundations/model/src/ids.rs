//! Names of transactions, blocks and coins.
//!
//! Hashes are kept in wire byte order. How a hash is shown depends on the network (Bitcoin shows it
//! reversed), so showing is [`crate::Network::show_hash`]'s business and `Debug` prints wire order.

use std::fmt;

/// A transaction's hash, in wire byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TxId(pub [u8; 32]);

/// A block's hash, in wire byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockHash(pub [u8; 32]);

/// One output of one transaction: the name of a coin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Outpoint {
    /// The transaction that created the coin.
    pub tx: TxId,
    /// Which of its outputs. Bitcoin allows more than 65,535, hence 32 bits on every network.
    pub index: u32,
}

impl Outpoint {
    /// The coin `tx#index`.
    pub fn new(tx: TxId, index: u32) -> Self {
        Self { tx, index }
    }
}

/// A place on a chain: enough to tell one branch from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// Number of the block. A Byron boundary block shares its predecessor's.
    pub height: u64,
    /// Slot on Cardano, height on Bitcoin.
    pub slot: u64,
    /// The block's hash.
    pub hash: BlockHash,
}

fn write_hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Debug for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}
