//! Answers of the ecash room. Amounts are decimal strings of the account's unit.

use serde::Serialize;
use unspent_ecash::{
    AccountKind, EcashAccount, EcashBalance, EcashEntity, EcashJournalLine, EntityDetails,
    ProofLine, ScanLine, TransactionLine, details::TokenSource,
};
use unspent_server::json::Time;
use utoipa::ToSchema;

use crate::{EcashFigures, work::payments::PaymentPrice};

/// An account.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountJson {
    pub(super) id: String,
    pub(super) name: String,
    kind: &'static str,
    pub(super) mint: Option<String>,
    pub(super) unit: String,
}

impl AccountJson {
    pub(super) fn new(account: &EcashAccount) -> Self {
        Self {
            id: account.id.clone(),
            name: account.name.clone(),
            kind: match account.kind {
                AccountKind::Cashu => "cashu",
                AccountKind::Spark => "spark",
            },
            mint: account.mint_url.as_ref().map(ToString::to_string),
            unit: account.unit.clone(),
        }
    }
}

/// An account's money.
#[derive(Serialize, ToSchema)]
pub(crate) struct EcashBalanceJson {
    account: String,
    pub(super) name: String,
    pub(super) unit: String,
    /// Free to spend.
    pub(super) unspent: String,
    /// Held by payments under way and tokens not yet claimed.
    pub(super) reserved: String,
}

impl EcashBalanceJson {
    pub(super) fn new(account: &EcashAccount, balance: &EcashBalance) -> Self {
        Self {
            account: account.id.clone(),
            name: account.name.clone(),
            unit: account.unit.clone(),
            unspent: balance.unspent.to_string(),
            reserved: balance.reserved.to_string(),
        }
    }
}

/// The room in figures.
#[derive(Serialize, ToSchema)]
pub(crate) struct EcashFiguresJson {
    balances: Vec<EcashBalanceJson>,
    payments: Vec<PaymentCountJson>,
    /// Something is still expected of so many
    open_payments: usize,
    /// Of so many it isn't clear what became of them; they are asked about again
    unclear_payments: usize,
    /// What mints had signed for another copy of the database, the newest scan first
    scans: Vec<ScanJson>,
    /// Keysets that are to be scanned for that
    scans_due: usize,
    sizes: Vec<EcashSizeJson>,
}

/// A scan for what another copy of the database has got.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScanJson {
    account: String,
    keyset: String,
    /// The first counter that was asked for, and the next
    from: u32,
    to: u32,
    /// Proofs that came into the account, and what they are worth
    proofs: u64,
    amount: String,
    started_at: Time,
    /// Null while it goes on
    ended_at: Option<Time>,
}

impl ScanJson {
    fn new(scan: &ScanLine) -> Self {
        Self {
            account: scan.account_id.clone(),
            keyset: scan.keyset_id.clone(),
            from: scan.first,
            to: scan.next,
            proofs: scan.proofs,
            amount: scan.amount.to_string(),
            started_at: Time(scan.started_at.get()),
            ended_at: scan.ended_at.map(|at| Time(at.get())),
        }
    }
}

/// How many payments of a kind are in a state.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentCountJson {
    kind: &'static str,
    state: &'static str,
    count: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct EcashSizeJson {
    name: &'static str,
    bytes: u64,
}

impl EcashFiguresJson {
    pub(super) fn new(figures: &EcashFigures) -> Self {
        let balances = figures.accounts.iter();
        let balances = balances.map(|(account, money)| EcashBalanceJson::new(account, money));
        let payments = figures.payments.iter().map(|(kind, state, count)| PaymentCountJson {
            kind: kind.name(),
            state: state.name(),
            count: *count,
        });
        Self {
            balances: balances.collect(),
            payments: payments.collect(),
            open_payments: figures.last.open,
            unclear_payments: figures.last.unclear.len(),
            scans: figures.scans.iter().map(ScanJson::new).collect(),
            scans_due: figures.scans_due,
            sizes: vec![EcashSizeJson { name: "database", bytes: figures.bytes }],
        }
    }
}

