//! The making of a backup, beside a daemon or without one.
//!
//! The engine's own database comes first: what it tells of rooms is then never ahead of them. The
//! simulated network comes last, so that it has every block that a room has.

use std::{fs, path::Path};

use anyhow::Context as _;
use unspent_engine::{
    Engine, RoomState,
    room::{OnDisk, RoomName, RoomShape},
    store::STORE_FILE,
};
use unspent_sql::copy_sqlite;

use super::list::{self, List};
use crate::{
    error::CliError,
    private,
    rooms::{is_on_by_itself, shapes},
    serve::folder_lock,
};

/// The simulated network's folder.
const SIM: &str = "sim";
/// Single files in a data folder.
const FILES: [&str; 1] = ["tokens.json"];

/// Which rooms are saved: all but some, or only some and then nothing besides.
#[derive(Clone, Copy)]
pub(super) struct SavedRooms<'a> {
    pub(super) without: &'a [String],
    pub(super) only: &'a [String],
}

impl SavedRooms<'_> {
    fn is_everything(self) -> bool {
        self.only.is_empty()
    }

    fn takes(self, room: &RoomShape) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == room.name.name());
        if self.is_everything() { !is_in(self.without) } else { is_in(self.only) }
    }

    fn check(self) -> anyhow::Result<()> {
        let is_known = |name: &String| shapes().iter().any(|room| room.name.name() == name);
        match self.without.iter().chain(self.only).find(|name| !is_known(name)) {
            Some(unknown) => Err(CliError::usage(format!("no room is called {unknown}")).into()),
            None => Ok(()),
        }
    }
}

/// Something to be copied, and whose it is.
struct SavedPart {
    room: Option<RoomName>,
    kept: OnDisk,
}

impl SavedPart {
    fn is_there(&self, data: &Path) -> bool {
        match self.kept {
            OnDisk::Database(name) => data.join(name).exists(),
            OnDisk::Folder(name) => data.join(name).is_dir(),
        }
    }
}

/// A backup while nobody else has the folder.
pub(super) fn alone(data: &Path, to: &Path, choice: SavedRooms<'_>) -> anyhow::Result<List> {
    if !data.is_dir() {
        return Err(CliError::refused(format!("there is no data in {}", data.display())).into());
    }
    let _alone = folder_lock::exclusive(data)?;
    // Nobody can say which rooms a daemon has on here, besides those that are on by themselves.
    let is_on = |room: &RoomShape| is_on_by_itself(room);
    make(data, to, choice, &is_on, &|_, _| Ok(false))
}

/// A backup of what a running engine keeps, each room as it stands at one moment.
pub(super) fn beside(
    engine: &Engine,
    data: &Path,
    to: &Path,
    choice: SavedRooms<'_>,
) -> anyhow::Result<List> {
    let rooms = engine.status().rooms;
    let is_on = |entry: &RoomShape| {
        rooms.iter().any(|room| room.room == entry.name && room.state != RoomState::Off)
    };
    make(data, to, choice, &is_on, &|room, to| engine.copy_folder(room, to))
}

/// How a room that is open copies its folder; `false` when files may be copied one by one.
type CopyOpen<'a> = &'a dyn Fn(RoomName, &Path) -> Result<bool, String>;

/// Whether a room must be in the data folder or be left out by name.
type IsOn<'a> = &'a dyn Fn(&RoomShape) -> bool;

fn make(
    data: &Path,
    to: &Path,
    choice: SavedRooms<'_>,
    is_on: IsOn<'_>,
    copy_open: CopyOpen<'_>,
) -> anyhow::Result<List> {
    let parts = parts(data, choice, is_on)?;
    empty(to)?;
    for part in parts {
        save(data, to, &part, copy_open)?;
    }
    for name in FILES {
        if choice.is_everything() && data.join(name).is_file() {
            copy_file(&data.join(name), &to.join(name))?;
        }
    }
    let list = List::of(to)?;
    list.write(to)?;
    Ok(list)
}

fn save(data: &Path, to: &Path, part: &SavedPart, copy_open: CopyOpen<'_>) -> anyhow::Result<()> {
    match part.kept {
        OnDisk::Database(name) if data.join(name).exists() => {
            let from = data.join(name);
            copy_sqlite(&from, &to.join(name))
                .with_context(|| format!("can't copy {}", from.display()))
        }
        OnDisk::Folder(name) if data.join(name).is_dir() => {
            if let Some(room) = part.room {
                let copied = copy_open(room, &to.join(name));
                if copied.map_err(|why| CliError::refused(format!("can't copy {name}: {why}")))? {
                    return Ok(());
                }
            }
            copy_folder(&data.join(name), &to.join(name))
        }
        OnDisk::Database(_) | OnDisk::Folder(_) => Ok(()),
    }
}

/// What is to be copied: everything of every room that isn't left out by name.
fn parts(data: &Path, choice: SavedRooms<'_>, is_on: IsOn<'_>) -> anyhow::Result<Vec<SavedPart>> {
    choice.check()?;
    let is_daemon = data.join(STORE_FILE).exists();
    let shared = |kept: OnDisk| choice.is_everything().then_some(SavedPart { room: None, kept });
    let mut parts: Vec<SavedPart> = shared(OnDisk::Database(STORE_FILE)).into_iter().collect();
    for room in shapes().into_iter().filter(|room| choice.takes(room)) {
        for kept in room.keeps {
            // A daemon's room that isn't here lives in a database elsewhere.
            if let OnDisk::Database(name) = kept
                && is_daemon
                && is_on(room)
                && !data.join(name).exists()
            {
                let room = room.name;
                let message = format!("there is no {name} in the data folder; nothing was copied");
                let hint = format!(
                    "with PostgreSQL use pg_dump at the same time, and save the rest with --without \
                     {room}"
                );
                return Err(CliError::refused(message).hint(hint).into());
            }
            parts.push(SavedPart { room: Some(room.name), kept: *kept });
        }
    }
    parts.extend(shared(OnDisk::Folder(SIM)));
    if !choice.is_everything() && !parts.iter().any(|part| part.is_there(data)) {
        let message = format!("{} holds nothing of that; nothing was copied", data.display());
        return Err(CliError::refused(message).into());
    }
    Ok(parts)
}

/// Makes a folder, or takes one that holds nothing.
pub(super) fn empty(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("can't make {shown}"))?;
    let mut entries = fs::read_dir(folder).with_context(|| format!("can't read {shown}"))?;
    if entries.next().is_some() {
        let message = format!("{shown} holds something; nothing was changed");
        return Err(CliError::refused(message).hint("name a new folder").into());
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    for file in list::files(from)? {
        copy_file(&from.join(&file), &to.join(&file))?;
    }
    Ok(())
}

/// Copies one file onto the disk, for its owner alone.
pub(super) fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    }
    private::copy(from, to)
        .with_context(|| format!("can't copy {} to {}", from.display(), to.display()))
}
