//! What a backup takes: each room is asked where the settings put its data.
//!
//! | a room's database | what happens |
//! |---|---|
//! | an SQLite file, in the data folder or elsewhere | it is saved under its usual name |
//! | an SQLite file that is not there, though the room is on or its place is named | refused |
//! | PostgreSQL | refused with the command that saves it, unless the room is left out by name |
//! | another file of that name in the data folder | left out, and named: it isn't the room's |

use std::path::{Path, PathBuf};

use unspent_engine::{
    RoomName,
    room::{OnDisk, RoomShape},
    store::STORE_FILE,
};
use unspent_server::{CliError, Config, RoomFace, Rooms, config::Origin};
use unspent_sql::Url;

use crate::databases;

/// The simulated network's folder.
const SIM: &str = "sim";
/// The tokens' name in a backup.
const TOKENS: &str = "tokens.json";

/// Something to be copied.
pub(super) struct SavedPart {
    /// Whose it is.
    pub(super) room: Option<RoomName>,
    pub(super) from: PathBuf,
    /// Its name in the backup.
    pub(super) name: &'static str,
    pub(super) kind: PartKind,
}

/// How it is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Database,
    Folder,
    File,
}

impl SavedPart {
    pub(super) fn is_there(&self) -> bool {
        match self.kind {
            PartKind::Database | PartKind::File => self.from.is_file(),
            PartKind::Folder => self.from.is_dir(),
        }
    }
}

/// What is copied, and what somebody may expect but isn't.
pub(super) struct BackupPlan {
    pub(super) parts: Vec<SavedPart>,
    pub(super) left_out: Vec<String>,
}

/// Whether a room is on: a running daemon knows, else the settings say.
pub(super) type IsOn<'a> = &'a dyn Fn(&RoomShape) -> bool;

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

    fn check(self, rooms: Rooms) -> anyhow::Result<()> {
        let is_known = |name: &String| rooms.shapes().iter().any(|room| room.name.name() == name);
        match self.without.iter().chain(self.only).find(|name| !is_known(name)) {
            Some(unknown) => Err(CliError::usage(format!("no room is called {unknown}")).into()),
            None => Ok(()),
        }
    }

    /// The engine's own database comes first: what it tells of rooms is then never ahead of them.
    /// The simulated network comes last, so that it has every block that a room has.
    pub(super) fn plan(self, config: &Config, is_on: IsOn<'_>) -> anyhow::Result<BackupPlan> {
        self.check(config.rooms())?;
        let data = &config.data_dir;
        let shared = |kind, name: &'static str, from: PathBuf| {
            self.is_everything().then_some(SavedPart { room: None, from, name, kind })
        };
        let engine = shared(PartKind::Database, STORE_FILE, data.join(STORE_FILE));
        let mut plan = BackupPlan { parts: engine.into_iter().collect(), left_out: Vec::new() };
        for room in config.rooms().iter().filter(|room| self.takes(room.shape())) {
            add_room(&mut plan, config, room, is_on(room.shape()))?;
        }
        plan.parts.extend(shared(PartKind::File, TOKENS, config.tokens_file()));
        plan.parts.extend(shared(PartKind::Folder, SIM, data.join(SIM)));
        plan.parts.retain(SavedPart::is_there);
        if plan.parts.is_empty() {
            let message =
                format!("{} holds none of the requested data; nothing was copied", data.display());
            return Err(CliError::refused(message).into());
        }
        Ok(plan)
    }

    /// While no daemon runs, this command's settings need not be those that the daemon had.
    pub(super) fn check_remembered(self, config: &Config) -> anyhow::Result<()> {
        let remembered = databases::remembered(&config.data_dir);
        for room in config.rooms().iter().filter(|room| self.takes(room.shape())) {
            // PostgreSQL is refused where the parts are looked for, with the way out.
            let Some(url @ Url::Sqlite(_)) = room.database(config)? else { continue };
            let (name, now) = (room.name(), databases::place(config, &url)?);
            let Some(before) = remembered.get(name).filter(|before| **before != now) else {
                continue;
            };
            let message = format!(
                "the daemon on {} kept the {name} room in {before}, but these settings put it in \
                 {now}; nothing was copied",
                config.data_dir.display()
            );
            let hint = format!(
                "give the daemon's configuration with --config; if you changed it, start the \
                 daemon once; or save the rest with --without {name}"
            );
            return Err(CliError::refused(message).hint(hint).into());
        }
        Ok(())
    }
}

