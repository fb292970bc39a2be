//! Values that are worth compressing as one: a version byte, two counts, a zstd frame.
//!
//! The frame ends with a checksum of what is inside. A flipped bit in a literal would otherwise
//! unpack to another amount or script, and most of what undo data says is said nowhere else.
//!
//! zstd at a fixed level is deterministic, so equal meaning is still equal bytes; but a frame could
//! be written in more than one way, which only the inside can't.

use std::{cell::RefCell, io};

use zstd::bulk::{Compressor, Decompressor};

use super::{CodecError, UNDO_VERSION};

thread_local! {
    // zstd's workspaces are some hundred kilobytes that have to be cleared: making one for each
    // value takes as long as packing a small one.
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

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
    let packed = PACKER.with_borrow_mut(|packer| with(packer, new_packer, |p| p.compress(inside)));
    let packed = packed.map_err(|_| malformed("could not be packed"))?;
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
    let inside = UNPACKER.with_borrow_mut(|unpacker| {
        with(unpacker, Decompressor::new, |u| u.decompress(frame, size))
    });
    Ok((counts, inside.map_err(|_| malformed("the frame can't be unpacked or is damaged"))?))
}

fn new_packer() -> io::Result<Compressor<'static>> {
    let mut packer = Compressor::new(LEVEL)?;
    packer.include_checksum(true)?;
    Ok(packer)
}

/// Uses the thread's own workspace, making it the first time.
fn with<W, T>(
    kept: &mut Option<W>,
    make: impl FnOnce() -> io::Result<W>,
    work: impl FnOnce(&mut W) -> io::Result<T>,
) -> io::Result<T> {
    let mut workspace = match kept.take() {
        Some(workspace) => workspace,
        None => make()?,
    };
    let outcome = work(&mut workspace);
    *kept = Some(workspace);
    outcome
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
