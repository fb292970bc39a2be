//! What the MMR store keeps beside its trees: where they stand, and what a rewind needs.

use unspent_verify::Hash;

use super::{
    CodecError, StrictDecoder, Writer, Written,
    meta::{expect_fields, numbered},
    value, whole,
};

/// Where both trees stand: `{0 leaves, 1 live, 2 root}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeCommitment {
    /// Outputs ever created.
    pub leaves: u64,
    /// Outputs that are unspent.
    pub live: u64,
    /// The root of the last block applied.
    pub root: Hash,
}

impl TreeCommitment {
    pub(crate) fn encode(&self) -> Vec<u8> {
        value(56, |to| {
            to.map(3)?.u8(0)?.u64(self.leaves)?.u8(1)?.u64(self.live)?;
            to.u8(2)?.bytes(&self.root)?;
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            expect_fields(from, 3)?;
            let leaves = numbered(from, 0, StrictDecoder::u64)?;
            let live = numbered(from, 1, StrictDecoder::u64)?;
            Ok(Self { leaves, live, root: numbered(from, 2, StrictDecoder::array_of)? })
        })
    }
}

/// What a rewind needs, field 11 of a delta: `{0 first leaf, 1 leaves of the spent coins, 2 leaves
/// of the overwritten ones, 3 root before, 4 root after}`. Nodes never change once they are there,
/// so none are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeRewind {
    /// Leaves before the block: the leaf of the first coin that it created.
    pub first: u64,
    /// Leaves of the coins it spent, in the delta's order, those born in the block included.
    pub spent: Vec<u64>,
    /// Leaves of the coins it overwrote, in the delta's order.
    pub overwritten: Vec<u64>,
    /// The root of the block before.
    pub before: Hash,
    /// The root of this block.
    pub after: Hash,
}

impl TreeRewind {
    /// All leaves that the block took out of the set.
    pub(crate) fn taken(&self) -> impl Iterator<Item = u64> {
        self.spent.iter().chain(&self.overwritten).copied()
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) -> Written {
        to.map(5)?.u8(0)?.u64(self.first)?;
        for (key, leaves) in [(1, &self.spent), (2, &self.overwritten)] {
            to.u8(key)?.array(leaves.len() as u64)?;
            for leaf in leaves {
                to.u64(*leaf)?;
            }
        }
        to.u8(3)?.bytes(&self.before)?.u8(4)?.bytes(&self.after)?;
        Ok(())
    }

    pub(super) fn read(from: &mut StrictDecoder<'_>) -> Result<Self, CodecError> {
        expect_fields(from, 5)?;
        let leaves = |from: &mut StrictDecoder<'_>| from.list(StrictDecoder::u64);
        Ok(Self {
            first: numbered(from, 0, StrictDecoder::u64)?,
            spent: numbered(from, 1, leaves)?,
            overwritten: numbered(from, 2, leaves)?,
            before: numbered(from, 3, StrictDecoder::array_of)?,
            after: numbered(from, 4, StrictDecoder::array_of)?,
        })
    }
}
