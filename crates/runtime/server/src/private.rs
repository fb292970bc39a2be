//! What lies on the disk is for its owner alone.
//!
//! Databases, RocksDB and SQLite's side files are made by libraries, with modes of their own; only
//! the process's umask reaches all of them. What an older version left open is closed at the start.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::{fs::Mode, process::umask};
use unspent_engine::{
    lock::LOCK_FILE,
    room::{OnDisk, RoomShape},
    store::STORE_FILE,
};

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;
/// SQLite keeps these beside a database.
const BESIDE: [&str; 4] = ["", "-wal", "-shm", "-queue"];

/// From now on this process makes files that only their owner can read.
pub fn start() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Copies a file into a new one that only its owner can read, and onto the disk.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut read = fs::File::open(from)?;
    let mut options = fs::OpenOptions::new();
    // Only as a new file: a link that lies there would lead the copy to anywhere.
    let mut written = options.write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut read, &mut written)?;
    written.sync_all()
}

/// Who is to have what was made in a folder: what the superuser makes belongs to whoever has the
/// folder. `None` where it stays as it is: anybody else may write only what is his own.
pub fn heir(made: &fs::Metadata, folder: &Path) -> io::Result<Option<(u32, u32)>> {
    let owner = fs::metadata(folder)?;
    let owner = (owner.uid(), owner.gid());
    Ok((made.uid() == 0 && (made.uid(), made.gid()) != owner).then_some(owner))
}

/// Closes to others what the product keeps in a data folder. The folder itself, and what anybody
/// else put there, are the operator's. What belongs to another user is left as it is.
pub fn tighten(data: &Path, shapes: &[&RoomShape]) {
    let kept = shapes.iter().flat_map(|room| room.keeps.iter().copied());
    for kept in kept.chain([OnDisk::Database(STORE_FILE), OnDisk::Folder("sim")]) {
        match kept {
            OnDisk::Database(name) => {
                BESIDE.iter().for_each(|end| close(&data.join(format!("{name}{end}"))));
            }
            OnDisk::Folder(name) => close_all(&data.join(name)),
        }
    }
    close(&data.join(LOCK_FILE));
}

fn close_all(folder: &Path) {
    close(folder);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            // The kind is the entry's own, so links to folders elsewhere are not followed.
            Ok(kind) if kind.is_dir() => close_all(&entry.path()),
            Ok(kind) if kind.is_file() => close(&entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
}

fn close(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let mode = found.permissions().mode();
    if found.is_symlink() || mode & OTHERS == 0 {
        return;
    }
    if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS)) {
        tracing::warn!(
            path = %path.display(),
            %error,
            "other users can read this, and it can't be changed"
        );
    }
}