/// What paying an invoice would cost.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentPriceJson {
    account: String,
    unit: String,
    /// What the receiver gets.
    amount: String,
    /// What the payment may cost on top; what it doesn't need comes back.
    fee_reserve: String,
    /// What the mint takes for the proofs.
    input_fee: String,
    /// All of it together.
    most: String,
    /// A larger reserve is refused.
    max_fee: String,
}

impl PaymentPriceJson {
    pub(super) fn new(price: &PaymentPrice) -> Self {
        Self {
            account: price.account.id.clone(),
            unit: price.account.unit.clone(),
            amount: price.amount.to_string(),
            fee_reserve: price.fee_reserve.to_string(),
            input_fee: price.input_fee.to_string(),
            most: price.most().to_string(),
            max_fee: price.max_fee.to_string(),
        }
    }

    pub(super) fn rows(&self) -> [(&'static str, String); 5] {
        let in_unit = |amount: &String| format!("{amount} {}", self.unit);
        [
            ("amount", in_unit(&self.amount)),
            ("reserve for the payment's fee", in_unit(&self.fee_reserve)),
            ("fee for the proofs", in_unit(&self.input_fee)),
            ("most that it can cost", in_unit(&self.most)),
            ("limit of the reserve", in_unit(&self.max_fee)),
        ]
    }
}

/// A payment.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentJson {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) state: String,
    pub(super) transaction_state: String,
    account: String,
    /// What the receiver gets.
    pub(super) amount: String,
    pub(super) invoice: Option<String>,
    preimage: Option<String>,
    /// What a mint or Spark may take for the route, at most; null where nothing is routed.
    pub(super) fee_reserve: Option<String>,
    /// What it costs beside the amount: of a paid invoice, less the change that has come; null as
    /// long as that isn't known.
    pub(super) fee: Option<String>,
    /// Change that may still come back, at most; null where none is waited for.
    pub(super) change_owed: Option<String>,
    /// What the mint kept of change that could have come back; null where that isn't known.
    pub(super) change_kept: Option<String>,
    /// What the token is worth that is sent or claimed.
    pub(super) token_worth: Option<String>,
    /// How much of that others have claimed, by the mint's word on each proof.
    pub(super) claimed: Option<String>,
    /// Something happened that people must know; the journal says what.
    pub(super) alarm: bool,
    version: u64,
    pub(super) created_at: Time,
    updated_at: Time,
    expires_at: Option<Time>,
}

impl PaymentJson {
    pub(super) fn new(entity: &EcashEntity) -> Self {
        let (amount, invoice, preimage) = told(&entity.details);
        let owed = entity.details.owed_change();
        let open = owed.filter(|(owed, _)| !owed.is_closed);
        let open = open.and_then(|(owed, bounds)| bounds.most.checked_sub(owed.came));
        let (claimed, worth) = entity.token_figures().unzip();
        let (reserve, fee) = fees(&entity.details);
        Self {
            id: entity.id.clone(),
            kind: entity.kind.name(),
            state: entity.state.to_string(),
            transaction_state: entity.transaction_state.to_string(),
            account: entity.account_id.clone(),
            amount: amount.to_string(),
            invoice,
            preimage,
            fee_reserve: reserve.map(|sum| sum.to_string()),
            fee: fee.map(|sum| sum.to_string()),
            change_owed: open.map(|sum| sum.to_string()),
            change_kept: owed.and_then(|(owed, _)| owed.kept).map(|sum| sum.to_string()),
            token_worth: worth.map(|worth| worth.to_string()),
            claimed: claimed.map(|claimed| claimed.to_string()),
            alarm: entity.alarm,
            version: entity.version,
            created_at: Time(entity.created_at.get()),
            updated_at: Time(entity.updated_at.get()),
            expires_at: entity.expires_at.map(|end| Time(end.get())),
        }
    }
}

