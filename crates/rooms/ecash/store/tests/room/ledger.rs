//! A second opinion: what the room must hold after each event. It is worked out from the written
//! tables (from where, to where, and where it is a repetition) and shares no rule with the room,
//! only names.

use std::collections::BTreeMap;

use unspent_ecash::{PaymentEvent, ProofName, proof_name};
use unspent_model::{
    Micros,
    ecash::{
        EntityEvent as On, EntityKind as Kind, EntityState as S, EntityVariant, ProofState,
        TransactionState as T,
    },
};

/// An operation: of which kind, from where, to where (`None`: it stays), where it is a repetition.
type Operation = (Kind, On, &'static [S], Option<S>, &'static [S]);

const OPERATIONS: &[Operation] = &[
    (Kind::CashuSendQuote, On::MarkPending, &[S::Unpaid], Some(S::Pending), &[S::Pending, S::Paid]),
    (Kind::CashuSendQuote, On::Complete, &[S::Unpaid, S::Pending], Some(S::Paid), &[S::Paid]),
    (Kind::CashuSendQuote, On::CompleteOwing, &[S::Unpaid, S::Pending], Some(S::Paid), &[S::Paid]),
    (Kind::CashuSendQuote, On::TakeChange, &[S::Paid], None, &[]),
    (Kind::CashuSendQuote, On::MissChange, &[S::Paid], None, &[]),
    (Kind::CashuSendQuote, On::CloseChange, &[S::Paid], None, &[]),
    (Kind::CashuReceiveQuote, On::TakeChange, &[S::Unpaid, S::Paid, S::Completed], None, &[]),
    (Kind::CashuReceiveQuote, On::MissChange, &[S::Unpaid, S::Paid, S::Completed], None, &[]),
    (Kind::SparkReceiveQuote, On::TakeChange, &[S::Unpaid, S::Paid], None, &[]),
    (Kind::SparkReceiveQuote, On::MissChange, &[S::Unpaid, S::Paid], None, &[]),
    (Kind::CashuSendQuote, On::Fail, &[S::Unpaid, S::Pending], Some(S::Failed), &[S::Failed]),
    (Kind::CashuSendQuote, On::Expire, &[S::Unpaid], Some(S::Expired), &[S::Expired]),
    (Kind::CashuSendQuote, On::TakeNewRange, &[S::Unpaid], None, &[]),
    (Kind::CashuSendQuote, On::TakeFenceRange, &[S::Unpaid, S::Pending], None, &[]),
    (Kind::CashuSendQuote, On::Fence, &[S::Unpaid, S::Pending], Some(S::Failed), &[S::Failed]),
    (Kind::CashuSendQuote, On::ProvePaid, &[S::Failed, S::Expired], None, &[S::Paid]),
    (Kind::CashuSendSwap, On::Commit, &[S::Draft], Some(S::Pending), &[S::Pending]),
    (Kind::CashuSendSwap, On::Complete, &[S::Pending], Some(S::Completed), &[S::Completed]),
    (Kind::CashuSendSwap, On::Fail, &[S::Draft], Some(S::Failed), &[S::Failed]),
    (Kind::CashuSendSwap, On::ReversalWon, &[S::Pending], Some(S::Reversed), &[S::Reversed]),
    (Kind::CashuSendSwap, On::ReversalLost, &[S::Pending], Some(S::Completed), &[S::Completed]),
    (Kind::CashuSendSwap, On::TakeNewRange, &[S::Draft], None, &[]),
    (Kind::CashuSendSwap, On::ClaimedInPart, &[S::Pending], None, &[S::Completed, S::Reversed]),
    (Kind::CashuSendSwap, On::ReversalShort, &[S::Pending], None, &[]),
    (
        Kind::CashuReceiveQuote,
        On::ProcessPayment,
        &[S::Unpaid],
        Some(S::Paid),
        &[S::Paid, S::Completed],
    ),
    (
        Kind::CashuReceiveQuote,
        On::LatePayment,
        &[S::Expired, S::Failed],
        Some(S::Paid),
        &[S::Paid, S::Completed],
    ),
    (Kind::CashuReceiveQuote, On::Complete, &[S::Paid], Some(S::Completed), &[S::Completed]),
    (Kind::CashuReceiveQuote, On::Fail, &[S::Unpaid], Some(S::Failed), &[S::Failed]),
    (Kind::CashuReceiveQuote, On::FailClaimed, &[S::Paid], Some(S::Failed), &[S::Failed]),
    (Kind::CashuReceiveQuote, On::Expire, &[S::Unpaid], Some(S::Expired), &[S::Expired]),
    (Kind::CashuReceiveQuote, On::TakeNewRange, &[S::Paid], None, &[]),
    (Kind::CashuReceiveSwap, On::Complete, &[S::Pending], Some(S::Completed), &[S::Completed]),
    (Kind::CashuReceiveSwap, On::Fail, &[S::Pending], Some(S::Failed), &[S::Failed]),
    (Kind::CashuReceiveSwap, On::FailClaimed, &[S::Pending], Some(S::Failed), &[S::Failed]),
    (Kind::CashuReceiveSwap, On::TakeNewRange, &[S::Pending], None, &[]),
    (Kind::CashuReceiveSwap, On::TakeRest, &[S::Pending], None, &[]),
    (Kind::CashuReceiveSwap, On::StoreBatch, &[S::Pending], None, &[]),
    (Kind::CashuReceiveSwap, On::Cancel, &[S::Pending], None, &[S::Failed]),
    (
        Kind::SparkSendQuote,
        On::MarkPending,
        &[S::Unpaid],
        Some(S::Pending),
        &[S::Pending, S::Completed],
    ),
    (
        Kind::SparkSendQuote,
        On::Complete,
        &[S::Unpaid, S::Pending],
        Some(S::Completed),
        &[S::Completed],
    ),
    (Kind::SparkSendQuote, On::Fail, &[S::Unpaid, S::Pending], Some(S::Failed), &[S::Failed]),
    (Kind::SparkSendQuote, On::ProvePaid, &[S::Failed], None, &[S::Completed]),
    (Kind::SparkReceiveQuote, On::Complete, &[S::Unpaid], Some(S::Paid), &[S::Paid]),
    (Kind::SparkReceiveQuote, On::LatePayment, &[S::Expired, S::Failed], Some(S::Paid), &[S::Paid]),
    (Kind::SparkReceiveQuote, On::Fail, &[S::Unpaid], Some(S::Failed), &[S::Failed]),
    (Kind::SparkReceiveQuote, On::Expire, &[S::Unpaid], Some(S::Expired), &[S::Expired]),
];

