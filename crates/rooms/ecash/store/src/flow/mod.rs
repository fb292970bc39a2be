//! Flows: which question comes next, and what its answer means.
//!
//! A flow does no I/O. It is started from what is stored and says what it wants ([`FlowStep`]);
//! whoever runs it asks and hands the [`FlowAnswer`] back. A flow is forgotten at a crash: the next
//! one starts from what is stored, with a question that changes nothing or with the same request as
//! before.
//!
//! | state | first question | then |
//! |---|---|---|
//! | send quote UNPAID, PENDING | the melt quote | PAID, proven: complete. UNPAID: melt, or give up once inputs are UNSPENT |
//! | send quote PAID, change owed | the melt quote | the rest of the change, or its loss |
//! | send quote FAILED, EXPIRED | the melt quote | PAID: its proofs are spent, alarm |
//! | send swap DRAFT | the swap | signed: commit. Unclear: restore, then decide |
//! | send swap PENDING | the token's proofs | all SPENT: complete. Some: claimed in part |
//! | receive swap PENDING | the swap | signed: complete. Unsigned: by the proofs' states, the rest or the end |
//! | receive quote UNPAID, EXPIRED, FAILED | the mint quote | PAID, ISSUED: take outputs. By a token: its melt |
//! | receive quote PAID | the minting | signed: complete. Issued before: restore |
//! | Spark | a payment with our key, its status | as it says |
//!
//! An error is never proof of failure: before anything is given up, the mint is asked about the
//! quote and about the inputs.

pub mod answer;
mod change;
mod claim;
pub mod outputs;
mod receive_quote;
pub mod request;
mod sameness;
pub mod scan;
mod send_quote;
mod source;
mod spark;
mod swap;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use cashu::{CheckStateRequest, MintUrl, ProofState, Proofs, PublicKey, State};

pub use answer::{
    FaultClass, FlowAnswer, MeltView, MintFault, MintQuoteView, QuoteTerms, SparkAnswer, SparkIds,
};
pub use change::CHANGE_GRACE;
pub use outputs::KeyRing;
pub use request::{FlowRequest, SparkRequest};
pub use scan::{FoundProof, ScanOutputs};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, EntityKind, EntityState},
};

use crate::{
    create::OutputKeyset,
    error::EcashError,
    event::{FreshProof, PaymentEvent, ProofName, RangeAsk, proof_name},
    query::OpenEntity,
    store::WalletSeed,
};

/// What a flow knows of a mint.
#[derive(Clone, Debug)]
pub struct MintKeys {
    /// Where it is.
    pub url: MintUrl,
    /// All its keys of the account's unit.
    pub keys: KeyRing,
    /// The keyset that it signs with.
    pub active: OutputKeyset,
}

/// What a flow needs besides its entity. `Debug` shows no seed.
#[derive(Clone)]
pub struct FlowEnvironment {
    /// The store's seed.
    pub seed: WalletSeed,
    /// The account's mint; `None` for Spark.
    pub mint: Option<Arc<MintKeys>>,
    /// The mint of a token that pays.
    pub source: Option<Arc<MintKeys>>,
    /// The account's unit, which is the token's too.
    pub unit: String,
    /// When it is started.
    pub now: Micros,
    /// Swap reserved proofs to ourselves before a send that was ever asked for is called FAILED.
    pub fence: bool,
}

impl fmt::Debug for FlowEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mint = self.mint.as_ref().map(|mint| &mint.url);
        write!(f, "FlowEnvironment({mint:?}, now {}, fence {})", self.now, self.fence)
    }
}

/// What a flow wants.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowStep {
    /// Ask this and hand the answer back.
    Ask(FlowRequest),
    /// Let this happen in the store; then start a new flow.
    Apply(PaymentEvent),
    /// Start a new flow later.
    Wait(WaitReason),
    /// Nothing is expected any more.
    Done,
}

/// Until when to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Until the mint or Spark tells of a change, or the next poll.
    ForChange,
    /// A little, longer each time: something is unclear or under way.
    Retry(String),
    /// Until the mint's keysets are loaded anew.
    ForKeysets,
}

/// One entity's course.
#[derive(Debug)]
pub struct Flow {
    context: FlowContext,
    stage: FlowStage,
}

/// The entity and what surrounds it.
#[derive(Debug)]
struct FlowContext {
    open: OpenEntity,
    environment: FlowEnvironment,
}

#[derive(Debug)]
enum FlowStage {
    SendQuote(send_quote::PayStage),
    Swap(swap::SwapStage),
    Token,
    ReceiveQuote(receive_quote::ReceiveStage),
    Spark(spark::SparkStage),
    Over,
}

