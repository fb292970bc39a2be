//! The lists on the command line.

use clap::Args;
use serde_json::json;
use unspent_server::{
    api::extract::PageQuery,
    error::Outcome,
    output::{Output, facts, table},
};

use super::{
    args::CommandContext,
    lists::{self, PaymentGroup, ProofStateName, ShowArgs},
};

pub(super) fn print_quotes(
    context: &CommandContext,
    page: &PageQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_payments(context, PaymentGroup::Quotes, "quotes", page, output)
}

pub(super) fn print_swaps(
    context: &CommandContext,
    page: &PageQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_payments(context, PaymentGroup::Swaps, "swaps", page, output)
}

fn print_payments(
    context: &CommandContext,
    group: PaymentGroup,
    name: &str,
    page: &PageQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let before = lists::before(page.after()?)?;
    let store = &context.executor.store;
    let found = lists::payments(store, None, Some(group), &before, page.limit()?)?;
    output.answer(&json!({ name: found.payments, "next": found.next }), || {
        let rows = found.payments.iter().map(|payment| {
            let alarm = if payment.alarm { " !" } else { "" };
            [
                payment.created_at.text(),
                payment.kind.to_owned(),
                format!("{}{alarm}", payment.state),
                payment.amount.clone(),
                payment.id.clone(),
            ]
        });
        let listed = table(["created", "kind", "state", "amount", "id"], rows);
        format!("{listed}{}", next_page(found.next.as_ref()))
    })?;
    Ok(Outcome::Done)
}

fn next_page(next: Option<&String>) -> String {
    next.map(|next| format!("\nnext page: --after {next}")).unwrap_or_default()
}

/// Which proofs.
#[derive(Args)]
pub(crate) struct ProofsArgs {
    /// The account, by its name or id; not needed when there is only one
    #[arg(long)]
    account: Option<String>,
    /// In this state
    #[arg(long, value_enum, default_value_t = ProofStateName::Unspent)]
    state: ProofStateName,
    #[command(flatten)]
    page: PageQuery,
}

pub(super) fn print_proofs(
    context: &CommandContext,
    args: &ProofsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let account = context.executor.find_account(args.account.as_deref())?;
    let (after, limit) = (args.page.after()?, args.page.limit()?);
    let found = lists::proofs(&context.executor.store, &account.id, args.state, after, limit)?;
    output.answer(&found, || {
        let rows = found.proofs.iter().map(|proof| {
            let held = proof.held_by.clone().unwrap_or_default();
            [proof.amount.clone(), proof.keyset.clone(), proof.y.clone(), held]
        });
        let listed = table(["amount", "keyset", "y", "held by"], rows);
        format!("{listed}{}", next_page(found.next.as_ref()))
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_txs(
    context: &CommandContext,
    page: &PageQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let before = lists::before(page.after()?)?;
    let found = lists::transactions(&context.executor.store, None, before, page.limit()?)?;
    output.answer(&found, || {
        let rows = found.transactions.iter().map(|tx| {
            [
                tx.created_at.text(),
                tx.direction.clone(),
                tx.kind.clone(),
                tx.state.clone(),
                tx.amount.clone(),
                tx.id.clone(),
            ]
        });
        let listed = table(["created", "direction", "kind", "state", "amount", "id"], rows);
        format!("{listed}{}", next_page(found.next.as_ref()))
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_show(
    context: &CommandContext,
    args: &ShowArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let shown = lists::shown(&context.executor.store, &args.id)?;
    output.answer(&shown, || {
        let payment = &shown.payment;
        let mut rows = vec![
            ("payment", payment.id.clone()),
            ("kind", payment.kind.to_owned()),
            ("state", payment.state.clone()),
            ("transaction", payment.transaction_state.clone()),
            ("amount", payment.amount.clone()),
        ];
        rows.extend(payment.fee_reserve.iter().map(|sum| ("reserve for the route", sum.clone())));
        rows.extend(payment.fee.iter().map(|sum| ("fees", sum.clone())));
        rows.extend(shown.reason.iter().map(|why| ("failed because", why.clone())));
        rows.extend(payment.change_owed.iter().map(|sum| ("change owed, at most", sum.clone())));
        rows.extend(payment.change_kept.iter().map(|sum| ("kept by the mint", sum.clone())));
        rows.extend(payment.claimed_by_others().map(|figure| ("by others", figure)));
        let head = facts(&rows);
        let rows = shown.journal.iter().map(|line| {
            let from = line.from.clone().unwrap_or_default();
            let note = line.note.clone().unwrap_or_default();
            [line.at.text(), line.event.clone(), from, line.to.clone(), note]
        });
        format!("{head}\n{}", table(["when", "what", "from", "to", "why"], rows))
    })?;
    Ok(Outcome::Done)
}
