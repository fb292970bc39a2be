//! The files of a backup that the settings put outside the data folder: a room's database, the
//! tokens.
//!
//! Each is written beside its place under another name and renamed when the data folder is as good
//! as there. A file that is there already counts as restored when it is the same, byte by byte; any
//! other one ends the restore before anything is changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    os::unix::fs::lchown,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use unspent_server::{CliError, Config, private};

use super::{
    list::{List, Listed},
    make::copy_file,
    plan::configured,
    restore::{remove, sync},
};

/// Files of the backup with the places that the settings give them.
pub(super) struct Elsewhere<'a> {
    /// By the names in the backup.
    places: BTreeMap<PathBuf, Place>,
    /// Those outside that aren't there yet.
    files: Vec<(&'a Listed, PathBuf)>,
}

impl<'a> Elsewhere<'a> {
    /// Looks where everything belongs, and refuses what has no place or would hit another file.
    pub(super) fn of(list: &'a List, config: &Config) -> anyhow::Result<Self> {
        let places = places(list, config)?;
        let mut files = Vec::new();
        for file in &list.files {
            let Some(Place::Outside(place)) = places.get(&file.path) else { continue };
            if file.is_at(place) {
                continue;
            }
            if let Some(taken) = taken(place) {
                let shown = taken.display();
                let message = format!(
                    "{shown} exists and differs from the one in the backup; nothing was restored"
                );
                let hint = "move it out of the way, or choose other settings with --config";
                return Err(CliError::refused(message).hint(hint).into());
            }
            files.push((file, place.clone()));
        }
        Ok(Self { places, files })
    }

    /// The path from the data folder that a file of the list gets; `None` outside.
    pub(super) fn inside<'p>(&'p self, path: &'p Path) -> Option<&'p Path> {
        match self.places.get(path) {
            None => Some(path),
            Some(Place::Inside(path)) => Some(path),
            Some(Place::Outside(_)) => None,
        }
    }

    /// What the restore makes directly in the data folder.
    pub(super) fn top_names(&self, list: &List) -> BTreeSet<OsString> {
        let inside = list.files.iter().filter_map(|file| self.inside(&file.path));
        inside.filter_map(|path| Some(path.components().next()?.as_os_str().to_owned())).collect()
    }

    /// Copies each beside its place.
    pub(super) fn stage(&self, from: &Path) -> anyhow::Result<()> {
        for (file, place) in &self.files {
            // Beside its place and so on the same disk, where the rename at the end is one step.
            let staged = staged(place);
            remove(&staged).with_context(|| format!("can't remove {}", staged.display()))?;
            let owner = staged.ancestors().skip(1).find(|folder| folder.is_dir());
            let owner = owner.map(Path::to_owned);
            copy_file(&from.join(&file.path), &staged)?;
            if let Some(owner) = owner {
                give_to_owner(&staged, &owner)
                    .with_context(|| format!("can't give {} to its owner", staged.display()))?;
            }
        }
        Ok(())
    }

    /// Gives each its name.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        for (_, place) in &self.files {
            let shown = place.display();
            fs::rename(staged(place), place)
                .with_context(|| format!("can't move {shown} into place"))?;
            if let Some(folder) = place.parent() {
                sync(folder).with_context(|| format!("can't sync {shown} to disk"))?;
            }
        }
        Ok(())
    }
}

/// Where a file goes that the settings give another place than its usual one.
enum Place {
    /// In the data folder, from there.
    Inside(PathBuf),
    Outside(PathBuf),
}

/// A path without links, as far as it is there already.
fn real(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).context("a path in the settings is invalid")?;
    // What isn't there yet has no real path, so the nearest folder that is there gives it.
    for known in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (known.canonicalize(), path.strip_prefix(known)) {
            return Ok(if rest == Path::new("") { real } else { real.join(rest) });
        }
    }
    Ok(path)
}

/// Files of the list that the settings give another place than their usual one.
fn places(list: &List, config: &Config) -> anyhow::Result<BTreeMap<PathBuf, Place>> {
    let is_held = |name: &str| list.files.iter().any(|file| file.path == Path::new(name));
    let (data, mut places) = (real(&config.data_dir)?, BTreeMap::new());
    let mut put = |name: &str, place: &Path| -> anyhow::Result<()> {
        let place = real(place)?;
        let place = match place.strip_prefix(&data) {
            Ok(inside) if inside == Path::new(name) => return Ok(()),
            Ok(inside) => Place::Inside(inside.to_owned()),
            Err(_) => Place::Outside(place),
        };
        places.insert(PathBuf::from(name), place);
        Ok(())
    };
    for (name, place) in configured(config, &is_held)? {
        put(name, &place)?;
    }
    Ok(places)
}

/// What is in the way: the file, or what SQLite would read as a part of it.
fn taken(place: &Path) -> Option<PathBuf> {
    // A log that another database left would be played into the one that is restored.
    ["", "-wal", "-journal"].map(|end| beside(place, end)).into_iter().find(|path| path.exists())
}

fn staged(place: &Path) -> PathBuf {
    beside(place, ".restoring")
}

fn beside(place: &Path, end: &str) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// With the folders made for it, a file belongs to whoever has the folder in which that begins.
fn give_to_owner(file: &Path, above: &Path) -> std::io::Result<()> {
    let Some((uid, gid)) = private::heir(&fs::metadata(file)?, above)? else { return Ok(()) };
    let mut made = file.ancestors().take_while(|path| *path != above);
    made.try_for_each(|path| lchown(path, Some(uid), Some(gid)))
}
