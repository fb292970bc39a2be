//! The payment flow, explored exhaustively: the real flow and the real tables against a mint that
//! pays, hangs or refuses, with lost answers, requests that arrive late, events told twice, and a
//! crash between any two steps. A flow is forgotten at a crash, so that all there is to explore is
//! what is stored, what the mint knows, and what was answered since the flow began.

use std::str::FromStr as _;

use cashu::{
    Amount, BlindSignature, BlindedMessage, Id, Keys, MeltQuoteState, Proof, ProofState as View,
    PublicKey, RestoreResponse, SecretKey, dhke::sign_message, secret::Secret,
};
use stateright::{Checker as _, Model, Property};
use unspent_model::ecash::{
    EntityEffect, EntityEvent, EntityFacts, EntityKind, EntityState, EntityVariant,
    PaymentDirection, ProofEvent, ProofState, TransactionEvent, TransactionKind, TransactionState,
    step, transaction_at_end,
};

use super::*;
use crate::{
    details::{EntityDetails, OutputRange, SendQuoteDetails},
    entities::EcashEntity,
};

/// What a mint may answer, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Said {
    Quote(Stand),
    Input(Stand),
    /// What the fence asked for.
    Signed,
    /// Whether it was signed before.
    Restored(bool),
    NoAnswer,
    Refused,
    InputSpent,
    UnderWay,
}

/// Unpaid or unspent, pending, paid or spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stand {
    No,
    Pending,
    Yes,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    // Stored.
    state: EntityState,
    transaction: TransactionState,
    proof: ProofState,
    melt_initiated: bool,
    alarm: bool,
    fence_taken: bool,
    // At the mint.
    quote: Stand,
    payments: u8,
    /// A melt that was thought lost arrived and had an effect.
    was_late: bool,
    /// The mint has paid since its last answer.
    paid_unseen: bool,
    /// We gave up though the mint's last answer came after it had paid.
    was_careless: bool,
    /// The fence has spent the input.
    is_fenced: bool,
    /// Melts that were sent and have not arrived.
    on_the_way: u8,
    // Running.
    fence: bool,
    said: Vec<Said>,
    last_event: Option<EntityEvent>,
    is_past_expiry: bool,
    losses_left: u8,
    crashes_left: u8,
}

#[derive(Clone, Debug, PartialEq)]
enum Move {
    /// Asked and answered; a melt ends as given.
    Answered(Outcome),
    /// The mint does it, and nobody hears of it.
    AnswerLost(Outcome),
    /// It doesn't arrive, or not yet.
    RequestLost,
    /// A melt that was lost arrives.
    ArrivesLate(Outcome),
    /// What hung at the mint is decided.
    Decided(bool),
    Apply,
    /// The last event is told again.
    ToldAgain,
    Crash,
    /// A new look after a wait.
    Poll,
    Expire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Pays,
    Hangs,
    Refuses,
}

const OUTCOMES: [Outcome; 3] = [Outcome::Pays, Outcome::Hangs, Outcome::Refuses];

struct Payment {
    fence: bool,
    losses: u8,
    crashes: u8,
}

const KEYSET: &str = "009a1f293253e41e";

fn keyset() -> Id {
    Id::from_str(KEYSET).unwrap()
}

fn mint_key() -> SecretKey {
    SecretKey::from_slice(&[3; 32]).unwrap()
}

fn seed() -> WalletSeed {
    WalletSeed::new([1; 64])
}

fn fence_range() -> OutputRange {
    OutputRange { keyset_id: KEYSET.into(), start: 0, amounts: vec![64] }
}

fn proof() -> Proof {
    let point = "02194603ffa36356f4a56b7df9371fc3192472351453ec7398b8da8117e7c3e104";
    Proof::new(Amount::from(64), keyset(), Secret::new("a"), PublicKey::from_hex(point).unwrap())
}

impl World {
    fn open(&self) -> OpenEntity {
        let quote = SendQuoteDetails {
            quote_id: "q".into(),
            invoice: "lnbc1".into(),
            amount: 64,
            fee_reserve: 0,
            input_fee: 0,
            reserved: 64,
            range: None,
            fence: self.fence_taken.then(fence_range),
            preimage: None,
            spent: None,
            payment_hash: None,
            owed: None,
        };
        let entity = EcashEntity {
            id: "e".into(),
            kind: EntityKind::CashuSendQuote,
            variant: EntityVariant::Plain,
            state: self.state,
            version: 0,
            account_id: "a".into(),
            transaction_id: "t".into(),
            transaction_state: self.transaction,
            melt_initiated: self.melt_initiated,
            alarm: self.alarm,
            reverses: None,
            created_at: Micros(0),
            updated_at: Micros(0),
            expires_at: Some(Micros(10)),
            details: EntityDetails::SendQuote(quote),
            transaction_kind: TransactionKind::CashuLightning,
            direction: PaymentDirection::Send,
        };
        let held = (self.proof == ProofState::Reserved).then(proof).into_iter().collect();
        let is_free = self.proof == ProofState::Unspent;
        let let_go = is_free.then(|| proof_name(&proof()).unwrap()).into_iter().collect();
        OpenEntity { entity, held, let_go, token: Proofs::new(), fees: [].into() }
    }

