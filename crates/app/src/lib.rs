//! The command line `unspent`: every room of the product behind one binary.
//!
//! | module | what |
//! |---|---|
//! | `cli` | the arguments, their environment variables and their help |
//! | `import` | block files to the chain room, with fork choice for Bitcoin |
//! | `rooms` | the rooms: requests, routes, commands, answers |
//! | `request` | what every request is checked for |
//! | `serve` | the daemon: engine and server together |
//! | `api` | the REST interface |
//! | `web` | the dashboard's files |
//! | `config` | the settings of the daemon and of every command |
//! | `databases` | where the daemon of a data folder kept its rooms last |
//! | `backup` | everything in one folder, and back |
//! | `manual` | completions and the manual pages |
//! | `auth` | who may do what |
//! | `private` | what lies on the disk is for its owner alone |
//! | `reached` | the daemon that has a data folder, as commands reach it |
//! | `demo` | the product in a minute, on a simulated network |
//! | `json` | the words that all rooms use in JSON |
//! | `text` | numbers, values and coins as people read them |
//! | `error` | errors as people and programs read them, and exit codes |
//!
//! Invariant: results go to the writer passed in (standard output), everything else to standard
//! error; with `--json` standard output holds exactly one JSON document.
//!
//! Deliberately absent: rules of the chain. They live in `unspent-model` and `unspent-chain`.

mod api;
mod argument;
mod auth;
mod backup;
mod cli;
mod config;
mod databases;
mod demo;
mod error;
mod import;
mod interrupt;
mod json;
mod logging;
mod manual;
mod output;
mod private;
mod qr;
mod random;
mod reached;
mod request;
mod rooms;
mod serve;
mod text;
mod web;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::Cli,
    output::Output,
    rooms::{
        Rooms, chain::ChainEntry, ecash::EcashEntry, txstore::TxStoreEntry, wallet::WalletEntry,
    },
};

/// Every room, in the order in which they are configured and shown.
const ROOMS: Rooms = Rooms::new(&[
    &ChainEntry,
    &WalletEntry,
    &TxStoreEntry,
    &EcashEntry,
    #[cfg(test)]
    &rooms::example::CountingEntry,
]);

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let json = std::env::args_os().any(|argument| argument == "--json");
            return error::refuse_arguments(&error, json);
        }
    };
    if !cli.logs_itself() {
        logging::start(cli.verbose);
    }
    if cli.keeps_data() {
        private::start();
    }
    let mut stdout = std::io::stdout().lock();
    let mut output = Output::new(&mut stdout, cli.json);
    match cli.run(ROOMS, &mut output) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => error::report(ROOMS, &error, &mut output),
    }
}
