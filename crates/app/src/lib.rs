//! The command line `unspent`: every room of the product behind one binary.
//!
//! | module | what |
//! |---|---|
//! | `cli` | the arguments, their environment variables and their help |
//! | `chain` | questions to the chain room and its upkeep; its JSON and its tables |
//! | `import` | block files to the chain room, with fork choice for Bitcoin |
//! | `wallet` | the commands of the wallet room |
//! | `serve` | the daemon: engine and server together |
//! | `api` | the REST interface |
//! | `web` | the dashboard's files |
//! | `config` | the configuration of the daemon |
//! | `backup` | everything in one folder, and back |
//! | `manual` | completions and the manual page |
//! | `auth` | who may do what |
//! | `demo` | the product in a minute, on a simulated network |
//! | `fault` | errors as people and programs read them, and exit codes |
//!
//! Invariant: results go to the writer passed in (standard output), everything else to standard
//! error; with `--json` standard output holds exactly one JSON document.
//!
//! Deliberately absent: rules of the chain. They live in `unspent-model` and `unspent-chain`.

mod api;
mod auth;
mod backup;
mod chain;
mod cli;
mod config;
mod demo;
mod fault;
mod import;
mod interrupt;
mod logging;
mod manual;
mod output;
mod serve;
mod wallet;
mod web;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    fault::Outcome,
    output::Output,
};

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let json = std::env::args_os().any(|argument| argument == "--json");
            return fault::refuse_arguments(&error, json);
        }
    };
    // The daemon's configuration says how it logs.
    if !matches!(cli.command, Command::Serve(_)) {
        logging::start(cli.verbose);
    }
    let mut stdout = std::io::stdout().lock();
    let mut output = Output::new(&mut stdout, cli.json);
    match run(&cli, &mut output) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => fault::report(&error, &mut output),
    }
}

fn run(cli: &Cli, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    match &cli.command {
        Command::Chain(chain) => chain::run(cli, chain, output),
        Command::Wallet(wallet) => wallet::run(cli, wallet, output),
        Command::Serve(serve) => serve::run(cli, serve, output),
        Command::Config(config) => config::run(config, output),
        Command::Token(token) => auth::run(cli, token, output),
        Command::Db(db) => backup::run(cli, db, output),
        Command::Completions { shell } => manual::completions(*shell, output),
        Command::Man => manual::page(output),
        Command::Demo(demo) => demo::run(demo, output),
    }
}
