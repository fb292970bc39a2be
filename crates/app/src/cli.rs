//! The arguments: what may be asked, with help and an environment variable for each option.

mod options;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use unspent_chain::Order;
use unspent_model::Network;

pub(crate) use options::OptionArgs;

/// What `--help` says about exit codes.
const EXIT_CODES: &str = "Exit codes:
  0    done
  1    failed; nothing is half done, the message says what holds
  2    wrong arguments
  3    `chain verify` found differences
  130  stopped by Ctrl-C at a block boundary

Errors go to standard error; with --json also to standard output as
{\"error\":{\"code\",\"message\",\"hint\"}}.";

/// Where the data lives unless somebody says otherwise.
const DATA_DIR: &str = "./unspent-data";

/// Unspent keeps the life of every coin right: through rollbacks, pruning and crashes.
#[derive(Parser)]
#[command(name = "unspent", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Folder that holds the data, one network per folder [default: ./unspent-data]
    #[arg(long, global = true, env = "UNSPENT_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
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

    /// Where the chain room lives.
    pub(crate) fn chain_folder(&self) -> PathBuf {
        self.data_dir().join("chain")
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every unspent output of a chain: import, ask, undo, check
    Chain(ChainArgs),
    /// Watch-only wallets: scan blocks, show coins, lease them, build payments
    Wallet(crate::wallet::WalletArgs),
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
    /// Write the manual page
    Man,
    /// Show the product in a minute: a daemon on a simulated network, two wallets, a running story
    Demo(crate::demo::DemoArgs),
}

#[derive(Args)]
pub(crate) struct ChainArgs {
    #[command(subcommand)]
    pub(crate) command: ChainCommand,
}

#[derive(Subcommand)]
pub(crate) enum ChainCommand {
    /// Read block files into the data folder; what is there already is skipped
    Import(Box<ImportArgs>),
    /// Where the folder stands: tip, coins, holes, what can be undone, sizes
    Status,
    /// List the unspent coins of an address or payment credential, in chain order
    Utxos(UtxosArgs),
    /// What became of one coin: unspent, spent by what and where, or unknown
    Utxo(UtxoArgs),
    /// Add up the coins of an address or payment credential
    Balance(OwnerArgs),
    /// Show what the block at a height did to the coin set
    Delta(DeltaArgs),
    /// Undo blocks from the folder's own records
    Rollback(RollbackArgs),
    /// Forget all spent coins and undo data that are due
    Prune(OptionArgs),
    /// Compare index, coins, spends and deltas with each other (exit code 3 when they differ)
    Verify,
    /// Height, count, value and SHA-256 of the whole coin set
    Digest,
}

/// What to import and how.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Network of the blocks; may be left out when the folder exists: bitcoin, bitcoin-testnet4,
    /// bitcoin-signet, bitcoin-regtest, cardano-mainnet, cardano-preprod, cardano-preview
    #[arg(long, env = "UNSPENT_NETWORK", value_name = "NAME")]
    pub(crate) network: Option<Network>,
    /// Cardano's Byron or Shelley genesis file, for the coins that exist before the first block
    #[arg(long, env = "UNSPENT_GENESIS", value_name = "FILE", value_delimiter = ',')]
    pub(crate) genesis: Vec<PathBuf>,
    /// Apply no block above this height
    #[arg(long, env = "UNSPENT_STOP_AT", value_name = "HEIGHT")]
    pub(crate) stop_at: Option<u64>,
    /// Let blocks follow after a gap; the gap is stored and shown, and can't be rolled back across
    #[arg(long, env = "UNSPENT_ALLOW_HOLES")]
    pub(crate) allow_holes: bool,
    /// Apply block by block, each on disk before the next, instead of in batches
    #[arg(long, env = "UNSPENT_NO_BULK")]
    pub(crate) no_bulk: bool,
    #[command(flatten)]
    pub(crate) options: OptionArgs,
    /// Raw blocks, framed blk files, ImmutableDB chunks, or folders of them; each also as .zst
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

/// Whose coins.
#[derive(Args)]
pub(crate) struct OwnerArgs {
    /// Address (bech32, base58, hex of the raw address or script) or payment credential
    #[arg(value_name = "ADDRESS|CREDENTIAL")]
    pub(crate) owner: String,
}

/// Which page of whose coins.
#[derive(Args)]
pub(crate) struct UtxosArgs {
    #[command(flatten)]
    pub(crate) owner: OwnerArgs,
    /// Oldest or newest coins first
    #[arg(long, env = "UNSPENT_ORDER", value_enum, default_value_t = OrderArg::Asc)]
    pub(crate) order: OrderArg,
    /// Coins per page, 1 to 500
    #[arg(long, env = "UNSPENT_LIMIT", default_value_t = 100, value_name = "N")]
    pub(crate) limit: usize,
    /// Continue after the `next` of the page before
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

/// In which order.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum OrderArg {
    /// Oldest first
    Asc,
    /// Newest first
    Desc,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Asc => Self::Ascending,
            OrderArg::Desc => Self::Descending,
        }
    }
}

/// Which coin.
#[derive(Args)]
pub(crate) struct UtxoArgs {
    /// The coin: hash of its transaction and index of the output
    #[arg(value_name = "TXID#INDEX")]
    pub(crate) outpoint: String,
}

/// Which block.
#[derive(Args)]
pub(crate) struct DeltaArgs {
    /// Height of the block
    pub(crate) height: u64,
}

/// Where to roll back to.
#[derive(Args)]
pub(crate) struct RollbackArgs {
    /// The last block to keep: HEIGHT, slot:N, HEIGHT:HASH, or origin for none
    #[arg(long, value_name = "TARGET")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) options: OptionArgs,
}
