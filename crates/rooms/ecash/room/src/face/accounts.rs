//! Accounts, mints and balances.

use clap::{Args, Subcommand};
use serde_json::json;
use unspent_server::{
    error::Outcome,
    output::{Output, facts, table},
    text,
};

use super::{
    args::{CommandContext, MoneyUse},
    json::{AccountJson, EcashBalanceJson},
    requests::{AddAccount, ChangeAccount, RequestTarget},
};
use crate::{
    mint::{
        MintOptions,
        check::{MintBlocklist, ProblemList, check_named},
    },
    work::EcashWorkError,
};

#[derive(Subcommand)]
pub(crate) enum AccountArgs {
    /// Add an account at a mint, once the mint is found fit
    Add(AddAccount),
    /// All accounts
    List,
    /// Give an account another name
    Rename {
        /// The account, by its name or id
        account: String,
        /// The new name
        name: String,
    },
    /// Write down that an account's mint has moved to another address, once it shows that it is the
    /// same mint
    Move {
        /// The account, by its name or id
        account: String,
        /// The new address
        mint: String,
    },
    /// Remove an account that holds nothing; its payments stay
    Remove {
        /// The account, by its name or id
        account: String,
    },
    /// Have a mint asked for everything that it has ever signed for an account: `recover`, `run` or
    /// the daemon does it
    Scan {
        /// The account, by its name or id
        account: String,
    },
}

impl AccountArgs {
    pub(super) fn money_use(&self) -> MoneyUse {
        match self {
            Self::Add(_) => MoneyUse::Begins,
            Self::List => MoneyUse::Reads,
            Self::Rename { .. } | Self::Move { .. } | Self::Remove { .. } | Self::Scan { .. } => {
                MoneyUse::Writes
            }
        }
    }
}

pub(super) fn print_account(
    context: &CommandContext,
    args: &AccountArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    match args {
        AccountArgs::Add(args) => add(context, args, output),
        AccountArgs::List => list(context, output),
        AccountArgs::Rename { account, name } => {
            let request = ChangeAccount { name: Some(name.clone()), mint: None };
            change(context, account, &request, output)
        }
        AccountArgs::Move { account, mint } => {
            let request = ChangeAccount { name: None, mint: Some(mint.clone()) };
            change(context, account, &request, output)
        }
        AccountArgs::Remove { account } => remove(context, account, output),
        AccountArgs::Scan { account } => scan(context, account, output),
    }
}

fn change(
    context: &CommandContext,
    name: &str,
    request: &ChangeAccount,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let at = RequestTarget { executor: &context.executor, blocklist: &context.blocklist };
    let account = context.executor.find_account(Some(name))?;
    let shown = AccountJson::new(&request.run(&account, at)?);
    output.answer(&shown, || {
        let place = shown.mint.clone().unwrap_or_else(|| "Spark".into());
        format!("account {} at {place} ({})", shown.name, shown.id)
    })?;
    Ok(Outcome::Done)
}

fn remove(
    context: &CommandContext,
    name: &str,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let account = context.executor.find_account(Some(name))?;
    context.executor.remove_account(&account.id, context.worker.late_payment_grace)?;
    let shown = AccountJson::new(&account);
    output.answer(&shown, || format!("account {} is removed; its payments stay", shown.name))?;
    Ok(Outcome::Done)
}

fn scan(context: &CommandContext, name: &str, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let account = context.executor.find_account(Some(name))?;
    context.executor.store.scan_account(&account.id)?;
    let shown = AccountJson::new(&account);
    output.answer(&shown, || {
        format!("account {} is to be scanned, by `recover`, `run` or the daemon", shown.name)
    })?;
    Ok(Outcome::Done)
}

fn add(
    context: &CommandContext,
    request: &AddAccount,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let at = RequestTarget { executor: &context.executor, blocklist: &context.blocklist };
    let shown = AccountJson::new(&request.run(at)?);
    output.answer(&shown, || format!("account {} ({})", shown.name, shown.id))?;
    Ok(Outcome::Done)
}

fn list(context: &CommandContext, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let accounts = context.executor.store.accounts()?;
    let shown: Vec<_> = accounts.iter().map(AccountJson::new).collect();
    output.answer(&json!({ "accounts": shown }), || {
        let rows = shown.iter().map(|account| {
            let mint = account.mint.clone().unwrap_or_else(|| "Spark".into());
            [account.name.clone(), mint, account.unit.clone(), account.id.clone()]
        });
        table(["name", "mint", "unit", "id"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

#[derive(Subcommand)]
pub(crate) enum MintArgs {
    /// Whether a mint can be used
    Check {
        /// Its address
        url: String,
        /// sat, usd, …
        #[arg(long, default_value = "sat")]
        unit: String,
    },
}

pub(super) fn print_mint(
    args: &MintArgs,
    blocklist: &MintBlocklist,
    options: MintOptions,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let MintArgs::Check { url, unit } = args;
    match check_named(url, unit, blocklist, options) {
        Ok(mint) => {
            let name = mint.info.name.clone().unwrap_or_default();
            let told = mint.tells_of_mint_quotes;
            let shown = json!({
                "usable": true, "mint": mint.url.to_string(), "name": name, "unit": unit,
                "tells_of_mint_quotes": told, "problems": [],
            });
            output.answer(&shown, || {
                facts(&[
                    ("mint", mint.url.to_string()),
                    ("name", name),
                    ("usable for", unit.clone()),
                ])
            })?;
            Ok(Outcome::Done)
        }
        Err(problems) if output.is_json() => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            output.document(&json!({ "usable": false, "problems": problems }))?;
            Ok(Outcome::Differences)
        }
        Err(problems) => {
            output.say(&ProblemList(&problems).to_string())?;
            Ok(Outcome::Differences)
        }
    }
}

/// Whose money.
#[derive(Args)]
pub(crate) struct BalanceArgs {
    /// One account, by its name or id
    #[arg(long)]
    account: Option<String>,
}

pub(super) fn print_balance(
    context: &CommandContext,
    args: &BalanceArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let accounts = match &args.account {
        Some(name) => vec![context.executor.find_account(Some(name))?],
        None => context.executor.store.accounts()?,
    };
    let shown = accounts.iter().map(|account| {
        let balance = context.executor.store.balance(&account.id).map_err(EcashWorkError::from)?;
        Ok(EcashBalanceJson::new(account, &balance))
    });
    let shown = shown.collect::<Result<Vec<_>, EcashWorkError>>()?;
    output.answer(&json!({ "balances": shown }), || {
        let number = |text: &str| text::grouped(text.parse().unwrap_or_default());
        let rows = shown.iter().map(|line| {
            let (free, held) = (number(&line.unspent), number(&line.reserved));
            [line.name.clone(), format!("{free} {}", line.unit), format!("{held} {}", line.unit)]
        });
        table(["account", "free", "held"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}
