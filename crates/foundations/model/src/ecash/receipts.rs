//! Machines of what comes in: an invoice or a token's melt, a token of the same mint, Spark.

use super::{
    entity::{EntityEvent, EntityKind, EntityState},
    machine::{EntityEffect, EntityMachine, rule},
    transaction::TransactionEvent,
};

const NEW_RANGE: &[EntityEffect] = &[EntityEffect::TakeRange];
const LOST: &[EntityEffect] = &[EntityEffect::Transaction(TransactionEvent::Fail)];
const ISSUE: &[EntityEffect] =
    &[EntityEffect::TakeRange, EntityEffect::Transaction(TransactionEvent::Proceed)];
/// The only way out of a terminal state: the mint has the money and it is ours.
const ISSUE_LATE: &[EntityEffect] =
    &[EntityEffect::TakeRange, EntityEffect::Transaction(TransactionEvent::Reopen)];
const STORED: &[EntityEffect] =
    &[EntityEffect::StoreUnspent, EntityEffect::Transaction(TransactionEvent::Complete)];
const MARKED: &[EntityEffect] = &[EntityEffect::MarkMelt];
const CHANGE: &[EntityEffect] = &[EntityEffect::StoreSourceChange];
const SOME_CHANGE: &[EntityEffect] = &[EntityEffect::AddSourceChange];
const ALARM: &[EntityEffect] = &[EntityEffect::RaiseAlarm];

/// UNPAID → PAID → COMPLETED, or FAILED, or EXPIRED. The counter is used at PAID, not before.
pub const CASHU_RECEIVE_QUOTE: EntityMachine = EntityMachine {
    kind: EntityKind::CashuReceiveQuote,
    states: &[
        EntityState::Unpaid,
        EntityState::Paid,
        EntityState::Completed,
        EntityState::Failed,
        EntityState::Expired,
    ],
    events: &[
        EntityEvent::MarkMeltInitiated,
        EntityEvent::ProcessPayment,
        EntityEvent::LatePayment,
        EntityEvent::Complete,
        EntityEvent::Fail,
        EntityEvent::FailClaimed,
        EntityEvent::Expire,
        EntityEvent::TakeNewRange,
        EntityEvent::StoreSourceChange,
        EntityEvent::TakeChange,
        EntityEvent::MissChange,
    ],
    rules: &[
        rule!(Unpaid, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Paid, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Completed, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Failed, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Expired, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Unpaid, MarkMeltInitiated, IsWithoutMelt(CashuToken) => go Unpaid, MARKED),
        rule!(Unpaid, MarkMeltInitiated, MeltMarked => same),
        rule!(Paid, MarkMeltInitiated, MeltMarked => same),
        rule!(Completed, MarkMeltInitiated, MeltMarked => same),
        rule!(Failed, MarkMeltInitiated, MeltMarked => same),
        rule!(Expired, MarkMeltInitiated, MeltMarked => same),
        rule!(Unpaid, ProcessPayment, Always => go Paid, ISSUE),
        rule!(Paid, ProcessPayment, Always => same),
        rule!(Completed, ProcessPayment, Always => same),
        rule!(Expired, LatePayment, Always => go Paid, ISSUE_LATE),
        rule!(Failed, LatePayment, Always => go Paid, ISSUE_LATE),
        rule!(Paid, LatePayment, Always => same),
        rule!(Completed, LatePayment, Always => same),
        rule!(Paid, Complete, Always => go Completed, STORED),
        rule!(Completed, Complete, Always => same),
        rule!(Unpaid, Fail, Always => go Failed, LOST),
        // The mint has issued it to another copy of this database; a scan finds what that one got.
        rule!(Paid, FailClaimed, Always => go Failed, LOST),
        rule!(Failed, FailClaimed, Always => same),
        rule!(Failed, Fail, Always => same),
        rule!(Unpaid, Expire, PastExpiry => go Expired, LOST),
        rule!(Unpaid, Expire, Always => refuse NotExpired),
        rule!(Expired, Expire, Always => same),
        rule!(Paid, TakeNewRange, Always => go Paid, NEW_RANGE),
        // The paying mint may be quicker than the one that issues: change can come before the
        // payment is seen, and long after.
        rule!(Unpaid, StoreSourceChange, ChangeOpen => go Unpaid, CHANGE),
        rule!(Paid, StoreSourceChange, ChangeOpen => go Paid, CHANGE),
        rule!(Completed, StoreSourceChange, ChangeOpen => go Completed, CHANGE),
        rule!(Unpaid, StoreSourceChange, Is(CashuToken) => same),
        rule!(Paid, StoreSourceChange, Is(CashuToken) => same),
        rule!(Completed, StoreSourceChange, Is(CashuToken) => same),
        rule!(Unpaid, TakeChange, ChangeOpen => go Unpaid, SOME_CHANGE),
        rule!(Unpaid, MissChange, Alarmed => same),
        rule!(Unpaid, MissChange, ChangeOpen => go Unpaid, ALARM),
        rule!(Paid, TakeChange, ChangeOpen => go Paid, SOME_CHANGE),
        rule!(Paid, MissChange, Alarmed => same),
        rule!(Paid, MissChange, ChangeOpen => go Paid, ALARM),
        rule!(Completed, TakeChange, ChangeOpen => go Completed, SOME_CHANGE),
        rule!(Completed, MissChange, Alarmed => same),
        rule!(Completed, MissChange, ChangeOpen => go Completed, ALARM),
    ],
    terminal: &[EntityState::Completed, EntityState::Failed, EntityState::Expired],
};

