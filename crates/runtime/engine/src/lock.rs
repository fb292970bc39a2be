//! One engine per data folder: an advisory lock on the file `LOCK`, which ends with its process.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::Path,
};

use crate::error::StartError;

/// The file's name in the data folder.
pub const LOCK_FILE: &str = "LOCK";

/// The lock, held until it is dropped.
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the lock, making the folder when absent.
    pub(crate) fn take(folder: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::Folder { folder: folder.display().to_string(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(folder.join(LOCK_FILE)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let folder = folder.display().to_string();
                return Err(StartError::Running { folder, holder: holder.trim().to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // Only now: before the lock is held, this is the name of the one who has it.
        file.set_len(0).map_err(failed)?;
        writeln!(file, "process {}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}
