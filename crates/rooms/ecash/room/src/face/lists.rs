//! Lists of payments, proofs and transactions, and one payment with its journal: what is read, as
//! routes and commands answer it.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use unspent_ecash::{
    EcashEntity, EcashError, EcashJournalLine, EcashStore, PageRequest, TimePlace, TransactionLine,
};
use unspent_model::{
    Micros,
    ecash::{EntityKind, EntityState, ProofState},
};
use unspent_server::request::{BadRequest, bad_cursor, cut};
use utoipa::ToSchema;

use super::json::{EcashTxJson, PaymentChangeJson, PaymentJson, ProofJson};

const QUOTES: [EntityKind; 4] = [
    EntityKind::CashuSendQuote,
    EntityKind::CashuReceiveQuote,
    EntityKind::SparkSendQuote,
    EntityKind::SparkReceiveQuote,
];
const SWAPS: [EntityKind; 2] = [EntityKind::CashuSendSwap, EntityKind::CashuReceiveSwap];

/// Payments by what they are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PaymentGroup {
    /// Invoices paid and to be paid
    Quotes,
    /// Tokens sent and claimed
    Swaps,
}

impl PaymentGroup {
    fn kinds(self) -> &'static [EntityKind] {
        match self {
            Self::Quotes => &QUOTES,
            Self::Swaps => &SWAPS,
        }
    }
}

/// States of a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProofStateName {
    /// Free to spend
    #[default]
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

/// A page of payments, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentsJson {
    pub(super) payments: Vec<PaymentJson>,
    pub(super) next: Option<String>,
}

/// A page of proofs, without their secrets.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProofsJson {
    pub(super) proofs: Vec<ProofJson>,
    pub(super) next: Option<String>,
}

/// A page of transactions, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct EcashTxsJson {
    pub(super) transactions: Vec<EcashTxJson>,
    pub(super) next: Option<String>,
}

/// A payment with everything that happened to it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ShownPaymentJson {
    #[serde(flatten)]
    pub(super) payment: PaymentJson,
    /// Why it failed; null where it didn't.
    pub(super) reason: Option<String>,
    pub(super) journal: Vec<PaymentChangeJson>,
}

/// Which payment.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Its id
    pub(super) id: String,
}

/// What comes after a page that is ordered by time: when, and which.
type Before = Option<TimePlace>;

/// Reads the `next` of a page before.
pub(super) fn before(after: Option<&str>) -> Result<Before, BadRequest> {
    let read = |cursor: &str| {
        let (at, id) = cursor.split_once('-').ok_or_else(bad_cursor)?;
        let at = Micros(at.parse().map_err(|_| bad_cursor())?);
        Ok(TimePlace { at, id: id.to_owned() })
    };
    after.map(read).transpose()
}

fn next(at: Micros, id: &str) -> String {
    format!("{at}-{id}")
}

/// Payments of one group, or of all; of one account, or of all.
pub(super) fn payments(
    store: &EcashStore,
    account: Option<&str>,
    group: Option<PaymentGroup>,
    before: &Before,
    limit: u32,
) -> Result<PaymentsJson, EcashError> {
    let groups = [PaymentGroup::Quotes, PaymentGroup::Swaps].into_iter();
    let kinds = groups.filter(|one| group.is_none_or(|wanted| wanted == *one));
    let mut found: Vec<EcashEntity> = Vec::new();
    for kind in kinds.flat_map(PaymentGroup::kinds) {
        // One more than is shown, so that we know whether there are more.
        let page = PageRequest { after: before.clone(), limit: limit + 1 };
        found.extend(match account {
            Some(account) => store.entities_of(account, *kind, page)?,
            None => store.entities(*kind, page)?,
        });
    }
    found.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let next = cut(&mut found, limit).map(|last| next(last.created_at, &last.id));
    Ok(PaymentsJson { payments: found.iter().map(PaymentJson::new).collect(), next })
}

/// Proofs of an account.
pub(super) fn proofs(
    store: &EcashStore,
    account: &str,
    state: ProofStateName,
    after: Option<&str>,
    limit: u32,
) -> Result<ProofsJson, EcashError> {
    let mut found = store.proofs(account, state.into(), PageRequest { after, limit: limit + 1 })?;
    let next = cut(&mut found, limit).map(|last| last.y.clone());
    Ok(ProofsJson { proofs: found.iter().map(ProofJson::new).collect(), next })
}

/// Transactions of one account, or of all.
pub(super) fn transactions(
    store: &EcashStore,
    account: Option<&str>,
    before: Before,
    limit: u32,
) -> Result<EcashTxsJson, EcashError> {
    let page = PageRequest { after: before, limit: limit + 1 };
    let mut found = match account {
        Some(account) => transactions_of(store, account, &page)?,
        None => store.transactions(page)?,
    };
    let next = cut(&mut found, limit).map(|last| next(last.created_at, &last.id));
    Ok(EcashTxsJson { transactions: found.iter().map(EcashTxJson::new).collect(), next })
}

/// The first of an account's transactions, whatever kind of payment they belong to.
fn transactions_of(
    store: &EcashStore,
    account: &str,
    page: &PageRequest<TimePlace>,
) -> Result<Vec<TransactionLine>, EcashError> {
    let mut found = Vec::new();
    for kind in QUOTES.iter().chain(&SWAPS) {
        found.extend(store.transactions_of(account, *kind, page.clone())?);
    }
    found.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok(found)
}

/// One payment.
pub(super) fn shown(store: &EcashStore, id: &str) -> Result<ShownPaymentJson, EcashError> {
    let entity = store.entity(id)?;
    let journal = store.journal_of(id)?;
    Ok(ShownPaymentJson {
        payment: PaymentJson::new(&entity),
        reason: reason(entity.state, &journal),
        journal: journal.iter().map(PaymentChangeJson::new).collect(),
    })
}

/// What was noted when a payment that has failed did so. Later lines may tell of other things: a
/// mint that says it has paid after all.
fn reason(state: EntityState, journal: &[EcashJournalLine]) -> Option<String> {
    let has_failed = matches!(state, EntityState::Failed | EntityState::Expired);
    let failed = journal.iter().rev().find(|line| {
        let has_moved = line.from.as_ref().is_some_and(|from| *from != line.to);
        has_moved && line.to == state.to_string()
    });
    failed.filter(|_| has_failed).and_then(|line| line.note.clone())
}

#[cfg(test)]
mod tests {
    use unspent_model::ecash::TransactionState;

    use super::*;

    fn line(from: &str, to: &str, note: Option<&str>) -> EcashJournalLine {
        EcashJournalLine {
            number: 1,
            entity_id: "e".into(),
            kind: EntityKind::CashuSendQuote,
            event: "fail".into(),
            from: Some(from.into()),
            to: to.into(),
            version: 1,
            account_id: "a".into(),
            transaction_state: TransactionState::Failed,
            at: Micros(1),
            note: note.map(str::to_owned),
        }
    }

    #[test]
    fn a_failed_payment_says_why_it_failed_and_no_other_has_a_reason() {
        let journal = [
            line("UNPAID", "UNPAID", Some("asked again")),
            line("UNPAID", "FAILED", Some("The mint did not pay.")),
            line("FAILED", "FAILED", Some("The mint has paid after all.")),
        ];
        let why = Some("The mint did not pay.".to_owned());
        assert_eq!(reason(EntityState::Failed, &journal), why);
        assert_eq!(reason(EntityState::Paid, &journal), None);
        assert_eq!(reason(EntityState::Expired, &journal), None);
    }
}