const WON: &[EntityEffect] = &[
    EntityEffect::StoreUnspent,
    EntityEffect::Transaction(TransactionEvent::Complete),
    EntityEffect::Partner(EntityEvent::ReversalWon),
];
// For the send it is a success that its token can't be taken back: the receiver has it.
const CLAIMED: &[EntityEffect] = &[
    EntityEffect::Transaction(TransactionEvent::Fail),
    EntityEffect::Partner(EntityEvent::ReversalLost),
];

const SHORT: &[EntityEffect] =
    &[EntityEffect::Partner(EntityEvent::ReversalShort), EntityEffect::TakeRange];
// Where the token was our own, its proofs are still held for whom it was made.
const BATCH: &[EntityEffect] =
    &[EntityEffect::StoreUnspent, EntityEffect::SpendProven, EntityEffect::TakeRange];
const GIVEN_UP: &[EntityEffect] = &[EntityEffect::MarkCancelled];

/// PENDING → COMPLETED or FAILED. One that takes a token back moves the token's own swap too.
pub const CASHU_RECEIVE_SWAP: EntityMachine = EntityMachine {
    kind: EntityKind::CashuReceiveSwap,
    states: &[EntityState::Pending, EntityState::Completed, EntityState::Failed],
    events: &[
        EntityEvent::Complete,
        EntityEvent::Fail,
        EntityEvent::FailClaimed,
        EntityEvent::TakeNewRange,
        EntityEvent::TakeRest,
        EntityEvent::StoreBatch,
        EntityEvent::Cancel,
    ],
    rules: &[
        rule!(Pending, Complete, Reverses => go Completed, WON),
        rule!(Pending, Complete, Always => go Completed, STORED),
        rule!(Completed, Complete, Always => same),
        rule!(Pending, FailClaimed, Reverses => go Failed, CLAIMED),
        rule!(Pending, FailClaimed, Always => go Failed, LOST),
        rule!(Failed, FailClaimed, Always => same),
        rule!(Pending, Fail, Always => go Failed, LOST),
        rule!(Failed, Fail, Always => same),
        rule!(Pending, TakeNewRange, Always => go Pending, NEW_RANGE),
        rule!(Pending, TakeRest, KnownAlready => same),
        rule!(Pending, TakeRest, Reverses => go Pending, SHORT),
        rule!(Pending, TakeRest, Always => go Pending, NEW_RANGE),
        rule!(Pending, StoreBatch, KnownAlready => same),
        rule!(Pending, StoreBatch, Always => go Pending, BATCH),
        rule!(Pending, Cancel, Cancelled => same),
        rule!(Pending, Cancel, Always => go Pending, GIVEN_UP),
        rule!(Failed, Cancel, Always => same),
    ],
    terminal: &[EntityState::Completed, EntityState::Failed],
};

