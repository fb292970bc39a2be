//! The cookie file: whoever can read it may do everything.

use std::{fs::File, io::Write as _, os::unix::fs::fchown, path::Path};

use anyhow::Context as _;

use super::secret;
use crate::private::heir;

/// Writes a new secret, readable by the owner alone, in place of an older one.
pub(super) fn write(file: &Path) -> anyhow::Result<String> {
    let secret = secret()?;
    private_file(file, secret.as_bytes())?;
    Ok(secret)
}

/// Replaces a file as a whole by one that only its owner can read. A link is replaced, not
/// followed. What the superuser writes belongs to whoever has the folder.
pub fn private_file(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let made = beside(file, content)?;
    made.persist(file).with_context(|| format!("can't write {}", file.display()))?;
    Ok(())
}

/// The same, but a file that is there stays as it is: two programs may begin at once.
pub fn new_private_file(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    match beside(file, content)?.persist_noclobber(file) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).with_context(|| format!("can't write {}", file.display())),
    }
}

/// The content in a file without a name of its own yet, on the disk.
fn beside(file: &Path, content: &[u8]) -> anyhow::Result<tempfile::NamedTempFile> {
    let shown = file.display();
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    // A temporary file is made with mode 0600.
    let mut made = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("can't write beside {shown}"))?;
    made.write_all(content).with_context(|| format!("can't write {shown}"))?;
    give_to_owner_of(folder, made.as_file())
        .with_context(|| format!("can't give {shown} to the folder's owner"))?;
    // Before it gets its name: after a crash the name must lead to all of it or to the one before.
    made.as_file().sync_all().with_context(|| format!("can't write {shown}"))?;
    Ok(made)
}

/// A daemon runs as the folder's owner, and couldn't read a file of root's.
fn give_to_owner_of(folder: &Path, made: &File) -> std::io::Result<()> {
    match heir(&made.metadata()?, folder)? {
        Some((uid, gid)) => fchown(made, Some(uid), Some(gid)),
        None => Ok(()),
    }
}