/// What must come of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Change,
    Repeat,
    Refused,
    /// What the event brings is not worth what it must be, or is there already.
    Bad,
}

/// An entity.
#[derive(Clone, Debug)]
pub struct Thing {
    pub kind: Kind,
    pub variant: EntityVariant,
    pub state: S,
    pub version: u64,
    pub account: String,
    pub transaction: (T, u64),
    pub claim: String,
    pub expires_at: Option<Micros>,
    pub reverses: Option<String>,
    /// What it is to get: exactly, or for a send quote at most.
    pub get: u64,
    /// Value of the token it makes.
    pub send: u64,
    /// Where change of the token that pays goes, and whether it is still to come.
    pub source: Option<Option<String>>,
    pub change_open: bool,
    pub melt: bool,
    pub fence: bool,
    pub alarm: bool,
    pub spark_ids: bool,
    pub cancelled: bool,
    /// Proofs of the token that it claims which are out of the claim, and how many go at a time.
    pub out: Vec<ProofName>,
    pub batch: Option<usize>,
}

/// A proof.
#[derive(Clone, Debug)]
pub struct Piece {
    pub amount: u64,
    pub keyset: String,
    pub state: ProofState,
    version: u64,
    holder: Option<String>,
}

/// Keyset of an account: what spending costs, and the next output.
#[derive(Clone, Debug)]
pub struct Counter {
    pub account: String,
    pub fee_ppk: u64,
    pub next: u32,
}

#[derive(Default)]
pub struct Ledger {
    pub accounts: BTreeMap<String, u64>,
    pub keysets: BTreeMap<String, Counter>,
    pub proofs: BTreeMap<(String, ProofName), Piece>,
    pub things: BTreeMap<String, Thing>,
    /// Entities by the keys under which they were asked for.
    pub keys: BTreeMap<String, String>,
    /// Lines of the journal.
    pub lines: u64,
}

impl Ledger {
    pub fn add_keyset(&mut self, account: &str, id: &str, fee_ppk: u64) {
        let new = Counter { account: account.to_owned(), fee_ppk, next: 0 };
        self.keysets.entry(id.to_owned()).or_insert(new);
        self.accounts.entry(account.to_owned()).or_default();
    }

