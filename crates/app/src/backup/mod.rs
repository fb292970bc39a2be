//! `unspent db backup` and `restore`: everything a daemon keeps, in one folder, with a list of what
//! there must be.
//!
//! | module | keeps |
//! |---|---|
//! | `list` | the list of files with their sizes and hashes |
//!
//! Invariant: a backup is made and restored only while no daemon and no other command has the data
//! folder. It is complete when its list is there, which is written last. A restore goes into a
//! folder that holds nothing, and only after every file was found as the list says.
//!
//! After a restore the daemon goes on from the restored point: blocks are fetched again, the
//! mempool is read again, and every unconfirmed transaction is judged anew.
//!
//! Deliberately absent: PostgreSQL, which has tools of its own (`pg_dump`).

mod list;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use unspent_engine::{
    rooms::{OnDisk, TABLE},
    store::STORE_FILE,
};
use unspent_sql::copy_sqlite;

use self::list::List;
use crate::{
    cli::Cli,
    error::{CliError, Outcome},
    output::Output,
    serve::folder_lock,
};

/// What a data folder holds besides the rooms: the engine's database, and the simulated network.
const OWN: [OnDisk; 2] = [OnDisk::Database(STORE_FILE), OnDisk::Folder("sim")];
/// Single files in a data folder.
const FILES: [&str; 1] = ["tokens.json"];

#[derive(Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Subcommand)]
enum DbCommand {
    /// Copy everything into a new folder, while no daemon runs
    Backup {
        /// The folder to make
        #[arg(value_name = "FOLDER")]
        to: PathBuf,
        /// A room whose data is in PostgreSQL or elsewhere and is saved by other means; may be
        /// repeated
        #[arg(long, value_name = "ROOM")]
        without: Vec<String>,
    },
    /// Bring a backup back into a data folder that holds nothing
    Restore {
        /// The backup
        #[arg(value_name = "FOLDER")]
        from: PathBuf,
    },
}

/// Runs one command.
pub(crate) fn run(cli: &Cli, args: &DbArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let data = cli.data_dir();
    let (done, list) = match &args.command {
        DbCommand::Backup { to, without } => ("saved", backup(&data, to, without)?),
        DbCommand::Restore { from } => ("restored", restore(from, &data)?),
    };
    let (files, bytes) = (list.files.len(), list.bytes());
    output.answer(&json!({ "done": done, "files": files, "bytes": bytes }), || {
        format!("{done} {files} files, {bytes} bytes")
    })?;
    Ok(Outcome::Done)
}

fn backup(data: &Path, to: &Path, without: &[String]) -> anyhow::Result<List> {
    if !data.is_dir() {
        return Err(CliError::refused(format!("there is no data in {}", data.display())).into());
    }
    let _alone = folder_lock::exclusive(data)?;
    let parts = parts(data, without)?;
    empty(to)?;
    for part in parts {
        match part {
            OnDisk::Database(name) if data.join(name).exists() => {
                let from = data.join(name);
                copy_sqlite(&from, &to.join(name))
                    .with_context(|| format!("can't copy {}", from.display()))?;
            }
            OnDisk::Folder(name) if data.join(name).is_dir() => {
                copy_folder(&data.join(name), &to.join(name))?;
            }
            OnDisk::Database(_) | OnDisk::Folder(_) => {}
        }
    }
    for name in FILES {
        if data.join(name).is_file() {
            copy_file(&data.join(name), &to.join(name))?;
        }
    }
    let list = List::of(to)?;
    list.write(to)?;
    Ok(list)
}

/// What is to be copied: everything of every room that isn't left out by name.
fn parts(data: &Path, without: &[String]) -> anyhow::Result<Vec<OnDisk>> {
    if let Some(unknown) = without.iter().find(|name| TABLE.iter().all(|r| r.name.name() != *name))
    {
        return Err(CliError::usage(format!("no room is called {unknown}")).into());
    }
    let is_daemon = data.join(STORE_FILE).exists();
    let mut parts = OWN.to_vec();
    for room in TABLE.iter().filter(|room| without.iter().all(|name| name != room.name.name())) {
        for kept in room.keeps {
            // A daemon's room that isn't here lives in a database elsewhere.
            if let OnDisk::Database(name) = kept
                && is_daemon
                && !data.join(name).exists()
            {
                let room = room.name;
                let message = format!("there is no {name} in the data folder; nothing was copied");
                let hint = format!(
                    "with PostgreSQL use pg_dump at the same time, and pass --without {room}"
                );
                return Err(CliError::refused(message).hint(hint).into());
            }
            parts.push(*kept);
        }
    }
    Ok(parts)
}

fn restore(from: &Path, data: &Path) -> anyhow::Result<List> {
    let list = List::read(from)?;
    list.check(from)?;
    empty(data)?;
    let _alone = folder_lock::exclusive(data)?;
    for file in &list.files {
        copy_file(&from.join(&file.path), &data.join(&file.path))?;
    }
    Ok(list)
}

/// Makes a folder, or takes one that holds nothing.
fn empty(folder: &Path) -> anyhow::Result<()> {
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

/// Copies one file, with its permissions, onto the disk.
fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    }
    fs::copy(from, to)
        .with_context(|| format!("can't copy {} to {}", from.display(), to.display()))?;
    let copy = fs::File::open(to).with_context(|| format!("can't read {}", to.display()))?;
    copy.sync_all().with_context(|| format!("can't write {}", to.display()))
}
