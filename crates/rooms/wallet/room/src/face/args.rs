//! The arguments of `unspent wallet`, and which command each leads to.

use std::sync::Arc;

use clap::{Args, Subcommand};
use unspent_engine::clock;
use unspent_server::{
    api::extract::PageQuery,
    command::DataCommand,
    config::{Config, GivenFlag, SettingFlags},
    error::Outcome,
    folder_lock,
    output::Output,
};
use unspent_sql::{Options, Url};
use unspent_wallet::WalletStore;

use super::{
    WalletSection,
    addresses::{self, FindAddress, NextAddress},
    bumps::{self, BumpArgs, CpfpArgs},
    context::RoomContext,
    finishing::{self, Finalize},
    follow::{self, ScanArgs},
    freeze::{self, FreezeCoins},
    import::{self, ImportBtcwallet, OpenRoom},
    import_core::{self, ImportCoreArgs},
    labels::{self, LabelJson, LabelsArgs},
    leases::{self, LeaseCoins, ReleaseCoins},
    manage::{self, ChangeWallet, Unwatch},
    payments::{self, PayArgs, SelectCoins},
    psbts::{self, PsbtCommand},
    queries::{BalanceQuery, CoinRequest, CoinsQuery, JournalQuery, TxsQuery},
    statement::{self, StatementQuery},
    tables,
    upkeep::{self, Prune, RecordArgs, Rewind, TxRequest},
    wallets::{self, CreateArgs},
    webhooks::{self, WebhookArgs},
};

const EXAMPLE: &str = "From nothing to a payment:
  unspent wallet create mine --network bitcoin --descriptor 'wpkh(xpub…/<0;1>/*)'
  unspent wallet scan ~/.bitcoin/blocks
  unspent wallet balance mine
  unspent wallet coins mine
  unspent wallet lease mine TXID:VOUT --for 30m
  unspent wallet pay mine --to ADDRESS=150000 --fee-rate 5 --psbt payment.psbt
  (sign payment.psbt with your own signer)
  unspent wallet finalize mine @signed.psbt --lock LOCK
  unspent wallet record mine --sent TXID

Values are in satoshis; `0.0015 BTC` works too.";

/// Watch-only wallets on SQLite or PostgreSQL.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct WalletArgs {
    #[command(flatten)]
    settings: SettingFlags<WalletSection>,
    #[command(subcommand)]
    command: WalletCommand,
}

/// Which wallet.
#[derive(Args)]
pub(crate) struct NameArgs {
    /// Name of the wallet
    wallet: String,
}

/// A request to one wallet.
#[derive(Args)]
struct On<R: Args> {
    /// Name of the wallet
    wallet: String,
    #[command(flatten)]
    request: R,
}

#[derive(Subcommand)]
enum WalletCommand {
    /// Import a whole wallet.db of btcwallet or lnd, offline (exit code 3 when balances differ)
    ImportBtcwallet(ImportBtcwallet),
    #[command(flatten)]
    InRoom(Box<RoomCommand>),
}

