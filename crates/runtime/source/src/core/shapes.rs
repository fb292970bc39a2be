//! A node's answers, as far as we read them.

use std::{borrow::Cow, fmt};

use bitcoin::{Transaction, consensus::encode::deserialize};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use unspent_model::{BlockHash, Network, Point};

/// A block's hash, as people write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WireHash(pub(super) BlockHash);

impl<'de> Deserialize<'de> for WireHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        let hash = Network::Bitcoin.parse_hash(&text);
        hash.map(|hash| Self(BlockHash(hash))).ok_or_else(|| D::Error::custom("not a block hash"))
    }
}

/// What `getblockheader` answers, as far as it is read.
#[derive(Deserialize)]
pub(super) struct HeaderTime {
    pub(super) time: u64,
}

/// Bytes, written as hex; read without keeping the text.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct HexBytes(pub(super) Vec<u8>);

struct HexVisitor;

impl Visitor<'_> for HexVisitor {
    type Value = HexBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in hex")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HexBytes, E> {
        hex::decode(text).map(HexBytes).map_err(|_| E::custom("not bytes in hex"))
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(HexVisitor)
    }
}

/// A transaction, written as hex.
pub(super) struct HexTx(pub(super) Transaction);

impl<'de> Deserialize<'de> for HexTx {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let HexBytes(bytes) = HexBytes::deserialize(from)?;
        deserialize(&bytes).map(Self).map_err(|_| D::Error::custom("not a transaction"))
    }
}

/// A transaction's name.
pub(super) struct TxName(pub(super) bitcoin::Txid);

impl<'de> Deserialize<'de> for TxName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        text.parse().map(Self).map_err(|_| D::Error::custom("not a txid"))
    }
}

/// `getblockchaininfo`
#[derive(Deserialize)]
pub(super) struct ChainInfo {
    pub(super) chain: String,
    blocks: u64,
    bestblockhash: WireHash,
}

impl ChainInfo {
    pub(super) fn tip(&self) -> Point {
        point(self.blocks, self.bestblockhash.0)
    }
}

/// `getblockheader`
#[derive(Deserialize)]
pub(super) struct HeaderInfo {
    pub(super) height: u64,
    /// Negative when the block is not on the best chain.
    pub(super) confirmations: i64,
    pub(super) previousblockhash: Option<WireHash>,
}

/// `getzmqnotifications`
#[derive(Deserialize)]
pub(super) struct Publication {
    #[serde(rename = "type")]
    pub(super) topic: String,
    pub(super) address: String,
}

/// A Bitcoin block's place: its slot is its height.
pub(super) fn point(height: u64, hash: BlockHash) -> Point {
    Point { height, slot: height, hash }
}
