//! The arguments of `unspent txstore`, and which command each leads to.

use clap::{Args, Subcommand};
use unspent_model::txstore::DeletionWindows;
use unspent_sql::{Options, Url};
use unspent_txstore::{Settings, TxStore};
use unspent_txstore_room::DATABASE;

use super::{
    figures,
    import::{self, TxImportArgs},
    outputs::{self, OutputsArgs, ReassignArgs},
    records::{self, GetArgs, TxidArgs},
    upkeep::{self, CleanArgs, PreserveArgs, RepairArgs, UnminedArgs},
};
use crate::{
    cli::Cli,
    error::{CliError, Outcome},
    output::Output,
    serve::folder_lock,
};

const EXAMPLE: &str = "A store from block files:
  unspent txstore import --network bitcoin ~/.bitcoin/blocks
  unspent txstore status
  unspent txstore get TXID --outputs
  unspent txstore why TXID        (which child, at which depth, keeps it)

A transaction goes when all its outputs are spent, --retention blocks have passed since, and it and
every child lie --safety blocks deep. Whatever is in doubt stays. Give the windows that the
configuration of the daemon has; larger ones are always safe.";

/// A node's transactions with their spenders, deleted when nobody can need them.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TxStoreArgs {
    /// Database: sqlite:PATH or postgres://…; a file `txstore.db` in the data folder by default
    #[arg(long, global = true, env = "UNSPENT_TXSTORE_DB", value_name = "URL")]
    db: Option<String>,
    /// Blocks from the event that finished a transaction to its deletion; 0 for never
    #[arg(long, global = true, env = "UNSPENT_TXSTORE__RETENTION", value_name = "BLOCKS",
        default_value_t = DeletionWindows::default().retention)]
    retention: u64,
    /// How deep a transaction and its children must lie; at least as much as --rollback
    #[arg(long, global = true, env = "UNSPENT_TXSTORE__SAFETY", value_name = "BLOCKS",
        default_value_t = DeletionWindows::default().safety)]
    safety: u64,
    /// Blocks that can be undone
    #[arg(long, global = true, env = "UNSPENT_TXSTORE__ROLLBACK", value_name = "BLOCKS",
        default_value_t = DeletionWindows::default().rollback)]
    rollback: u64,
    #[command(subcommand)]
    command: TxStoreCommand,
}

#[derive(Subcommand)]
enum TxStoreCommand {
    /// Where the store stands: tip, transactions, what is due, what was deleted, size
    Status,
    /// One transaction: where it is mined, what holds it, when it may go
    Get(GetArgs),
    /// Why a transaction is still there, and from which height it could go
    Why(TxidArgs),
    /// Read block files, as `chain import` does; what is there already is skipped
    Import(TxImportArgs),
    /// Delete what is due and what nobody can need any more
    Clean(CleanArgs),
    /// Transactions in no block of the best chain, those that wait longest first
    Unmined(UnminedArgs),
    /// Keep outputs from being spent until they are unfrozen; a block still decides
    Freeze(OutputsArgs),
    /// Make frozen outputs spendable again
    Unfreeze(OutputsArgs),
    /// Give a frozen output to somebody else, to be spent 1,000 blocks later
    Reassign(ReassignArgs),
    /// Keep transactions up to a height, whatever else holds
    Preserve(PreserveArgs),
    /// Delete an unmined transaction without children; what it had spent are coins again
    Drop(TxidArgs),
    /// Find outputs that name a spender which never was; --run makes coins of them
    Repair(RepairArgs),
}

impl TxStoreCommand {
    /// Whether it changes anything.
    fn writes(&self) -> bool {
        match self {
            Self::Status | Self::Get(_) | Self::Why(_) | Self::Unmined(_) => false,
            Self::Repair(args) => args.run,
            Self::Import(_)
            | Self::Clean(_)
            | Self::Freeze(_)
            | Self::Unfreeze(_)
            | Self::Reassign(_)
            | Self::Preserve(_)
            | Self::Drop(_) => true,
        }
    }
}

pub(crate) fn run(
    cli: &Cli,
    args: &TxStoreArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    use TxStoreCommand as C;
    let folder = cli.data_dir();
    let _lock = if args.command.writes() { Some(folder_lock::shared(&folder)?) } else { None };
    let url = match &args.db {
        Some(text) => text.parse().map_err(|error| CliError::usage(format!("{error}")))?,
        None => Url::Sqlite(folder.join(DATABASE)),
    };
    let settings = args.settings()?;
    if let C::Import(args) = &args.command {
        return import::run(cli, &url, settings, args, output);
    }
    let store = TxStore::open_existing(&url, settings, Options::default())?;
    match &args.command {
        C::Status => figures::print(&store, output),
        C::Get(args) => records::print_get(&store, args, output),
        C::Why(args) => records::print_why(&store, args, output),
        // It opens the store by itself, once the files were looked through.
        C::Import(_) => Err(CliError::bug("an import came too late").into()),
        C::Clean(args) => upkeep::print_clean(&store, args, output),
        C::Unmined(args) => upkeep::print_unmined(&store, args, output),
        C::Freeze(args) => outputs::print_freeze(&store, args, output),
        C::Unfreeze(args) => outputs::print_unfreeze(&store, args, output),
        C::Reassign(args) => outputs::print_reassign(&store, args, output),
        C::Preserve(args) => upkeep::print_preserve(&store, args, output),
        C::Drop(args) => upkeep::print_drop(&store, args, output),
        C::Repair(args) => upkeep::print_repair(&store, args, output),
    }
}

impl TxStoreArgs {
    fn settings(&self) -> Result<Settings, CliError> {
        let Self { retention, safety, rollback, .. } = *self;
        if safety < rollback {
            return Err(CliError::usage("--safety can't be less than --rollback"));
        }
        Ok(Settings { windows: DeletionWindows { retention, safety, rollback } })
    }
}
