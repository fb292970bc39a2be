//! A coin ready to be stored: encoded once, its index keys worked out once.
//!
//! Encoding and hashing depend on the block alone, so they happen where the block is decoded, on
//! another core than the one that applies it.

use std::sync::Arc;

use unspent_model::{
    Family, Outpoint,
    chain::{Block, Born, Era, Output, Record},
};

use crate::{
    codec::{CodecError, CoinListing, PLACED_VERSION, VALUE_VERSION, append_record, decode_record},
    schema::{AddressKey, Owner},
};

/// Coins are shared between the overlay, deltas and the flushing thread.
pub type SharedCoin = Arc<Coin>;

/// A decoded block whose coins are ready to be stored.
pub type PreparedBlock = Block<SharedCoin>;

/// An unspent output in the form in which the store keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coin {
    /// What `utxo_unspent` stores: the version byte and the record. Empty in a coin that only
    /// leaves; see [`Self::leaving`].
    stored: Box<[u8]>,
    address: Owner,
    credential: Option<Owner>,
    slot: u64,
    tx_position: u32,
    value: u64,
    /// Its leaf in the MMR store.
    leaf: Option<u64>,
}

impl Coin {
    /// Encodes a record and works out its index keys.
    pub fn new(chain: Family, record: &Record) -> Self {
        Self::encode(chain, record, &mut Vec::new())
    }

    /// The same through a buffer that is used again: one exact allocation per coin.
    fn encode(chain: Family, record: &Record, buffer: &mut Vec<u8>) -> Self {
        buffer.clear();
        buffer.push(VALUE_VERSION);
        append_record(record, buffer);
        Self::with_stored(chain, buffer.as_slice().into(), record)
    }

    /// Takes over what `utxo_unspent` stores.
    pub(crate) fn from_stored(chain: Family, stored: &[u8]) -> Result<Self, CodecError> {
        Ok(Self::with_record(chain, stored)?.1)
    }

    /// The same together with the record.
    pub(crate) fn with_record(chain: Family, stored: &[u8]) -> Result<(Record, Self), CodecError> {
        // In memory a coin has the classic form: deltas and leaves are made of that.
        let (leaf, body) = parts(stored)?;
        let record = decode_record(body)?;
        let mut coin = match leaf {
            None => Self::with_stored(chain, stored.into(), &record),
            Some(_) => Self::with_stored(chain, [&[VALUE_VERSION], body].concat().into(), &record),
        };
        coin.leaf = leaf;
        Ok((record, coin))
    }

    /// The record inside what `utxo_unspent` stores.
    pub(crate) fn decode(stored: &[u8]) -> Result<Record, CodecError> {
        decode_record(parts(stored)?.1)
    }

    fn with_stored(chain: Family, stored: Box<[u8]>, record: &Record) -> Self {
        Self {
            stored,
            address: Owner::address(chain, &record.output.addr),
            credential: record.output.payment_credential.map(Owner::Credential),
            slot: record.born.slot,
            tx_position: record.born.tx_position,
            value: record.output.value,
            leaf: None,
        }
    }

    /// A coin that is on its way out of the set: its list keys are known, its body isn't needed.
    pub fn leaving(listing: &CoinListing, slot: u64) -> Self {
        Self {
            stored: Box::default(),
            address: Owner::Address(listing.address),
            credential: listing.credential.map(Owner::Credential),
            slot,
            tx_position: listing.tx_position,
            value: listing.value,
            leaf: None,
        }
    }

    /// The same coin at a leaf of the MMR store.
    pub(crate) fn at_leaf(self, leaf: Option<u64>) -> Self {
        Self { leaf, ..self }
    }

    /// Gives a coin its leaf in the MMR store. Whoever shares the coin keeps it as it was.
    pub(crate) fn place(coin: &mut SharedCoin, leaf: u64) {
        Arc::make_mut(coin).leaf = Some(leaf);
    }

    /// What `utxo_unspent` stores in the MMR store; nothing of a coin without a leaf.
    pub(crate) fn stored_placed(&self) -> Option<Vec<u8>> {
        let leaf = self.leaf?.to_be_bytes();
        Some([&[PLACED_VERSION], &leaf[..], self.body()].concat())
    }

    /// Its leaf in the MMR store.
    pub(crate) fn leaf(&self) -> Option<u64> {
        self.leaf
    }

    /// What `utxo_unspent` stores, in the classic store.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// The encoded record, without the version byte.
    pub(crate) fn body(&self) -> &[u8] {
        self.stored.get(1..).unwrap_or_default()
    }

    /// Memory it takes, shared or not, in bytes.
    pub(crate) fn memory(&self) -> usize {
        // An `Arc` counts its holders in two words.
        2 * size_of::<usize>() + size_of::<Self>() + self.stored.len()
    }

    /// What the coin is worth, in base units.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Whose lists it is in: its address's and its payment credential's.
    pub(crate) fn owners(&self) -> (Owner, Option<Owner>) {
        (self.address, self.credential)
    }

    /// Position of its transaction in its block.
    pub(crate) fn tx_position(&self) -> u32 {
        self.tx_position
    }

    /// The coin's places in all lists.
    pub fn list_keys(&self, outpoint: &Outpoint) -> impl Iterator<Item = AddressKey> {
        [Some(self.address_key(outpoint)), self.credential_key(outpoint)].into_iter().flatten()
    }

    /// The coin's place in the list of its address.
    pub(crate) fn address_key(&self, outpoint: &Outpoint) -> AddressKey {
        self.key(self.address, outpoint)
    }

    /// The coin's place in the list of its payment credential, if it has one.
    pub(crate) fn credential_key(&self, outpoint: &Outpoint) -> Option<AddressKey> {
        self.credential.map(|owner| self.key(owner, outpoint))
    }

    fn key(&self, owner: Owner, outpoint: &Outpoint) -> AddressKey {
        AddressKey { owner, slot: self.slot, tx_position: self.tx_position, outpoint: *outpoint }
    }
}

/// The leaf, if there is one, and the record's bytes in what `utxo_unspent` stores.
pub(crate) fn parts(stored: &[u8]) -> Result<(Option<u64>, &[u8]), CodecError> {
    match stored.split_first() {
        Some((&VALUE_VERSION, body)) => Ok((None, body)),
        Some((&PLACED_VERSION, rest)) => {
            let (leaf, body) = rest.split_first_chunk().ok_or(CodecError::Version(None))?;
            Ok((Some(u64::from_be_bytes(*leaf)), body))
        }
        other => Err(CodecError::Version(other.map(|(version, _)| *version))),
    }
}

/// Makes a decoded block ready to be applied. Pure: call it on any thread.
pub fn prepare(block: Block<Output>) -> PreparedBlock {
    let mut buffer = Vec::new();
    let chain = match block.header.era {
        Era::Bitcoin => Family::Bitcoin,
        Era::Byron
        | Era::Shelley
        | Era::Allegra
        | Era::Mary
        | Era::Alonzo
        | Era::Babbage
        | Era::Conway => Family::Cardano,
    };
    block.map(|header, position, _, _, output| {
        let record = Record { output, born: Born::in_block(header, position) };
        Arc::new(Coin::encode(chain, &record, &mut buffer))
    })
}
