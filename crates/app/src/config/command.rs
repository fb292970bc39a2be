//! `unspent config init` and `unspent config check`.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::{load, template::TEMPLATE};
use crate::{
    fault::{Fault, Outcome},
    output::{Output, facts},
};

#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Write a commented configuration, to standard output or to a new file
    Init {
        /// File to make; one that is there is never overwritten
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Read a configuration with the environment laid over it, and say what is wrong with it
    Check {
        /// The file; without it, defaults and environment alone
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// What a configuration comes to.
#[derive(Serialize)]
struct Checked {
    network: &'static str,
    data_dir: String,
    source: String,
    utxo: bool,
    wallet: bool,
    listen: String,
}

/// Runs one command.
pub(crate) fn run(args: &ConfigArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    match &args.command {
        ConfigCommand::Init { file: None } => output.raw(TEMPLATE)?,
        ConfigCommand::Init { file: Some(file) } => init(file, output)?,
        ConfigCommand::Check { file } => {
            let environment: Vec<_> = std::env::vars().collect();
            let config = load(file.as_deref(), &environment, &[])?;
            let shown = Checked {
                network: config.network.name(),
                data_dir: config.data_dir.display().to_string(),
                source: format!("{:?}", config.source.kind),
                utxo: config.utxo.enabled,
                wallet: config.wallet_enabled(),
                listen: config.http.listen.to_string(),
            };
            output.answer(&shown, || {
                let on = |on: bool| if on { "on" } else { "off" }.to_owned();
                facts(&[
                    ("network", shown.network.to_owned()),
                    ("data folder", shown.data_dir.clone()),
                    ("source", shown.source.clone()),
                    ("chain room", on(shown.utxo)),
                    ("wallet room", on(shown.wallet)),
                    ("listens on", shown.listen.clone()),
                ])
            })?;
        }
    }
    Ok(Outcome::Done)
}

fn init(file: &PathBuf, output: &mut Output<'_>) -> anyhow::Result<()> {
    let shown = file.display();
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    let mut made = made.map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Fault::refused(format!("{shown} is there; it was not touched")).into();
        }
        anyhow::Error::new(error).context(format!("can't make {shown}"))
    })?;
    made.write_all(TEMPLATE.as_bytes()).with_context(|| format!("can't write {shown}"))?;
    output.answer(&serde_json::json!({ "written": shown.to_string() }), || {
        format!("written to {shown}; look at it, then: unspent serve --config {shown}")
    })?;
    Ok(())
}