const SPARK_PAID: &[EntityEffect] = &[EntityEffect::Transaction(TransactionEvent::Complete)];
const SPARK_PAID_LATE: &[EntityEffect] = &[
    EntityEffect::Transaction(TransactionEvent::Reopen),
    EntityEffect::Transaction(TransactionEvent::Complete),
];

/// UNPAID → PAID, or FAILED, or EXPIRED. PAID is the end: there are no proofs to store.
pub const SPARK_RECEIVE_QUOTE: EntityMachine = EntityMachine {
    kind: EntityKind::SparkReceiveQuote,
    states: &[EntityState::Unpaid, EntityState::Paid, EntityState::Failed, EntityState::Expired],
    events: &[
        EntityEvent::MarkMeltInitiated,
        EntityEvent::Complete,
        EntityEvent::LatePayment,
        EntityEvent::Fail,
        EntityEvent::Expire,
        EntityEvent::StoreSourceChange,
        EntityEvent::TakeChange,
        EntityEvent::MissChange,
    ],
    rules: &[
        rule!(Unpaid, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Paid, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Failed, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Expired, MarkMeltInitiated, Is(Lightning) => refuse WrongVariant),
        rule!(Unpaid, MarkMeltInitiated, IsWithoutMelt(CashuToken) => go Unpaid, MARKED),
        rule!(Unpaid, MarkMeltInitiated, MeltMarked => same),
        rule!(Paid, MarkMeltInitiated, MeltMarked => same),
        rule!(Failed, MarkMeltInitiated, MeltMarked => same),
        rule!(Expired, MarkMeltInitiated, MeltMarked => same),
        rule!(Unpaid, Complete, Always => go Paid, SPARK_PAID),
        rule!(Paid, Complete, Always => same),
        rule!(Expired, LatePayment, Always => go Paid, SPARK_PAID_LATE),
        rule!(Failed, LatePayment, Always => go Paid, SPARK_PAID_LATE),
        rule!(Paid, LatePayment, Always => same),
        rule!(Unpaid, Fail, Always => go Failed, LOST),
        rule!(Failed, Fail, Always => same),
        rule!(Unpaid, Expire, PastExpiry => go Expired, LOST),
        rule!(Unpaid, Expire, Always => refuse NotExpired),
        rule!(Expired, Expire, Always => same),
        rule!(Unpaid, StoreSourceChange, ChangeOpen => go Unpaid, CHANGE),
        rule!(Paid, StoreSourceChange, ChangeOpen => go Paid, CHANGE),
        rule!(Unpaid, StoreSourceChange, Is(CashuToken) => same),
        rule!(Paid, StoreSourceChange, Is(CashuToken) => same),
        rule!(Unpaid, TakeChange, ChangeOpen => go Unpaid, SOME_CHANGE),
        rule!(Unpaid, MissChange, Alarmed => same),
        rule!(Unpaid, MissChange, ChangeOpen => go Unpaid, ALARM),
        rule!(Paid, TakeChange, ChangeOpen => go Paid, SOME_CHANGE),
        rule!(Paid, MissChange, Alarmed => same),
        rule!(Paid, MissChange, ChangeOpen => go Paid, ALARM),
    ],
    terminal: &[EntityState::Paid, EntityState::Failed, EntityState::Expired],
};
