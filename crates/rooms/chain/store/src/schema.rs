//! The database on one page: every column family, its key and its value.
//!
//! | family | key | value |
//! |---|---|---|
//! | `chain_points` | ordinal u64 | [`StoredPoint`](crate::codec::StoredPoint) |
//! | `chain_hashes` | block hash (32) | ordinal u64 |
//! | `chain_meta` | name | identity, holes |
//! | `utxo_unspent` | [`OutpointKey`]: tx hash (32), index u32 | record; in the MMR store its leaf before it |
//! | `utxo_spent` | [`SpentKey`]: outpoint, ordinal u64 of the block that spent it | number of the spend in the block's delta |
//! | `utxo_addr` | [`AddressKey`]: tag, owner (28), slot, tx position u32, outpoint | empty |
//! | `utxo_block_delta` | ordinal u64 | delta, packed: what the block created, and the bodies of what it spent |
//! | `utxo_meta` | name | cursor, horizon, layout, choices, redeem coins, commitment |
//! | `utxo_mmr_nodes` | [`NodeKey`]: tree, height, index u64 | a hash, or the bits of 1,024 leaves; MMR store only |
//!
//! Owners are hashes of 28 bytes: on Bitcoin the first 28 of the script's SHA-256, which is what
//! Electrum and Esplora clients ask by; on Cardano the Blake2b-224 of the address.
//!
//! Numbers in keys are big-endian, so byte order is chain order. Ordinals count applied blocks:
//! heights may repeat (Byron boundary blocks) or jump (holes), ordinals don't.

use std::fmt;

use sha2::{Digest as _, Sha256};
use unspent_model::{Family, Outpoint, TxId};

/// How a family is read, and so how RocksDB is told to keep it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FamilyTuning {
    /// Asked for by whole keys, of entries that are there.
    WholeKeys,
    /// Read by the first bytes of its keys, and asked for by whole keys too.
    Prefixes(usize),
    /// Read by the first bytes of its keys alone: all that one list holds.
    Lists(usize),
    /// Values that are packed already, or hashes.
    Packed,
    /// Few or small entries.
    Small,
}

/// What a column family is.
pub(crate) struct FamilyFacts {
    /// The name on disk.
    pub(crate) name: &'static str,
    pub(crate) tuning: FamilyTuning,
    /// Pruning takes from it, so that it is worth compacting after much of that.
    pub(crate) is_pruned: bool,
}

impl FamilyFacts {
    const fn new(name: &'static str, tuning: FamilyTuning) -> Self {
        Self { name, tuning, is_pruned: false }
    }

    const fn pruned(name: &'static str, tuning: FamilyTuning) -> Self {
        Self { name, tuning, is_pruned: true }
    }
}

