//! `unspent db`: everything a daemon keeps, saved in one folder with a list of what there must be,
//! and brought back; and a room's rows, copied between databases.
//!
//! | module | keeps |
//! |---|---|
//! | `make` | the making of a backup |
//! | `running` | a backup that a running daemon makes: `/backup`, and how it is asked |
//! | `restore` | a backup brought back, whole or not at all |
//! | `list` | the list of files with their sizes and hashes |
//! | `copy` | `db copy`: a room's rows into another database |
//! | `distribute` | `db distribute`: a room's tables over a Citus cluster |
//!
//! Invariant: each room is saved as it stands at one moment, by the daemon if one has the data
//! folder. A backup is complete when its list is there, which is written last. A restore goes into
//! a folder that holds nothing, only after every file was found as the list says, and whole or not
//! at all.
//!
//! After a restore the daemon goes on from the restored point: blocks are fetched again, the
//! mempool is read again, and every unconfirmed transaction is judged anew. The rooms need not be
//! of the same moment: each finds its own place on the chain.
//!
//! Deliberately absent: PostgreSQL, which has tools of its own (`pg_dump`).

mod copy;
mod distribute;
mod list;
mod make;
mod restore;
pub(crate) mod running;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

pub(crate) use self::restore::check_finished;
use self::running::BackupRequest;
use crate::{cli::Cli, error::Outcome, output::Output, reached::Reached};

#[derive(Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Subcommand)]
enum DbCommand {
    /// Copy everything into a new folder; a daemon that runs makes the copy itself
    Backup(BackupRequest),
    /// Bring a backup back into a data folder that holds nothing
    Restore {
        /// The backup
        #[arg(value_name = "FOLDER")]
        from: PathBuf,
    },
    /// Copy a room's rows between SQLite and PostgreSQL
    Copy(copy::CopyArgs),
    /// Spread the rooms' tables over a Citus cluster: print the statements, or run them
    Distribute(distribute::DistributeArgs),
}

/// Runs one command.
pub(crate) fn run(cli: &Cli, args: &DbArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let data = cli.data_dir();
    let (done, (files, bytes)) = match &args.command {
        DbCommand::Backup(request) => ("saved", backup(&data, request)?),
        DbCommand::Restore { from } => {
            return show_restored(&restore::restore(from, &data)?, output);
        }
        DbCommand::Copy(args) => return copy::run(args, output),
        DbCommand::Distribute(args) => return distribute::run(args, output),
    };
    output.answer(&json!({ "done": done, "files": files, "bytes": bytes }), || {
        format!("{done} {files} files, {bytes} bytes")
    })?;
    Ok(Outcome::Done)
}

/// Not every backup holds everything: what came back is named.
fn show_restored(list: &list::List, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let (files, bytes) = list.size();
    let names = list.top_names();
    let holds: Vec<String> = names.iter().map(|name| name.to_string_lossy().into()).collect();
    let answer = json!({ "done": "restored", "files": files, "bytes": bytes, "holds": holds });
    output.answer(&answer, || {
        format!("restored {files} files, {bytes} bytes: {}", holds.join(", "))
    })?;
    Ok(Outcome::Done)
}

fn backup(data: &Path, request: &BackupRequest) -> anyhow::Result<(u64, u64)> {
    check_finished(data)?;
    match Reached::found(data) {
        Some(daemon) => running::back_up(&daemon, request),
        None => Ok(make::alone(data, &request.folder, request.choice())?.size()),
    }
}