    /// Fee of spending proofs of these keysets.
    pub fn fee<'k>(&self, keysets: impl IntoIterator<Item = &'k String>) -> u64 {
        let shares: u64 = keysets.into_iter().map(|id| self.keysets[id].fee_ppk).sum();
        shares.div_ceil(1_000)
    }

    pub fn sum(&self, account: &str, state: ProofState) -> u64 {
        let of = |((whose, _), piece): &(&(String, ProofName), &Piece)| {
            whose == account && piece.state == state
        };
        self.proofs.iter().filter(of).map(|(_, piece)| piece.amount).sum()
    }

    /// Free proofs, less the fee of spending them all: the most that can be paid.
    pub fn at_hand(&self, account: &str) -> u64 {
        let free = self
            .proofs
            .iter()
            .filter(|((whose, _), piece)| whose == account && piece.state == ProofState::Unspent);
        let free: Vec<&Piece> = free.map(|(_, piece)| piece).collect();
        let sum: u64 = free.iter().map(|piece| piece.amount).sum();
        sum.saturating_sub(self.fee(free.iter().map(|piece| &piece.keyset)))
    }

    pub fn take(&mut self, keyset: &str, count: usize) -> u32 {
        let counter = self.keysets.get_mut(keyset).unwrap();
        counter.next += u32::try_from(count).unwrap();
        counter.next - u32::try_from(count).unwrap()
    }

    pub fn reserve(&mut self, account: &str, names: &[ProofName], by: &str) {
        for name in names {
            let piece = self.proofs.get_mut(&(account.to_owned(), *name)).unwrap();
            assert_eq!(piece.state, ProofState::Unspent, "{by} takes what isn't free");
            (piece.state, piece.holder) = (ProofState::Reserved, Some(by.to_owned()));
            piece.version += 1;
        }
    }

    /// What must come of an event.
    pub fn judge(&self, id: &str, event: &PaymentEvent, now: Micros) -> Outcome {
        let thing = &self.things[id];
        let judged = match event.what {
            On::MarkMeltInitiated => thing.judge_melt(),
            On::StoreSourceChange => thing.judge_source_change(),
            _ => self.judge_operation(id, event, now),
        };
        if judged != Outcome::Change {
            return judged;
        }
        let says_rest =
            !matches!(event.what, On::TakeRest | On::StoreBatch) || event.rest.is_some();
        if !says_rest {
            return Outcome::Bad;
        }
        if let (Some(partner), Some(told)) = (&thing.reverses, partner_event(event))
            && self.judge(partner, &told, now) == Outcome::Refused
        {
            return Outcome::Refused;
        }
        if self.is_good(id, event) { Outcome::Change } else { Outcome::Bad }
    }

    fn judge_operation(&self, id: &str, event: &PaymentEvent, now: Micros) -> Outcome {
        let thing = &self.things[id];
        let is_it = |line: &&Operation| (line.0, line.1) == (thing.kind, event.what);
        let Some((_, _, from, _, same)) = OPERATIONS.iter().find(is_it) else {
            return Outcome::Refused;
        };
        let may = thing.may(event, now);
        if from.contains(&thing.state) {
            if self.is_being_reversed(id, event.what) {
                return Outcome::Refused;
            }
            let is_done = (event.what == On::TakeFenceRange && thing.fence)
                || (matches!(event.what, On::ProvePaid | On::MissChange) && thing.alarm)
                || (event.what == On::CloseChange && !thing.change_open)
                || (event.what == On::Cancel && thing.cancelled)
                || self.is_known(id, event);
            return match (is_done, may) {
                (true, _) => Outcome::Repeat,
                (false, true) => Outcome::Change,
                (false, false) => Outcome::Refused,
            };
        }
        let is_exact = event.what == On::Commit && thing.variant == EntityVariant::Exact;
        let lacks_fence = event.what == On::Fence && !thing.fence;
        if same.contains(&thing.state) && !is_exact && !lacks_fence {
            Outcome::Repeat
        } else {
            Outcome::Refused
        }
    }

    fn is_being_reversed(&self, id: &str, on: On) -> bool {
        let takes = |thing: &Thing| thing.reverses.as_deref() == Some(id) && thing.is_open();
        let kind = self.things[id].kind;
        let asks = matches!(on, On::Complete | On::ClaimedInPart);
        kind == Kind::CashuSendSwap && asks && self.things.values().any(takes)
    }

    /// Whether an event about parts of a token tells nothing new.
    fn is_known(&self, id: &str, event: &PaymentEvent) -> bool {
        let thing = &self.things[id];
        match event.what {
            On::ClaimedInPart | On::ReversalShort => {
                let is_held = |name: &ProofName| {
                    let piece = self.proofs.get(&(thing.account.clone(), *name));
                    piece.is_some_and(|piece| {
                        piece.state == ProofState::Reserved && piece.holder.as_deref() == Some(id)
                    })
                };
                !event.spent.iter().any(is_held)
            }
            On::TakeRest | On::StoreBatch => event.rest.as_ref().is_some_and(|rest| {
                rest.batch == thing.batch && event.spent.iter().all(|name| thing.out.contains(name))
            }),
            _ => false,
        }
    }

    /// Whether what the event brings is worth what it must be, and new.
    fn is_good(&self, id: &str, event: &PaymentEvent) -> bool {
        let thing = &self.things[id];
        let worth = |proofs: &[unspent_ecash::FreshProof]| -> u64 {
            proofs.iter().map(|fresh| fresh.proof.amount.to_u64()).sum()
        };
        let (got, sent) = (worth(&event.proofs), worth(&event.to_send));
        let fits = match (thing.kind, event.what) {
            (Kind::CashuReceiveQuote | Kind::CashuReceiveSwap, On::Complete) => got == thing.get,
            (Kind::CashuSendSwap, On::Commit) => got == thing.get && sent == thing.send,
            (_, On::ProcessPayment | On::LatePayment | On::TakeNewRange)
                if thing.kind != Kind::SparkReceiveQuote =>
            {
                self.range_fits(thing, event)
            }
            (_, On::TakeFenceRange) => event.range.is_some(),
            (_, On::TakeRest) => worth_of_range(event) == worth_of_rest(event),
            (_, On::StoreBatch) => {
                got == thing.get && worth_of_range(event) == worth_of_rest(event)
            }
            _ => true,
        };
        let is_own = thing.kind == Kind::CashuSendQuote;
        let account = match event.what {
            On::StoreSourceChange | On::TakeChange if !is_own => {
                thing.source.clone().flatten().unwrap_or_default()
            }
            _ => thing.account.clone(),
        };
        let is_new = |fresh: &unspent_ecash::FreshProof| {
            let name = proof_name(&fresh.proof).unwrap();
            !self.proofs.contains_key(&(account.clone(), name))
        };
        fits && event.proofs.iter().chain(&event.to_send).all(is_new)
    }

    fn range_fits(&self, thing: &Thing, event: &PaymentEvent) -> bool {
        let Some(range) = &event.range else { return false };
        let sum: u64 = range.amounts.iter().sum();
        let of_token: u64 = range.amounts.iter().take(range.send_count).sum();
        match thing.kind {
            Kind::CashuSendQuote => sum == 0,
            Kind::CashuSendSwap => sum == thing.get + thing.send && of_token == thing.send,
            _ => sum == thing.get,
        }
    }

    /// Carries out what was judged to be a change.
    pub fn change(&mut self, id: &str, event: &PaymentEvent) {
        let thing = self.things[id].clone();
        let account = thing.account.clone();
        let touched = self.move_money(id, &thing, event);
        if let Some(account) = touched {
            *self.accounts.get_mut(&account).unwrap() += 1;
        }
        if let (Some(partner), Some(event)) = (&thing.reverses, partner_event(event))
            && self.judge(partner, &event, Micros(0)) == Outcome::Change
        {
            self.change(partner, &event);
        }
        let is_it = |line: &&Operation| (line.0, line.1) == (thing.kind, event.what);
        let to = OPERATIONS.iter().find(is_it).and_then(|line| line.3);
        let after = self.things.get_mut(id).unwrap();
        after.state = to.unwrap_or(thing.state);
        after.version += 1;
        after.note(event);
        self.lines += 1;
        assert_eq!(after.account, account);
    }

    /// Proofs and counters; the account whose they are, if any changed.
    fn move_money(&mut self, id: &str, thing: &Thing, event: &PaymentEvent) -> Option<String> {
        let own = Some(thing.account.clone());
        match (thing.kind, event.what) {
            (Kind::CashuSendQuote, On::TakeChange | On::CloseChange) => {}
            (Kind::CashuSendQuote, On::Complete | On::CompleteOwing | On::Fence)
            | (Kind::CashuSendSwap, On::Complete | On::ReversalWon | On::ReversalLost) => {
                self.settle(id, ProofState::Spent);
            }
            (Kind::CashuSendSwap, On::Commit) => {
                self.settle(id, ProofState::Spent);
                self.add(&thing.account, &event.to_send, Some(id));
            }
            (Kind::CashuSendQuote, On::Fail | On::Expire) | (Kind::CashuSendSwap, On::Fail) => {
                self.prove(&thing.account, &event.spent);
                self.settle(id, ProofState::Unspent);
            }
            (Kind::CashuSendQuote, On::ProvePaid) => self.prove(&thing.account, &event.spent),
            (Kind::CashuReceiveQuote | Kind::CashuReceiveSwap, On::Complete) => {}
            (Kind::CashuSendSwap, On::ClaimedInPart | On::ReversalShort) => {
                self.prove(&thing.account, &event.spent);
            }
            (Kind::CashuReceiveSwap, On::TakeRest | On::StoreBatch) => {
                let range = event.range.as_ref().unwrap();
                self.take(&range.keyset_id, range.amounts.len());
                if event.what == On::StoreBatch {
                    self.prove(&thing.account, &event.spent);
                }
            }
            (Kind::SparkSendQuote | Kind::SparkReceiveQuote, On::LatePayment) => return None,
            (_, On::ProcessPayment | On::LatePayment | On::TakeNewRange | On::TakeFenceRange) => {
                let range = event.range.as_ref().unwrap();
                self.take(&range.keyset_id, range.amounts.len());
                return own;
            }
            (_, On::StoreSourceChange | On::TakeChange) => {
                let account = thing.source.clone().flatten()?;
                self.add(&account, &event.proofs, None);
                return Some(account);
            }
            _ => return None,
        }
        self.add(&thing.account, &event.proofs, None);
        own
    }

    fn settle(&mut self, id: &str, to: ProofState) {
        let held = self.proofs.values_mut().filter(|piece| {
            piece.holder.as_deref() == Some(id) && piece.state == ProofState::Reserved
        });
        for piece in held {
            piece.state = to;
            piece.version += 1;
        }
    }

    fn prove(&mut self, account: &str, names: &[ProofName]) {
        for name in names {
            let Some(piece) = self.proofs.get_mut(&(account.to_owned(), *name)) else { continue };
            if piece.state != ProofState::Spent {
                piece.state = ProofState::Spent;
                piece.version += 1;
            }
        }
    }

    fn add(&mut self, account: &str, fresh: &[unspent_ecash::FreshProof], held_by: Option<&str>) {
        for new in fresh {
            let state = match (new.is_spent, held_by) {
                (true, _) => ProofState::Spent,
                (false, Some(_)) => ProofState::Reserved,
                (false, None) => ProofState::Unspent,
            };
            let piece = Piece {
                amount: new.proof.amount.to_u64(),
                keyset: new.proof.keyset_id.to_string(),
                state,
                version: 0,
                holder: held_by.map(str::to_owned),
            };
            let name = proof_name(&new.proof).unwrap();
            let old = self.proofs.insert((account.to_owned(), name), piece);
            assert!(old.is_none(), "a proof is stored twice");
        }
    }

    /// Everything, in the words of [`crate::fixture::StoreFixture::snapshot`].
    pub fn snapshot(&self) -> Vec<String> {
        let things = self.things.iter().map(|(id, thing)| {
            let (state, version, open) = (thing.state, thing.version, thing.is_open());
            let (tx, tx_version) = thing.transaction;
            let (melt, alarm) = (thing.melt, thing.alarm);
            format!("entity {id} {state} {version} {open} {melt} {alarm} {tx} {tx_version}")
        });
        let proofs = self.proofs.iter().map(|((account, name), piece)| {
            let Piece { amount, keyset, state, version, holder } = piece;
            let (name, holder) = (hex::encode(name), holder.as_deref().unwrap_or("nobody"));
            format!("proof {account} {name} {amount} {keyset} {state} {version} {holder}")
        });
        let accounts = self.accounts.iter().map(|(id, version)| format!("account {id} {version}"));
        let counters = self.keysets.iter().map(|(id, counter)| {
            let Counter { account, next, .. } = counter;
            format!("counter {account} {id} {next}")
        });
        let mut all: Vec<String> = things.chain(proofs).chain(accounts).chain(counters).collect();
        all.push(format!("journal {}", self.lines));
        all.sort();
        all
    }
}

