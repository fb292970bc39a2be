//! A place for unpacked files, inside the data folder, that goes when nobody reads any more.
//!
//! A process that is killed leaves its place behind, with hundreds of megabytes in it. Whoever
//! comes next removes it: a place in use is locked, and the lock goes with its process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use tempfile::TempDir;

use super::FilesError;

/// A temporary folder that is made when it is first needed.
pub struct Workroom {
    data_dir: PathBuf,
    /// The data folder was there before.
    existed: bool,
    folder: OnceLock<(TempDir, File)>,
}

/// How the names of such places begin.
const PREFIX: &str = "unpacked-";
/// The file that is locked as long as the place is in use.
const LOCK: &str = "in-use";
/// A place without that file is being made, unless it is older than this.
const IN_THE_MAKING: Duration = Duration::from_secs(60);

impl Workroom {
    /// A place inside `data_dir`, not made yet. What killed processes left there goes.
    pub fn new(data_dir: &Path) -> Self {
        remove_abandoned(data_dir);
        let (data_dir, existed) = (data_dir.to_owned(), data_dir.exists());
        Self { data_dir, existed, folder: OnceLock::new() }
    }

    /// The folder, made on the first call.
    ///
    /// # Errors
    ///
    /// [`FilesError::NoRoom`] when it can't be made.
    pub fn open(&self) -> Result<PathBuf, FilesError> {
        if let Some((folder, _)) = self.folder.get() {
            return Ok(folder.path().to_owned());
        }
        let no_room = |source| FilesError::NoRoom { folder: self.data_dir.clone(), source };
        fs::create_dir_all(&self.data_dir).map_err(no_room)?;
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&self.data_dir);
        let folder = made.map_err(no_room)?;
        let lock = File::create(folder.path().join(LOCK)).map_err(no_room)?;
        lock.lock().map_err(no_room)?;
        Ok(self.folder.get_or_init(|| (folder, lock)).0.path().to_owned())
    }
}

impl Drop for Workroom {
    fn drop(&mut self) {
        if let Some((folder, _)) = self.folder.take() {
            if let Err(error) = folder.close() {
                tracing::warn!(%error, "can't remove unpacked files");
            }
            if !self.existed {
                // Succeeds only on an empty folder: one that a refused reading would leave behind.
                let _ = fs::remove_dir(&self.data_dir);
            }
        }
    }
}

/// Removes places whose processes are gone. What can't be removed is somebody else's to complain
/// about: nothing depends on it.
fn remove_abandoned(data_dir: &Path) {
    let Ok(entries) = fs::read_dir(data_dir) else { return };
    for entry in entries.flatten() {
        let is_place = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_place || is_in_use(&entry.path()) {
            continue;
        }
        let folder = entry.path().display().to_string();
        match fs::remove_dir_all(entry.path()) {
            Ok(()) => tracing::info!(folder, "removed files that a killed process had unpacked"),
            Err(error) => tracing::warn!(folder, %error, "can't remove unpacked files"),
        }
    }
}

fn is_in_use(place: &Path) -> bool {
    match File::open(place.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_err(),
        Err(_) => {
            let changed = fs::metadata(place).and_then(|metadata| metadata.modified());
            let age = changed.ok().and_then(|changed| changed.elapsed().ok());
            age.is_none_or(|age| age < IN_THE_MAKING)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_killed_processes_go_and_those_in_use_stay() {
        let data = tempfile::tempdir().unwrap();
        let used = Workroom::new(data.path());
        let kept = used.open().unwrap();
        let left = data.path().join("unpacked-killed");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("0.blk"), [7; 1000]).unwrap();
        let making = Workroom::new(data.path());
        assert!(left.exists(), "it may be in the making");
        fs::write(left.join(LOCK), []).unwrap();
        let next = Workroom::new(data.path());
        assert!(!left.exists() && kept.exists());
        drop((used, making, next));
        assert!(!kept.exists());
    }
}
