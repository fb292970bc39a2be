//! A place for unpacked files, inside the data folder, that goes when nobody reads any more.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use tempfile::TempDir;

use super::FilesError;

/// A temporary folder that is made when it is first needed.
pub struct Workroom {
    data_dir: PathBuf,
    /// The data folder was there before.
    existed: bool,
    folder: OnceLock<TempDir>,
}

impl Workroom {
    /// A place inside `data_dir`, not made yet.
    pub fn new(data_dir: &Path) -> Self {
        let (data_dir, existed) = (data_dir.to_owned(), data_dir.exists());
        Self { data_dir, existed, folder: OnceLock::new() }
    }

    /// The folder, made on the first call.
    ///
    /// # Errors
    ///
    /// [`FilesError::NoRoom`] when it can't be made.
    pub fn open(&self) -> Result<PathBuf, FilesError> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.path().to_owned());
        }
        let no_room = |source| FilesError::NoRoom { folder: self.data_dir.clone(), source };
        fs::create_dir_all(&self.data_dir).map_err(no_room)?;
        let made = tempfile::Builder::new().prefix("unpacked-").tempdir_in(&self.data_dir);
        let folder = made.map_err(no_room)?;
        Ok(self.folder.get_or_init(|| folder).path().to_owned())
    }
}

impl Drop for Workroom {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
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
