//! The arguments: what may be asked, with help and an environment variable for each option.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{
    auth, backup,
    config::{self, Config, DATA_DIR},
    demo,
    error::Outcome,
    manual,
    output::Output,
    rooms, serve,
};

/// What `--help` says about exit codes.
const EXIT_CODES: &str = "Exit codes:
  0    done
  1    failed; nothing is half done, the message says what holds
  2    wrong arguments
  3    `chain verify` found differences
  130  stopped by Ctrl-C at a block boundary

Errors go to standard error; with --json also to standard output as
{\"error\":{\"code\",\"message\",\"hint\"}}.";

/// Unspent keeps the life of every coin right: through rollbacks, pruning and crashes.
#[derive(Parser)]
#[command(name = "unspent", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Folder that holds the data, one network per folder [default: ./unspent-data]
    #[arg(long, global = true, env = "UNSPENT_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The daemon's configuration, which says where the data is; see `unspent config init`
    #[arg(long, global = true, env = "UNSPENT_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What the file says, for commands that work on its data folder.
    #[arg(skip)]
    pub(crate) settings: Option<Config>,
    /// Answer with one JSON document instead of tables
    #[arg(long, global = true, env = "UNSPENT_JSON")]
    pub(crate) json: bool,
    /// Log more to standard error: -v info, -vv debug; UNSPENT_LOG takes filters and counts more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Where everything lives.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| DATA_DIR.into())
    }

    /// Reads the configuration where one is named and the command works on data. A folder named
    /// with `--data-dir` counts more.
    pub(crate) fn find_data(&mut self) -> anyhow::Result<()> {
        // The daemon reads it by itself, and the demonstration has settings of its own.
        let reads_itself = matches!(self.command, Command::Serve(_) | Command::Demo(_));
        let reads = self.command.keeps_data() && !reads_itself;
        let Some(file) = self.config.as_deref().filter(|_| reads) else { return Ok(()) };
        let mut settings = config::load(Some(file), &config::environment(), &[])?;
        if let Some(folder) = &self.data_dir {
            settings.data_dir.clone_from(folder);
        }
        self.data_dir = Some(settings.data_dir.clone());
        self.settings = Some(settings);
        Ok(())
    }

    /// Where the tokens are while no daemon runs.
    pub(crate) fn tokens_file(&self) -> PathBuf {
        match &self.settings {
            Some(settings) => settings.tokens_file(),
            None => self.data_dir().join(config::TOKENS_FILE),
        }
    }

    /// Runs the command.
    pub(crate) fn run(&self, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        let looks_itself = matches!(self.command, Command::Db(_) | Command::Demo(_));
        if self.command.keeps_data() && !looks_itself {
            backup::check_finished(&self.data_dir())?;
        }
        match &self.command {
            Command::Chain(chain) => rooms::chain::run(self, chain, output),
            Command::VerifyProof(proof) => rooms::chain::verify_proof(proof, output),
            Command::Wallet(wallet) => rooms::wallet::run(self, wallet, output),
            Command::Txstore(txstore) => rooms::txstore::run(self, txstore, output),
            Command::Ecash(ecash) => rooms::ecash::run(self, ecash, output),
            Command::Serve(serve) => serve::run(self, serve, output),
            Command::Config(config) => config::run(config, output),
            Command::Token(token) => auth::run(self, token, output),
            Command::Db(db) => backup::run(self, db, output),
            Command::Completions { shell } => manual::completions(*shell, output),
            Command::Man { folder } => manual::pages(folder.as_deref(), output),
            Command::Demo(demo) => demo::run(demo, output),
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every unspent output of a chain: import, ask, undo, check
    Chain(crate::rooms::chain::ChainArgs),
    /// Check a proof against a root: says UNSPENT or SPENT, or refuses; needs no data folder
    VerifyProof(crate::rooms::chain::VerifyProofArgs),
    /// Watch-only wallets: scan blocks, show coins, lease them, build payments
    Wallet(crate::rooms::wallet::WalletArgs),
    /// A node's transactions with their spenders, deleted when nobody can need them
    Txstore(Box<crate::rooms::txstore::TxStoreArgs>),
    /// Cashu and Spark payments: receive, pay, send and claim tokens, whatever crashes in between
    Ecash(Box<crate::rooms::ecash::EcashArgs>),
    /// Follow a chain, keep the rooms in step, answer over REST, show the dashboard
    Serve(crate::serve::ServeArgs),
    /// The daemon's configuration: write a commented one, check one
    Config(crate::config::ConfigArgs),
    /// Tokens for the daemon's REST interface
    Token(crate::auth::TokenArgs),
    /// Save everything a daemon keeps, and bring it back
    Db(crate::backup::DbArgs),
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
    Demo(crate::demo::DemoArgs),
}

impl Command {
    /// Whether it works on somebody's data: what it writes is for the owner alone.
    pub(crate) fn keeps_data(&self) -> bool {
        match self {
            Self::Chain(_)
            | Self::Wallet(_)
            | Self::Txstore(_)
            | Self::Ecash(_)
            | Self::Serve(_)
            | Self::Token(_)
            | Self::Db(_)
            | Self::Demo(_) => true,
            Self::VerifyProof(_)
            | Self::Config(_)
            | Self::Completions { .. }
            | Self::Man { .. } => false,
        }
    }
}
