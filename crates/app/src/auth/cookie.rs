//! The cookie file: whoever can read it may do everything.

use std::{io::Write as _, path::Path};

use anyhow::Context as _;

use super::secret;

/// Writes a new secret, readable by the owner alone, in place of an older one.
pub(super) fn write(file: &Path) -> anyhow::Result<String> {
    let secret = secret()?;
    private_file(file, secret.as_bytes())?;
    Ok(secret)
}

/// Replaces a file as a whole by one that only its owner can read. A link is replaced, not
/// followed.
pub(crate) fn private_file(file: &Path, content: &[u8]) -> anyhow::Result<()> {
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
    made.as_file().sync_all().with_context(|| format!("can't write {shown}"))?;
    made.persist(file).with_context(|| format!("can't write {shown}"))?;
    Ok(())
}
