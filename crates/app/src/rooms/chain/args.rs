//! The arguments of `unspent chain`, and which command each leads to.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use unspent_chain::Reader;
use unspent_model::Network;

use super::{
    OptionArgs,
    blocks::{self, DeltaArgs},
    coins::{self, OwnerArgs, UtxoArgs, UtxosArgs},
    folder,
    roots::{self, AtBlock, ProveArgs},
    status,
    upkeep::{self, DigestArgs, RollbackArgs},
};
use crate::{
    cli::Cli,
    error::{Outcome, complain},
    import::{self, Request, Show},
    interrupt::Interrupt,
    output::Output,
    serve::folder_lock,
};

/// Memory for cached blocks while one question is answered.
const QUERY_CACHE: usize = 32 << 20;

#[derive(Args)]
pub(crate) struct ChainArgs {
    #[command(subcommand)]
    command: ChainCommand,
}

#[derive(Subcommand)]
enum ChainCommand {
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
    /// The root of a block, which proofs lead to (store mmr)
    Root(AtBlock),
    /// Prove that coins are unspent, or were spent, at a block (store mmr)
    Prove(ProveArgs),
    /// Undo blocks from the folder's own records
    Rollback(RollbackArgs),
    /// Forget all spent coins and undo data that are due
    Prune(OptionArgs),
    /// Compare index, coins, spends and deltas with each other (exit code 3 when they differ)
    Verify,
    /// Height, count, value and SHA-256 of the whole coin set
    Digest(DigestArgs),
}

/// What to import and how.
#[derive(Args)]
struct ImportArgs {
    /// Network of the blocks; may be left out when the folder exists: bitcoin, bitcoin-testnet4,
    /// bitcoin-signet, bitcoin-regtest, cardano-mainnet, cardano-preprod, cardano-preview
    #[arg(long, env = "UNSPENT_NETWORK", value_name = "NAME")]
    network: Option<Network>,
    /// Cardano's Byron or Shelley genesis file, for the coins that exist before the first block
    #[arg(long, env = "UNSPENT_GENESIS", value_name = "FILE", value_delimiter = ',')]
    genesis: Vec<PathBuf>,
    /// Apply no block above this height
    #[arg(long, env = "UNSPENT_STOP_AT", value_name = "HEIGHT")]
    stop_at: Option<u64>,
    /// Let blocks follow after a gap; the gap is stored and shown, and can't be rolled back across
    #[arg(long, env = "UNSPENT_ALLOW_HOLES")]
    allow_holes: bool,
    /// Apply block by block, each on disk before the next, instead of in batches
    #[arg(long, env = "UNSPENT_NO_BULK")]
    no_bulk: bool,
    #[command(flatten)]
    options: OptionArgs,
    /// Raw blocks, framed blk files, ImmutableDB chunks, or folders of them; each also as .zst
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(cli: &Cli, args: &ChainArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    use ChainCommand as C;
    let writes = matches!(args.command, C::Import(_) | C::Rollback(_) | C::Prune(_));
    let _lock = if writes { Some(folder_lock::shared(&cli.data_dir())?) } else { None };
    match &args.command {
        C::Import(args) => import(cli, args, output),
        C::Status => status::run(&reader(cli)?, output),
        C::Utxos(args) => coins::print_utxos(&reader(cli)?, args, output),
        C::Utxo(args) => coins::print_utxo(&reader(cli)?, args, output),
        C::Balance(args) => coins::print_balance(&reader(cli)?, args, output),
        C::Delta(args) => blocks::print_delta(&reader(cli)?, args, output),
        C::Root(at) => roots::print_root(&reader(cli)?, at, output),
        C::Prove(args) => roots::print_proof(&reader(cli)?, args, output),
        C::Rollback(args) => upkeep::rollback(cli, args, output),
        C::Prune(options) => upkeep::prune(cli, options, output),
        C::Verify => upkeep::verify(&reader(cli)?, output),
        C::Digest(args) => upkeep::digest(&reader(cli)?, args, output),
    }
}

/// Questions open the folder beside a writer, if there is one.
pub(super) fn reader(cli: &Cli) -> anyhow::Result<Reader> {
    Ok(Reader::open(&folder(&cli.data_dir()), QUERY_CACHE)?)
}

fn import(cli: &Cli, args: &ImportArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let request = Request {
        data_dir: &cli.data_dir(),
        network: args.network,
        genesis: &args.genesis,
        stop_at: args.stop_at,
        allow_holes: args.allow_holes,
        no_bulk: args.no_bulk,
        options: &args.options,
        paths: &args.paths,
    };
    let show = Show::suitable(output.is_json());
    let summary = import::run(&request, show, &Interrupt::listen())?;
    output.answer(&summary, || summary.text())?;
    summary.warnings().iter().for_each(|warning| complain("warning", warning));
    Ok(if summary.interrupted { Outcome::Interrupted } else { Outcome::Done })
}
