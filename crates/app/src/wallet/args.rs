//! The arguments of `unspent wallet`.

use std::path::PathBuf;

use bitcoin::{OutPoint, Txid};
use clap::{Args, Subcommand, ValueEnum};
use unspent_model::{
    Network,
    wallet::{
        LockId,
        select::{Method, Rate, Strategy},
    },
};

use super::read;

const EXAMPLE: &str = "From nothing to a payment:
  unspent wallet create mine --network bitcoin --descriptor 'wpkh(xpub…/<0;1>/*)'
  unspent wallet scan ~/.bitcoin/blocks
  unspent wallet balance mine
  unspent wallet coins mine
  unspent wallet lease mine TXID:VOUT --for 30m
  unspent wallet pay mine --to ADDRESS=150000 --rate 5 --psbt payment.psbt
  (sign payment.psbt with your own signer)
  unspent wallet finalize mine @signed.psbt --lock LOCK
  unspent wallet record mine --sent TXID

Amounts are satoshis; `0.0015 BTC` is understood too.";

/// Watch-only wallets on SQLite or PostgreSQL.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct WalletArgs {
    /// Database: sqlite:PATH or postgres://…; a file `wallet.db` in the data folder by default
    #[arg(long, global = true, env = "UNSPENT_WALLET_DB", value_name = "URL")]
    pub(super) db: Option<String>,
    #[command(subcommand)]
    pub(super) command: WalletCommand,
}

#[derive(Subcommand)]
pub(super) enum WalletCommand {
    /// Make a watch-only wallet from an output descriptor, or add an account to one
    Create(CreateArgs),
    /// All wallets, and how far each has been scanned
    List,
    /// One wallet: its chains, its tip, its balance
    Show(NameArgs),
    /// Hand out the next address
    Address(AddressArgs),
    /// All watched addresses
    Addresses(PageArgs),
    /// What the wallet holds, by class
    Balance(BalanceArgs),
    /// Unspent coins, smallest first
    Coins(CoinsArgs),
    /// One coin, spent, dead or alive
    Coin(CoinArgs),
    /// Transactions, latest first
    Txs(TxsArgs),
    /// One transaction: inputs, outputs, net, fee, what it replaced
    Tx(TxArgs),
    /// Hold coins for a time, all or none
    Lease(LeaseArgs),
    /// Give coins back before their time
    Release(ReleaseArgs),
    /// Active leases with value and script
    Leases(NameArgs),
    /// Choose coins for an amount and lease them
    Select(SelectArgs),
    /// Choose coins, lease them and write an unsigned PSBT
    Pay(PayArgs),
    /// Take a signed PSBT or raw transaction back as pending
    Finalize(FinalizeArgs),
    /// Build a replacement for an own unconfirmed transaction, at a higher rate
    Bump(BumpArgs),
    /// Record a transaction seen somewhere, or that one was sent or evicted
    Record(RecordArgs),
    /// Read block files, as `chain import` does, and bring all wallets up to them
    Scan(ScanArgs),
    /// Take one wallet back to a height, to be scanned again
    Rewind(RewindArgs),
    /// Take back a pending transaction that was never sent
    Invalidate(TxArgs),
    /// Label a transaction, an address or a coin; an empty label clears
    Label(LabelArgs),
    /// Labels as BIP-329 lines, out or in
    Labels(LabelsArgs),
    /// Every change and its cause
    Journal(JournalArgs),
    /// Remove finished history by hand; the journal keeps a line of each
    Prune(PruneArgs),
    /// Recompute everything from the facts and name differences (exit code 3 if any)
    Audit(NameArgs),
}

impl WalletCommand {
    /// Whether it changes anything.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::List
            | Self::Show(_)
            | Self::Addresses(_)
            | Self::Balance(_)
            | Self::Coins(_)
            | Self::Coin(_)
            | Self::Txs(_)
            | Self::Tx(_)
            | Self::Leases(_)
            | Self::Journal(_)
            | Self::Audit(_) => false,
            Self::Select(select) => !select.dry_run,
            Self::Labels(labels) => labels.import.is_some(),
            Self::Create(_)
            | Self::Address(_)
            | Self::Lease(_)
            | Self::Release(_)
            | Self::Pay(_)
            | Self::Finalize(_)
            | Self::Bump(_)
            | Self::Record(_)
            | Self::Scan(_)
            | Self::Rewind(_)
            | Self::Invalidate(_)
            | Self::Label(_)
            | Self::Prune(_) => true,
        }
    }
}

