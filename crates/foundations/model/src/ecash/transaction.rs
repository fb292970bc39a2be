//! What people see of a payment. It never moves alone: an entity's step moves it.

use std::{fmt, str::FromStr};

use super::entity::{UnknownName, named};

/// Where a transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TransactionState {
    /// May never happen: nobody has paid or confirmed yet.
    Draft,
    /// Under way, or bound to be tried.
    Pending,
    /// Success.
    Completed,
    /// No success.
    Failed,
    /// Taken back before anybody claimed it.
    Reversed,
}

/// What an entity's step does to its transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TransactionEvent {
    /// It is under way now.
    Proceed,
    /// Success.
    Complete,
    /// No success.
    Fail,
    /// Taken back.
    Reverse,
    /// A late payment arrived.
    Reopen,
}

/// What a transaction is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TransactionKind {
    /// A token.
    CashuToken,
    /// Lightning through a mint.
    CashuLightning,
    /// Lightning through Spark.
    SparkLightning,
}

/// Which way the money goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PaymentDirection {
    /// Out.
    Send,
    /// In.
    Receive,
}

/// Every state with its name in the database.
pub const TRANSACTION_STATES: [(TransactionState, &str); 5] = [
    (TransactionState::Draft, "DRAFT"),
    (TransactionState::Pending, "PENDING"),
    (TransactionState::Completed, "COMPLETED"),
    (TransactionState::Failed, "FAILED"),
    (TransactionState::Reversed, "REVERSED"),
];

/// Every event with its name in documents.
pub const TRANSACTION_EVENTS: [(TransactionEvent, &str); 5] = [
    (TransactionEvent::Proceed, "proceed"),
    (TransactionEvent::Complete, "complete"),
    (TransactionEvent::Fail, "fail"),
    (TransactionEvent::Reverse, "reverse"),
    (TransactionEvent::Reopen, "reopen"),
];

/// Every kind with its name in the database.
pub const TRANSACTION_KINDS: [(TransactionKind, &str); 3] = [
    (TransactionKind::CashuToken, "CASHU_TOKEN"),
    (TransactionKind::CashuLightning, "CASHU_LIGHTNING"),
    (TransactionKind::SparkLightning, "SPARK_LIGHTNING"),
];

/// Both directions with their names in the database.
pub const DIRECTIONS: [(PaymentDirection, &str); 2] =
    [(PaymentDirection::Send, "SEND"), (PaymentDirection::Receive, "RECEIVE")];

named!(TransactionState, TRANSACTION_STATES, "state of a transaction");
named!(TransactionEvent, TRANSACTION_EVENTS, "event of a transaction");
named!(TransactionKind, TRANSACTION_KINDS, "kind of transaction");
named!(PaymentDirection, DIRECTIONS, "direction");

/// Every legal move. `Reverse` is for sent tokens alone.
pub const TRANSACTION_TABLE: &[(TransactionState, TransactionEvent, TransactionState)] = &[
    (TransactionState::Draft, TransactionEvent::Proceed, TransactionState::Pending),
    (TransactionState::Draft, TransactionEvent::Complete, TransactionState::Completed),
    (TransactionState::Draft, TransactionEvent::Fail, TransactionState::Failed),
    // A token is bound to be tried from its birth, so that making it changes nothing for people.
    (TransactionState::Pending, TransactionEvent::Proceed, TransactionState::Pending),
    (TransactionState::Pending, TransactionEvent::Complete, TransactionState::Completed),
    (TransactionState::Pending, TransactionEvent::Fail, TransactionState::Failed),
    (TransactionState::Pending, TransactionEvent::Reverse, TransactionState::Reversed),
    (TransactionState::Failed, TransactionEvent::Reopen, TransactionState::Pending),
];

/// A move that no line of the table allows: an entity and its transaction disagree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a {from} transaction can't {on}; nothing was changed")]
pub struct TransactionRefusal {
    /// Where it stands.
    pub from: TransactionState,
    /// What was tried.
    pub on: TransactionEvent,
}

impl TransactionState {
    /// The state after an event.
    ///
    /// # Errors
    ///
    /// [`TransactionRefusal`] when the table has no such line, or for taking back what isn't a
    /// token that was sent.
    pub fn after(
        self,
        on: TransactionEvent,
        kind: TransactionKind,
        direction: PaymentDirection,
    ) -> Result<Self, TransactionRefusal> {
        let refusal = TransactionRefusal { from: self, on };
        let is_sent_token =
            (kind, direction) == (TransactionKind::CashuToken, PaymentDirection::Send);
        if on == TransactionEvent::Reverse && !is_sent_token {
            return Err(refusal);
        }
        let row = TRANSACTION_TABLE.iter().find(|(from, event, _)| (*from, *event) == (self, on));
        row.map(|(_, _, to)| *to).ok_or(refusal)
    }

    /// Whether nothing more is expected.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Reversed)
    }
}
