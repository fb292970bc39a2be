//! A note of the last write that was acknowledged, beside the database.
//!
//! It holds the database's sequence number after each durable commit, and is not synced itself, so
//! it costs nothing. When the database comes back with a smaller number, a torn log was cut: worth
//! telling the operator. The note is never trusted for anything else.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::FileExt,
    path::Path,
};

const NAME: &str = "acknowledged";
const LENGTH: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DurableMark {
    /// Of the database: it grows with every write.
    pub(crate) sequence: u64,
    /// Blocks applied at that moment.
    pub(crate) ordinal: u64,
}

pub(crate) struct AcknowledgedNote {
    file: Option<File>,
}

impl AcknowledgedNote {
    /// Opens the note and returns what it says. A note that can't be read says nothing.
    pub(crate) fn open(folder: &Path) -> (Self, Option<DurableMark>) {
        let path = folder.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).ok();
        let mut bytes = Vec::new();
        let read = file.as_mut().map(|file| file.read_to_end(&mut bytes));
        let said = read.and_then(Result::ok).and_then(|_| decode(&bytes));
        (Self { file }, said)
    }

    /// Notes what is durable now. Failure is harmless and ignored.
    pub(crate) fn write(&self, noted: DurableMark) {
        if let Some(file) = &self.file {
            // Without the note a torn log isn't told of; the blocks are fetched again all the same.
            let _ = file.write_all_at(&encode(noted), 0);
        }
    }
}

/// Both numbers and a check, so that half a note is recognised as none.
fn encode(noted: DurableMark) -> [u8; LENGTH] {
    let check = !(noted.sequence ^ noted.ordinal.rotate_left(17));
    let mut bytes = [0; LENGTH];
    let parts = [noted.sequence, noted.ordinal, check];
    for (to, part) in bytes.chunks_exact_mut(8).zip(parts) {
        to.copy_from_slice(&part.to_be_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<DurableMark> {
    let (sequence, rest) = bytes.split_first_chunk::<8>()?;
    let (ordinal, _) = rest.split_first_chunk::<8>()?;
    let noted = DurableMark {
        sequence: u64::from_be_bytes(*sequence),
        ordinal: u64::from_be_bytes(*ordinal),
    };
    (encode(noted) == bytes).then_some(noted)
}
