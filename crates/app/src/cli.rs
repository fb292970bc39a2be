//! The arguments: what may be asked, with help. Options that are settings come from the sections
//! that declare them.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{
    auth, backup,
    config::{self, Config, GivenFlag, SettingSources},
    demo,
    error::Outcome,
    manual,
    output::Output,
    rooms::{self, Rooms},
    serve,
};

/// What `--help` says about exit codes.
const EXIT_CODES: &str = "Exit codes:
  0    done
  1    failed; nothing is half done, the message says what holds
  2    wrong arguments
  3    a check found something: chain verify, wallet audit, db copy, ecash mint check, demo
  130  stopped by Ctrl-C at a block boundary

Errors go to standard error; with --json also to standard output as
{\"error\":{\"code\",\"message\",\"hint\"}}.";

/// Unspent keeps the life of every coin right: through rollbacks, pruning and crashes.
#[derive(Parser)]
#[command(name = "unspent", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Folder that holds the data, one network per folder [default: ./unspent-data] [env:
    /// UNSPENT_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// The configuration, which says where everything is; see `unspent config init`
    #[arg(long, global = true, env = "UNSPENT_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer with one JSON document instead of tables
    #[arg(long, global = true, env = "UNSPENT_JSON")]
    pub(crate) json: bool,
    /// Log more to standard error: -v info, -vv debug; UNSPENT_LOG takes filters and counts more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The settings that are flags of every command.
    pub(crate) fn given(&self) -> Vec<GivenFlag> {
        let folder = self.data_dir.as_ref();
        folder.map(|folder| GivenFlag::new("data_dir", "--data-dir", folder)).into_iter().collect()
    }

    /// The daemon's configuration says how it logs.
    pub(crate) fn logs_itself(&self) -> bool {
        matches!(self.command, Command::OnData(OnData::Serve(_)))
    }

    /// Whether it works on somebody's data: what it writes is for the owner alone.
    pub(crate) fn keeps_data(&self) -> bool {
        matches!(self.command, Command::OnData(_) | Command::Alone(Alone::Demo(_)))
    }

    /// Runs the command.
    pub(crate) fn run(&self, rooms: Rooms, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        match &self.command {
            Command::OnData(command) => {
                let config = self.settings(rooms, command)?;
                config.warn();
                command.run(&config, self.verbose, output)
            }
            Command::Alone(command) => command.run(rooms, self, output),
        }
    }

    /// The settings that its command works with.
    #[cfg(test)]
    pub(crate) fn resolved(&self, rooms: Rooms) -> anyhow::Result<Config> {
        match &self.command {
            Command::OnData(command) => self.settings(rooms, command),
            Command::Alone(_) => anyhow::bail!("it has no settings"),
        }
    }

    /// What holds for a command: defaults, the file, the environment, its flags.
    fn settings(&self, rooms: Rooms, command: &OnData) -> anyhow::Result<Config> {
        let flags = command.given().into_iter().chain(self.given()).collect();
        config::load(rooms, &SettingSources::of_process(self.config.clone(), flags)?)
    }
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    OnData(OnData),
    #[command(flatten)]
    Alone(Alone),
}

/// Commands that work with what the settings name.
#[derive(Subcommand)]
pub(crate) enum OnData {
    /// Every unspent output of a chain: import, ask, undo, check
    Chain(Box<rooms::chain::ChainArgs>),
    /// Watch-only wallets: scan blocks, show coins, lease them, build payments
    Wallet(Box<rooms::wallet::WalletArgs>),
    /// A node's transactions with their spenders, deleted when nobody can need them
    Txstore(Box<rooms::txstore::TxStoreArgs>),
    /// Cashu and Spark payments: receive, pay, send and claim tokens, whatever crashes in between
    Ecash(Box<rooms::ecash::EcashArgs>),
    /// Follow a chain, keep the rooms in step, answer over REST, show the dashboard
    Serve(serve::ServeArgs),
    /// Tokens for the daemon's REST interface
    Token(auth::TokenArgs),
    /// Save everything a daemon keeps, and bring it back
    Db(backup::DbArgs),
}

impl OnData {
    /// The settings among its arguments.
    fn given(&self) -> Vec<GivenFlag> {
        match self {
            Self::Chain(args) => args.given(),
            Self::Wallet(args) => args.given(),
            Self::Txstore(args) => args.given(),
            Self::Ecash(args) => args.given(),
            Self::Serve(args) => args.given(),
            Self::Token(args) => args.given(),
            Self::Db(_) => Vec::new(),
        }
    }

    fn run(
        &self,
        config: &Config,
        verbose: u8,
        output: &mut Output<'_>,
    ) -> anyhow::Result<Outcome> {
        // A restore clears away what an unfinished one left.
        if !matches!(self, Self::Db(_)) {
            backup::check_finished(&config.data_dir)?;
        }
        match self {
            Self::Chain(args) => rooms::chain::run(config, args, output),
            Self::Wallet(args) => rooms::wallet::run(config, args, output),
            Self::Txstore(args) => rooms::txstore::run(config, args, output),
            Self::Ecash(args) => rooms::ecash::run(config, args, output),
            Self::Serve(_) => serve::run(config, verbose, output),
            Self::Token(args) => auth::run(config, args, output),
            Self::Db(args) => backup::run(config, args, output),
        }
    }
}

/// Commands that need no data and no settings.
#[derive(Subcommand)]
enum Alone {
    /// Check a proof against a root: says UNSPENT or SPENT, or refuses; needs no data folder
    VerifyProof(rooms::chain::VerifyProofArgs),
    /// The configuration: write a commented one, check one, show what holds
    Config(config::ConfigArgs),
    /// Write completions for a shell: bash, zsh, fish, elvish or powershell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual: one page to standard output, or a page for each command into a folder
    Man {
        /// The folder, such as /usr/local/share/man/man1
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Show the product in a minute: a daemon on a simulated network, two wallets, a running story
    Demo(demo::DemoArgs),
}

impl Alone {
    fn run(&self, rooms: Rooms, cli: &Cli, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        match self {
            Self::VerifyProof(args) => rooms::chain::verify_proof(args, output),
            Self::Config(args) => config::run(rooms, cli, args, output),
            Self::Completions { shell } => manual::completions(*shell, output),
            Self::Man { folder } => manual::pages(folder.as_deref(), output),
            Self::Demo(args) => demo::run(rooms, args, output),
        }
    }
}
