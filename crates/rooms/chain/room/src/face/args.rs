//! The arguments of `unspent chain`, and which command each leads to.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use unspent_chain::Reader;
use unspent_model::Network;
use unspent_server::{
    command::DataCommand,
    config::{Config, GivenFlag, SettingFlags, SourceSection},
    error::{Outcome, complain},
    folder_lock,
    interrupt::Interrupt,
    output::Output,
    progress::Show,
};

use super::{
    UtxoSection,
    blocks::{self, DeltaArgs},
    coins::{self, OwnerArgs, UtxoArgs, UtxosArgs},
    folder,
    roots::{self, AtBlock, ProveArgs},
    status,
    upkeep::{self, DigestArgs, RollbackArgs},
};

use crate::import::{self, Request};

/// Memory for cached blocks while one question is answered.
const QUERY_CACHE: usize = 32 << 20;

#[derive(Args)]
pub(crate) struct ChainArgs {
    #[command(subcommand)]
    command: ChainCommand,
}

#[derive(Subcommand)]
enum ChainCommand {
    /// Read block files into the data folder; blocks already there are skipped
    Import(Box<ImportArgs>),
    /// Show the folder's state: tip, coins, holes, blocks that can be undone, sizes
    Status,
    /// List the unspent coins of an address or payment credential, in chain order
    Utxos(UtxosArgs),
    /// Show what became of one coin: unspent, spent by what and where, or unknown
    Utxo(UtxoArgs),
    /// Add up the coins of an address or payment credential
    Balance(OwnerArgs),
    /// Show what the block at a height did to the coin set
    Delta(DeltaArgs),
    /// Show the root of a block, which proofs are checked against (store mmr)
    Root(AtBlock),
    /// Prove that coins are unspent, or were spent, at a block (store mmr)
    Prove(ProveArgs),
    /// Undo blocks, using the folder's own records
    Rollback(RollbackArgs),
    /// Prune all spent coins and undo data that are due
    Prune(SettingFlags<UtxoSection>),
    /// Check index, coins, spends and deltas against each other (exit code 3 when they differ)
    Verify,
    /// Show height, count, value and SHA-256 of the whole coin set
    Digest(DigestArgs),
}

/// What to import and how.
#[derive(Args)]
struct ImportArgs {
    /// Network of the blocks; may be left out when the folder exists: bitcoin, bitcoin-testnet4,
    /// bitcoin-signet, bitcoin-regtest, cardano-mainnet, cardano-preprod, cardano-preview
    /// [env: UNSPENT_NETWORK]
    #[arg(long, value_name = "NAME")]
    network: Option<Network>,
    #[command(flatten)]
    source: SettingFlags<SourceSection>,
    /// Apply no blocks above this height
    #[arg(long, env = "UNSPENT_STOP_AT", value_name = "HEIGHT")]
    stop_at: Option<u64>,
    /// Allow gaps between blocks; a gap is stored and shown, and can't be rolled back across
    #[arg(long, env = "UNSPENT_ALLOW_HOLES")]
    allow_holes: bool,
    /// Apply block by block, each written to disk before the next, instead of in batches
    #[arg(long, env = "UNSPENT_NO_BULK")]
    no_bulk: bool,
    #[command(flatten)]
    settings: SettingFlags<UtxoSection>,
    /// Raw blocks, framed blk files, ImmutableDB chunks, or folders of them; each also as .zst
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl DataCommand for ChainArgs {
    fn given(&self) -> Vec<GivenFlag> {
        match &self.command {
            ChainCommand::Import(args) => {
                args.settings.given().into_iter().chain(args.source.given()).collect()
            }
            ChainCommand::Rollback(args) => args.settings.given(),
            ChainCommand::Prune(settings) => settings.given(),
            ChainCommand::Status
            | ChainCommand::Utxos(_)
            | ChainCommand::Utxo(_)
            | ChainCommand::Balance(_)
            | ChainCommand::Delta(_)
            | ChainCommand::Root(_)
            | ChainCommand::Prove(_)
            | ChainCommand::Verify
            | ChainCommand::Digest(_) => Vec::new(),
        }
    }

    fn run(&self, config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        run(config, self, output)
    }
}

fn run(config: &Config, args: &ChainArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    use ChainCommand as C;
    let writes = matches!(args.command, C::Import(_) | C::Rollback(_) | C::Prune(_));
    let _lock = if writes { Some(folder_lock::shared(&config.data_dir)?) } else { None };
    match &args.command {
        C::Import(args) => import(config, args, output),
        C::Status => status::run(&reader(config)?, output),
        C::Utxos(args) => coins::print_utxos(&reader(config)?, args, output),
        C::Utxo(args) => coins::print_utxo(&reader(config)?, args, output),
        C::Balance(args) => coins::print_balance(&reader(config)?, args, output),
        C::Delta(args) => blocks::print_delta(&reader(config)?, args, output),
        C::Root(at) => roots::print_root(&reader(config)?, at, output),
        C::Prove(args) => roots::print_proof(&reader(config)?, args, output),
        C::Rollback(args) => upkeep::rollback(config, args, output),
        C::Prune(_) => upkeep::prune(config, output),
        C::Verify => upkeep::verify(&reader(config)?, output),
        C::Digest(args) => upkeep::digest(&reader(config)?, args, output),
    }
}

/// Questions open the folder beside a writer, if there is one.
pub(super) fn reader(config: &Config) -> anyhow::Result<Reader> {
    Ok(Reader::open(&folder(&config.data_dir), QUERY_CACHE)?)
}

fn import(config: &Config, args: &ImportArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let request = Request {
        data_dir: &config.data_dir,
        network: config.network_or(args.network),
        genesis: &config.source.genesis,
        stop_at: args.stop_at,
        allow_holes: args.allow_holes,
        no_bulk: args.no_bulk,
        options: &UtxoSection::command_options(config)?,
        paths: &args.paths,
    };
    let show = Show::suitable(output.is_json());
    let summary = import::run(&request, show, &Interrupt::listen())?;
    output.answer(&summary, || summary.text())?;
    summary.warnings().iter().for_each(|warning| complain("warning", warning));
    Ok(if summary.interrupted { Outcome::Interrupted } else { Outcome::Done })
}