impl Flow {
    /// Starts from what is stored, with the first thing it wants.
    ///
    /// # Errors
    ///
    /// [`EcashError::Argument`] when the keys of a mint are missing, [`EcashError::Corrupt`] for
    /// details that can't be.
    pub fn start(
        open: OpenEntity,
        environment: FlowEnvironment,
    ) -> Result<(Self, FlowStep), EcashError> {
        let mut flow = Self { context: FlowContext { open, environment }, stage: FlowStage::Over };
        let (kind, state) = (flow.context.open.entity.kind, flow.context.open.entity.state);
        let context = &flow.context;
        let (stage, next) = match (kind, state) {
            (EntityKind::CashuSendQuote, _) => send_quote::start(context)?,
            (EntityKind::CashuSendSwap, EntityState::Draft)
            | (EntityKind::CashuReceiveSwap, EntityState::Pending) => swap::start(context)?,
            // The token is out of our hands: whoever holds it may claim it at any time, and only
            // the mint sees it.
            (EntityKind::CashuSendSwap, EntityState::Pending) => ask_token(context)?,
            (EntityKind::CashuReceiveQuote, _) => receive_quote::start(context)?,
            (EntityKind::SparkSendQuote | EntityKind::SparkReceiveQuote, _) => {
                spark::start(context)?
            }
            (EntityKind::CashuSendSwap | EntityKind::CashuReceiveSwap, _) => {
                (FlowStage::Over, FlowStep::Done)
            }
        };
        flow.stage = stage;
        Ok((flow, next))
    }

    /// Takes the answer to what was asked last.
    ///
    /// # Errors
    ///
    /// As for [`Flow::start`].
    pub fn answer(&mut self, answer: FlowAnswer) -> Result<FlowStep, EcashError> {
        // An error below leaves the flow over: whoever runs it begins again from what is stored.
        let stage = std::mem::replace(&mut self.stage, FlowStage::Over);
        if let Some(what) = sameness::stranger(&self.context, &answer) {
            let why = format!("the mint's answer is about another quote: its {what} differs");
            return Ok(self.context.past_strangers(why));
        }
        let (stage, next) = match stage {
            FlowStage::SendQuote(stage) => send_quote::answer(&self.context, stage, answer)?,
            FlowStage::Swap(stage) => swap::answer(&self.context, stage, answer)?,
            FlowStage::Token => (FlowStage::Over, token_states(&self.context, answer)),
            FlowStage::ReceiveQuote(stage) => receive_quote::answer(&self.context, stage, answer)?,
            FlowStage::Spark(stage) => spark::answer(&self.context, stage, answer)?,
            FlowStage::Over => (FlowStage::Over, FlowStep::Done),
        };
        self.stage = stage;
        Ok(next)
    }
}

type FlowTurn = Result<(FlowStage, FlowStep), EcashError>;

/// The flow ends with this.
fn end(next: FlowStep) -> FlowTurn {
    Ok((FlowStage::Over, next))
}

fn retry(why: impl Into<String>) -> FlowTurn {
    end(FlowStep::Wait(WaitReason::Retry(why.into())))
}

fn watch() -> FlowTurn {
    end(FlowStep::Wait(WaitReason::ForChange))
}

fn apply(event: PaymentEvent) -> FlowTurn {
    end(FlowStep::Apply(event))
}

/// So long a mint may keep saying what only a copy of this database, or a fault of the mint, can
/// explain before it is taken for the work of a copy.
const COPY_GRACE: std::time::Duration = std::time::Duration::from_secs(3_600);

/// The range was signed for another copy of this database. It is left to a scan; the payment gets
/// outputs that nobody has used.
fn leave_range(ask: RangeAsk) -> FlowTurn {
    let why = "The outputs were signed for another copy of this wallet.";
    let event = PaymentEvent::new(unspent_model::ecash::EntityEvent::TakeNewRange);
    apply(event.with_range(ask).because(why).showing_copy())
}

fn ask_token(context: &FlowContext) -> FlowTurn {
    // Each was called spent on its own, and nobody was left to say that it was the last.
    if context.open.held.is_empty() {
        return apply(PaymentEvent::new(EntityEvent::Complete));
    }
    Ok((FlowStage::Token, context.ask_states(&context.open.held)?))
}

