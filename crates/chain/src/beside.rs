//! Opening for reading while somebody else writes.
//!
//! RocksDB reads the list of files and then opens each. A writer replaces files all the while, so a
//! file may be gone when its turn comes, and RocksDB calls that corruption. Whether it is one is
//! told by the folder itself: what failed while nothing changed in it is damaged; what failed while
//! something did is tried again.

use std::{collections::BTreeSet, fs, path::Path, thread, time::Duration};

use crate::error::{OpenError, StoreError};

/// How often opening is tried against a writer.
const ATTEMPTS: u32 = 100;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Tries to open until it works, or until what stands in the way isn't the writer.
pub(crate) fn beside_writer<T>(
    database: &Path,
    mut open: impl FnMut() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let before = files(database);
        match open() {
            Err(OpenError::Store(error)) if files(database) != before => last = Some(error),
            done => return done,
        }
        thread::sleep(PAUSE);
    }
    let cause = last.map_or_else(String::new, |error| error.to_string());
    Err(StoreError::Changing { cause }.into())
}

/// What is there, by name and size. RocksDB's own log is left out: readers have one too.
fn files(database: &Path) -> BTreeSet<(String, u64)> {
    let Ok(entries) = fs::read_dir(database) else { return BTreeSet::new() };
    let entries = entries.flatten().map(|entry| {
        let size = entry.metadata().map_or(0, |metadata| metadata.len());
        (entry.file_name().to_string_lossy().into_owned(), size)
    });
    entries.filter(|(name, _)| !name.starts_with("LOG")).collect()
}
