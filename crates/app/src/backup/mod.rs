//! `unspent db`: everything a daemon keeps, saved in one folder with a list of what there must be,
//! and brought back; and a room's rows, copied between databases.
//!
//! | module | keeps |
//! |---|---|
//! | `plan` | what a backup takes: where the settings put each room's data |
//! | `make` | the making of a backup |
//! | `running` | a backup that a running daemon makes: `/backup`, and how it is asked |
//! | `restore` | a backup brought back, whole or not at all |
//! | `elsewhere` | the files that the settings put outside the data folder |
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
//! Deliberately absent: PostgreSQL, which has tools of its own (`pg_dump`). A room that is there is
//! refused, or left out by name; it is never left out in silence.

mod copy;
mod distribute;
mod elsewhere;
mod list;
mod make;
mod plan;
mod restore;
mod running;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use unspent_server::{Config, Outcome, Output, error::complain, reached::Reached};

use self::running::{BackupJson, BackupRequest};
pub(crate) use self::{
    restore::check_finished,
    running::{Backups, routes},
};

#[derive(Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Subcommand)]
enum DbCommand {
    /// Copy everything into a new folder; a running daemon makes the copy itself
    Backup(BackupRequest),
    /// Restore a backup into an empty data folder
    Restore {
        /// The backup
        #[arg(value_name = "FOLDER")]
        from: PathBuf,
    },
    /// Copy a room's rows between SQLite and PostgreSQL (exit code 3 when its audit finds
    /// differences)
    Copy(copy::CopyArgs),
    /// Distribute the rooms' tables over a Citus cluster: print the statements, or run them
    Distribute(distribute::DistributeArgs),
}

/// Runs one command.
pub(crate) fn run(
    config: &Config,
    args: &DbArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    match &args.command {
        DbCommand::Backup(request) => show_saved(&backup(config, request)?, output),
        DbCommand::Restore { from } => show_restored(&restore::restore(from, config)?, output),
        DbCommand::Copy(args) => copy::run(config.rooms(), args, output),
        DbCommand::Distribute(args) => distribute::run(config.rooms(), args, output),
    }
}

fn show_saved(made: &BackupJson, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let BackupJson { files, bytes, holds, left_out, .. } = made;
    let answer = json!({
        "done": "saved", "files": files, "bytes": bytes, "holds": holds, "left_out": left_out,
    });
    output
        .answer(&answer, || format!("saved {files} files, {bytes} bytes: {}", holds.join(", ")))?;
    left_out.iter().for_each(|what| complain("not saved", what));
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

fn backup(config: &Config, request: &BackupRequest) -> anyhow::Result<BackupJson> {
    check_finished(&config.data_dir)?;
    match Reached::found(&config.data_dir) {
        // It knows its own settings, whatever this command was told.
        Some(daemon) => running::back_up(&daemon, request),
        None => {
            let made = make::alone(config, &request.folder, request.choice())?;
            Ok(BackupJson::done(None, made))
        }
    }
}
