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
use unspent_sql::copy_sqlite;

use self::list::List;
use crate::{
    cli::Cli,
    fault::{Fault, Outcome},
    output::Output,
    serve::held,
};

/// Databases of SQLite in a data folder: the wallets' and the engine's.
const DATABASES: [&str; 2] = ["wallet.db", "engine.db"];
/// Folders in a data folder: the chain room's and the simulated network's.
const FOLDERS: [&str; 2] = ["chain", "sim"];
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
        /// The wallets are in PostgreSQL or elsewhere and are saved by other means
        #[arg(long)]
        without_wallets: bool,
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
        DbCommand::Backup { to, without_wallets } => {
            ("saved", backup(&data, to, *without_wallets)?)
        }
        DbCommand::Restore { from } => ("restored", restore(from, &data)?),
    };
    let (files, bytes) = (list.files.len(), list.bytes());
    output.answer(&json!({ "done": done, "files": files, "bytes": bytes }), || {
        format!("{done} {files} files, {bytes} bytes")
    })?;
    Ok(Outcome::Done)
}

fn backup(data: &Path, to: &Path, without_wallets: bool) -> anyhow::Result<List> {
    if !data.is_dir() {
        return Err(Fault::refused(format!("there is no data in {}", data.display())).into());
    }
    let _alone = held::alone(data)?;
    let wallets = data.join("wallet.db").exists();
    if !wallets && !without_wallets && data.join("engine.db").exists() {
        let message = "there is no wallet.db in the data folder; nothing was copied";
        let hint = "with PostgreSQL use pg_dump at the same time, and pass --without-wallets";
        return Err(Fault::refused(message).hint(hint).into());
    }
    empty(to)?;
    for name in DATABASES {
        let from = data.join(name);
        let skip = name == "wallet.db" && without_wallets;
        if from.exists() && !skip {
            copy_sqlite(&from, &to.join(name))
                .with_context(|| format!("can't copy {}", from.display()))?;
        }
    }
    for name in FOLDERS {
        if data.join(name).is_dir() {
            copy_folder(&data.join(name), &to.join(name))?;
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

fn restore(from: &Path, data: &Path) -> anyhow::Result<List> {
    let list = List::read(from)?;
    list.check(from)?;
    empty(data)?;
    let _alone = held::alone(data)?;
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
        return Err(Fault::refused(message).hint("name a new folder").into());
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
