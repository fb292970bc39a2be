//! `unspent config init`, `check` and `show`.

mod show;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;
use unspent_server::{
    CliError, Config, Outcome, Output, Rooms,
    config::{SettingSources, SourceKind, check_daemon, load, template},
    output::facts,
};

use crate::cli::CommonOptions;

#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Write a commented configuration, to standard output or to a new file
    Init {
        /// File to create; an existing one is never overwritten
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Read a configuration, with the environment applied, and say what is wrong with it
    Check {
        /// The file, instead of --config; without either, defaults and environment alone
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show every setting in effect, and where it comes from: default, file, environment or flag
    Show {
        /// The file, instead of --config; without either, defaults and environment alone
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// What a configuration comes to.
#[derive(Serialize)]
struct ConfigSummary {
    network: &'static str,
    data_dir: String,
    source: SourceKind,
    /// Which rooms are on.
    rooms: BTreeMap<&'static str, bool>,
    listen: String,
}

pub(crate) fn run(
    rooms: Rooms,
    options: &CommonOptions,
    args: &ConfigArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    match &args.command {
        ConfigCommand::Init { file: None } => output.raw(&template(rooms))?,
        ConfigCommand::Init { file: Some(file) } => init(rooms, file, output)?,
        ConfigCommand::Check { file } => check(&settings(rooms, options, file.as_ref())?, output)?,
        ConfigCommand::Show { file } => {
            return show::print(&settings(rooms, options, file.as_ref())?, output);
        }
    }
    Ok(Outcome::Done)
}

fn settings(
    rooms: Rooms,
    options: &CommonOptions,
    file: Option<&PathBuf>,
) -> anyhow::Result<Config> {
    let file = file.or(options.config.as_ref()).cloned();
    let config = load(rooms, &SettingSources::of_process(file, options.given())?)?;
    config.warn();
    Ok(config)
}

fn check(config: &Config, output: &mut Output<'_>) -> anyhow::Result<()> {
    check_daemon(config)?;
    let mut rooms = BTreeMap::new();
    for room in config.rooms().iter() {
        rooms.insert(room.name(), room.is_on(config)?);
    }
    let shown = ConfigSummary {
        network: config.network.name(),
        data_dir: config.data_dir.display().to_string(),
        source: config.source.kind,
        rooms,
        listen: config.http.listen.to_string(),
    };
    output.answer(&shown, || {
        let on = shown.rooms.iter().filter(|(_, on)| **on).map(|(name, _)| *name);
        facts(&[
            ("network", shown.network.to_owned()),
            ("data folder", shown.data_dir.clone()),
            ("source", shown.source.to_string()),
            ("rooms", on.collect::<Vec<_>>().join(", ")),
            ("listens on", shown.listen.clone()),
        ])
    })?;
    Ok(())
}

fn init(rooms: Rooms, file: &PathBuf, output: &mut Output<'_>) -> anyhow::Result<()> {
    let shown = file.display();
    let mut made = fs::File::create_new(file).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return CliError::refused(format!("{shown} already exists; it was not changed")).into();
        }
        anyhow::Error::new(error).context(format!("can't make {shown}"))
    })?;
    io::copy(&mut template(rooms).as_bytes(), &mut made)
        .with_context(|| format!("can't write {shown}"))?;
    output.answer(&serde_json::json!({ "written": shown.to_string() }), || {
        format!("written to {shown}; review it, then run: unspent serve --config {shown}")
    })?;
    Ok(())
}