/// Commands on a database that is there, or that is made by them.
#[derive(Subcommand)]
enum RoomCommand {
    /// Create a watch-only wallet from an output descriptor, or add an account to one
    Create(CreateArgs),
    /// Create a wallet from the output of Bitcoin Core's listdescriptors
    ImportCore(ImportCoreArgs),
    /// List all wallets, and how far each has been scanned
    List,
    /// Show one wallet: its chains, its tip, its balance
    Show(NameArgs),
    /// Rename a wallet, archive it, or widen its gap limit
    Change(On<ChangeWallet>),
    /// Let a stopped wallet continue from where it stands
    Resume(NameArgs),
    /// Stop watching a script that was never paid
    Unwatch(On<Unwatch>),
    /// Hand out the next address
    Address(On<NextAddress>),
    /// Tell whether an address is the wallet's: account, chain, index, keys, whether it was used
    FindAddress(On<FindAddress>),
    /// List all watched addresses
    Addresses(On<PageQuery>),
    /// Show what the wallet holds, by class
    Balance(On<BalanceQuery>),
    /// List unspent coins, smallest first
    Coins(On<CoinsQuery>),
    /// Show one coin, whether spent, dead or alive
    Coin(On<CoinRequest>),
    /// List transactions, latest first
    Txs(On<TxsQuery>),
    /// Show one transaction: inputs, outputs, net, fee, what it replaced
    Tx(On<TxRequest>),
    /// Show what each confirmed transaction changed and the balance after it; --csv for all of it
    History(On<StatementQuery>),
    /// Keep coins from being chosen until they are unfrozen; BIP-329 labels can do this too
    Freeze(On<FreezeCoins>),
    /// Make frozen coins spendable again
    Unfreeze(On<FreezeCoins>),
    /// Lease coins for a time, all or none
    Lease(On<LeaseCoins>),
    /// Release leased coins early
    Release(On<ReleaseCoins>),
    /// List active leases with value and script
    Leases(NameArgs),
    /// Choose coins for a value and lease them
    Select(On<SelectCoins>),
    /// Choose coins, lease them and write an unsigned PSBT
    Pay(On<PayArgs>),
    /// Check a signed PSBT or raw transaction and record it as pending
    Finalize(On<Finalize>),
    /// Build a replacement for one of the wallet's unconfirmed transactions, at a higher fee rate
    Bump(On<BumpArgs>),
    /// Build a child that pays for an unconfirmed transaction to the wallet (CPFP)
    Cpfp(On<CpfpArgs>),
    /// Inspect a PSBT, or combine copies of one
    #[command(subcommand)]
    Psbt(PsbtCommand),
    /// Record a transaction that was seen, or that a known one was sent or evicted
    Record(On<RecordArgs>),
    /// Read block files, as `chain import` does, and bring all wallets up to date with them
    Scan(ScanArgs),
    /// Take one wallet back to a height, to scan again from there
    Rewind(On<Rewind>),
    /// Invalidate a pending transaction that was never sent; its coins are free again
    Invalidate(On<TxRequest>),
    /// Label a transaction, an address or a coin; an empty label clears
    Label(On<LabelJson>),
    /// Export labels as BIP-329 lines, or import them
    Labels(On<LabelsArgs>),
    /// List every change and its cause
    Journal(On<JournalQuery>),
    /// Prune finished history by hand; the journal keeps a line for each transaction
    Prune(On<Prune>),
    /// Recompute everything from stored facts and list differences (exit code 3 if there are any)
    Audit(NameArgs),
    /// URLs that a wallet's events are posted to
    Webhook(WebhookArgs),
}

impl RoomCommand {
    /// Whether it changes anything.
    fn writes(&self) -> bool {
        match self {
            Self::List
            | Self::Show(_)
            | Self::Addresses(_)
            | Self::FindAddress(_)
            | Self::History(_)
            | Self::Balance(_)
            | Self::Coins(_)
            | Self::Coin(_)
            | Self::Txs(_)
            | Self::Tx(_)
            | Self::Leases(_)
            | Self::Psbt(_)
            | Self::Journal(_)
            | Self::Audit(_) => false,
            Self::Select(on) => !on.request.dry_run,
            Self::Pay(on) => !on.request.pay.dry_run,
            Self::Bump(on) => !on.request.bump.dry_run,
            Self::ImportCore(args) => !args.request.dry_run,
            Self::Webhook(args) => args.writes(),
            Self::Labels(on) => on.request.import.is_some(),
            Self::Create(_)
            | Self::Change(_)
            | Self::Resume(_)
            | Self::Unwatch(_)
            | Self::Address(_)
            | Self::Freeze(_)
            | Self::Unfreeze(_)
            | Self::Lease(_)
            | Self::Release(_)
            | Self::Finalize(_)
            | Self::Cpfp(_)
            | Self::Record(_)
            | Self::Scan(_)
            | Self::Rewind(_)
            | Self::Invalidate(_)
            | Self::Label(_)
            | Self::Prune(_) => true,
        }
    }
}

impl DataCommand for WalletArgs {
    fn given(&self) -> Vec<GivenFlag> {
        let mut given = self.settings.given();
        if let WalletCommand::InRoom(command) = &self.command
            && let RoomCommand::Webhook(args) = &**command
        {
            given.extend(args.given());
        }
        given
    }

    fn run(&self, config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        run(config, self, output)
    }
}

