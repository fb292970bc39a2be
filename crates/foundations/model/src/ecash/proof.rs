//! What may happen to a proof.

use std::{fmt, str::FromStr};

use super::entity::{UnknownName, named};

/// Where a proof stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProofState {
    /// Money at hand.
    Unspent,
    /// Held for one entity.
    Reserved,
    /// Gone. There is no way back.
    Spent,
}

/// What may happen to one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProofEvent {
    /// An entity takes it.
    Reserve,
    /// The entity that holds it has spent it.
    Spend,
    /// The entity that holds it lets it go.
    Release,
    /// The mint says that it is spent, whoever holds it.
    ProveSpent,
}

/// Every state with its name in the database.
pub const PROOF_STATES: [(ProofState, &str); 3] = [
    (ProofState::Unspent, "UNSPENT"),
    (ProofState::Reserved, "RESERVED"),
    (ProofState::Spent, "SPENT"),
];

/// Every event with its name in documents.
pub const PROOF_EVENTS: [(ProofEvent, &str); 4] = [
    (ProofEvent::Reserve, "reserve"),
    (ProofEvent::Spend, "spend"),
    (ProofEvent::Release, "release"),
    (ProofEvent::ProveSpent, "prove_spent"),
];

named!(ProofState, PROOF_STATES, "state of a proof");
named!(ProofEvent, PROOF_EVENTS, "event of a proof");

/// Every legal move; repeats that must be harmless are rows too.
pub const PROOF_TABLE: &[(ProofState, ProofEvent, ProofState)] = &[
    (ProofState::Unspent, ProofEvent::Reserve, ProofState::Reserved),
    (ProofState::Reserved, ProofEvent::Spend, ProofState::Spent),
    (ProofState::Reserved, ProofEvent::Release, ProofState::Unspent),
    (ProofState::Unspent, ProofEvent::ProveSpent, ProofState::Spent),
    (ProofState::Reserved, ProofEvent::ProveSpent, ProofState::Spent),
    (ProofState::Spent, ProofEvent::ProveSpent, ProofState::Spent),
];

/// A move that no line of the table allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a {from} proof can't {on}; nothing was changed")]
pub struct ProofRefusal {
    /// Where it stands.
    pub from: ProofState,
    /// What was tried.
    pub on: ProofEvent,
}

impl ProofState {
    /// The state after an event.
    ///
    /// # Errors
    ///
    /// [`ProofRefusal`] when the table has no such line.
    pub fn after(self, on: ProofEvent) -> Result<Self, ProofRefusal> {
        let row = PROOF_TABLE.iter().find(|(from, event, _)| (*from, *event) == (self, on));
        row.map(|(_, _, to)| *to).ok_or(ProofRefusal { from: self, on })
    }
}