/// What the send swap hears whose token is taken back.
fn partner_event(event: &PaymentEvent) -> Option<PaymentEvent> {
    let told = |what, spent: &[ProofName]| {
        Some(PaymentEvent { spent: spent.to_vec(), ..PaymentEvent::new(what) })
    };
    match event.what {
        On::Complete => told(On::ReversalWon, &[]),
        On::FailClaimed => told(On::ReversalLost, &[]),
        On::TakeRest => told(On::ReversalShort, &event.spent),
        _ => None,
    }
}

fn worth_of_range(event: &PaymentEvent) -> Option<u64> {
    Some(event.range.as_ref()?.amounts.iter().sum())
}

fn worth_of_rest(event: &PaymentEvent) -> Option<u64> {
    event.rest.as_ref().map(|rest| rest.input_amount - rest.fee)
}

impl Thing {
    pub fn is_open(&self) -> bool {
        let unresolved: &[S] = match self.kind {
            Kind::CashuSendQuote | Kind::SparkSendQuote => &[S::Unpaid, S::Pending],
            Kind::CashuSendSwap => &[S::Draft, S::Pending],
            Kind::CashuReceiveQuote => &[S::Unpaid, S::Paid],
            Kind::CashuReceiveSwap => &[S::Pending],
            Kind::SparkReceiveQuote => &[S::Unpaid],
        };
        let has_succeeded = matches!(self.state, S::Paid | S::Completed);
        unresolved.contains(&self.state) || (has_succeeded && self.change_open)
    }