impl WalletArgs {
    fn writes(&self) -> bool {
        match &self.command {
            WalletCommand::ImportBtcwallet(args) => !args.dry_run,
            WalletCommand::InRoom(command) => command.writes(),
        }
    }
}

fn run(config: &Config, args: &WalletArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let _lock = if args.writes() { Some(folder_lock::shared(&config.data_dir)?) } else { None };
    let section = config.room::<WalletSection>()?;
    let url = section.database(config)?;
    let command = match &args.command {
        WalletCommand::ImportBtcwallet(args) => return import::run(&url, args, output),
        WalletCommand::InRoom(command) => command,
    };
    let OpenRoom { room, folder: _folder } = open(config, command, &url)?;
    let (room, now) = (Arc::new(room), clock::now());
    let lease = section.lease_micros();
    let context = RoomContext { room, engine: None, now, lease };
    dispatch(config, command, &context, output)
}

/// The room that a command works on.
fn open(config: &Config, command: &RoomCommand, url: &Url) -> anyhow::Result<OpenRoom> {
    let room = if let RoomCommand::Create(create) = command {
        create.open(config, url)?
    } else if let RoomCommand::ImportCore(import) = command {
        if let Some(network) = config.network_or(import.network) {
            return import::open(url, network, import.request.dry_run);
        }
        wallets::open(config, url, None)?
    } else {
        WalletStore::open_existing(url, Options::default())?
    };
    Ok(OpenRoom { room, folder: None })
}

fn dispatch(
    config: &Config,
    command: &RoomCommand,
    context: &RoomContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    use RoomCommand as C;
    macro_rules! on {
        ($print:expr, $on:expr) => {
            $print(&context.wallet(&$on.wallet)?, &$on.request, output)
        };
    }
    match command {
        C::Create(args) => wallets::print_create(context, args, output),
        C::ImportCore(args) => import_core::print(context, args, output),
        C::List => wallets::print_list(context, output),
        C::Show(args) => wallets::print_show(&context.wallet(&args.wallet)?, output),
        C::Change(args) => {
            let wallet = context.wallet(&args.wallet)?;
            manage::print_change(config, &wallet, &args.request, output)
        }
        C::Resume(args) => manage::print_resume(&context.wallet(&args.wallet)?, output),
        C::Unwatch(args) => on!(manage::print_unwatch, args),
        C::Address(args) => on!(addresses::print_next, args),
        C::FindAddress(args) => on!(addresses::print_find, args),
        C::History(args) => on!(statement::print, args),
        C::Freeze(args) => on!(freeze::print_freeze, args),
        C::Unfreeze(args) => on!(freeze::print_unfreeze, args),
        C::Addresses(args) => on!(addresses::print_list, args),
        C::Balance(args) => on!(tables::balance, args),
        C::Coins(args) => on!(tables::coins, args),
        C::Coin(args) => on!(tables::coin, args),
        C::Txs(args) => on!(tables::txs, args),
        C::Tx(args) => on!(tables::tx, args),
        C::Lease(args) => on!(leases::print_lease, args),
        C::Release(args) => on!(leases::print_release, args),
        C::Leases(args) => leases::print_leases(&context.wallet(&args.wallet)?, output),
        C::Select(args) => on!(payments::print_select, args),
        C::Pay(args) => on!(payments::print_pay, args),
        C::Finalize(args) => on!(finishing::print_finalize, args),
        C::Bump(args) => on!(bumps::print_bump, args),
        C::Cpfp(args) => on!(bumps::print_cpfp, args),
        C::Psbt(command) => psbts::print(context, command, output),
        C::Record(args) => on!(upkeep::print_record, args),
        C::Scan(args) => follow::scan(config, context, args, output),
        C::Rewind(args) => on!(upkeep::print_rewind, args),
        C::Invalidate(args) => on!(upkeep::print_invalidate, args),
        C::Label(args) => on!(labels::print_set, args),
        C::Labels(args) => on!(labels::print_labels, args),
        C::Journal(args) => on!(tables::journal, args),
        C::Prune(args) => on!(upkeep::print_prune, args),
        C::Webhook(args) => webhooks::print(config, context, args, output),
        C::Audit(args) => upkeep::print_audit(&context.wallet(&args.wallet)?, output),
    }
}
