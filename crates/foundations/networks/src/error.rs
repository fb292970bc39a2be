//! Why a block can't be read.

use unspent_model::Network;

/// A block that can't be read. Nothing was changed: decoding only reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Neither the caller nor the block knows its height.
    #[error("the block doesn't carry its height; pass the height from the header chain")]
    HeightUnknown,
    /// The bytes aren't what they should be.
    #[error("malformed {what}: {reason}; the block was ignored, fetch it again")]
    Malformed {
        /// The part that can't be read.
        what: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// The block ended before the bytes did.
    #[error("{count} bytes follow the block; pass exactly one block")]
    TrailingBytes {
        /// How many bytes are left over.
        count: usize,
    },
    /// The bytes are more than a block of this network may be.
    #[error("{size} bytes are more than a block can have ({limit}); the block was ignored")]
    TooLarge {
        /// How many bytes there are.
        size: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The transactions aren't those that the header commits to.
    #[error("the transactions don't match the header's merkle root; fetch the block again")]
    MerkleRoot,
    /// The parts of the block aren't those that the header commits to.
    #[error("the block doesn't match the header's body hash; fetch it again")]
    BodyHash,
    /// It belongs to another network.
    #[error("this is not a block of {network}: {reason}; the block was ignored, check the network")]
    OtherNetwork {
        /// The network whose block it should be.
        network: Network,
        /// What tells so.
        reason: String,
    },
    /// The era is newer than this program.
    #[error("block era {0} is unknown; a newer release may support it")]
    UnknownEra(u64),
}

impl DecodeError {
    pub(crate) fn malformed(what: &'static str, reason: impl ToString) -> Self {
        Self::Malformed { what, reason: reason.to_string() }
    }
}
