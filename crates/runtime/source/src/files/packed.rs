//! Packed block files: unpacked whole, into a workroom, within bounds.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::FilesError;

/// A packed file may have this many bytes when it is unpacked; a node's own have 128 MiB.
const UNPACKED_BYTES: u64 = 512 << 20;
/// Or this many times its size: blocks are hashes and signatures, which don't pack well.
const UNPACKED_RATIO: u64 = 16;
/// Bytes unpacked between two looks at whether somebody wants to stop.
const UNPACKED_PIECE: u64 = 8 << 20;

/// The content of a packed file, unpacked into the workroom under a number of its own.
pub(super) fn unpacked(
    path: &Path,
    workroom: &Path,
    number: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<PathBuf, FilesError> {
    let packed = fs::metadata(path).map_err(FilesError::unreadable(path))?.len();
    let limit = UNPACKED_BYTES.max(packed.saturating_mul(UNPACKED_RATIO));
    let to = workroom.join(format!("{number}.blk"));
    let unpacked = unpack(path, &to, limit, goes_on);
    match unpacked.map_err(FilesError::packed(path))? {
        Unpacked::Whole => Ok(to),
        Unpacked::TooLarge => Err(FilesError::TooLarge { path: path.to_owned(), limit }),
        Unpacked::Interrupted => Err(FilesError::Interrupted),
    }
}

/// What came of unpacking; nothing stays unless it is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unpacked {
    Whole,
    TooLarge,
    Interrupted,
}

fn unpack(
    packed: &Path,
    to: &Path,
    limit: u64,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<Unpacked> {
    let mut unpacking = zstd::Decoder::new(File::open(packed)?)?;
    let mut whole = File::create(to)?;
    let mut written = 0;
    let outcome = loop {
        if !goes_on() {
            break Unpacked::Interrupted;
        }
        let piece = io::copy(&mut unpacking.by_ref().take(UNPACKED_PIECE), &mut whole)?;
        written += piece;
        if written > limit {
            break Unpacked::TooLarge;
        }
        if piece == 0 {
            return Ok(Unpacked::Whole);
        }
    };
    drop(whole);
    fs::remove_file(to)?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_stops_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (packed, to) = (folder.path().join("a.zst"), folder.path().join("a"));
        fs::write(&packed, zstd::encode_all(&[7; 1000][..], 0).unwrap()).unwrap();
        assert_eq!(unpack(&packed, &to, 1000, &|| true).unwrap(), Unpacked::Whole);
        assert_eq!(fs::read(&to).unwrap(), [7; 1000]);
        assert_eq!(unpack(&packed, &to, 999, &|| true).unwrap(), Unpacked::TooLarge);
        assert!(!to.exists());
        assert_eq!(unpack(&packed, &to, 1000, &|| false).unwrap(), Unpacked::Interrupted);
        assert!(!to.exists());
    }
}
