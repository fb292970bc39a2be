//! What may happen to ecash, as tables and pure functions.
//!
//! An entity is a payment or a part of one. Its machine is data ([`MACHINES`]); [`step`] reads it.
//! Every pair of state and event is a line, or a typed refusal:
//!
//! | entity | lives through | ends as |
//! |---|---|---|
//! | CashuSendQuote | UNPAID, PENDING | PAID, FAILED, EXPIRED |
//! | CashuSendSwap | DRAFT, PENDING | COMPLETED, FAILED, REVERSED |
//! | CashuReceiveQuote | UNPAID, PAID | COMPLETED, FAILED, EXPIRED |
//! | CashuReceiveSwap | PENDING | COMPLETED, FAILED |
//! | SparkSendQuote | UNPAID, PENDING | COMPLETED, FAILED |
//! | SparkReceiveQuote | UNPAID | PAID, FAILED, EXPIRED |
//! | transaction | DRAFT, PENDING | COMPLETED, FAILED, REVERSED |
//! | proof | UNSPENT, RESERVED | SPENT |
//!
//! The one way out of an end: a late payment takes a receive quote from EXPIRED or FAILED to PAID,
//! for the mint holds money that is ours.
//!
//! | module | decides |
//! |---|---|
//! | [`entity`] | kinds, states, events, and their names |
//! | [`machine`] | what an event does to an entity |
//! | [`payments`], [`receipts`] | the lines themselves |
//! | [`transaction`], [`proof`] | the same for transactions and proofs |
//! | [`birth`] | how entities begin, and what their end means for the transaction |
//! | [`select`] | which proofs pay, fees, splits |
//! | [`departures`] | where we differ from the reference, and why |
//! | [`page`] | all tables as a document |

pub mod birth;
pub mod departures;
pub mod entity;
pub mod machine;
pub mod page;
pub mod payments;
pub mod proof;
pub mod receipts;
pub mod select;
pub mod transaction;

pub use birth::{BIRTHS, CounterUse, EntityBirth, transaction_at_end};
pub use departures::{DEPARTURES, ReferenceDeparture};
pub use entity::{
    ENTITY_EVENTS, ENTITY_KINDS, ENTITY_STATES, EntityEvent, EntityKind, EntityState,
    EntityVariant, UnknownName, VARIANTS,
};
pub use machine::{
    EntityEffect, EntityFacts, EntityMachine, EntityRefusal, EntityStep, MACHINES, RefusalReason,
    RuleCondition, RuleOutcome, TransitionRule, step,
};
pub use proof::{PROOF_EVENTS, PROOF_STATES, PROOF_TABLE, ProofEvent, ProofRefusal, ProofState};
pub use select::{
    NotEnough, ProofOffer, blank_outputs, input_fee, select_proofs, split_amount, with_receive_fee,
};
pub use transaction::{
    DIRECTIONS, PaymentDirection, TRANSACTION_KINDS, TRANSACTION_STATES, TRANSACTION_TABLE,
    TransactionEvent, TransactionKind, TransactionRefusal, TransactionState,
};

#[cfg(test)]
mod tests;
