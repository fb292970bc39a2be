//! Sorting more than fits in memory, in time that grows with the number of entries alone.
//!
//! Entries are dealt into 256 buckets by their first byte, which for hashes fills them evenly. When
//! they take up too much memory, all are appended to a file, each as one run. In the end each
//! bucket is put together from its runs and sorted by itself: every byte is written and read at
//! most once.
//!
//! The file has no name (`tempfile`), so that nothing stays behind, however the process ends.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::error::StoreError;

/// Bytes held in memory before they go to the file; what they are held in may be twice as large.
const MEMORY: usize = 64 << 20;
const BUCKETS: usize = 256;
/// Bytes of the length before each entry.
const HEAD: usize = 4;

/// A part of a bucket in the file.
struct SpilledRun {
    bucket: usize,
    offset: u64,
    length: usize,
}

/// Takes entries in any order and gives them back in order.
pub(crate) struct ExternalSorter {
    buckets: Vec<Vec<u8>>,
    held: usize,
    memory: usize,
    runs: Vec<SpilledRun>,
    file: Option<File>,
    end: u64,
    folder: PathBuf,
}

impl ExternalSorter {
    /// What doesn't fit in memory goes into `folder`, else where the system keeps such files.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        Self {
            buckets: vec![Vec::new(); BUCKETS],
            held: 0,
            memory: MEMORY,
            runs: Vec::new(),
            file: None,
            end: 0,
            folder: folder.map_or_else(std::env::temp_dir, Path::to_path_buf),
        }
    }

    pub(crate) fn add(&mut self, entry: &[u8]) -> Result<(), StoreError> {
        let bucket = usize::from(entry.first().copied().unwrap_or_default());
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
            bucket.extend(length.to_le_bytes());
            bucket.extend(entry);
        }
        self.held += HEAD + entry.len();
        if self.held < self.memory {
            return Ok(());
        }
        self.spill().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::Folder { folder: self.folder.display().to_string(), source }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.folder)?,
        };
        for (bucket, bytes) in self.buckets.iter_mut().enumerate() {
            let length = bytes.len();
            if length == 0 {
                continue;
            }
            file.write_all_at(bytes, self.end)?;
            self.runs.push(SpilledRun { bucket, offset: self.end, length });
            self.end += length as u64;
            bytes.clear();
        }
        self.file = Some(file);
        self.held = 0;
        Ok(())
    }

    /// Gives every entry back, the least first.
    pub(crate) fn in_order(mut self, mut give: impl FnMut(&[u8])) -> Result<(), StoreError> {
        for (number, in_memory) in std::mem::take(&mut self.buckets).into_iter().enumerate() {
            let bytes = self.whole(number, in_memory).map_err(|source| self.failed(source))?;
            let mut entries = split(&bytes);
            entries.sort_unstable();
            entries.into_iter().for_each(&mut give);
        }
        Ok(())
    }

    /// A bucket with all its runs.
    fn whole(&self, number: usize, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        for run in self.runs.iter().filter(|run| run.bucket == number) {
            let start = bytes.len();
            bytes.resize(start + run.length, 0);
            if let (Some(file), Some(space)) = (&self.file, bytes.get_mut(start..)) {
                file.read_exact_at(space, run.offset)?;
            }
        }
        Ok(bytes)
    }
}

/// The entries of a bucket.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut entries = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() {
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        let Some((entry, after)) = rest.split_at_checked(length) else { break };
        entries.push(entry);
        bytes = after;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(memory: usize, entries: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = ExternalSorter { memory, ..ExternalSorter::new(Some(folder.path())) };
        entries.iter().for_each(|entry| sorter.add(entry).unwrap());
        assert!(folder.path().read_dir().unwrap().next().is_none(), "the file has no name");
        let mut given = Vec::new();
        sorter.in_order(|entry| given.push(entry.to_vec())).unwrap();
        given
    }

    #[test]
    fn in_memory_and_through_a_file_the_order_is_the_same() {
        let entry = |n: u64| {
            let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            hash.iter().copied().cycle().take(3 + (n % 40) as usize).collect::<Vec<u8>>()
        };
        let entries: Vec<_> = (0..5_000).map(entry).chain([vec![]]).collect();
        let mut expected = entries.clone();
        expected.sort();
        for memory in [usize::MAX, 64 << 10, 100] {
            assert_eq!(sorted(memory, &entries), expected, "{memory}");
        }
    }

    #[test]
    fn a_folder_that_can_not_be_written_to_is_named() {
        let folder = Path::new("/nowhere/at/all");
        let mut sorter = ExternalSorter { memory: 1, ..ExternalSorter::new(Some(folder)) };
        let error = sorter.add(b"entry").unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