impl PaymentJson {
    /// How much of the token others have claimed, for people; `None` where that is nothing.
    pub(super) fn claimed_by_others(&self) -> Option<String> {
        let (claimed, worth) = (self.claimed.as_ref()?, self.token_worth.as_ref()?);
        (claimed != "0").then(|| format!("{claimed} of {worth} claimed"))
    }
}

type Told = (u64, Option<String>, Option<String>);

/// Amount, invoice and preimage.
fn told(details: &EntityDetails) -> Told {
    match details {
        EntityDetails::SendQuote(d) => {
            (d.amount, Some(d.invoice.clone()), d.proof().map(str::to_owned))
        }
        EntityDetails::SendSwap(d) => (d.amount, None, None),
        EntityDetails::ReceiveQuote(d) => (d.amount, Some(d.invoice.clone()), None),
        EntityDetails::ReceiveSwap(d) => (d.gain(), None, None),
        EntityDetails::SparkSend(d) => (d.amount, Some(d.invoice.clone()), d.preimage.clone()),
        EntityDetails::SparkReceive(d) => (d.amount, Some(d.invoice.clone()), d.preimage.clone()),
    }
}

/// What the route may cost, and what the payment has cost beside its amount.
fn fees(details: &EntityDetails) -> (Option<u64>, Option<u64>) {
    let reserve = |source: &TokenSource| source.fee_reserve;
    match details {
        EntityDetails::SendQuote(d) => {
            (Some(d.fee_reserve), d.spent.and_then(|spent| spent.checked_sub(d.amount)))
        }
        EntityDetails::SendSwap(d) => {
            let for_receiver = d.to_send.checked_sub(d.amount);
            (None, for_receiver.and_then(|fee| fee.checked_add(d.send_fee)))
        }
        EntityDetails::ReceiveQuote(d) => (d.source.as_ref().map(reserve), None),
        EntityDetails::ReceiveSwap(d) => (None, Some(d.fee)),
        EntityDetails::SparkSend(d) => (Some(d.max_fee), d.fee),
        EntityDetails::SparkReceive(d) => (d.source.as_ref().map(reserve), None),
    }
}

/// One change of a payment.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentChangeJson {
    number: u64,
    pub(super) at: Time,
    pub(super) event: String,
    pub(super) from: Option<String>,
    pub(super) to: String,
    version: u64,
    transaction_state: String,
    pub(super) note: Option<String>,
}

impl PaymentChangeJson {
    pub(super) fn new(line: &EcashJournalLine) -> Self {
        Self {
            number: line.number,
            at: Time(line.at.get()),
            event: line.event.clone(),
            from: line.from.clone(),
            to: line.to.clone(),
            version: line.version,
            transaction_state: line.transaction_state.to_string(),
            note: line.note.clone(),
        }
    }
}

/// A proof without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProofJson {
    pub(super) y: String,
    pub(super) keyset: String,
    pub(super) amount: String,
    state: String,
    pub(super) held_by: Option<String>,
}

impl ProofJson {
    pub(super) fn new(proof: &ProofLine) -> Self {
        Self {
            y: proof.y.clone(),
            keyset: proof.keyset_id.clone(),
            amount: proof.amount.to_string(),
            state: proof.state.to_string(),
            held_by: proof.held_by.clone(),
        }
    }
}

/// A transaction as people see it.
#[derive(Serialize, ToSchema)]
pub(crate) struct EcashTxJson {
    pub(super) id: String,
    payment: String,
    account: String,
    pub(super) kind: String,
    pub(super) direction: String,
    pub(super) state: String,
    pub(super) amount: String,
    pub(super) created_at: Time,
}

impl EcashTxJson {
    pub(super) fn new(line: &TransactionLine) -> Self {
        Self {
            id: line.id.clone(),
            payment: line.entity_id.clone(),
            account: line.account_id.clone(),
            kind: line.kind.to_string(),
            direction: line.direction.to_string(),
            state: line.state.to_string(),
            amount: line.amount.to_string(),
            created_at: Time(line.created_at.get()),
        }
    }
}