/// Makes the enumeration and what its lines say.
macro_rules! column_families {
    ($($(#[$meta:meta])* $name:ident = $facts:expr,)*) => {
        /// A column family. Its lines are the only place where the names on disk stand.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum ColumnFamily {
            $($(#[$meta])* $name,)*
        }

        /// Every family, in the order in which they are declared.
        #[allow(unused_doc_comments)]
        pub(crate) const ALL_FAMILIES: [ColumnFamily; FAMILY_COUNT] =
            [$($(#[$meta])* ColumnFamily::$name,)*];

        #[allow(unused_doc_comments)]
        const FAMILY_COUNT: usize = [$($(#[$meta])* ColumnFamily::$name,)*].len();

        #[allow(unused_doc_comments)]
        impl ColumnFamily {
            pub(crate) const fn facts(self) -> FamilyFacts {
                match self {
                    $($(#[$meta])* Self::$name => $facts,)*
                }
            }
        }
    };
}

column_families! {
    /// Blocks by ordinal.
    Points = FamilyFacts::new("chain_points", FamilyTuning::Small),
    /// Ordinals by block hash.
    Hashes = FamilyFacts::new("chain_hashes", FamilyTuning::WholeKeys),
    /// Identity of the folder, holes.
    ChainMeta = FamilyFacts::new("chain_meta", FamilyTuning::Small),
    /// Coins in the set.
    Unspent = FamilyFacts::new("utxo_unspent", FamilyTuning::WholeKeys),
    /// Where the spends of the window are.
    Spent = FamilyFacts::pruned("utxo_spent", FamilyTuning::Prefixes(OutpointKey::LEN)),
    /// Coins by address and by credential.
    Address = FamilyFacts::new("utxo_addr", FamilyTuning::Lists(Owner::LEN)),
    /// Undo data.
    Delta = FamilyFacts::pruned("utxo_block_delta", FamilyTuning::Packed),
    /// The index's own bookkeeping.
    UtxoMeta = FamilyFacts::new("utxo_meta", FamilyTuning::Small),
    /// Both trees of the MMR store.
    MmrNodes = FamilyFacts::new("utxo_mmr_nodes", FamilyTuning::Packed),
    /// Coins by policy: for tests.
    #[cfg(test)]
    Policy = FamilyFacts::new("utxo_policy", FamilyTuning::Lists(28)),
}

/// The families of the chain itself: there even when the index is switched off.
pub const CHAIN_FAMILIES: [ColumnFamily; 3] =
    [ColumnFamily::Points, ColumnFamily::Hashes, ColumnFamily::ChainMeta];

/// The families of every index: neither created nor touched when it is switched off. All others
/// are made by whoever first needs them, so that a folder without them stays as it is.
pub const INDEX_FAMILIES: [ColumnFamily; 5] = [
    ColumnFamily::Unspent,
    ColumnFamily::Spent,
    ColumnFamily::Address,
    ColumnFamily::Delta,
    ColumnFamily::UtxoMeta,
];

impl ColumnFamily {
    /// The name on disk.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Made by whoever first needs it.
    pub(crate) fn is_on_demand(self) -> bool {
        !CHAIN_FAMILIES.contains(&self) && !INDEX_FAMILIES.contains(&self)
    }
}

/// Names in the two bookkeeping families.
pub(crate) mod names {
    pub(crate) const IDENTITY: &[u8] = b"identity";
    pub(crate) const HOLES: &[u8] = b"holes";
    pub(crate) const CURSOR: &[u8] = b"cursor";
    pub(crate) const HORIZON: &[u8] = b"horizon";
    pub(crate) const LAYOUT: &[u8] = b"layout";
    pub(crate) const REDEEM: &[u8] = b"redeem";
    pub(crate) const CHOICES: &[u8] = b"choices";
    pub(crate) const COMMITMENT: &[u8] = b"commitment";
}

/// A key that is no key of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed key of {length} bytes")]
pub struct KeyError {
    /// Length found.
    pub length: usize,
}

/// Key of `utxo_unspent`, and what all keys of a coin in `utxo_spent` start with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutpointKey(pub Outpoint);

impl OutpointKey {
    /// Bytes of an encoded key.
    pub const LEN: usize = 36;

    /// The key's bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut key = [0; Self::LEN];
        let (tx, index) = key.split_at_mut(32);
        tx.copy_from_slice(&self.0.tx.0);
        index.copy_from_slice(&self.0.index.to_be_bytes());
        key
    }

    /// Reads a key back.
    ///
    /// # Errors
    ///
    /// When the length is wrong.
    pub fn decode(key: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError { length: key.len() };
        let (tx, index) = key.split_first_chunk::<32>().ok_or(wrong)?;
        let index = index.try_into().map_err(|_| wrong)?;
        Ok(Self(Outpoint::new(TxId(*tx), u32::from_be_bytes(index))))
    }
}

/// Key of `utxo_spent`. A coin may be created again after its spend (a repeated coinbase, and what
/// descends from it; BIP 30 allows it), so the outpoint alone doesn't name a spend. Its block does:
/// no block spends an outpoint twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct SpentKey {
    /// The coin.
    pub outpoint: Outpoint,
    /// Ordinal of the block that spent it.
    pub ordinal: u64,
}

impl SpentKey {
    /// Bytes of an encoded key.
    pub const LEN: usize = OutpointKey::LEN + 8;

    /// The key's bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut key = [0; Self::LEN];
        let (outpoint, ordinal) = key.split_at_mut(OutpointKey::LEN);
        outpoint.copy_from_slice(&OutpointKey(self.outpoint).encode());
        ordinal.copy_from_slice(&self.ordinal.to_be_bytes());
        key
    }

    /// Reads a key back.
    ///
    /// # Errors
    ///
    /// When the length is wrong.
    pub fn decode(key: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError { length: key.len() };
        let (outpoint, ordinal) = key.split_first_chunk::<{ OutpointKey::LEN }>().ok_or(wrong)?;
        let ordinal = ordinal.try_into().map(u64::from_be_bytes).map_err(|_| wrong)?;
        Ok(Self { outpoint: OutpointKey::decode(outpoint)?.0, ordinal })
    }
}

/// Whose coins a list holds. The tag keeps a credential from answering for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// An address; on Bitcoin, a script. See [`Self::address`].
    Address([u8; 28]),
    /// A payment credential.
    Credential([u8; 28]),
}

impl Owner {
    /// Bytes of the encoded prefix, which is also the prefix that RocksDB filters by.
    pub const LEN: usize = 29;
    pub(crate) const ADDRESS_TAG: u8 = b'a';
    pub(crate) const CREDENTIAL_TAG: u8 = b'c';

    /// The owner that is this raw address (on Bitcoin: this script).
    pub fn address(chain: Family, raw: &[u8]) -> Self {
        match chain {
            Family::Bitcoin => Self::script_hash(&Sha256::digest(raw).into()),
            Family::Cardano => {
                let hash = blake2b_simd::Params::new().hash_length(28).hash(raw);
                Self::Address(first_bytes(hash.as_bytes()))
            }
        }
    }

    /// Bitcoin's owner whose script has this SHA-256, in the order in which SHA-256 is written.
    /// Electrum's protocol writes it reversed, Esplora's interface doesn't.
    pub fn script_hash(sha256: &[u8; 32]) -> Self {
        Self::Address(first_bytes(sha256))
    }

    /// The hash or credential alone.
    pub fn hash(&self) -> &[u8; 28] {
        match self {
            Self::Address(hash) | Self::Credential(hash) => hash,
        }
    }

    /// The prefix shared by all keys of this owner.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let (tag, hash) = match self {
            Self::Address(hash) => (Self::ADDRESS_TAG, hash),
            Self::Credential(hash) => (Self::CREDENTIAL_TAG, hash),
        };
        let mut prefix = [tag; Self::LEN];
        prefix.split_at_mut(1).1.copy_from_slice(hash);
        prefix
    }

    fn decode(prefix: &[u8; Self::LEN]) -> Option<Self> {
        let (tag, hash) = prefix.split_first_chunk::<1>()?;
        let hash = hash.try_into().ok()?;
        match *tag {
            [Self::ADDRESS_TAG] => Some(Self::Address(hash)),
            [Self::CREDENTIAL_TAG] => Some(Self::Credential(hash)),
            _ => None,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, hash) = match self {
            Self::Address(hash) => ("address", hash),
            Self::Credential(hash) => ("credential", hash),
        };
        write!(f, "{kind} ")?;
        hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Key of `utxo_addr`: one prefix scan lists one owner's coins in chain order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct AddressKey {
    /// Whose coin.
    pub owner: Owner,
    /// Slot of its block.
    pub slot: u64,
    /// Position of its transaction in the block.
    pub tx_position: u32,
    /// The coin.
    pub outpoint: Outpoint,
}

impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, slot, tx_position, outpoint } = self;
        write!(f, "{owner}, slot {slot}, transaction {tx_position}, {outpoint:?}")
    }
}

impl AddressKey {
    /// Bytes of an encoded key.
    pub const LEN: usize = Owner::LEN + 8 + 4 + OutpointKey::LEN;

    /// The key's bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut key = [0; Self::LEN];
        let (owner, rest) = key.split_at_mut(Owner::LEN);
        let (slot, rest) = rest.split_at_mut(8);
        let (position, outpoint) = rest.split_at_mut(4);
        owner.copy_from_slice(&self.owner.encode());
        slot.copy_from_slice(&self.slot.to_be_bytes());
        position.copy_from_slice(&self.tx_position.to_be_bytes());
        outpoint.copy_from_slice(&OutpointKey(self.outpoint).encode());
        key
    }

    /// Reads a key back.
    ///
    /// # Errors
    ///
    /// When the length or the tag is wrong.
    pub fn decode(key: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError { length: key.len() };
        let (owner, rest) = key.split_first_chunk::<{ Owner::LEN }>().ok_or(wrong)?;
        let (slot, rest) = rest.split_first_chunk::<8>().ok_or(wrong)?;
        let (position, outpoint) = rest.split_first_chunk::<4>().ok_or(wrong)?;
        Ok(Self {
            owner: Owner::decode(owner).ok_or(wrong)?,
            slot: u64::from_be_bytes(*slot),
            tx_position: u32::from_be_bytes(*position),
            outpoint: OutpointKey::decode(outpoint)?.0,
        })
    }
}

/// What `utxo_mmr_nodes` holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum TreeKind {
    /// Nodes over all outputs.
    Outputs,
    /// Nodes over the live bits.
    Live,
    /// The bits themselves, 1,024 leaves each.
    Bits,
}

impl TreeKind {
    const ALL: [Self; 3] = [Self::Outputs, Self::Live, Self::Bits];

    fn tag(self) -> u8 {
        match self {
            Self::Outputs => 0,
            Self::Live => 1,
            Self::Bits => 2,
        }
    }
}

/// Key of `utxo_mmr_nodes`: a node never moves, so cutting a tree back is deleting by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// Which tree.
    pub tree: TreeKind,
    /// Height above the leaves; 0 for the bits.
    pub height: u8,
    /// Number among those of the same height.
    pub index: u64,
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = match self.tree {
            TreeKind::Outputs => "outputs",
            TreeKind::Live => "live",
            TreeKind::Bits => "bits",
        };
        write!(f, "{tree}, height {}, index {}", self.height, self.index)
    }
}

