//! How far counters were used, in a file beside the key: what an older copy of the database can't
//! know.
//!
//! A database that came out of a backup, or was copied, begins again at counters that were used
//! since: a mint that has signed an output once signs it for nobody again. The file is in no
//! backup, and is written before a mint sees an output, so that a database which is behind it is
//! known to be an older copy.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde::{Deserialize, Serialize};
use unspent_ecash::OutputRange;
use unspent_source::wakeup::lock;

/// The file in the data folder, beside a key of that folder.
pub const COUNTERS_FILE: &str = "ecash.counters";
/// The largest file that is read.
const MOST_BYTES: u64 = 16 << 20;

/// By database, by keyset: the first counter that was never used.
#[derive(Default, Serialize, Deserialize)]
struct CounterRows {
    databases: BTreeMap<String, BTreeMap<String, u32>>,
}

/// The file, for one database.
#[derive(Debug)]
pub struct CounterFile {
    path: PathBuf,
    database: String,
    known: Mutex<BTreeMap<String, u32>>,
}

impl CounterFile {
    /// The file of a database. What any of the places holds counts; it is the first one that is
    /// there, else the first that can be made.
    ///
    /// # Errors
    ///
    /// What keeps a file that is there from being read, or all places from being written to.
    pub fn open(places: &[PathBuf], database: String) -> io::Result<Self> {
        let mut known = BTreeMap::new();
        for place in places {
            raise(&mut known, read(place)?.databases.remove(&database).unwrap_or_default());
        }
        let at = |path: &Path| {
            let (path, database) = (path.to_owned(), database.clone());
            Self { path, database, known: Mutex::new(known.clone()) }
        };
        // Who only looks at a database writes nothing beside it.
        if let Some(there) = places.iter().find(|place| place.exists()) {
            return Ok(at(there));
        }
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "no place is named for it");
        for place in places {
            let file = at(place);
            match file.write(&known) {
                Ok(()) => return Ok(file),
                Err(error) => failed = named(place, &error),
            }
        }
        Err(failed)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// By keyset, the first counter that was never used.
    pub fn used(&self) -> Vec<(String, u32)> {
        lock(&self.known).clone().into_iter().collect()
    }

    /// Has written, on the disk, that ranges are used.
    ///
    /// # Errors
    ///
    /// What keeps it from being written; the ranges must not be used then.
    pub fn cover(&self, ranges: &[&OutputRange]) -> io::Result<()> {
        let ends = ranges.iter().map(|range| {
            let count = u32::try_from(range.amounts.len()).unwrap_or(u32::MAX);
            // Counters end at 2^31, long before numbers do.
            (range.keyset_id.clone(), range.start.saturating_add(count))
        });
        self.cover_all(ends)
    }

    /// The same for counters by keyset.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn cover_all(&self, ends: impl IntoIterator<Item = (String, u32)>) -> io::Result<()> {
        let mut known = lock(&self.known);
        let is_new = |(keyset, end): &(String, u32)| known.get(keyset).is_none_or(|is| is < end);
        let news: BTreeMap<String, u32> = ends.into_iter().filter(is_new).collect();
        if news.is_empty() {
            return Ok(());
        }
        self.write(&news).map_err(|error| named(&self.path, &error))?;
        raise(&mut known, news);
        Ok(())
    }

    /// Raises what is written. Others may write to it too: a command beside the daemon, or another
    /// database with the same key.
    fn write(&self, news: &BTreeMap<String, u32>) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        // The folder itself, so that no further file lies about; it is let go with its handle.
        let folder = File::open(folder)?;
        folder.lock()?;
        let mut all = read(&self.path)?;
        raise(all.databases.entry(self.database.clone()).or_default(), news.clone());
        let fresh = self.path.with_extension("counters-new");
        let mut file = private(&fresh)?;
        // What the superuser writes is to be read by whoever has the folder. Nobody else may do so.
        #[cfg(unix)]
        {
            let whose = folder.metadata()?;
            let (user, group) = (MetadataExt::uid(&whose), MetadataExt::gid(&whose));
            let _ = std::os::unix::fs::fchown(&file, Some(user), Some(group));
        }
        file.write_all(&serde_json::to_vec(&all)?)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        // The new name too: without it a crash could bring the old content back.
        folder.sync_all()
    }
}

fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn raise(known: &mut BTreeMap<String, u32>, news: BTreeMap<String, u32>) {
    for (keyset, end) in news {
        let place = known.entry(keyset).or_default();
        *place = end.max(*place);
    }
}

fn read(path: &Path) -> io::Result<CounterRows> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() > MOST_BYTES => {
            Err(named(path, &io::Error::other("it is too large")))
        }
        Ok(_) => {
            let bytes = std::fs::read(path).map_err(|error| named(path, &error))?;
            serde_json::from_slice(&bytes).map_err(|error| named(path, &error.into()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(CounterRows::default()),
        Err(error) => Err(named(path, &error)),
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, count: usize) -> OutputRange {
        OutputRange { keyset_id: "k".into(), start, amounts: vec![1; count] }
    }

    #[test]
    fn what_was_used_is_found_again_and_never_less() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(COUNTERS_FILE);
        let places = [path.clone()];
        let file = CounterFile::open(&places, "a".into()).unwrap();
        file.cover(&[&range(0, 5), &range(3, 4)]).unwrap();
        let beside = CounterFile::open(&places, "a".into()).unwrap();
        beside.cover(&[&range(20, 1)]).unwrap();
        // This one has not seen what the other wrote, and takes none of it back.
        file.cover(&[&range(7, 3)]).unwrap();
        let other = CounterFile::open(&places, "b".into()).unwrap();
        other.cover(&[&range(1, 1)]).unwrap();
        let used = |name: &str| CounterFile::open(&places, name.into()).unwrap().used();
        assert_eq!(used("a"), [("k".to_owned(), 21)]);
        assert_eq!(used("b"), [("k".to_owned(), 2)]);
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_passed_over_and_a_torn_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("none").join("x"), folder.path().join(COUNTERS_FILE)];
        let file = CounterFile::open(&places, "a".into()).unwrap();
        assert_eq!(file.path(), places[1]);
        std::fs::write(&places[1], "{").unwrap();
        let error = CounterFile::open(&places, "a".into()).unwrap_err().to_string();
        assert!(error.contains(COUNTERS_FILE), "{error}");
    }
}
