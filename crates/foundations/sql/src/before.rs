//! A SQLite file as it was before a newer program migrated it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::{
    error::{OpenError, SqlError},
    schema::Schema,
    sqlite_side::{copy_sqlite, sqlite_version},
    url::Url,
};

/// Copies a database that is about to be migrated to `FILE.vN` beside it, N being its version: the
/// program that wrote it opens nothing newer. A file that is absent, empty, up to date or of a
/// newer program is left alone. An older copy of that version is replaced as a whole.
///
/// # Errors
///
/// [`OpenError`]; the database is unchanged, and what was begun of a copy has no such name.
pub fn keep_before_migration(file: &Path, schema: &Schema) -> Result<Option<PathBuf>, OpenError> {
    let failed = |source| OpenError::Connect { url: Url::Sqlite(file.to_owned()), source };
    let version = sqlite_version(file).map_err(failed)?;
    let newest = schema.migrations.last().map_or(0, |last| last.version);
    if version == 0 || version >= newest {
        return Ok(None);
    }
    let kept = beside(file, &format!(".v{version}"));
    copy(file, &kept).map_err(failed)?;
    tracing::info!(from = version, to = newest, copy = %kept.display(), "kept before migrating");
    Ok(Some(kept))
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    name.into()
}

/// A copy gets its name once it is whole and on the disk.
fn copy(file: &Path, to: &Path) -> Result<(), SqlError> {
    // VACUUM INTO refuses a file with content, and a crash may have left one.
    let part = beside(to, ".part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(disk(&error)),
        Ok(()) | Err(_) => {}
    }
    copy_sqlite(file, &part)?;
    fs::rename(&part, to).map_err(|error| disk(&error))?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(|error| disk(&error))?;
    // A new name is on the disk only once its folder is.
    folder.sync_all().map_err(|error| disk(&error))
}

fn disk(error: &io::Error) -> SqlError {
    SqlError::Disk(error.to_string())
}
