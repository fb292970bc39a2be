//! Opening for reading while somebody else writes.
//!
//! RocksDB reads the list of files and then opens each. A writer replaces files all the while, so a
//! file may be gone when its turn comes, and RocksDB calls that corruption. Whether it is one is
//! told by the folder itself: what failed while nothing changed in it is damaged; what failed while
//! something did is tried again.
//!
//! What seems to have worked may be wrong as well. RocksDB reads which tables there are, and then
//! the logs that continue them. A writer that flushes in between deletes a log whose blocks are in
//! tables that the reader hasn't heard of: it would show an older block than the one before it, or
//! a later log on top of a gap. Nothing tells RocksDB so; that the log is gone tells us.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    thread,
    time::Duration,
};

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
    let mut cause = String::new();
    for _ in 0..ATTEMPTS {
        let before = files(database);
        let opened = open();
        let after = files(database);
        match opened {
            Err(OpenError::Store(error)) if after != before => cause = error.to_string(),
            Ok(_) if lost_a_log(&before, &after) => cause = "a log was flushed".to_owned(),
            done => return done,
        }
        thread::sleep(PAUSE);
    }
    Err(StoreError::Changing { cause }.into())
}

/// A log that was there is gone, and blocks may be missing by that: its own, or those before what a
/// later log holds. In bulk logs come and go too, but all of them are empty.
fn lost_a_log(before: &Files, after: &Files) -> bool {
    let logs = |files: &Files| -> BTreeMap<String, u64> {
        let is_log = |(name, _): &&(String, u64)| name.ends_with(".log");
        files.iter().filter(is_log).cloned().collect()
    };
    let (before, after) = (logs(before), logs(after));
    let mut gone = before.iter().filter(|(name, _)| !after.contains_key(*name)).peekable();
    gone.peek().is_some() && gone.map(|(_, size)| size).chain(after.values()).any(|size| *size > 0)
}

type Files = BTreeSet<(String, u64)>;

/// What is there, by name and size. RocksDB's own log is left out: readers have one too.
fn files(database: &Path) -> Files {
    let Ok(entries) = fs::read_dir(database) else { return BTreeSet::new() };
    let entries = entries.flatten().map(|entry| {
        let size = entry.metadata().map_or(0, |metadata| metadata.len());
        (entry.file_name().to_string_lossy().into_owned(), size)
    });
    entries.filter(|(name, _)| !name.starts_with("LOG")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_missed_when_blocks_may_have_gone_with_it() {
        let lost = |before: &[(&str, u64)], after: &[(&str, u64)]| {
            let files = |list: &[(&str, u64)]| -> Files {
                list.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
            };
            lost_a_log(&files(before), &files(after))
        };
        assert!(lost(&[("4.log", 9)], &[("6.log", 0), ("5.sst", 9)]), "its blocks");
        assert!(lost(&[("4.log", 0)], &[("6.log", 9)]), "what was written to it since");
        assert!(!lost(&[("4.log", 0)], &[("6.log", 0), ("5.sst", 9)]), "bulk");
        assert!(!lost(&[("4.log", 9)], &[("4.log", 12), ("6.log", 9)]), "it goes on");
        assert!(!lost(&[("4.log", 9), ("3.sst", 1)], &[("4.log", 9)]), "a table");
    }
}
