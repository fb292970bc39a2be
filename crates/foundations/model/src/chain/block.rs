//! A decoded block, and the record of a coin.

use crate::{BlockHash, Outpoint, Point, TxId};

/// Rule sets in the order in which a chain goes through them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Era {
    /// Bitcoin has no eras.
    Bitcoin,
    /// Cardano before delegation; base58 addresses.
    Byron,
    /// Staking and bech32 addresses.
    Shelley,
    /// Token locking; the unclaimed redeem coins of genesis are withdrawn at its start.
    Allegra,
    /// Native assets.
    Mary,
    /// Plutus scripts, and with them transactions that fail in phase 2.
    Alonzo,
    /// Inline datums, reference scripts, collateral return.
    Babbage,
    /// On-chain governance.
    Conway,
}

/// Proof of work added up, big-endian. Zero where a network has none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Work(pub [u8; 32]);

impl Work {
    /// The sum, or `None` past 2^256.
    pub fn checked_add(self, more: Self) -> Option<Self> {
        let mut sum = [0; 32];
        let mut carry = 0_u16;
        for ((out, a), b) in sum.iter_mut().zip(self.0).zip(more.0).rev() {
            let total = u16::from(a) + u16::from(b) + carry;
            *out = total.to_be_bytes()[1];
            carry = total >> 8;
        }
        (carry == 0).then_some(Self(sum))
    }
}

/// Where a block stands, and what its coins inherit from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The block itself.
    pub point: Point,
    /// The block it builds on; all zeros for Bitcoin's first.
    pub parent: BlockHash,
    /// Rule set the block was made under.
    pub era: Era,
    /// A Byron epoch boundary block: no transactions, shares its predecessor's height.
    pub is_boundary: bool,
    /// Epoch, where the network has them.
    pub epoch: Option<u64>,
    /// Unix time in seconds.
    pub time: u64,
    /// Work of this block alone.
    pub work: Work,
}

/// A decoded block. `C` is what the caller keeps of an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block<C> {
    /// Where it stands.
    pub header: Header,
    /// Its transactions, in block order.
    pub txs: Vec<Tx<C>>,
}

/// What one transaction does to the coin set, phase-2 validity already taken into account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tx<C> {
    /// The transaction's hash.
    pub id: TxId,
    /// Coins that cease to exist: the inputs, or the collateral when phase 2 failed. No repeats.
    pub spends: Vec<Outpoint>,
    /// Coins that come to be, by output index, ascending. What can never be spent is left out.
    pub creates: Vec<(u32, C)>,
    /// Phase 2 failed: collateral was taken instead of the inputs.
    pub is_invalid: bool,
    /// Mints new money without inputs. The only kind whose hash ever repeated.
    pub is_coinbase: bool,
}

/// Some units of one native asset.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Asset {
    /// Minting policy.
    pub policy: [u8; 28],
    /// Any bytes at all, up to 32 of them.
    pub name: Vec<u8>,
    /// How many.
    pub quantity: u64,
}

/// An output as its transaction wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// Raw address; on Bitcoin the scriptPubKey.
    pub addr: Vec<u8>,
    /// In base units: satoshi on Bitcoin, lovelace on Cardano.
    pub value: u64,
    /// Native assets in canonical order: by policy, then name.
    pub assets: Vec<Asset>,
    /// Hash of the datum; derived when the datum is inline.
    pub data_hash: Option<[u8; 32]>,
    /// The datum's CBOR, byte for byte.
    pub inline_datum: Option<Vec<u8>>,
    /// The reference script's CBOR (`[language, script]`), byte for byte.
    pub script_ref: Option<Vec<u8>>,
    /// Hash of the reference script.
    pub reference_script_hash: Option<[u8; 28]>,
    /// Change of the collateral that a failed transaction paid.
    pub is_collateral_return: bool,
    /// Newly minted: not spendable before it matures.
    pub is_coinbase: bool,
    /// Payment key or script hash.
    pub payment_credential: Option<[u8; 28]>,
    /// Stake key or script hash.
    pub stake_credential: Option<[u8; 28]>,
    /// Stake address the output delegates with.
    pub stake_addr: Option<Vec<u8>>,
}

/// The block and place a coin comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Born {
    /// Slot of the block.
    pub slot: u64,
    /// Number of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: BlockHash,
    /// Epoch of the block.
    pub epoch: Option<u64>,
    /// Unix time of the block, in seconds.
    pub block_time: u64,
    /// Position of the transaction in its block.
    pub tx_position: u32,
}

impl Born {
    /// Birth in the transaction at `tx_position` of the block with `header`.
    pub fn in_block(header: &Header, tx_position: u32) -> Self {
        Self {
            slot: header.point.slot,
            block_number: header.point.height,
            block_hash: header.point.hash,
            epoch: header.epoch,
            block_time: header.time,
            tx_position,
        }
    }
}

/// All that is known of a coin, spent or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What the transaction wrote.
    pub output: Output,
    /// Where it wrote it.
    pub born: Born,
}

/// A coin that exists before the first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GenesisCoin {
    /// Its name; genesis has no transactions, so the hash is derived from the address.
    pub outpoint: Outpoint,
    /// What it holds.
    pub record: Record,
    /// A redeem coin (AVVM) that Allegra withdraws if nobody claimed it.
    pub is_redeem: bool,
}

impl<C> Block<C> {
    /// The same block with another representation of its outputs.
    pub fn map<D>(self, mut f: impl FnMut(&Header, u32, TxId, u32, C) -> D) -> Block<D> {
        let header = self.header;
        let mut position = 0;
        let txs = self.txs.into_iter().map(|tx| {
            let Tx { id, spends, creates, is_invalid, is_coinbase } = tx;
            let creates = creates.into_iter();
            let creates = creates.map(|(i, c)| (i, f(&header, position, id, i, c))).collect();
            // A block has no room for 2^32 transactions.
            position = position.saturating_add(1);
            Tx { id, spends, creates, is_invalid, is_coinbase }
        });
        Block { header, txs: txs.collect() }
    }

    /// How many coins this block touches.
    pub fn coin_changes(&self) -> usize {
        self.txs.iter().map(|tx| tx.spends.len() + tx.creates.len()).sum()
    }
}

impl Block<Output> {
    /// The block with full records in place of bare outputs.
    pub fn into_records(self) -> Block<Record> {
        self.map(|header, position, _, _, output| Record {
            output,
            born: Born::in_block(header, position),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(n: u64) -> Work {
        let mut bytes = [0; 32];
        bytes[24..].copy_from_slice(&n.to_be_bytes());
        Work(bytes)
    }

    #[test]
    fn work_adds_up_and_carries() {
        assert_eq!(work(255).checked_add(work(1)), Some(work(256)));
        assert_eq!(work(u64::MAX - 1).checked_add(work(1)), Some(work(u64::MAX)));
        assert_eq!(Work([0xff; 32]).checked_add(work(1)), None);
        assert!(work(256) > work(255));
    }
}
