//! Receive, pay, send, claim, reverse on the command line: each is begun, and then helped along for
//! a while; what isn't at its end by then goes on with `recover`, `run` or the daemon.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use unspent_ecash::EcashEntity;
use unspent_server::{
    api::keyed::{BAD_KEY, KEY_HINT, is_key},
    argument::text_of,
    error::{CliError, Outcome},
    interrupt::Interrupt,
    output::{Output, facts},
    qr,
};

use super::{
    args::{CommandContext, Patience},
    json::{PaymentJson, PaymentPriceJson},
    requests::{
        CancelClaim, ClaimToken, PayInvoice, ReceiveAmount, RequestTarget, ReverseSend, SendAmount,
    },
};
use crate::work::{EcashWorkError, executor::PaymentStanding, payments::RequestKey};

/// Between two looks at a payment.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Seconds that a command waits unless told otherwise.
const STANDARD_WAIT: u64 = 60;
/// The same for giving up a claim.
const CANCEL_WAIT: u64 = 90;

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

/// A request, its key, and how long the command waits.
#[derive(Args)]
pub(crate) struct Begin<R: Args> {
    #[command(flatten)]
    request: R,
    /// A key of your own: asking twice with the same one does it once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

/// A request whose outcome can be shown as a picture.
#[derive(Args)]
pub(crate) struct BeginAndShow<R: Args> {
    #[command(flatten)]
    begin: Begin<R>,
    /// Show the invoice or token as a QR code
    #[arg(long)]
    qr: bool,
}

type Run<R> = fn(&R, RequestTarget<'_>, &RequestKey) -> Result<EcashEntity, EcashWorkError>;

impl<R: Args> Begin<R> {
    fn begun(
        &self,
        request: &R,
        context: &CommandContext,
        interrupt: &Interrupt,
        run: Run<R>,
    ) -> anyhow::Result<EcashEntity> {
        // Keys of tokens are kept in the same place, with what no key may hold.
        if self.idempotency_key.as_deref().is_some_and(|key| !is_key(key)) {
            return Err(CliError::usage(BAD_KEY).hint(KEY_HINT).into());
        }
        let request_key = RequestKey { idempotency_key: self.idempotency_key.clone() };
        let at = RequestTarget { executor: &context.executor, blocklist: &context.blocklist };
        let end = Instant::now() + self.patience.or(STANDARD_WAIT);
        let goes_on = || !interrupt.asked();
        let begun = context.executor.with_change(end, &goes_on, || run(request, at, &request_key));
        Ok(begun?)
    }
}

pub(super) fn print_receive(
    context: &CommandContext,
    args: &BeginAndShow<ReceiveAmount>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::listen();
    let entity = args.begin.begun(&args.begin.request, context, &interrupt, ReceiveAmount::run)?;
    if let Some(invoice) = &PaymentJson::new(&entity).invoice {
        output.say(invoice)?;
        if args.qr {
            output.say(&qr::drawn(&invoice.to_uppercase())?)?;
        }
    }
    let (entity, waiting) = follow(context, &entity, &interrupt, args.begin.patience.or(0), false)?;
    print(&entity, waiting, None, output)
}

pub(super) fn print_pay(
    context: &CommandContext,
    args: &Begin<PayInvoice>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let PayInvoice { invoice, account, max_fee, dry_run } = &args.request;
    let (invoice, account) = (text_of(invoice)?, account.clone());
    let request = PayInvoice { invoice, account, max_fee: *max_fee, dry_run: *dry_run };
    if !request.dry_run {
        return print_end(context, args, &request, PayInvoice::run, output);
    }
    let at = RequestTarget { executor: &context.executor, blocklist: &context.blocklist };
    let price = PaymentPriceJson::new(&request.price(at)?);
    output.answer(&price, || facts(&price.rows()))?;
    Ok(Outcome::Done)
}

pub(super) fn print_send(
    context: &CommandContext,
    args: &BeginAndShow<SendAmount>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::listen();
    let entity = args.begin.begun(&args.begin.request, context, &interrupt, SendAmount::run)?;
    let patience = args.begin.patience.or(STANDARD_WAIT);
    let (entity, waiting) = follow(context, &entity, &interrupt, patience, true)?;
    let token = context.executor.token(&entity.id).ok().map(|token| token.to_string());
    if let Some(token) = &token {
        output.say(token)?;
        if args.qr {
            output.say(&qr::drawn(token)?)?;
        }
    }
    print(&entity, waiting, token, output)
}

pub(super) fn print_claim(
    context: &CommandContext,
    args: &Begin<ClaimToken>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let ClaimToken { token, to } = &args.request;
    let request = ClaimToken { token: text_of(token)?, to: to.clone() };
    print_end(context, args, &request, ClaimToken::run, output)
}

pub(super) fn print_reverse(
    context: &CommandContext,
    args: &Begin<ReverseSend>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_end(context, args, &args.request, ReverseSend::run, output)
}

/// Longer than others: a swap that may be on its way is waited for first.
pub(super) fn print_cancel(
    context: &CommandContext,
    args: &Begin<CancelClaim>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::listen();
    let entity = args.begun(&args.request, context, &interrupt, CancelClaim::run)?;
    let (entity, waiting) =
        follow(context, &entity, &interrupt, args.patience.or(CANCEL_WAIT), false)?;
    print(&entity, waiting, None, output)
}

/// Begins a payment and waits for its end.
fn print_end<R: Args>(
    context: &CommandContext,
    args: &Begin<R>,
    request: &R,
    run: Run<R>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::listen();
    let entity = args.begun(request, context, &interrupt, run)?;
    let (entity, waiting) =
        follow(context, &entity, &interrupt, args.patience.or(STANDARD_WAIT), false)?;
    print(&entity, waiting, None, output)
}

/// Helps a payment along until its end, until time is over, or, where that will do, until others
/// have to do something. Says why it waits.
fn follow(
    context: &CommandContext,
    entity: &EcashEntity,
    interrupt: &Interrupt,
    patience: Duration,
    until_others: bool,
) -> anyhow::Result<(EcashEntity, Option<String>)> {
    let end = Instant::now() + patience;
    loop {
        let standing = context.executor.advance(&entity.id)?;
        let now = context.executor.store.entity(&entity.id)?;
        let waiting = match standing {
            PaymentStanding::Over => return Ok((now, None)),
            PaymentStanding::Watching if until_others => return Ok((now, None)),
            PaymentStanding::Watching => "somebody else has to act".to_owned(),
            PaymentStanding::Unclear(why) => why,
        };
        // Paid, and only change is owed, which may take long.
        let is_over = now.kind.is_terminal(now.state);
        if is_over || Instant::now() >= end || interrupt.asked() {
            return Ok((now, Some(waiting)));
        }
        sleep(LOOK_AGAIN.min(end.saturating_duration_since(Instant::now())));
    }
}

fn print(
    entity: &EcashEntity,
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
        rows.extend(payment.claimed_by_others().map(|figure| ("by others", figure)));
        rows.extend(shown.waiting.iter().map(|why| ("waits", why.clone())));
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}