    fn judge_melt(&self) -> Outcome {
        let can = match self.kind {
            Kind::CashuSendQuote => !matches!(self.state, S::Failed | S::Expired),
            Kind::CashuReceiveQuote | Kind::SparkReceiveQuote => self.source.is_some(),
            _ => false,
        };
        match (can, self.melt, self.state) {
            (true, true, _) => Outcome::Repeat,
            (true, false, S::Unpaid) => Outcome::Change,
            _ => Outcome::Refused,
        }
    }

    fn judge_source_change(&self) -> Outcome {
        let is_alive = matches!(self.state, S::Unpaid | S::Paid | S::Completed);
        match (self.source.is_some() && is_alive, self.change_open) {
            (true, true) => Outcome::Change,
            (true, false) => Outcome::Repeat,
            (false, _) => Outcome::Refused,
        }
    }

    /// What the operation asks for besides the state.
    fn may(&self, event: &PaymentEvent, now: Micros) -> bool {
        match (self.kind, event.what) {
            (_, On::Expire) => self.expires_at.is_some_and(|expiry| now >= expiry),
            (_, On::Fence) => self.fence,
            (_, On::TakeChange | On::MissChange | On::CloseChange) => self.change_open,
            (Kind::SparkSendQuote, On::MarkPending | On::Complete) => {
                self.spark_ids || event.spark.is_some()
            }
            _ => true,
        }
    }

