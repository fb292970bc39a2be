//! A place for unpacked files, inside the data folder, that goes when the import ends.

use std::{
    cell::OnceCell,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use tempfile::TempDir;

/// A temporary folder that is made when it is first needed.
pub(crate) struct Workroom {
    data_dir: PathBuf,
    /// The data folder was there before.
    existed: bool,
    folder: OnceCell<TempDir>,
}

impl Workroom {
    /// A place inside `data_dir`, not made yet.
    pub(crate) fn new(data_dir: &Path) -> Self {
        let (data_dir, existed) = (data_dir.to_owned(), data_dir.exists());
        Self { data_dir, existed, folder: OnceCell::new() }
    }

    /// The folder, made on the first call.
    pub(crate) fn open(&self) -> anyhow::Result<PathBuf> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.path().to_owned());
        }
        let context = || format!("can't make a folder in {}", self.data_dir.display());
        fs::create_dir_all(&self.data_dir).with_context(context)?;
        let made = tempfile::Builder::new().prefix("unpacked-").tempdir_in(&self.data_dir);
        let folder = made.with_context(context)?;
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
                // Succeeds only on an empty folder: one that a refused import would leave behind.
                let _ = fs::remove_dir(&self.data_dir);
            }
        }
    }
}