    /// What the flow wants, after all that was said to it.
    fn next(&self) -> FlowStep {
        let active = OutputKeyset { keyset_id: KEYSET.into(), fee_ppk: 0, amounts: vec![64] };
        let keys = [(Amount::from(64), mint_key().public_key())].into();
        let keys = KeyRing::from([(keyset(), Keys::new(keys))]);
        let url = "http://127.0.0.1:1".parse().unwrap();
        let environment = FlowEnvironment {
            seed: seed(),
            mint: Some(Arc::new(MintKeys { url, keys, active })),
            source: None,
            unit: "sat".into(),
            now: Micros(if self.is_past_expiry { 10 } else { 1 }),
            fence: self.fence,
        };
        let (mut flow, mut next) = Flow::start(self.open(), environment).unwrap();
        for said in &self.said {
            next = flow.answer(said.answer()).unwrap();
        }
        next
    }

    fn is_over(&self) -> bool {
        EntityKind::CashuSendQuote.is_terminal(self.state)
    }

    /// The mint does what it is asked.
    fn serve(&mut self, request: &FlowRequest, outcome: Outcome) -> Said {
        match request {
            FlowRequest::MeltQuote { .. } => Said::Quote(self.quote),
            FlowRequest::CheckState { .. } if self.is_fenced => Said::Input(Stand::Yes),
            FlowRequest::CheckState { .. } => Said::Input(self.quote),
            FlowRequest::Melt { .. } => self.melt(outcome),
            FlowRequest::Swap { .. } => self.swap(),
            FlowRequest::Restore { .. } => Said::Restored(self.is_fenced),
            FlowRequest::MintQuote { .. } | FlowRequest::Mint { .. } | FlowRequest::Spark(_) => {
                panic!("a payment asks no {}", request.name())
            }
        }
    }

    fn swap(&mut self) -> Said {
        match self.quote {
            Stand::Pending => Said::UnderWay,
            Stand::Yes => Said::InputSpent,
            Stand::No if self.is_fenced => Said::InputSpent,
            Stand::No => {
                self.is_fenced = true;
                Said::Signed
            }
        }
    }

    fn melt(&mut self, outcome: Outcome) -> Said {
        if self.is_fenced {
            return Said::InputSpent;
        }
        match (self.quote, outcome) {
            (Stand::Pending, _) => Said::UnderWay,
            (Stand::Yes, _) | (Stand::No, Outcome::Refuses) => Said::Refused,
            (Stand::No, Outcome::Pays) => {
                self.pay();
                Said::Quote(Stand::Yes)
            }
            (Stand::No, Outcome::Hangs) => {
                self.quote = Stand::Pending;
                Said::Quote(Stand::Pending)
            }
        }
    }

    fn pay(&mut self) {
        self.quote = Stand::Yes;
        self.payments += 1;
        self.paid_unseen = true;
    }

    /// What the store does with an event. `None` when it refuses.
    fn apply(&mut self, event: EntityEvent, spent: bool) -> Option<()> {
        let facts = EntityFacts {
            is_past_expiry: self.is_past_expiry,
            melt_initiated: self.melt_initiated,
            alarmed: self.alarm,
            fence_taken: self.fence_taken,
            ..EntityFacts::of(EntityVariant::Plain)
        };
        let step = step(EntityKind::CashuSendQuote, self.state, event, &facts).ok()?;
        for effect in step.effects {
            match effect {
                EntityEffect::Transaction(on) => self.move_transaction(*on),
                EntityEffect::SpendReserved => self.move_proof(ProofEvent::Spend),
                EntityEffect::ReleaseReserved if spent => self.move_proof(ProofEvent::ProveSpent),
                EntityEffect::ReleaseReserved => self.move_proof(ProofEvent::Release),
                EntityEffect::SpendProven if spent => self.move_proof(ProofEvent::ProveSpent),
                EntityEffect::MarkMelt => self.melt_initiated = true,
                EntityEffect::RaiseAlarm => self.alarm = true,
                EntityEffect::TakeFenceRange => self.fence_taken = true,
                EntityEffect::SpendProven | EntityEffect::StoreUnspent => {}
                EntityEffect::StoreReserved
                | EntityEffect::TakeRange
                | EntityEffect::MarkCancelled
                | EntityEffect::StoreSourceChange
                | EntityEffect::AddSourceChange
                | EntityEffect::OweChange
                | EntityEffect::SettleChange
                | EntityEffect::Partner(_) => panic!("a payment does not {effect:?}"),
            }
        }
        self.state = step.next;
        Some(())
    }

