//! Flows: which question comes next, and what its answer means.
//!
//! A flow does no I/O. It is started from what is stored and says what it wants ([`Next`]); whoever
//! runs it asks and hands the [`Answer`] back. A flow is forgotten at a crash: the next one starts
//! from what is stored, with a question that changes nothing or with the same request as before.
//!
//! | state | first question | then |
//! |---|---|---|
//! | send quote UNPAID, PENDING | the melt quote | PAID: complete with change. UNPAID: melt, or give up once inputs are UNSPENT |
//! | send quote FAILED, EXPIRED | the melt quote | PAID: its proofs are spent, alarm |
//! | send swap DRAFT | the swap | signed: commit. Unclear: restore, then decide |
//! | send swap PENDING | the token's proofs | all SPENT: complete |
//! | receive swap PENDING | the swap | signed: complete. Spent and nothing restored: claimed by another |
//! | receive quote UNPAID, EXPIRED, FAILED | the mint quote | PAID, ISSUED: take outputs. By a token: its melt |
//! | receive quote PAID | the minting | signed: complete. Issued before: restore |
//! | Spark | a payment with our key, its status | as it says |
//!
//! An error is never proof of failure: before anything is given up, the mint is asked about the
//! quote and about the inputs.

pub mod answer;
pub mod outputs;
mod receive_quote;
pub mod request;
mod send_quote;
mod source;
mod spark;
mod swap;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use cashu::{CheckStateRequest, MintUrl, ProofState, Proofs, PublicKey, State};

pub use answer::{Answer, FaultClass, MeltView, MintFault, SparkAnswer, SparkIds};
pub use outputs::KeyRing;
pub use request::{Request, SparkRequest};
use unspent_model::ecash::{EntityKind, EntityState};

use crate::{
    create::OutputKeyset,
    error::EcashError,
    event::{Event, FreshProof, ProofName, RangeAsk, proof_name},
    query::OpenEntity,
    store::Seed,
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
pub struct Surroundings {
    /// The store's seed.
    pub seed: Seed,
    /// The account's mint; `None` for Spark.
    pub mint: Option<Arc<MintKeys>>,
    /// The mint of a token that pays.
    pub source: Option<Arc<MintKeys>>,
    /// Microseconds.
    pub now: i64,
    /// Swap reserved proofs to ourselves before a send that was ever asked for is called FAILED.
    pub fence: bool,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mint = self.mint.as_ref().map(|mint| &mint.url);
        write!(f, "Surroundings({mint:?}, now {}, fence {})", self.now, self.fence)
    }
}

/// What a flow wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Ask this and hand the answer back.
    Ask(Request),
    /// Let this happen in the store; then start a new flow.
    Apply(Event),
    /// Start a new flow later.
    Wait(Wait),
    /// Nothing is expected any more.
    Done,
}

/// Until when to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
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
    desk: Desk,
    course: Course,
}

/// The entity and what surrounds it.
#[derive(Debug)]
struct Desk {
    open: OpenEntity,
    around: Surroundings,
}

#[derive(Debug)]
enum Course {
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
    pub fn start(open: OpenEntity, around: Surroundings) -> Result<(Self, Next), EcashError> {
        let mut flow = Self { desk: Desk { open, around }, course: Course::Over };
        let (kind, state) = (flow.desk.open.entity.kind, flow.desk.open.entity.state);
        let desk = &flow.desk;
        let (course, next) = match (kind, state) {
            (EntityKind::CashuSendQuote, EntityState::Paid) => (Course::Over, Next::Done),
            (EntityKind::CashuSendQuote, _) => send_quote::start(desk)?,
            (EntityKind::CashuSendSwap, EntityState::Draft)
            | (EntityKind::CashuReceiveSwap, EntityState::Pending) => swap::start(desk)?,
            (EntityKind::CashuSendSwap, EntityState::Pending) => {
                (Course::Token, desk.ask_states(&desk.open.held)?)
            }
            (EntityKind::CashuReceiveQuote, _) => receive_quote::start(desk)?,
            (EntityKind::SparkSendQuote | EntityKind::SparkReceiveQuote, _) => spark::start(desk)?,
            (EntityKind::CashuSendSwap | EntityKind::CashuReceiveSwap, _) => {
                (Course::Over, Next::Done)
            }
        };
        flow.course = course;
        Ok((flow, next))
    }

