//! Names of transactions, blocks and coins.
//!
//! Hashes are kept in wire byte order. How a hash is shown depends on the network (Bitcoin shows it
//! reversed), so showing is [`crate::Network::show_hash`]'s business and `Debug` prints wire order.
//! Rooms that serve Bitcoin alone say so with [`TxId::on_bitcoin`]: what they print is then what
//! any other program of Bitcoin finds.

use std::fmt;

/// A transaction's hash, in wire byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TxId(pub [u8; 32]);

impl TxId {
    /// As people of Bitcoin write it.
    pub fn on_bitcoin(self) -> BitcoinTxId {
        BitcoinTxId(self)
    }
}

/// Shows a transaction's hash as Bitcoin does: its bytes in reverse.
#[derive(Clone, Copy)]
pub struct BitcoinTxId(TxId);

impl fmt::Display for BitcoinTxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TxId(mut bytes) = self.0;
        bytes.reverse();
        write_hex(&bytes, f)
    }
}

/// A block's hash, in wire byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockHash(pub [u8; 32]);

/// One output of one transaction: the name of a coin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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

    /// As people of Bitcoin write it: `txid:vout`.
    pub fn on_bitcoin(self) -> BitcoinOutpoint {
        BitcoinOutpoint(self)
    }
}

/// Shows a coin's name as Bitcoin does.
#[derive(Clone, Copy)]
pub struct BitcoinOutpoint(Outpoint);

impl fmt::Display for BitcoinOutpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.tx.on_bitcoin(), self.0.index)
    }
}

/// A place on a chain: enough to tell one branch from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Number of the block. A Byron boundary block shares its predecessor's.
    pub height: u64,
    /// Slot on Cardano, height on Bitcoin.
    pub slot: u64,
    /// The block's hash.
    pub hash: BlockHash,
}

impl Point {
    /// A place on a chain that counts in blocks alone, as Bitcoin's does.
    pub const fn at_height(height: u64, hash: BlockHash) -> Self {
        Self { height, slot: height, hash }
    }
}

fn write_hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

// Findings of `verify` and reports of damage name a coin or a block by `Debug`: it has to be fit to
// be read.
impl fmt::Debug for Outpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}#{}", self.tx, self.index)
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} at slot {}, {:?}", self.height, self.slot, self.hash)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitcoin_reads_a_txid_backwards() {
        let mut wire = [0; 32];
        wire[0] = 0xab;
        let coin = Outpoint::new(TxId(wire), 7);
        assert_eq!(coin.tx.on_bitcoin().to_string(), format!("{}ab", "00".repeat(31)));
        assert_eq!(coin.on_bitcoin().to_string(), format!("{}ab:7", "00".repeat(31)));
        assert_eq!(coin.tx.on_bitcoin().to_string(), crate::Network::Bitcoin.show_hash(&wire));
    }
}