/// A token is claimed once every proof of it is spent. Some are a figure, and the end of none.
fn token_states(context: &FlowContext, answer: FlowAnswer) -> FlowStep {
    match answer {
        FlowAnswer::States(states) if states.len() != context.open.held.len() => {
            FlowStep::Wait(WaitReason::Retry("the mint tells of other proofs than asked".into()))
        }
        FlowAnswer::States(states) if all_are(&states, State::Spent) => {
            FlowStep::Apply(PaymentEvent::new(EntityEvent::Complete))
        }
        FlowAnswer::States(states) if any_are(&states, State::Spent) => {
            let spent = spent_of(&states);
            let event = PaymentEvent::new(EntityEvent::ClaimedInPart);
            FlowStep::Apply(PaymentEvent { spent, ..event })
        }
        FlowAnswer::Fault(fault) => FlowStep::Wait(WaitReason::Retry(fault.to_string())),
        FlowAnswer::Melt(_)
        | FlowAnswer::MintQuote(_)
        | FlowAnswer::Signatures(_)
        | FlowAnswer::Restored(_)
        | FlowAnswer::States(_)
        | FlowAnswer::Spark(_) => FlowStep::Wait(WaitReason::ForChange),
    }
}

fn all_are(states: &[ProofState], wanted: State) -> bool {
    // Everything is true of no proofs: a mint that names none would prove whatever is asked.
    !states.is_empty() && states.iter().all(|found| found.state == wanted)
}

fn any_are(states: &[ProofState], wanted: State) -> bool {
    states.iter().any(|found| found.state == wanted)
}

fn is_under_way(found: &ProofState) -> bool {
    !matches!(found.state, State::Spent | State::Unspent)
}

fn spent_of(states: &[ProofState]) -> Vec<ProofName> {
    let spent = states.iter().filter(|found| found.state == State::Spent);
    spent.map(|found| found.y.to_bytes()).collect()
}

impl FlowContext {
    fn mint(&self) -> Result<&MintKeys, EcashError> {
        let missing = || EcashError::argument("the keys of the account's mint are missing");
        self.environment.mint.as_deref().ok_or_else(missing)
    }

    fn source(&self) -> Result<&MintKeys, EcashError> {
        let missing = || EcashError::argument("the keys of the token's mint are missing");
        self.environment.source.as_deref().ok_or_else(missing)
    }

    /// A quote that was told wrong as it began is never answered for. The mint has heard nothing of
    /// proofs of ours until the melt is marked, so that with its time such a payment is over.
    fn past_strangers(&self, why: String) -> FlowStep {
        let entity = &self.open.entity;
        let is_unheard = entity.kind == EntityKind::CashuSendQuote
            && entity.state == EntityState::Unpaid
            && !entity.melt_initiated;
        if is_unheard && self.is_expired() {
            let expire = PaymentEvent::new(unspent_model::ecash::EntityEvent::Expire);
            return FlowStep::Apply(expire.because(why));
        }
        FlowStep::Wait(WaitReason::Retry(why))
    }

    /// When it ends, in seconds since 1970.
    fn ends(&self) -> Option<i64> {
        self.open.entity.expires_at.map(|ends| ends.get() / 1_000_000)
    }

    fn is_expired(&self) -> bool {
        self.open.entity.expires_at.is_some_and(|expiry| self.environment.now >= expiry)
    }

    /// It has stood like this for longer than any fault of a mint should last.
    fn is_past_grace(&self) -> bool {
        self.environment.now >= self.open.entity.updated_at.later(COPY_GRACE)
    }

    fn ask_states(&self, proofs: &Proofs) -> Result<FlowStep, EcashError> {
        let names: Vec<ProofName> = proofs.iter().map(proof_name).collect::<Result<_, _>>()?;
        self.ask_names(&names)
    }

    fn ask_names(&self, names: &[ProofName]) -> Result<FlowStep, EcashError> {
        let mint = self.mint()?.url.clone();
        Ok(FlowStep::Ask(FlowRequest::CheckState { mint, request: check(names)? }))
    }

    /// Outputs of the active keyset in place of a range that can't be signed; `None` while the
    /// range is on it.
    fn new_range(&self, old: &str, ask: RangeAsk) -> Option<RangeAsk> {
        // Outputs of the same keyset would be refused in the same way, and burn counters each
        // time.
        (ask.keyset_id != old).then_some(ask)
    }
}

fn check(names: &[ProofName]) -> Result<CheckStateRequest, EcashError> {
    let bad = |_| EcashError::Corrupt("a proof's name is no point".into());
    let ys = names.iter().map(|name| PublicKey::from_slice(name).map_err(bad));
    Ok(CheckStateRequest { ys: ys.collect::<Result<_, _>>()? })
}

/// Proofs with the mint's view of them.
fn with_states(
    proofs: Vec<cashu::Proof>,
    states: &[ProofState],
) -> Result<Vec<FreshProof>, EcashError> {
    // A restore gives signatures back whatever became of them since: a copy of this database may
    // have spent the proofs.
    let spent = spent_of(states);
    let fresh = proofs.into_iter().map(|proof| {
        let is_spent = spent.contains(&proof_name(&proof)?);
        Ok(FreshProof { proof, is_spent })
    });
    fresh.collect()
}