    fn move_transaction(&mut self, on: TransactionEvent) {
        let (kind, way) = (TransactionKind::CashuLightning, PaymentDirection::Send);
        self.transaction = self.transaction.after(on, kind, way).unwrap();
    }

    fn move_proof(&mut self, on: ProofEvent) {
        self.proof = self.proof.after(on).unwrap();
    }

    /// The flow is forgotten.
    fn forget(mut self) -> Self {
        self.said.clear();
        self
    }
}

/// The output of the fence and its signature.
fn signed() -> (Vec<BlindedMessage>, Vec<BlindSignature>) {
    let outputs = outputs::RangeOutputs::of(&fence_range(), &seed()).unwrap().messages();
    let sign = |output: &BlindedMessage| {
        let c = sign_message(&mint_key(), &output.blinded_secret).unwrap();
        let amount = Amount::from(64);
        BlindSignature::new(amount, c, keyset(), &output.blinded_secret, &mint_key()).unwrap()
    };
    let signatures = outputs.iter().map(sign).collect();
    (outputs, signatures)
}

impl Said {
    fn answer(self) -> FlowAnswer {
        match self {
            Self::Quote(stand) => {
                let state = match stand {
                    Stand::No => MeltQuoteState::Unpaid,
                    Stand::Pending => MeltQuoteState::Pending,
                    Stand::Yes => MeltQuoteState::Paid,
                };
                let terms = QuoteTerms::of("q");
                FlowAnswer::Melt(MeltView { terms, state, preimage: None, change: None })
            }
            Self::Input(stand) => {
                let state = match stand {
                    Stand::No => State::Unspent,
                    Stand::Pending => State::Pending,
                    Stand::Yes => State::Spent,
                };
                FlowAnswer::States(vec![View::from((proof().y().unwrap(), state))])
            }
            Self::Signed => FlowAnswer::Signatures(signed().1),
            Self::Restored(true) => {
                let (outputs, signatures) = signed();
                FlowAnswer::Restored(RestoreResponse { outputs, signatures })
            }
            Self::Restored(false) => FlowAnswer::Restored(RestoreResponse {
                outputs: Vec::new(),
                signatures: Vec::new(),
            }),
            Self::InputSpent => FlowAnswer::Fault(MintFault::AlreadySpent),
            Self::NoAnswer => FlowAnswer::Fault(MintFault::Unknown("no answer".into())),
            Self::Refused => FlowAnswer::Fault(MintFault::PaymentFailed("no route".into())),
            Self::UnderWay => FlowAnswer::Fault(MintFault::QuotePending),
        }
    }
}