impl NodeKey {
    /// Bytes of an encoded key.
    pub const LEN: usize = 10;

    /// The key's bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut key = [self.height; Self::LEN];
        let (tree, rest) = key.split_at_mut(1);
        tree.fill(self.tree.tag());
        rest.split_at_mut(1).1.copy_from_slice(&self.index.to_be_bytes());
        key
    }

    /// Reads a key back.
    ///
    /// # Errors
    ///
    /// When the length or the tree is wrong.
    pub fn decode(key: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError { length: key.len() };
        let ([tag, height], index) = key.split_first_chunk::<2>().ok_or(wrong)?;
        let tree = TreeKind::ALL.into_iter().find(|tree| tree.tag() == *tag).ok_or(wrong)?;
        Ok(Self { tree, height: *height, index: decode_ordinal(index)? })
    }
}

/// The first 28 bytes; there are never fewer.
fn first_bytes(hash: &[u8]) -> [u8; 28] {
    hash.first_chunk().copied().unwrap_or_default()
}

/// Reads an ordinal back from a key or from `chain_hashes`.
///
/// # Errors
///
/// When it isn't eight bytes.
pub fn decode_ordinal(bytes: &[u8]) -> Result<u64, KeyError> {
    let wrong = KeyError { length: bytes.len() };
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| wrong)
}
