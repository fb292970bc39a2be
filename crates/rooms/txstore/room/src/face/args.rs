//! The arguments of `unspent txstore`, and which command each leads to.

use clap::{Args, Subcommand};
use unspent_server::{
    command::DataCommand,
    config::{Config, GivenFlag, SettingFlags},
    error::Outcome,
    folder_lock,
    output::Output,
};
use unspent_sql::Options;
use unspent_txstore::TxStore;

use super::{
    figures,
    import::{self, TxImportArgs},
    outputs::{self, OutputsArgs, ReassignArgs},
    records::{self, GetArgs, TxidArgs},
    section::TxStoreSection,
    upkeep::{self, CleanArgs, PreserveArgs, RepairArgs, UnminedArgs},
};

const EXAMPLE: &str = "A store from block files:
  unspent txstore import --network bitcoin ~/.bitcoin/blocks
  unspent txstore status
  unspent txstore get TXID --outputs
  unspent txstore why TXID        (which child, at which depth, keeps it)

A transaction is deleted once all its outputs are spent, --retention blocks have passed since then,
and it and every child are --safety blocks deep. Whatever is in doubt stays. With --config the
windows are the daemon's; larger ones are always safe.";

/// A node's transactions with their spenders, deleted once nobody can need them.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TxStoreArgs {
    #[command(flatten)]
    settings: SettingFlags<TxStoreSection>,
    #[command(subcommand)]
    command: TxStoreCommand,
}

#[derive(Subcommand)]
enum TxStoreCommand {
    /// Read block files, as `chain import` does; blocks already there are skipped
    Import(TxImportArgs),
    #[command(flatten)]
    OnStore(StoreCommand),
}

/// Commands on a store that is there.
#[derive(Subcommand)]
enum StoreCommand {
    /// Show the store's state: tip, transactions, what is due, what was deleted, size
    Status,
    /// Show one transaction: where it is mined, what keeps it, when it may be deleted
    Get(GetArgs),
    /// Explain why a transaction is still there, and from which height it could be deleted
    Why(TxidArgs),
    /// Delete the transactions that are due and that nobody can need any more
    Clean(CleanArgs),
    /// List transactions in no block of the best chain, those waiting longest first
    Unmined(UnminedArgs),
    /// Keep outputs from being spent until they are unfrozen; a block that spends them still
    /// counts (exit code 3 if some of several are refused)
    Freeze(OutputsArgs),
    /// Make frozen outputs spendable again (exit code 3 if some of several are refused)
    Unfreeze(OutputsArgs),
    /// Give a frozen output to another owner, who can spend it 1,000 blocks later
    Reassign(ReassignArgs),
    /// Keep transactions up to a height, whatever other rules say
    Preserve(PreserveArgs),
    /// Delete an unmined transaction without children; the outputs it spent are unspent again
    Drop(TxidArgs),
    /// Find outputs whose recorded spender never existed; --run makes them unspent again
    Repair(RepairArgs),
}

impl StoreCommand {
    /// Whether it changes anything.
    fn writes(&self) -> bool {
        match self {
            Self::Status | Self::Get(_) | Self::Why(_) | Self::Unmined(_) => false,
            Self::Repair(args) => args.run,
            Self::Clean(_)
            | Self::Freeze(_)
            | Self::Unfreeze(_)
            | Self::Reassign(_)
            | Self::Preserve(_)
            | Self::Drop(_) => true,
        }
    }
}

impl DataCommand for TxStoreArgs {
    fn given(&self) -> Vec<GivenFlag> {
        self.settings.given()
    }

    fn run(&self, config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        run(config, self, output)
    }
}

fn run(config: &Config, args: &TxStoreArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let command = match &args.command {
        TxStoreCommand::Import(args) => {
            let _lock = folder_lock::shared(&config.data_dir)?;
            return import::run(config, args, output);
        }
        TxStoreCommand::OnStore(command) => command,
    };
    let writes = command.writes();
    let _lock = if writes { Some(folder_lock::shared(&config.data_dir)?) } else { None };
    let section = config.room::<TxStoreSection>()?;
    let (url, settings) = (section.database(config)?, section.settings());
    command.run(&TxStore::open_existing(&url, settings, Options::default())?, output)
}

impl StoreCommand {
    fn run(&self, store: &TxStore, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        match self {
            Self::Status => figures::print(store, output),
            Self::Get(args) => records::print_get(store, args, output),
            Self::Why(args) => records::print_why(store, args, output),
            Self::Clean(args) => upkeep::print_clean(store, args, output),
            Self::Unmined(args) => upkeep::print_unmined(store, args, output),
            Self::Freeze(args) => outputs::print_freeze(store, args, output),
            Self::Unfreeze(args) => outputs::print_unfreeze(store, args, output),
            Self::Reassign(args) => outputs::print_reassign(store, args, output),
            Self::Preserve(args) => upkeep::print_preserve(store, args, output),
            Self::Drop(args) => upkeep::print_drop(store, args, output),
            Self::Repair(args) => upkeep::print_repair(store, args, output),
        }
    }
}
