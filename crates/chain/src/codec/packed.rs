//! Values that are worth compressing as one: a version byte, two counts, a zstd frame.
//!
//! The frame ends with a checksum of what is inside. A flipped bit in a literal would otherwise
//! unpack to another amount or script, and most of what undo data says is said nowhere else.
//!
//! zstd at a fixed level is deterministic, so equal meaning is still equal bytes; but a frame could
//! be written in more than one way, which only the inside can't.

use super::{CodecError, UNDO_VERSION};

/// The cheapest: what is left after the layout is mostly hashes, which no level makes smaller.
const LEVEL: i32 = 1;
/// Nothing of ours is larger; a damaged length must not reserve memory.
const MOST_UNPACKED: u64 = 1 << 30;
/// Version byte and counts.
const HEAD: usize = 9;

/// The value with `inside` packed. The counts can be read without unpacking.
///
/// # Errors
///
/// When zstd has no memory left.
pub fn pack(counts: [u32; 2], inside: &[u8]) -> Result<Vec<u8>, CodecError> {
    let failed = |_| malformed("could not be packed");
    let mut packer = zstd::bulk::Compressor::new(LEVEL).map_err(failed)?;
    packer.include_checksum(true).map_err(failed)?;
    let packed = packer.compress(inside).map_err(failed)?;
    let [first, second] = counts.map(u32::to_be_bytes);
    Ok([&[UNDO_VERSION], &first[..], &second, &packed].concat())
}

/// The counts before the frame.
pub(super) fn counts(bytes: &[u8]) -> Result<[u32; 2], CodecError> {
    split(bytes).map(|(counts, _)| counts)
}

/// Counts and inside of a packed value.
///
/// # Errors
///
/// When the frame is damaged or no frame.
pub fn unpack(bytes: &[u8]) -> Result<([u32; 2], Vec<u8>), CodecError> {
    let (counts, frame) = split(bytes)?;
    let size = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    let size = size.filter(|size| *size <= MOST_UNPACKED).and_then(|size| size.try_into().ok());
    let size = size.ok_or_else(|| malformed("no frame of a size that can be"))?;
    let inside = zstd::bulk::decompress(frame, size);
    Ok((counts, inside.map_err(|_| malformed("the frame can't be unpacked or is damaged"))?))
}

fn split(bytes: &[u8]) -> Result<([u32; 2], &[u8]), CodecError> {
    match bytes.split_first_chunk::<HEAD>() {
        Some(([UNDO_VERSION, a, b, c, d, e, f, g, h], frame)) => {
            let counts = [[*a, *b, *c, *d], [*e, *f, *g, *h]];
            Ok((counts.map(u32::from_be_bytes), frame))
        }
        _ => Err(CodecError::Version(bytes.first().copied())),
    }
}

fn malformed(what: &'static str) -> CodecError {
    CodecError::Malformed { what, at: HEAD }
}
