//! Receive, pay, send, claim, reverse. Each writes down what is wanted and then helps it along for
//! a while; what isn't at its end by then goes on with `recover`, `run` or the daemon.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Args;
use qrcode::{QrCode, render::unicode::Dense1x2};
use serde::Serialize;
use unspent_ecash::{AccountKind, Entity};
use unspent_engine::rooms::ecash::work::{
    executor::Standing,
    payments::{Asked, read_token},
};

use super::{
    args::{Desk, Patience},
    json::PaymentJson,
};
use crate::{
    argument::text_of,
    error::{CliError, Outcome},
    interrupt::Interrupt,
    output::{Output, facts},
};

/// Between two looks at a payment.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Seconds that a command waits unless told otherwise.
const STANDARD_WAIT: u64 = 60;

/// A payment and where it stands.
#[derive(Serialize)]
struct PaidJson {
    #[serde(flatten)]
    payment: PaymentJson,
    /// Why it isn't at its end, where it isn't.
    waiting: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// The account and the key of a request.
#[derive(Args)]
struct PayerArgs {
    /// The account, by its name or id; not needed when there is only one
    #[arg(long)]
    account: Option<String>,
    /// A key of your own: asking twice with the same one does it once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

impl PayerArgs {
    fn asked(&self) -> Asked {
        Asked { idempotency_key: self.idempotency_key.clone() }
    }
}

/// How much is to come in.
#[derive(Args)]
pub(crate) struct ReceiveArgs {
    /// In the account's unit
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    amount: u64,
    #[command(flatten)]
    from: PayerArgs,
    /// Show the invoice as a QR code
    #[arg(long)]
    qr: bool,
}

pub(super) fn print_receive(
    desk: &Desk,
    args: &ReceiveArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let account = desk.executor.find_account(args.from.account.as_deref())?;
    let asked = args.from.asked();
    let entity = match account.kind {
        AccountKind::Cashu => desk.executor.receive(&account.id, args.amount, &asked)?,
        AccountKind::Spark => desk.executor.receive_by_spark(&account.id, args.amount, &asked)?,
    };
    let shown = PaymentJson::new(&entity);
    if let Some(invoice) = &shown.invoice {
        output.say(invoice)?;
        if args.qr {
            output.say(&qr(&invoice.to_uppercase())?)?;
        }
    }
    let (entity, waiting) = follow(desk, &entity, args.from.patience.or(0), false)?;
    print(&entity, waiting, None, output)
}

/// What to pay.
#[derive(Args)]
pub(crate) struct PayInvoiceArgs {
    /// The Lightning invoice; `-` reads it from standard input, `@FILE` from a file
    invoice: String,
    #[command(flatten)]
    from: PayerArgs,
}

pub(super) fn print_pay(
    desk: &Desk,
    args: &PayInvoiceArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let invoice = text_of(&args.invoice)?;
    let invoice = invoice.trim();
    let account = desk.executor.find_account(args.from.account.as_deref())?;
    let asked = args.from.asked();
    let entity = match account.kind {
        AccountKind::Cashu => desk.executor.pay(&account.id, invoice, &asked)?,
        AccountKind::Spark => desk.executor.pay_by_spark(&account.id, invoice, &asked)?,
    };
    let (entity, waiting) = follow(desk, &entity, args.from.patience.or(STANDARD_WAIT), false)?;
    print(&entity, waiting, None, output)
}

/// How much goes into the token.
#[derive(Args)]
pub(crate) struct SendArgs {
    /// What whoever claims it gets, in the account's unit
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    amount: u64,
    #[command(flatten)]
    from: PayerArgs,
    /// Show the token as a QR code
    #[arg(long)]
    qr: bool,
}

pub(super) fn print_send(
    desk: &Desk,
    args: &SendArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let account = desk.executor.find_account(args.from.account.as_deref())?;
    let entity = desk.executor.send(&account.id, args.amount, &args.from.asked())?;
    let (entity, waiting) = follow(desk, &entity, args.from.patience.or(STANDARD_WAIT), true)?;
    let token = desk.executor.token(&entity.id).ok().map(|token| token.to_string());
    if let Some(token) = &token {
        output.say(token)?;
        if args.qr {
            output.say(&qr(token)?)?;
        }
    }
    print(&entity, waiting, token, output)
}

/// What to claim.
#[derive(Args)]
pub(crate) struct ClaimArgs {
    /// The token; `-` reads it from standard input, `@FILE` from a file
    token: String,
    /// Into this account; by default into the one at the token's mint, which is made if need be
    #[arg(long, value_name = "ACCOUNT")]
    to: Option<String>,
    /// A key of your own: asking twice with the same one does it once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

pub(super) fn print_claim(
    desk: &Desk,
    args: &ClaimArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let token = read_token(&text_of(&args.token)?)?;
    let account = match &args.to {
        Some(name) => desk.executor.find_account(Some(name))?,
        None => desk.executor.account_for(&token, &desk.blocklist)?,
    };
    let asked = Asked { idempotency_key: args.idempotency_key.clone() };
    let entity = desk.executor.claim(&token, &account.id, &asked)?;
    let (entity, waiting) = follow(desk, &entity, args.patience.or(STANDARD_WAIT), false)?;
    print(&entity, waiting, None, output)
}

/// Which token.
#[derive(Args)]
pub(crate) struct ReverseArgs {
    /// Id of the send
    id: String,
    #[command(flatten)]
    patience: Patience,
}

pub(super) fn print_reverse(
    desk: &Desk,
    args: &ReverseArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let entity = desk.executor.reverse(&args.id, &Asked::default())?;
    let (entity, waiting) = follow(desk, &entity, args.patience.or(STANDARD_WAIT), false)?;
    print(&entity, waiting, None, output)
}

/// Helps a payment along until its end, until time is over, or, where that will do, until others
/// have to do something. Says why it waits.
fn follow(
    desk: &Desk,
    entity: &Entity,
    patience: Duration,
    until_others: bool,
) -> anyhow::Result<(Entity, Option<String>)> {
    let interrupt = Interrupt::listen();
    let end = Instant::now() + patience;
    loop {
        let standing = desk.executor.advance(&entity.id)?;
        let now = desk.executor.store.entity(&entity.id)?;
        let waiting = match standing {
            Standing::Over => return Ok((now, None)),
            Standing::Watching if until_others => return Ok((now, None)),
            Standing::Watching => "somebody else has to act".to_owned(),
            Standing::Unclear(why) => why,
        };
        if Instant::now() >= end || interrupt.asked() {
            return Ok((now, Some(waiting)));
        }
        sleep(LOOK_AGAIN.min(end.saturating_duration_since(Instant::now())));
    }
}

fn print(
    entity: &Entity,
    waiting: Option<String>,
    token: Option<String>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let shown = PaidJson { payment: PaymentJson::new(entity), waiting, token };
    output.answer(&shown, || {
        let payment = &shown.payment;
        let mut rows = vec![
            ("payment", payment.id.clone()),
            ("kind", payment.kind.to_owned()),
            ("state", payment.state.clone()),
            ("amount", payment.amount.clone()),
        ];
        rows.extend(shown.waiting.iter().map(|why| ("waits", why.clone())));
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}

fn qr(text: &str) -> anyhow::Result<String> {
    let code = QrCode::new(text.as_bytes());
    let code = code.map_err(|_| CliError::input("it is too long for a QR code"))?;
    Ok(code.render::<Dense1x2>().quiet_zone(true).build())
}