    /// Takes the answer to what was asked last.
    ///
    /// # Errors
    ///
    /// As for [`Flow::start`].
    pub fn answer(&mut self, answer: Answer) -> Result<Next, EcashError> {
        let course = std::mem::replace(&mut self.course, Course::Over);
        let (course, next) = match course {
            Course::SendQuote(stage) => send_quote::answer(&self.desk, stage, answer)?,
            Course::Swap(stage) => swap::answer(&self.desk, stage, answer)?,
            Course::Token => (Course::Over, token_states(answer)),
            Course::ReceiveQuote(stage) => receive_quote::answer(&self.desk, stage, answer)?,
            Course::Spark(stage) => spark::answer(&self.desk, stage, answer)?,
            Course::Over => (Course::Over, Next::Done),
        };
        self.course = course;
        Ok(next)
    }
}

type Turn = Result<(Course, Next), EcashError>;

/// The flow ends with this.
fn end(next: Next) -> Turn {
    Ok((Course::Over, next))
}

fn retry(why: impl Into<String>) -> Turn {
    end(Next::Wait(Wait::Retry(why.into())))
}

fn watch() -> Turn {
    end(Next::Wait(Wait::ForChange))
}

fn apply(event: Event) -> Turn {
    end(Next::Apply(event))
}

/// A token is claimed once every proof of it is spent.
fn token_states(answer: Answer) -> Next {
    let complete = Event::new(unspent_model::ecash::EntityEvent::Complete);
    match answer {
        Answer::States(states) if all_are(&states, State::Spent) => Next::Apply(complete),
        Answer::Fault(fault) => Next::Wait(Wait::Retry(fault.to_string())),
        Answer::Melt(_)
        | Answer::MintQuote(_)
        | Answer::Signatures(_)
        | Answer::Restored(_)
        | Answer::States(_)
        | Answer::Spark(_) => Next::Wait(Wait::ForChange),
    }
}

fn all_are(states: &[ProofState], wanted: State) -> bool {
    !states.is_empty() && states.iter().all(|found| found.state == wanted)
}

fn spent_of(states: &[ProofState]) -> Vec<ProofName> {
    let spent = states.iter().filter(|found| found.state == State::Spent);
    spent.map(|found| found.y.to_bytes()).collect()
}

impl Desk {
    fn mint(&self) -> Result<&MintKeys, EcashError> {
        let missing = || EcashError::argument("the keys of the account's mint are missing");
        self.around.mint.as_deref().ok_or_else(missing)
    }

    fn source(&self) -> Result<&MintKeys, EcashError> {
        let missing = || EcashError::argument("the keys of the token's mint are missing");
        self.around.source.as_deref().ok_or_else(missing)
    }

    fn is_expired(&self) -> bool {
        self.open.entity.expires_at.is_some_and(|expiry| self.around.now >= expiry)
    }

    fn ask_states(&self, proofs: &Proofs) -> Result<Next, EcashError> {
        let names: Vec<ProofName> = proofs.iter().map(proof_name).collect::<Result<_, _>>()?;
        self.ask_names(&names)
    }

    fn ask_names(&self, names: &[ProofName]) -> Result<Next, EcashError> {
        let mint = self.mint()?.url.clone();
        Ok(Next::Ask(Request::CheckState { mint, request: check(names)? }))
    }

    /// Outputs of the active keyset in place of a range that can't be signed; `None` while the
    /// range is on it.
    fn new_range(&self, old: &str, ask: RangeAsk) -> Option<RangeAsk> {
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
    let spent = spent_of(states);
    let fresh = proofs.into_iter().map(|proof| {
        let is_spent = spent.contains(&proof_name(&proof)?);
        Ok(FreshProof { proof, is_spent })
    });
    fresh.collect()
}