    /// Flags, and the transaction that people see.
    fn note(&mut self, event: &PaymentEvent) {
        let (old, version) = self.transaction;
        let to = match (self.kind, event.what) {
            (Kind::CashuSendQuote, On::MarkPending) | (_, On::ProvePaid) => None,
            (Kind::SparkReceiveQuote, On::LatePayment) => Some(T::Completed),
            (_, On::MarkPending | On::Commit | On::ProcessPayment | On::LatePayment) => {
                Some(T::Pending)
            }
            (_, On::Complete | On::CompleteOwing | On::ReversalLost) => Some(T::Completed),
            (_, On::Fail | On::FailClaimed | On::Expire | On::Fence) => Some(T::Failed),
            (_, On::ReversalWon) => Some(T::Reversed),
            _ => None,
        };
        // A late payment through Spark is two moves: back under way, and over.
        let is_late = (self.kind, event.what) == (Kind::SparkReceiveQuote, On::LatePayment);
        let moves = u64::from(to.is_some()) + u64::from(is_late);
        self.transaction = (to.unwrap_or(old), version + moves);
        match event.what {
            On::MarkMeltInitiated => self.melt = true,
            On::TakeFenceRange => self.fence = true,
            On::ProvePaid | On::MissChange => self.alarm = true,
            On::CompleteOwing => self.change_open = true,
            On::StoreSourceChange | On::CloseChange => self.change_open = false,
            On::Cancel => self.cancelled = true,
            On::TakeRest | On::StoreBatch => {
                self.out.extend(&event.spent);
                self.batch = event.rest.as_ref().unwrap().batch;
                self.get = worth_of_rest(event).unwrap();
            }
            _ => {}
        }
        self.spark_ids |= self.kind == Kind::SparkSendQuote && event.spark.is_some();
    }
}
