//! The arguments of `unspent ecash`, and which command each leads to.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use unspent_ecash_room::{
    DATABASE, EcashRoom,
    mint::{MintOptions, check::Blocklist},
    watch::ListenerOptions,
    work::{executor::Executor, worker::WorkerOptions},
};
use unspent_sql::Url;

use super::{
    accounts::{self, AccountArgs, BalanceArgs, MintArgs},
    key::key,
    lists::ShowArgs,
    payments::{self, Begin, BeginAndShow},
    requests::{ClaimToken, PayInvoice, ReceiveAmount, ReverseSend, SendAmount},
    shown::{self, ProofsArgs},
    work,
};
use crate::{
    api::extract::PageQuery,
    cli::Cli,
    error::{CliError, Outcome},
    output::Output,
    serve::folder_lock,
};

const EXAMPLE: &str = "Receive, send and pay:
  unspent ecash account add https://mint.example
  unspent ecash receive 1000 --wait 600      (prints an invoice; waits for its payment)
  unspent ecash send 100                     (prints a token)
  unspent ecash claim - < token.txt
  unspent ecash pay lnbc1…

Every payment is written down before anybody is asked, so a crash loses nothing: `unspent ecash
recover` takes up what is open, `unspent ecash run` does so until it is stopped.";

/// Cashu and Spark payments that survive a crash at any point.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct EcashArgs {
    /// Database: sqlite:PATH or postgres://…; a file `ecash.db` in the data folder by default
    #[arg(long, global = true, env = "UNSPENT_ECASH_DB", value_name = "URL")]
    db: Option<String>,
    /// Key file that secrets are sealed with; `ecash.key` in the data folder, made when needed
    #[arg(long, global = true, env = "UNSPENT_ECASH__KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File with a passphrase, instead of a key file
    #[arg(
        long,
        global = true,
        env = "UNSPENT_ECASH__PASSPHRASE_FILE",
        value_name = "FILE",
        conflicts_with = "key_file"
    )]
    passphrase_file: Option<PathBuf>,
    /// Call mints on this machine and in private networks too
    #[arg(long, global = true, env = "UNSPENT_ECASH__ALLOW_PRIVATE")]
    allow_private: bool,
    /// Never use this mint, or this mint in one unit ("URL UNIT"); may be repeated
    #[arg(long = "block", global = true, value_name = "MINT")]
    blocked: Vec<String>,
    /// A Spark wallet in another process
    #[arg(long, global = true, env = "UNSPENT_ECASH__SPARK_URL", value_name = "URL")]
    spark_url: Option<String>,
    #[command(subcommand)]
    command: EcashCommand,
}

#[derive(Subcommand)]
enum EcashCommand {
    /// Add an account at a mint, or list all
    #[command(subcommand)]
    Account(AccountArgs),
    /// Ask whether a mint can be used, and what it lacks
    #[command(subcommand)]
    Mint(MintArgs),
    /// Money by account: free, and held by payments under way
    Balance(BalanceArgs),
    /// An invoice whose payment comes into an account
    Receive(BeginAndShow<ReceiveAmount>),
    /// Pay a Lightning invoice
    Pay(Begin<PayInvoice>),
    /// Make a token; whoever claims it gets the amount
    Send(BeginAndShow<SendAmount>),
    /// Claim a token, at its own mint or into an account elsewhere
    Claim(Begin<ClaimToken>),
    /// Take back a token that nobody has claimed
    Reverse(Begin<ReverseSend>),
    /// Invoices paid and to be paid, newest first
    Quotes(PageQuery),
    /// Tokens sent and claimed, newest first
    Swaps(PageQuery),
    /// Proofs of an account, without their secrets
    Proofs(ProofsArgs),
    /// Transactions, newest first
    Txs(PageQuery),
    /// One payment with everything that happened to it
    Show(ShowArgs),
    /// Give every open payment a turn, and say what came of it
    Recover,
    /// Do so until it is stopped
    Run,
}

/// What the commands work with.
pub(super) struct Desk {
    pub(super) executor: Arc<Executor>,
    pub(super) blocklist: Blocklist,
    pub(super) worker: WorkerOptions,
}

pub(crate) fn run(cli: &Cli, args: &EcashArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    use EcashCommand as C;
    let _lock = folder_lock::shared(&cli.data_dir())?;
    let blocklist = Blocklist::parse(&args.blocked);
    let blocklist = blocklist.map_err(|problem| CliError::usage(problem.to_string()))?;
    if let C::Mint(mint) = &args.command {
        return accounts::print_mint(mint, &blocklist, args.mints(), output);
    }
    let allow_private = args.allow_private;
    let listener = ListenerOptions { allow_private, ..ListenerOptions::default() };
    let worker = WorkerOptions { listener, ..WorkerOptions::default() };
    let desk = Desk { executor: Arc::new(args.open(cli)?), blocklist, worker };
    match &args.command {
        C::Account(args) => accounts::print_account(&desk, args, output),
        // It needs no database.
        C::Mint(_) => Err(CliError::bug("a mint is checked before").into()),
        C::Balance(args) => accounts::print_balance(&desk, args, output),
        C::Receive(args) => payments::print_receive(&desk, args, output),
        C::Pay(args) => payments::print_pay(&desk, args, output),
        C::Send(args) => payments::print_send(&desk, args, output),
        C::Claim(args) => payments::print_claim(&desk, args, output),
        C::Reverse(args) => payments::print_reverse(&desk, args, output),
        C::Quotes(page) => shown::print_quotes(&desk, page, output),
        C::Swaps(page) => shown::print_swaps(&desk, page, output),
        C::Proofs(args) => shown::print_proofs(&desk, args, output),
        C::Txs(page) => shown::print_txs(&desk, page, output),
        C::Show(args) => shown::print_show(&desk, args, output),
        C::Recover => work::print_recover(desk, output),
        C::Run => work::run(desk, output),
    }
}

impl EcashArgs {
    fn mints(&self) -> MintOptions {
        MintOptions { allow_private: self.allow_private, ..MintOptions::default() }
    }

    fn open(&self, cli: &Cli) -> anyhow::Result<Executor> {
        let folder = cli.data_dir();
        let url: Url = match &self.db {
            Some(text) => text.parse().map_err(|error| CliError::usage(format!("{error}")))?,
            None => Url::Sqlite(folder.join(DATABASE)),
        };
        let is_new = matches!(&url, Url::Sqlite(path) if !path.exists());
        let may_make = is_new || self.db.is_some();
        let (file, words) = (self.key_file.as_deref(), self.passphrase_file.as_deref());
        let room = EcashRoom {
            url,
            mints: self.mints(),
            spark_url: self.spark_url.clone(),
            ..EcashRoom::new(&folder, key(file, words, &folder, may_make)?)
        };
        Ok(room.executor()?)
    }
}

/// How long a command waits for others.
#[derive(Args)]
pub(super) struct Patience {
    /// Seconds to wait for the end; the payment goes on afterwards with `recover` or `run`
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

impl Patience {
    pub(super) fn or(&self, standard: u64) -> Duration {
        Duration::from_secs(self.wait.unwrap_or(standard))
    }
}
