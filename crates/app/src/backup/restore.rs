//! `unspent db restore`: into a side folder, which becomes the data folder by a rename at the end.
//!
//! | the data folder | the side folder | the last step |
//! |---|---|---|
//! | is a folder, or nothing yet | `NAME.restoring` beside it | it is renamed |
//! | can't be renamed: a mount point, say | `restoring` inside it | its entries are moved out |
//!
//! What the settings put elsewhere is staged there and renamed just before (`elsewhere`).
//!
//! Invariant: while a side folder is there, the restore is unfinished, and whoever works on the
//! data folder refuses to, by name. A further restore clears it away and begins anew.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    os::unix::fs::{MetadataExt as _, lchown},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use unspent_engine::lock::LOCK_FILE;
use unspent_server::{CliError, Config, folder_lock, private};

use super::{
    elsewhere::Elsewhere,
    list::List,
    make::{copy_file, empty},
};

/// The side folder's name inside a mount point, and its ending elsewhere.
const SIDE: &str = "restoring";

/// Brings a backup back.
pub(super) fn restore(from: &Path, config: &Config) -> anyhow::Result<List> {
    let data = &config.data_dir;
    let list = List::read(from)?;
    list.check(from)?;
    let elsewhere = Elsewhere::of(&list, config)?;
    for side in Side::both(data)? {
        side.clear(&elsewhere.top_names(&list))?;
    }
    empty(data)?;
    let lock = folder_lock::exclusive(data)?;
    let side = Side::make(data)?;
    for file in &list.files {
        if let Some(inside) = elsewhere.inside(&file.path) {
            copy_file(&from.join(&file.path), &side.path.join(inside))?;
        }
    }
    elsewhere.stage(from)?;
    let shown = side.path.display();
    side.give_to_owner().with_context(|| format!("can't give {shown} to the folder's owner"))?;
    // While the side folder is there, whoever comes is told that this restore is unfinished.
    elsewhere.finish()?;
    // From here on the side folder keeps everybody out; the lock's own file is about to go.
    drop(lock);
    side.finish().with_context(|| format!("can't move {shown} into place"))?;
    Ok(list)
}

/// Refuses a data folder into which a restore is unfinished.
pub(crate) fn check_finished(data: &Path) -> anyhow::Result<()> {
    let Some(side) = Side::both(data)?.into_iter().find(|side| side.path.exists()) else {
        return Ok(());
    };
    let message = format!(
        "an earlier restore into {} was interrupted and left {}; nothing was changed",
        data.display(),
        side.path.display()
    );
    let hint = "run `unspent db restore` again, or remove that folder if you don't need it";
    Err(CliError::refused(message).hint(hint).into())
}

/// Where a backup is put together.
struct Side {
    path: PathBuf,
    data: PathBuf,
    is_inside: bool,
}

impl Side {
    /// The two places where one can be: beside the data folder, and inside it.
    fn both(data: &Path) -> anyhow::Result<Vec<Self>> {
        let shown = data.display();
        let data =
            std::path::absolute(data).with_context(|| format!("{shown} is not a valid path"))?;
        let inside = Self { path: data.join(SIDE), data: data.clone(), is_inside: true };
        let Some(name) = data.file_name() else { return Ok(vec![inside]) };
        let mut name = name.to_owned();
        name.push(format!(".{SIDE}"));
        let path = data.with_file_name(name);
        let beside = Self { path, data, is_inside: false };
        Ok(vec![beside, inside])
    }

    /// Makes the one that the folder's place allows.
    fn make(data: &Path) -> anyhow::Result<Self> {
        let is_mounted = is_mount_point(data);
        for side in Self::both(data)? {
            // A mount point can't be renamed over, and what lies beside it is on another disk.
            if is_mounted && !side.is_inside {
                continue;
            }
            match fs::create_dir(&side.path) {
                Ok(()) => return Ok(side),
                // Whoever has the data folder need not have the one above it.
                Err(_) if !side.is_inside => {}
                Err(error) => {
                    let shown = side.path.display();
                    return Err(error).with_context(|| format!("can't make {shown}"));
                }
            }
        }
        Err(CliError::bug("found no folder to restore into").into())
    }

    /// Takes away what an earlier restore left, with what it had moved already.
    fn clear(&self, names: &BTreeSet<OsString>) -> anyhow::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let cleared = || format!("can't remove {}", self.path.display());
        if self.is_inside {
            // What was moved out already is only part of a restore, and goes with it.
            for name in names {
                remove(&self.data.join(name)).with_context(cleared)?;
            }
        }
        remove(&self.data.join(LOCK_FILE)).with_context(cleared)?;
        // The side folder last: as long as it is there the restore counts as unfinished.
        remove(&self.path).with_context(cleared)
    }

    /// What the superuser restores belongs to whoever has the data folder.
    fn give_to_owner(&self) -> io::Result<()> {
        let heir = private::heir(&fs::metadata(&self.path)?, &self.data)?;
        let Some((uid, gid)) = heir else { return Ok(()) };
        let mut waiting = vec![self.path.clone()];
        while let Some(path) = waiting.pop() {
            // Not through links: root would give away what they lead to.
            lchown(&path, Some(uid), Some(gid))?;
            if fs::symlink_metadata(&path)?.is_dir() {
                let entries = fs::read_dir(&path)?.map(|entry| entry.map(|entry| entry.path()));
                waiting.extend(entries.collect::<io::Result<Vec<_>>>()?);
            }
        }
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        sync(&self.path)?;
        if self.is_inside {
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                fs::rename(entry.path(), self.data.join(entry.file_name()))?;
            }
            sync(&self.data)?;
            // Only when the names are on the disk: a crash before this must still show as
            // unfinished.
            fs::remove_dir(&self.path)?;
            return sync(&self.data);
        }
        // The lock's file is all that the empty folder holds.
        remove(&self.data.join(LOCK_FILE))?;
        fs::rename(&self.path, &self.data)?;
        self.data.parent().map_or(Ok(()), sync)
    }
}

/// Has the names in a folder on the disk.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    let gone = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn is_mount_point(data: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    match (device(data), data.parent().and_then(device)) {
        (Some(own), Some(above)) => own != above,
        (Some(_), None) | (None, _) => false,
    }
}
