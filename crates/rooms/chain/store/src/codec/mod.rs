//! Values on disk: one version byte, then canonical CBOR with the integer keys of the format.
//!
//! Bytes on disk outlive the program that wrote them, and two stores are compared byte by byte: one
//! built in bulk and one block by block, one before a rollback and one after. That is worth
//! something only if equal meaning is equal bytes, and a damaged byte can't pass for another value.
//! CBOR leaves several ways to write one thing; RFC 8949, section 4.2, names a deterministic one,
//! and this is it, with no other accepted.
//!
//! Invariant: a value has exactly one encoding. Lengths are definite, integers are shortest, map
//! keys ascend, what is absent is left out. [`StrictDecoder`] refuses everything else, so that
//! bytes which decode re-encode to themselves, and a digest over bytes is a digest over meaning.

mod delta;
mod meta;
mod mmr;
mod packed;
mod record;
mod spent;
mod strict;

pub use delta::{
    CoinListing, DeltaCounts, StoredCreated, StoredDelta, StoredSpent, UndoData, decode_counts,
    decode_delta, decode_spend, encode_delta,
};
pub use meta::{
    FolderIdentity, ImportHole, IndexCursor, MMR_SCHEMA_VERSION, OperatorChoices, PruneHorizon,
    SCHEMA_VERSION, StoredPoint,
};
pub(crate) use meta::{IndexLayout, decode_outpoints, encode_outpoints};
pub use mmr::{TreeCommitment, TreeRewind};
pub use packed::{pack as pack_undo, unpack as unpack_undo};
pub(crate) use record::append_record;
pub use record::{decode_record, encode_record};
pub use spent::{SpentRecord, decode_pointer, encode_pointer};
pub(crate) use strict::StrictDecoder;

use minicbor::Encoder;

/// The version byte before every value.
pub const VALUE_VERSION: u8 = 1;

/// The version byte of a coin that has its leaf (8 bytes, big-endian) before its record.
pub const PLACED_VERSION: u8 = 2;

/// The version byte of a block's undo data, which is packed.
pub const UNDO_VERSION: u8 = 3;

/// Bytes that are not a value of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// The version byte is missing or from another format.
    #[error("version byte {0:?}, which this kind of value doesn't have")]
    Version(Option<u8>),
    /// The CBOR is malformed, not canonical or lacks a field.
    #[error("{what} at byte {at} of the value")]
    Malformed {
        /// What the decoder met, in words for a person.
        what: &'static str,
        /// Offset in the value, the version byte not counted.
        at: usize,
    },
}

/// Writing to memory can't fail; this is the type that says so.
type Writer<'a> = Encoder<&'a mut Vec<u8>>;

/// A value: version byte, then whatever `write` puts after it.
fn value(capacity: usize, write: impl FnOnce(&mut Writer<'_>) -> Written) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(capacity);
    bytes.push(VALUE_VERSION);
    infallible(write(&mut Encoder::new(&mut bytes)));
    bytes
}

type Written = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

fn infallible(written: Written) {
    // The only error that an in-memory writer could raise has no value.
    debug_assert!(written.is_ok());
}

/// Strips the version byte.
fn body(bytes: &[u8]) -> Result<&[u8], CodecError> {
    match bytes.split_first() {
        Some((&VALUE_VERSION, body)) => Ok(body),
        other => Err(CodecError::Version(other.map(|(version, _)| *version))),
    }
}

/// Decodes a whole value with `read`, refusing anything left over.
fn whole<'b, T>(
    bytes: &'b [u8],
    read: impl FnOnce(&mut StrictDecoder<'b>) -> Result<T, CodecError>,
) -> Result<T, CodecError> {
    let mut strict = StrictDecoder::new(body(bytes)?);
    let decoded = read(&mut strict)?;
    strict.end()?;
    Ok(decoded)
}
