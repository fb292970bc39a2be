//! A note of the last block that was acknowledged, beside the database.
//!
//! It is written after each commit and not synced, so it costs nothing. When the database comes back
//! with fewer blocks than the note says, a torn log was cut: worth telling the operator. The note is
//! never trusted for anything else.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::FileExt,
    path::Path,
};

const NAME: &str = "acknowledged";
const LENGTH: usize = 16;

/// The open note.
pub(crate) struct Acknowledged {
    file: Option<File>,
}

impl Acknowledged {
    /// Opens the note and returns what it says. A note that can't be read says nothing.
    pub(crate) fn open(folder: &Path) -> (Self, Option<u64>) {
        let path = folder.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).ok();
        let mut bytes = Vec::new();
        let read = file.as_mut().map(|file| file.read_to_end(&mut bytes));
        let said = read.and_then(Result::ok).and_then(|_| decode(&bytes));
        (Self { file }, said)
    }

    /// Notes that the chain now ends at `ordinal`. Failure is harmless and ignored.
    pub(crate) fn write(&self, ordinal: u64) {
        if let Some(file) = &self.file {
            let _ = file.write_all_at(&encode(ordinal), 0);
        }
    }
}

/// The number and its complement: half a note is recognised as none.
fn encode(ordinal: u64) -> [u8; LENGTH] {
    ((u128::from(ordinal) << 64) | u128::from(!ordinal)).to_be_bytes()
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let both = u128::from_be_bytes(bytes.try_into().ok()?);
    let ordinal = u64::try_from(both >> 64).ok()?;
    (encode(ordinal) == both.to_be_bytes()).then_some(ordinal)
}