fn add_room(
    plan: &mut BackupPlan,
    config: &Config,
    room: &'static dyn RoomFace,
    is_on: bool,
) -> anyhow::Result<()> {
    let shape = room.shape();
    for kept in shape.keeps {
        let part = match *kept {
            OnDisk::Folder(name) => {
                let (from, kind) = (config.data_dir.join(name), PartKind::Folder);
                SavedPart { room: Some(shape.name), from, name, kind }
            }
            OnDisk::Database(name) => {
                let Some(from) = database_file(config, room, is_on)? else { continue };
                // A stray file of this name must not be saved as the room's: it would come back in
                // its place.
                let usual = config.data_dir.join(name);
                if is_other_file(&usual, &from) {
                    plan.left_out.push(format!(
                        "{} is not the database of the {} room, which the settings put at {}",
                        usual.display(),
                        shape.name.name(),
                        from.display()
                    ));
                }
                SavedPart { room: Some(shape.name), from, name, kind: PartKind::Database }
            }
        };
        if part.kind == PartKind::Database && part.is_there() {
            plan.left_out.extend(room.kept_apart(config)?.iter().map(|file| {
                format!(
                    "{} is not in the backup; without that key its data can't be read",
                    file.display()
                )
            }));
        }
        plan.parts.push(part);
    }
    Ok(())
}

/// Whether two paths name two files that are there.
fn is_other_file(usual: &Path, from: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    usual.is_file() && real(usual) != real(from)
}

/// The room's database, as a file. `None` when nothing is to be saved.
fn database_file(
    config: &Config,
    room: &dyn RoomFace,
    is_on: bool,
) -> anyhow::Result<Option<PathBuf>> {
    let (name, section) = (room.name(), room.section());
    let is_said = ["url", "url_file"]
        .map(|key| config.origin(&format!("{section}.{key}")) != &Origin::Default)
        .contains(&true);
    let without = format!("and save the rest with --without {name}");
    match room.database(config)? {
        Some(Url::Sqlite(file)) if file.exists() => Ok(Some(file)),
        // Without a database of the engine no daemon was ever here, so its rooms need not be.
        Some(Url::Sqlite(file))
            if is_said || is_on && config.data_dir.join(STORE_FILE).exists() =>
        {
            let shown = file.display();
            let message = format!(
                "the settings put the {name} room in {shown}, which doesn't exist; nothing was \
                 copied"
            );
            let hint = format!(
                "give the daemon's configuration with --config; or, if the room keeps nothing, \
                 leave it out: {without}"
            );
            Err(CliError::refused(message).hint(hint).into())
        }
        Some(Url::Sqlite(_)) | None => Ok(None),
        Some(url @ Url::Postgres(_)) if is_said || is_on => {
            let message = format!("the {name} room is in {url}; nothing was copied");
            let hint = format!("save it with: pg_dump --schema={name} '{url}'; {without}");
            Err(CliError::refused(message).hint(hint).into())
        }
        Some(Url::Postgres(_)) => Ok(None),
    }
}

/// Where the settings put the files that a backup holds under these names, as far as they name
/// places. What they put on a server now has none.
pub(super) fn configured(
    config: &Config,
    is_held: &dyn Fn(&str) -> bool,
) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let mut places = Vec::new();
    for room in config.rooms().iter() {
        for kept in room.shape().keeps {
            let OnDisk::Database(name) = *kept else { continue };
            if !is_held(name) {
                continue;
            }
            match room.database(config)? {
                Some(Url::Sqlite(place)) => places.push((name, place)),
                Some(url @ Url::Postgres(_)) => return Err(on_a_server(room.name(), name, &url)),
                None => {}
            }
        }
    }
    if is_held(TOKENS) {
        places.push((TOKENS, config.tokens_file()));
    }
    Ok(places)
}

fn on_a_server(room: &str, name: &str, url: &Url) -> anyhow::Error {
    let message = format!(
        "the backup holds {name}, but the settings put the {room} room in {url}; nothing was \
         restored"
    );
    let hint = format!(
        "restore without that setting, then run: unspent db copy --room {room} sqlite:DATA_DIR/{name} \
         URL"
    );
    CliError::refused(message).hint(hint).into()
}
