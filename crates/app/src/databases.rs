//! Which databases the daemon of a data folder worked with last, remembered in the folder itself.
//!
//! A command that isn't told of the daemon's configuration, or of a flag that the daemon had, would
//! otherwise pass over money that lies elsewhere; and a daemon whose disk isn't mounted would begin
//! anew beside the money that it had.

use std::{collections::BTreeMap, fs, path::Path};

use unspent_server::{CliError, Config, RoomFace, auth::private_file};
use unspent_sql::Url;

/// The file in the data folder.
const FILE: &str = "databases.json";

/// Where each room that was on keeps its rows.
pub(crate) type Databases = BTreeMap<String, String>;

/// What the folder remembers; nothing where no daemon was.
pub(crate) fn remembered(data: &Path) -> Databases {
    let text = fs::read(data.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Where the settings put a room, in the words that are remembered: from the data folder where it
/// is inside, since the folder may be moved.
pub(crate) fn place(config: &Config, url: &Url) -> anyhow::Result<String> {
    let Url::Sqlite(path) = url else { return Ok(url.to_string()) };
    let (path, data) = (std::path::absolute(path)?, std::path::absolute(&config.data_dir)?);
    let shown = path.strip_prefix(data).unwrap_or(&path);
    Ok(Url::Sqlite(shown.to_owned()).to_string())
}

/// For a daemon that starts: money that was there must still be there, and from now on this is
/// where everything is.
pub(crate) fn remember(config: &Config) -> anyhow::Result<()> {
    let (before, mut now) = (remembered(&config.data_dir), Databases::new());
    for room in config.rooms().iter() {
        if !room.is_on(config)? {
            continue;
        }
        let Some(url) = room.database(config)? else { continue };
        let place = place(config, &url)?;
        // Another place is the operator's word, and there a new database may be meant.
        if before.get(room.name()) == Some(&place) {
            check_there(config, room, &url)?;
        }
        now.insert(room.name().to_owned(), place);
    }
    if now == before {
        return Ok(());
    }
    private_file(&config.data_dir.join(FILE), &serde_json::to_vec_pretty(&now)?)
}

/// A room that seals its data holds what can't be read again from anywhere.
fn check_there(config: &Config, room: &dyn RoomFace, url: &Url) -> anyhow::Result<()> {
    let is_sealed = !room.kept_apart(config)?.is_empty();
    match url {
        Url::Sqlite(path) if is_sealed && !path.exists() => {
            let (name, shown) = (room.name(), path.display());
            let message = format!(
                "the database of the {name} room, {shown}, is missing; no new one was created"
            );
            let hint = format!(
                "mount its disk or restore it; to start over without it, remove {}",
                config.data_dir.join(FILE).display()
            );
            Err(CliError::refused(message).hint(hint).into())
        }
        Url::Sqlite(_) | Url::Postgres(_) => Ok(()),
    }
}
