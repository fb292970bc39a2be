//! The arguments of `unspent ecash`, and which command each leads to.

use std::{sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use unspent_server::{
    api::extract::PageQuery,
    command::DataCommand,
    config::{Config, GivenFlag, SettingFlags},
    error::Outcome,
    folder_lock,
    output::Output,
};

use super::{
    accounts::{self, AccountArgs, BalanceArgs, MintArgs},
    lists::ShowArgs,
    payments::{self, Begin, BeginAndShow},
    requests::{CancelClaim, ClaimToken, PayInvoice, ReceiveAmount, ReverseSend, SendAmount},
    section::{EcashSection, MayMake},
    shown::{self, ProofsArgs},
    work,
};
use crate::{
    mint::check::MintBlocklist,
    work::{executor::PaymentExecutor, worker::WorkerOptions},
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
    #[command(flatten)]
    settings: SettingFlags<EcashSection>,
    #[command(subcommand)]
    command: EcashCommand,
}

#[derive(Subcommand)]
enum EcashCommand {
    /// Ask whether a mint can be used, and what it lacks (exit code 3 if it can't)
    #[command(subcommand)]
    Mint(MintArgs),
    #[command(flatten)]
    OnMoney(MoneyCommand),
}

/// Commands on the database.
#[derive(Subcommand)]
enum MoneyCommand {
    /// Add an account at a mint, or list all
    #[command(subcommand)]
    Account(AccountArgs),
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
    /// Take back what nobody has claimed of a token
    Reverse(Begin<ReverseSend>),
    /// Give up a claim; it ends once the mint says that nothing of it has happened
    Cancel(Begin<CancelClaim>),
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
pub(super) struct CommandContext {
    pub(super) executor: Arc<PaymentExecutor>,
    pub(super) blocklist: MintBlocklist,
    pub(super) worker: WorkerOptions,
}

impl DataCommand for EcashArgs {
    fn given(&self) -> Vec<GivenFlag> {
        self.settings.given()
    }

    fn run(&self, config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        run(config, self, output)
    }
}

/// What a command may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MoneyUse {
    Reads,
    Writes,
    /// Whoever begins with ecash may make the database and its key. Everybody else has money
    /// somewhere, and a new database would hide where.
    Begins,
}

impl MoneyCommand {
    fn money_use(&self) -> MoneyUse {
        match self {
            Self::Account(args) => args.money_use(),
            Self::Claim(_) => MoneyUse::Begins,
            Self::Balance(_)
            | Self::Quotes(_)
            | Self::Swaps(_)
            | Self::Proofs(_)
            | Self::Txs(_)
            | Self::Show(_) => MoneyUse::Reads,
            Self::Receive(_)
            | Self::Pay(_)
            | Self::Send(_)
            | Self::Reverse(_)
            | Self::Cancel(_)
            | Self::Recover
            | Self::Run => MoneyUse::Writes,
        }
    }
}

fn run(config: &Config, args: &EcashArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let section = config.room::<EcashSection>()?;
    let blocklist = section.blocklist()?;
    let command = match &args.command {
        EcashCommand::Mint(mint) => {
            return accounts::print_mint(mint, &blocklist, section.mints(), output);
        }
        EcashCommand::OnMoney(command) => command,
    };
    let money_use = command.money_use();
    let writes = money_use != MoneyUse::Reads;
    let _lock = if writes { Some(folder_lock::shared(&config.data_dir)?) } else { None };
    let executor = if money_use == MoneyUse::Begins {
        section.room(config, MayMake::DatabaseAndKey)?.executor()?
    } else {
        section.room(config, MayMake::Nothing)?.existing_executor()?
    };
    let context =
        CommandContext { executor: Arc::new(executor), blocklist, worker: section.worker() };
    command.run(context, output)
}

impl MoneyCommand {
    fn run(&self, context: CommandContext, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        match self {
            Self::Account(args) => accounts::print_account(&context, args, output),
            Self::Balance(args) => accounts::print_balance(&context, args, output),
            Self::Receive(args) => payments::print_receive(&context, args, output),
            Self::Pay(args) => payments::print_pay(&context, args, output),
            Self::Send(args) => payments::print_send(&context, args, output),
            Self::Claim(args) => payments::print_claim(&context, args, output),
            Self::Reverse(args) => payments::print_reverse(&context, args, output),
            Self::Cancel(args) => payments::print_cancel(&context, args, output),
            Self::Quotes(page) => shown::print_quotes(&context, page, output),
            Self::Swaps(page) => shown::print_swaps(&context, page, output),
            Self::Proofs(args) => shown::print_proofs(&context, args, output),
            Self::Txs(page) => shown::print_txs(&context, page, output),
            Self::Show(args) => shown::print_show(&context, args, output),
            Self::Recover => work::print_recover(context, output),
            Self::Run => work::run(context, output),
        }
    }
}

/// How long a command waits for others.
#[derive(Args)]
pub(super) struct Patience {
    /// Seconds to wait for the end, and before that for change under way where too little is free;
    /// the payment goes on afterwards with `recover` or `run`
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

impl Patience {
    pub(super) fn or(&self, standard: u64) -> Duration {
        Duration::from_secs(self.wait.unwrap_or(standard))
    }
}