#[derive(Args)]
pub(super) struct CreateArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Network, needed for a new database: bitcoin, testnet4, signet or regtest
    #[arg(long, value_parser = read::network)]
    pub(super) network: Option<Network>,
    /// Output descriptor; `<0;1>` names receive and change at once
    #[arg(long)]
    pub(super) descriptor: Option<String>,
    /// Descriptor for change, when the first one has a single path
    #[arg(long, requires = "descriptor")]
    pub(super) change: Option<String>,
    /// Name of the account; an existing wallet gets a further account
    #[arg(long, default_value = "main")]
    pub(super) account: String,
    /// Watch this single address or script (hex) too; may be repeated
    #[arg(long)]
    pub(super) watch: Vec<String>,
    /// The first block that could concern the wallet
    #[arg(long, default_value_t = 0)]
    pub(super) birthday: u64,
    /// Addresses watched beyond the last used one
    #[arg(long, default_value_t = unspent_wallet::wallets::DEFAULT_GAP_LIMIT)]
    pub(super) gap_limit: u32,
}

#[derive(Args)]
pub(super) struct NameArgs {
    /// Name of the wallet
    pub(super) wallet: String,
}

#[derive(Args)]
pub(super) struct PageArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Most to show
    #[arg(long, default_value_t = 100)]
    pub(super) limit: u32,
    /// Go on after this one, as the last answer named it
    #[arg(long)]
    pub(super) after: Option<String>,
}

#[derive(Args)]
pub(super) struct AddressArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Account; the first one when not named
    #[arg(long)]
    pub(super) account: Option<String>,
    /// An address for change
    #[arg(long)]
    pub(super) change: bool,
}

#[derive(Args)]
pub(super) struct BalanceArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Confirmations that a confirmed coin must have
    #[arg(long, default_value_t = 1)]
    pub(super) minconf: u32,
    /// What was confirmed and unspent after the block at this height
    #[arg(long, value_name = "HEIGHT")]
    pub(super) at: Option<u64>,
}

#[derive(Args)]
pub(super) struct CoinsArgs {
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// Also spent and dead coins, in the order they were found
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(Args)]
pub(super) struct CoinArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// The coin, as TXID:VOUT
    pub(super) coin: OutPoint,
}

#[derive(Args)]
pub(super) struct TxsArgs {
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// Only those in blocks from this height on
    #[arg(long)]
    pub(super) from: Option<u64>,
    /// Only those in blocks up to this height
    #[arg(long)]
    pub(super) to: Option<u64>,
    /// Only those in no block, live or dead
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub(super) unconfirmed: bool,
}

#[derive(Args)]
pub(super) struct TxArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// The transaction
    pub(super) txid: Txid,
}

#[derive(Args)]
pub(super) struct HoldArgs {
    /// Holder: 32 bytes as hex; a new one is made when not given
    #[arg(long)]
    pub(super) lock: Option<LockId>,
    /// How long: 90s, 10m, 2h, 1d
    #[arg(long = "for", value_parser = read::span, default_value = "10m", value_name = "TIME")]
    pub(super) duration: i64,
    /// Keep holding a coin after its spend until that has so many confirmations
    #[arg(long, value_name = "CONFIRMATIONS")]
    pub(super) hold: Option<u32>,
}

#[derive(Args)]
pub(super) struct LeaseArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Coins, as TXID:VOUT
    #[arg(required = true)]
    pub(super) coins: Vec<OutPoint>,
    #[command(flatten)]
    pub(super) hold: HoldArgs,
}

#[derive(Args)]
pub(super) struct ReleaseArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Coins, as TXID:VOUT
    #[arg(required = true)]
    pub(super) coins: Vec<OutPoint>,
    /// The holder
    #[arg(long)]
    pub(super) lock: LockId,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum StrategyArg {
    /// All methods, the least waste wins
    Best,
    /// Branch and bound: no change
    Bnb,
    /// Single random draw
    Random,
    /// Largest coins first
    Largest,
    /// Oldest coins first
    Oldest,
}

impl StrategyArg {
    pub(super) fn strategy(self) -> Strategy {
        match self {
            Self::Best => Strategy::Best,
            Self::Bnb => Strategy::Only(Method::BranchAndBound),
            Self::Random => Strategy::Only(Method::RandomDraw),
            Self::Largest => Strategy::Only(Method::LargestFirst),
            Self::Oldest => Strategy::Only(Method::OldestFirst),
        }
    }
}