impl Model for Payment {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            state: EntityState::Unpaid,
            transaction: TransactionState::Pending,
            proof: ProofState::Reserved,
            melt_initiated: false,
            alarm: false,
            fence_taken: false,
            quote: Stand::No,
            payments: 0,
            was_late: false,
            paid_unseen: false,
            was_careless: false,
            is_fenced: false,
            on_the_way: 0,
            fence: self.fence,
            said: Vec::new(),
            last_event: None,
            is_past_expiry: false,
            losses_left: self.losses,
            crashes_left: self.crashes,
        }]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        match world.next() {
            FlowStep::Ask(request) => {
                let is_melt = matches!(request, FlowRequest::Melt { .. });
                let outcomes = if is_melt { &OUTCOMES[..] } else { &OUTCOMES[..1] };
                moves.extend(outcomes.iter().map(|outcome| Move::Answered(*outcome)));
                if world.losses_left > 0 {
                    moves.extend(outcomes.iter().map(|outcome| Move::AnswerLost(*outcome)));
                    moves.push(Move::RequestLost);
                }
            }
            FlowStep::Apply(_) => moves.push(Move::Apply),
            FlowStep::Wait(_) | FlowStep::Done => moves.push(Move::Poll),
        }
        if world.crashes_left > 0 {
            moves.push(Move::Crash);
        }
        if world.on_the_way > 0 {
            moves.extend(OUTCOMES.map(Move::ArrivesLate));
        }
        if world.quote == Stand::Pending {
            moves.extend([Move::Decided(true), Move::Decided(false)]);
        }
        if world.last_event.is_some() {
            moves.push(Move::ToldAgain);
        }
        if !world.is_past_expiry {
            moves.push(Move::Expire);
        }
    }

    fn next_state(&self, last: &World, action: Move) -> Option<World> {
        let (mut world, next) = (last.clone(), last.next());
        match (action, next) {
            (Move::Answered(outcome), FlowStep::Ask(request)) => {
                let said = world.serve(&request, outcome);
                world.paid_unseen = false;
                world.said.push(said);
            }
            (Move::AnswerLost(outcome), FlowStep::Ask(request)) => {
                world.losses_left -= 1;
                world.serve(&request, outcome);
                world.said.push(Said::NoAnswer);
            }
            (Move::RequestLost, FlowStep::Ask(request)) => {
                world.losses_left -= 1;
                world.on_the_way += u8::from(matches!(request, FlowRequest::Melt { .. }));
                world.said.push(Said::NoAnswer);
            }
            (Move::ArrivesLate(outcome), _) => {
                world.on_the_way -= 1;
                world.melt(outcome);
                world.was_late |= world.quote != last.quote;
            }
            (Move::Decided(true), _) => world.pay(),
            (Move::Decided(false), _) => world.quote = Stand::No,
            (Move::Apply, FlowStep::Apply(event)) => {
                let was_open = !world.is_over();
                world.apply(event.what, !event.spent.is_empty());
                let gave_up = was_open && world.is_over() && world.state != EntityState::Paid;
                world.was_careless |= gave_up && last.quote == Stand::Yes && !last.paid_unseen;
                world.last_event = Some(event.what);
                world = world.forget();
            }
            (Move::ToldAgain, _) => {
                let before = world.clone();
                world.apply(world.last_event?, false);
                assert_eq!(world, before, "an event told twice changed something");
                return None;
            }
            (Move::Crash, _) => {
                world.crashes_left -= 1;
                world = world.forget();
            }
            (Move::Poll, _) => world = world.forget(),
            (Move::Expire, _) => world.is_past_expiry = true,
            (_, _) => return None,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("money goes out at most once", |_, world: &World| world.payments <= 1),
            Property::always("PAID means that the mint has paid", |_, world: &World| {
                world.state != EntityState::Paid || world.quote == Stand::Yes
            }),
            Property::always("a spent proof is spent at the mint", |_, world: &World| {
                world.proof != ProofState::Spent || world.quote == Stand::Yes || world.is_fenced
            }),
            Property::always(
                "nothing is given up that the mint knew as paid",
                |_, world: &World| !world.was_careless,
            ),
            // Only the fence keeps such a melt from being paid; without it an alarm tells of it.
            Property::always("only a late melt pays what is given up", |_, world: &World| {
                let given_up = matches!(world.state, EntityState::Failed | EntityState::Expired);
                !given_up || world.quote != Stand::Yes || (world.was_late && !world.fence)
            }),
            Property::always("proofs are held as long as it is open", |_, world: &World| {
                world.is_over() != (world.proof == ProofState::Reserved)
            }),
            Property::always("entity and transaction agree", |_, world: &World| {
                let end = world.is_over().then(|| transaction_at_end(world.state)).flatten();
                end.unwrap_or(TransactionState::Pending) == world.transaction
            }),
            Property::always("an alarm takes the proofs out", |_, world: &World| {
                !world.alarm || world.proof == ProofState::Spent
            }),
            Property::sometimes("it is paid", |_, world: &World| world.state == EntityState::Paid),
            Property::sometimes("it fails", |_, world: &World| world.state == EntityState::Failed),
            Property::sometimes("it expires", |_, world: &World| {
                world.state == EntityState::Expired
            }),
            Property::sometimes("a melt arrives late", |_, world: &World| world.was_late),
            Property::sometimes("what was given up is paid, or fenced", |_, world: &World| {
                if world.fence { world.is_fenced } else { world.alarm }
            }),
        ]
    }
}

fn explore(payment: Payment) -> usize {
    let checker = payment.checker().spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

/// A change of flow or tables changes the number of states.
#[test]
fn every_course_of_a_payment_keeps_the_money() {
    assert_eq!(explore(Payment { fence: false, losses: 3, crashes: 2 }), 7_651);
}

/// The same with the fence: nothing that was given up is ever paid.
#[test]
fn every_course_of_a_fenced_payment_keeps_the_money() {
    assert_eq!(explore(Payment { fence: true, losses: 2, crashes: 2 }), 5_647);
}
