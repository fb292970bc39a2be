//! The command line `unspent`: every room of the product behind one binary.
//!
//! | module | what |
//! |---|---|
//! | `cli` | the arguments, their environment variables and their help |
//! | `chain` | questions to the chain room and its upkeep; its JSON and its tables |
//! | `import` | block files to the chain room, with fork choice for Bitcoin |
//! | `wallet` | the commands of the wallet room |
//! | `demo` | the main job in a minute, on a simulated chain |
//! | `fault` | errors as people and programs read them, and exit codes |
//!
//! Invariant: results go to the writer passed in (standard output), everything else to standard
//! error; with `--json` standard output holds exactly one JSON document.
//!
//! Deliberately absent: rules of the chain. They live in `unspent-model` and `unspent-chain`.

mod chain;
mod cli;
mod demo;
mod fault;
mod import;
mod interrupt;
mod logging;
mod output;
mod wallet;

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
    logging::start(cli.verbose);
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
        Command::Demo(demo) => demo::run(demo, output),
    }
}
