//! Lists of payments, proofs and transactions, and one payment with its journal.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use unspent_ecash::Entity;
use unspent_model::ecash::{EntityKind, ProofState};

use super::{
    args::Desk,
    json::{EcashTxJson, PaymentChangeJson, PaymentJson, ProofJson},
};
use crate::{
    error::Outcome,
    output::{Output, facts, table},
    request::{PAGE_DEFAULT, bad_cursor, page_limit},
};

const QUOTES: [EntityKind; 4] = [
    EntityKind::CashuSendQuote,
    EntityKind::CashuReceiveQuote,
    EntityKind::SparkSendQuote,
    EntityKind::SparkReceiveQuote,
];
const SWAPS: [EntityKind; 2] = [EntityKind::CashuSendSwap, EntityKind::CashuReceiveSwap];

/// Which page.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Lines on the page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT, value_name = "N")]
    limit: u32,
    /// Go on after the `next` of the page before
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl ListArgs {
    /// The newest of what comes: older than this.
    fn before(&self) -> anyhow::Result<Option<(i64, String)>> {
        let read = |cursor: &String| {
            let (at, id) = cursor.split_once('-').ok_or_else(bad_cursor)?;
            let at: i64 = at.parse().map_err(|_| bad_cursor())?;
            Ok::<_, anyhow::Error>((at, id.to_owned()))
        };
        self.after.as_ref().map(read).transpose()
    }
}

pub(super) fn print_quotes(
    desk: &Desk,
    args: &ListArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_payments(desk, &QUOTES, "quotes", args, output)
}

pub(super) fn print_swaps(
    desk: &Desk,
    args: &ListArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_payments(desk, &SWAPS, "swaps", args, output)
}

fn print_payments(
    desk: &Desk,
    kinds: &[EntityKind],
    name: &str,
    args: &ListArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let (limit, before) = (page_limit(Some(args.limit))?, args.before()?);
    let mut found: Vec<Entity> = Vec::new();
    for kind in kinds {
        found.extend(desk.executor.store.entities(*kind, before.clone(), limit)?);
    }
    found.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let is_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| is_more);
    let next = next.map(|last| format!("{}-{}", last.created_at, last.id));
    let shown: Vec<_> = found.iter().map(PaymentJson::new).collect();
    output.answer(&json!({ name: shown, "next": next }), || {
        let rows = shown.iter().map(|payment| {
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
        format!("{listed}{}", next_page(next.as_ref()))
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
    /// Lines on the page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT, value_name = "N")]
    limit: u32,
    /// Go on after the `next` of the page before
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// States of a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ProofStateName {
    /// Free to spend
    Unspent,
    /// Held by a payment
    Reserved,
    /// Gone
    Spent,
}

impl From<ProofStateName> for ProofState {
    fn from(state: ProofStateName) -> Self {
        match state {
            ProofStateName::Unspent => Self::Unspent,
            ProofStateName::Reserved => Self::Reserved,
            ProofStateName::Spent => Self::Spent,
        }
    }
}

pub(super) fn print_proofs(
    desk: &Desk,
    args: &ProofsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let limit = page_limit(Some(args.limit))?;
    let account = desk.executor.find_account(args.account.as_deref())?;
    let (state, after) = (args.state.into(), args.after.as_deref());
    let found = desk.executor.store.proofs(&account.id, state, after, limit)?;
    let next = found.last().filter(|_| found.len() == limit as usize);
    let next = next.map(|last| last.y.clone());
    let shown: Vec<_> = found.iter().map(ProofJson::new).collect();
    output.answer(&json!({ "proofs": shown, "next": next }), || {
        let rows = shown.iter().map(|proof| {
            let held = proof.held_by.clone().unwrap_or_default();
            [proof.amount.clone(), proof.keyset.clone(), proof.y.clone(), held]
        });
        let listed = table(["amount", "keyset", "y", "held by"], rows);
        format!("{listed}{}", next_page(next.as_ref()))
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_txs(
    desk: &Desk,
    args: &ListArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let limit = page_limit(Some(args.limit))?;
    let found = desk.executor.store.transactions(args.before()?, limit)?;
    let next = found.last().filter(|_| found.len() == limit as usize);
    let next = next.map(|last| format!("{}-{}", last.created_at, last.id));
    let shown: Vec<_> = found.iter().map(EcashTxJson::new).collect();
    output.answer(&json!({ "transactions": shown, "next": next }), || {
        let rows = shown.iter().map(|tx| {
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
        format!("{listed}{}", next_page(next.as_ref()))
    })?;
    Ok(Outcome::Done)
}

/// Which payment.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Its id
    id: String,
}

/// A payment with its journal.
#[derive(Serialize)]
struct ShownPayment {
    #[serde(flatten)]
    payment: PaymentJson,
    journal: Vec<PaymentChangeJson>,
}

pub(super) fn print_show(
    desk: &Desk,
    args: &ShowArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let payment = PaymentJson::new(&desk.executor.store.entity(&args.id)?);
    let journal = desk.executor.store.journal_of(&args.id)?;
    let journal = journal.iter().map(PaymentChangeJson::new).collect();
    let shown = ShownPayment { payment, journal };
    output.answer(&shown, || {
        let payment = &shown.payment;
        let head = facts(&[
            ("payment", payment.id.clone()),
            ("kind", payment.kind.to_owned()),
            ("state", payment.state.clone()),
            ("transaction", payment.transaction_state.clone()),
            ("amount", payment.amount.clone()),
        ]);
        let rows = shown.journal.iter().map(|line| {
            let from = line.from.clone().unwrap_or_default();
            let note = line.note.clone().unwrap_or_default();
            [line.at.text(), line.event.clone(), from, line.to.clone(), note]
        });
        format!("{head}\n{}", table(["when", "what", "from", "to", "why"], rows))
    })?;
    Ok(Outcome::Done)
}
