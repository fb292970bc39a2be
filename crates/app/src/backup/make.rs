//! The making of a backup, beside a daemon or without one.

use std::{fs, path::Path};

use anyhow::Context as _;
use unspent_engine::{Engine, RoomName, RoomState, room::RoomShape};
use unspent_server::{CliError, Config, folder_lock, private};
use unspent_sql::copy_sqlite;

use super::{
    list::{self, List},
    plan::{BackupPlan, IsOn, PartKind, SavedPart, SavedRooms},
};

/// A backup that was made.
pub(super) struct MadeBackup {
    pub(super) list: List,
    /// What somebody may expect in it but isn't.
    pub(super) left_out: Vec<String>,
}

/// A backup while nobody else has the folder.
pub(super) fn alone(
    config: &Config,
    to: &Path,
    choice: SavedRooms<'_>,
) -> anyhow::Result<MadeBackup> {
    let data = &config.data_dir;
    if !data.is_dir() {
        return Err(CliError::refused(format!("there is no data in {}", data.display())).into());
    }
    // Commands that write share the lock, so nothing less keeps them out while files are copied.
    let _alone = folder_lock::exclusive(data)?;
    choice.check_remembered(config)?;
    let is_on = |shape: &RoomShape| {
        let room = config.rooms().iter().find(|room| room.shape().name == shape.name);
        room.is_some_and(|room| room.is_on(config).unwrap_or(false))
    };
    make(config, to, choice, &is_on, &|_, _| Ok(false))
}

/// A backup of what a running engine keeps, each room as it stands at one moment.
pub(super) fn beside(
    engine: &Engine,
    config: &Config,
    to: &Path,
    choice: SavedRooms<'_>,
) -> anyhow::Result<MadeBackup> {
    let rooms = engine.status().rooms;
    let is_on = |entry: &RoomShape| {
        rooms.iter().any(|room| room.room == entry.name && room.state != RoomState::Off)
    };
    make(config, to, choice, &is_on, &|room, to| engine.copy_folder(room, to))
}

/// How a room that is open copies its folder; `false` when files may be copied one by one.
type CopyOpen<'a> = &'a dyn Fn(RoomName, &Path) -> Result<bool, String>;

fn make(
    config: &Config,
    to: &Path,
    choice: SavedRooms<'_>,
    is_on: IsOn<'_>,
    copy_open: CopyOpen<'_>,
) -> anyhow::Result<MadeBackup> {
    let BackupPlan { parts, left_out } = choice.plan(config, is_on)?;
    // Only when the plan stands, so that a refusal leaves no folder behind.
    empty(to)?;
    for part in parts {
        save(&part, &to.join(part.name), copy_open)?;
    }
    let list = List::of(to)?;
    list.write(to)?;
    Ok(MadeBackup { list, left_out })
}

fn save(part: &SavedPart, to: &Path, copy_open: CopyOpen<'_>) -> anyhow::Result<()> {
    let shown = part.from.display();
    match (part.kind, part.room) {
        (PartKind::Database, _) => {
            // Not as a file: what was written last may stand in the log beside it.
            copy_sqlite(&part.from, to).with_context(|| format!("can't copy {shown}"))
        }
        (PartKind::File, _) => copy_file(&part.from, to),
        (PartKind::Folder, None) => copy_folder(&part.from, to),
        (PartKind::Folder, Some(room)) => {
            // The room first: a store that is open changes its files while they are copied one by
            // one.
            let copied = copy_open(room, to);
            if copied.map_err(|why| CliError::refused(format!("can't copy {shown}: {why}")))? {
                return Ok(());
            }
            copy_folder(&part.from, to)
        }
    }
}

/// Makes a folder, or takes one that holds nothing.
pub(super) fn empty(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("can't make {shown}"))?;
    let mut entries = fs::read_dir(folder).with_context(|| format!("can't read {shown}"))?;
    if entries.next().is_some() {
        let message = format!("{shown} is not empty; nothing was changed");
        return Err(CliError::refused(message).hint("choose a new folder").into());
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