#[derive(Args)]
pub(super) struct PolicyArgs {
    /// Fee rate in sat/vB
    #[arg(long, value_parser = read::rate, default_value = "1")]
    pub(super) rate: Rate,
    /// How coins are chosen
    #[arg(long, value_enum, default_value = "best")]
    pub(super) strategy: StrategyArg,
    /// Confirmations that other people's coins need
    #[arg(long, default_value_t = 1)]
    pub(super) minconf: u32,
    /// Don't spend own unconfirmed change
    #[arg(long)]
    pub(super) no_own_change: bool,
    /// Also spend outputs of transactions that were never sent
    #[arg(long)]
    pub(super) chain_pending: bool,
    /// Spend all coins of an address together
    #[arg(long)]
    pub(super) by_address: bool,
    /// Only coins of this account
    #[arg(long)]
    pub(super) account: Option<String>,
    /// Coins that must be chosen, as TXID:VOUT; may be repeated
    #[arg(long)]
    pub(super) require: Vec<OutPoint>,
    /// Coins that must not be chosen, as TXID:VOUT; may be repeated
    #[arg(long)]
    pub(super) exclude: Vec<OutPoint>,
    /// The heaviest transaction allowed, in weight units
    #[arg(long, default_value_t = unspent_model::wallet::select::MAX_STANDARD_WEIGHT)]
    pub(super) max_weight: u64,
}

#[derive(Args)]
pub(super) struct SelectArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Amount to pay
    #[arg(value_parser = read::sats)]
    pub(super) amount: u64,
    /// Only look, lease nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) hold: HoldArgs,
}

#[derive(Args)]
pub(super) struct PayArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Whom to pay, as ADDRESS=AMOUNT; may be repeated
    #[arg(long, required = true, value_parser = read::output, value_name = "ADDRESS=AMOUNT")]
    pub(super) to: Vec<(String, u64)>,
    /// Write the PSBT to this file instead of showing it
    #[arg(long, value_name = "FILE")]
    pub(super) psbt: Option<PathBuf>,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) hold: HoldArgs,
}

#[derive(Args)]
pub(super) struct FinalizeArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Signed PSBT (base64 or hex) or raw transaction (hex); @FILE, or - for standard input
    pub(super) signed: String,
    /// Whose leases it uses
    #[arg(long)]
    pub(super) lock: Option<LockId>,
    /// Spend coins even if somebody else leased them; the journal says so
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Args)]
pub(super) struct BumpArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// The transaction to replace
    pub(super) txid: Txid,
    /// Write the PSBT to this file instead of showing it
    #[arg(long, value_name = "FILE")]
    pub(super) psbt: Option<PathBuf>,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) hold: HoldArgs,
}

#[derive(Args)]
pub(super) struct RecordArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    #[command(flatten)]
    pub(super) what: RecordWhat,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(super) struct RecordWhat {
    /// Raw transaction (hex) that a node's mempool holds; @FILE, or - for standard input
    #[arg(long, value_name = "RAW")]
    pub(super) mempool: Option<String>,
    /// Raw transaction that was heard of, with no node to vouch for it
    #[arg(long, value_name = "RAW")]
    pub(super) relayed: Option<String>,
    /// Raw transaction made here and not sent yet
    #[arg(long, value_name = "RAW")]
    pub(super) created: Option<String>,
    /// A pending transaction was sent
    #[arg(long, value_name = "TXID")]
    pub(super) sent: Option<Txid>,
    /// The mempool no longer holds this transaction
    #[arg(long, value_name = "TXID")]
    pub(super) evicted: Option<Txid>,
}

#[derive(Args)]
pub(super) struct ScanArgs {
    /// Block files and folders of them
    #[arg(required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// No block above this height
    #[arg(long, value_name = "HEIGHT")]
    pub(super) stop_at: Option<u64>,
    /// Wallets that were never scanned start with the first block of the files, whatever their
    /// birthday
    #[arg(long)]
    pub(super) from_first: bool,
}

#[derive(Args)]
pub(super) struct RewindArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// The last block to keep
    pub(super) height: u64,
}

#[derive(Args)]
pub(super) struct LabelArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Transaction, TXID:VOUT or address
    pub(super) what: String,
    /// The label, at most 500 characters
    pub(super) label: String,
}

#[derive(Args)]
pub(super) struct LabelsArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    /// Take in BIP-329 lines: @FILE, or - for standard input
    #[arg(long, value_name = "LINES")]
    pub(super) import: Option<String>,
}

#[derive(Args)]
pub(super) struct JournalArgs {
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// Only lines about this transaction
    #[arg(long)]
    pub(super) tx: Option<Txid>,
}

#[derive(Args)]
pub(super) struct PruneArgs {
    /// Name of the wallet
    pub(super) wallet: String,
    #[command(flatten)]
    pub(super) what: PruneWhat,
    /// Confirmations that history needs before it may go
    #[arg(long, default_value_t = unspent_wallet::prune::DEFAULT_DEPTH)]
    pub(super) depth: u64,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(super) struct PruneWhat {
    /// Exactly this transaction; may be repeated
    #[arg(long)]
    pub(super) tx: Vec<Txid>,
    /// As much as may go among what was confirmed up to this height
    #[arg(long, value_name = "HEIGHT")]
    pub(super) up_to: Option<u64>,
}
