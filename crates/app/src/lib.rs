//! The command line `unspent`: every room of the product behind one binary.
//!
//! | module | what |
//! |---|---|
//! | `cli` | the arguments, their environment variables and their help |
//! | `serve` | the daemon: engine and server together |
//! | `web` | the dashboard's files |
//! | `config` | `unspent config`: the settings written, checked and shown |
//! | `databases` | where the daemon of a data folder kept its rooms last |
//! | `backup` | everything in one folder, and back |
//! | `manual` | completions and the manual pages |
//! | `report` | errors as people and programs read them, and exit codes |
//! | `demo` | the product in a minute, on a simulated network |
//!
//! Invariant: results go to the writer passed in (standard output), everything else to standard
//! error; with `--json` standard output holds exactly one JSON document.
//!
//! Deliberately absent: rules of the chain. They live in `unspent-model` and `unspent-chain`.

mod backup;
mod cli;
mod config;
mod databases;
mod demo;
#[cfg(test)]
mod document;
#[cfg(test)]
mod example;
mod logging;
mod manual;
mod report;
mod serve;
mod web;

use std::process::ExitCode;

use unspent_chain_room::ChainFace;
use unspent_ecash_room::EcashFace;
use unspent_server::{Output, Rooms, private};
use unspent_txstore_room::TxStoreFace;
use unspent_wallet_room::WalletFace;

use crate::cli::Cli;

/// Every room, in the order in which they are configured and shown.
const ROOMS: Rooms = Rooms::new(&[
    &ChainFace,
    &WalletFace,
    &TxStoreFace,
    &EcashFace,
    #[cfg(test)]
    &unspent_example_room::CountingFace,
]);

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse(ROOMS) {
        Ok(cli) => cli,
        Err(error) => {
            // Arguments that can't be read name no options, and a program still waits for a
            // document.
            let json = std::env::args_os().any(|argument| argument == "--json");
            return report::refuse_arguments(&error, json);
        }
    };
    if !cli.logs_itself() {
        logging::start(cli.options.verbose);
    }
    // Manual pages and completions are made for others to read.
    if cli.keeps_data() {
        private::start();
    }
    let mut stdout = std::io::stdout().lock();
    let mut output = Output::new(&mut stdout, cli.options.json);
    match cli.run(ROOMS, &mut output) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => report::report(ROOMS, &error, &mut output),
    }
}
