//! The lock on a data folder: while a daemon has it, the command line writes nothing there.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::Read as _,
    path::Path,
};

use anyhow::Context as _;
use unspent_engine::lock::LOCK_FILE;

use crate::error::CliError;

/// Keeps a daemon from starting while it lives.
#[must_use]
pub struct FolderLock {
    _lock: Option<File>,
}

/// Permission to write to a folder, beside other commands, but never beside a daemon.
pub fn shared(folder: &Path) -> anyhow::Result<FolderLock> {
    take(folder, File::try_lock_shared)
}

/// The folder for oneself alone.
pub fn exclusive(folder: &Path) -> anyhow::Result<FolderLock> {
    take(folder, File::try_lock)
}

fn take(
    folder: &Path,
    lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> anyhow::Result<FolderLock> {
    if !folder.is_dir() {
        // Nobody can be at work in a folder that isn't there.
        return Ok(FolderLock { _lock: None });
    }
    let path = folder.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    // What stands in it names the daemon that holds it, also to whoever is refused.
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).with_context(|| format!("can't use {}", path.display()))?;
    match lock(&file) {
        Ok(()) => Ok(FolderLock { _lock: Some(file) }),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Only for the message.
            let _ = file.read_to_string(&mut holder);
            let holder = holder.lines().next().unwrap_or_default();
            let message = format!(
                "`unspent serve` ({holder}) or another command is using {}; nothing was changed",
                folder.display()
            );
            let hint = "use the daemon's REST interface, or stop it first; commands that only \
                        read work alongside it";
            Err(CliError::refused(message).hint(hint).into())
        }
        Err(TryLockError::Error(error)) => Err(error).context("can't lock the folder"),
    }
}
