//! Machines of what goes out: Lightning by a melt, a token, Lightning through Spark.

use super::{
    entity::{EntityEvent, EntityKind, EntityState},
    machine::{EntityEffect, EntityMachine, rule},
    transaction::TransactionEvent,
};

/// Only the state changes.
const NOTHING: &[EntityEffect] = &[];
const MARKED: &[EntityEffect] = &[EntityEffect::MarkMelt];
const NEW_RANGE: &[EntityEffect] = &[EntityEffect::TakeRange];
const FENCE_RANGE: &[EntityEffect] = &[EntityEffect::TakeFenceRange];
const ALARM: &[EntityEffect] = &[EntityEffect::RaiseAlarm];
const PAID_WITH_CHANGE: &[EntityEffect] = &[
    EntityEffect::SpendReserved,
    EntityEffect::StoreUnspent,
    EntityEffect::Transaction(TransactionEvent::Complete),
];
/// The money is out, whatever became of the change.
const PAID_OWING: &[EntityEffect] = &[
    EntityEffect::SpendReserved,
    EntityEffect::StoreUnspent,
    EntityEffect::OweChange,
    EntityEffect::Transaction(TransactionEvent::Complete),
];
const SOME_CHANGE: &[EntityEffect] = &[EntityEffect::StoreUnspent];
const LAST_CHANGE: &[EntityEffect] = &[EntityEffect::StoreUnspent, EntityEffect::SettleChange];
const GIVEN_UP: &[EntityEffect] =
    &[EntityEffect::ReleaseReserved, EntityEffect::Transaction(TransactionEvent::Fail)];
/// The reserved proofs are gone by our own swap; what it made is ours.
const FENCED: &[EntityEffect] = &[
    EntityEffect::SpendReserved,
    EntityEffect::StoreUnspent,
    EntityEffect::Transaction(TransactionEvent::Fail),
];
/// The mint took the proofs after all. What it gave back is ours.
const PAID_AFTER_ALL: &[EntityEffect] =
    &[EntityEffect::SpendProven, EntityEffect::StoreUnspent, EntityEffect::RaiseAlarm];

/// UNPAID → PENDING → PAID, or FAILED, or EXPIRED. PENDING never expires.
pub const CASHU_SEND_QUOTE: EntityMachine = EntityMachine {
    kind: EntityKind::CashuSendQuote,
    states: &[
        EntityState::Unpaid,
        EntityState::Pending,
        EntityState::Paid,
        EntityState::Failed,
        EntityState::Expired,
    ],
    events: &[
        EntityEvent::MarkMeltInitiated,
        EntityEvent::MarkPending,
        EntityEvent::Complete,
        EntityEvent::Fail,
        EntityEvent::Expire,
        EntityEvent::TakeNewRange,
        EntityEvent::TakeFenceRange,
        EntityEvent::Fence,
        EntityEvent::ProvePaid,
        EntityEvent::CompleteOwing,
        EntityEvent::TakeChange,
        EntityEvent::MissChange,
        EntityEvent::CloseChange,
    ],
    rules: &[
        rule!(Unpaid, MarkMeltInitiated, WithoutMelt => go Unpaid, MARKED),
        rule!(Unpaid, MarkMeltInitiated, Always => same),
        rule!(Pending, MarkMeltInitiated, MeltMarked => same),
        rule!(Paid, MarkMeltInitiated, MeltMarked => same),
        rule!(Unpaid, MarkPending, Always => go Pending, NOTHING),
        rule!(Pending, MarkPending, Always => same),
        // An answer that was on its way while another one completed the payment (D1).
        rule!(Paid, MarkPending, Always => same),
        rule!(Unpaid, Complete, Always => go Paid, PAID_WITH_CHANGE),
        rule!(Pending, Complete, Always => go Paid, PAID_WITH_CHANGE),
        rule!(Paid, Complete, Always => same),
        // People see PAID, which it is; only the entity stays open, for what may still come back.
        rule!(Unpaid, CompleteOwing, Always => go Paid, PAID_OWING),
        rule!(Pending, CompleteOwing, Always => go Paid, PAID_OWING),
        rule!(Paid, CompleteOwing, Always => same),
        rule!(Paid, TakeChange, ChangeOpen => go Paid, SOME_CHANGE),
        rule!(Paid, MissChange, Alarmed => same),
        rule!(Paid, MissChange, ChangeOpen => go Paid, ALARM),
        rule!(Paid, CloseChange, ChangeOpen => go Paid, LAST_CHANGE),
        rule!(Paid, CloseChange, Always => same),
        rule!(Unpaid, Fail, Always => go Failed, GIVEN_UP),
        rule!(Pending, Fail, Always => go Failed, GIVEN_UP),
        rule!(Failed, Fail, Always => same),
        // None for PENDING: what may be under way doesn't end by a clock of ours.
        rule!(Unpaid, Expire, PastExpiry => go Expired, GIVEN_UP),
        rule!(Unpaid, Expire, Always => refuse NotExpired),
        rule!(Expired, Expire, Always => same),
        rule!(Unpaid, TakeNewRange, Always => go Unpaid, NEW_RANGE),
        rule!(Unpaid, TakeFenceRange, FenceTaken => same),
        rule!(Unpaid, TakeFenceRange, Always => go Unpaid, FENCE_RANGE),
        rule!(Pending, TakeFenceRange, FenceTaken => same),
        rule!(Pending, TakeFenceRange, Always => go Pending, FENCE_RANGE),
        rule!(Unpaid, Fence, FenceTaken => go Failed, FENCED),
        rule!(Pending, Fence, FenceTaken => go Failed, FENCED),
        rule!(Failed, Fence, FenceTaken => same),
        rule!(Paid, ProvePaid, Always => same),
        rule!(Failed, ProvePaid, Alarmed => same),
        // It stays FAILED: people were told so, and may have paid again. The alarm tells them the
        // rest.
        rule!(Failed, ProvePaid, Always => go Failed, PAID_AFTER_ALL),
        rule!(Expired, ProvePaid, Alarmed => same),
        rule!(Expired, ProvePaid, Always => go Expired, PAID_AFTER_ALL),
    ],
    terminal: &[EntityState::Paid, EntityState::Failed, EntityState::Expired],
};

const TOKEN_MADE: &[EntityEffect] = &[
    EntityEffect::SpendReserved,
    EntityEffect::StoreReserved,
    EntityEffect::StoreUnspent,
    EntityEffect::Transaction(TransactionEvent::Proceed),
];
const TOKEN_CLAIMED: &[EntityEffect] =
    &[EntityEffect::SpendReserved, EntityEffect::Transaction(TransactionEvent::Complete)];
const TOKEN_BACK: &[EntityEffect] =
    &[EntityEffect::SpendReserved, EntityEffect::Transaction(TransactionEvent::Reverse)];

/// Each of these proofs is spent by the mint's own word; the others are still to be had.
const PART_CLAIMED: &[EntityEffect] = &[EntityEffect::SpendProven];

/// DRAFT → PENDING → COMPLETED or REVERSED; FAILED only from DRAFT. Born PENDING when the sum fits.
pub const CASHU_SEND_SWAP: EntityMachine = EntityMachine {
    kind: EntityKind::CashuSendSwap,
    states: &[
        EntityState::Draft,
        EntityState::Pending,
        EntityState::Completed,
        EntityState::Failed,
        EntityState::Reversed,
    ],
    events: &[
        EntityEvent::Commit,
        EntityEvent::Complete,
        EntityEvent::Fail,
        EntityEvent::ReversalWon,
        EntityEvent::ReversalLost,
        EntityEvent::TakeNewRange,
        EntityEvent::ClaimedInPart,
        EntityEvent::ReversalShort,
    ],
    rules: &[
        rule!(Draft, Commit, Always => go Pending, TOKEN_MADE),
        rule!(Pending, Commit, Is(NeedsSwap) => same),
        // Taking it back spends the same proofs: that they are spent doesn't say who has them.
        rule!(Pending, Complete, BeingReversed => refuse BeingReversed),
        rule!(Pending, Complete, Always => go Completed, TOKEN_CLAIMED),
        rule!(Completed, Complete, Always => same),
        rule!(Draft, Fail, Always => go Failed, GIVEN_UP),
        rule!(Failed, Fail, Always => same),
        rule!(Pending, ReversalWon, Always => go Reversed, TOKEN_BACK),
        rule!(Reversed, ReversalWon, Always => same),
        rule!(Pending, ReversalLost, Always => go Completed, TOKEN_CLAIMED),
        rule!(Completed, ReversalLost, Always => same),
        rule!(Draft, TakeNewRange, Always => go Draft, NEW_RANGE),
        rule!(Pending, ClaimedInPart, BeingReversed => refuse BeingReversed),
        rule!(Pending, ClaimedInPart, KnownAlready => same),
        // A figure beside PENDING and no state: what is left can be claimed, or taken back.
        rule!(Pending, ClaimedInPart, Always => go Pending, PART_CLAIMED),
        rule!(Completed, ClaimedInPart, Always => same),
        rule!(Reversed, ClaimedInPart, Always => same),
        rule!(Pending, ReversalShort, KnownAlready => same),
        rule!(Pending, ReversalShort, Always => go Pending, PART_CLAIMED),
    ],
    terminal: &[EntityState::Completed, EntityState::Failed, EntityState::Reversed],
};

const SPARK_PAID: &[EntityEffect] = &[EntityEffect::Transaction(TransactionEvent::Complete)];
const SPARK_SENDING: &[EntityEffect] = &[EntityEffect::Transaction(TransactionEvent::Proceed)];
const SPARK_LOST: &[EntityEffect] = &[EntityEffect::Transaction(TransactionEvent::Fail)];

/// UNPAID → PENDING → COMPLETED, or FAILED.
pub const SPARK_SEND_QUOTE: EntityMachine = EntityMachine {
    kind: EntityKind::SparkSendQuote,
    states: &[
        EntityState::Unpaid,
        EntityState::Pending,
        EntityState::Completed,
        EntityState::Failed,
    ],
    events: &[
        EntityEvent::MarkPending,
        EntityEvent::Complete,
        EntityEvent::Fail,
        EntityEvent::ProvePaid,
    ],
    rules: &[
        // Without Spark's ids nobody could ask for the payment any more (D8).
        rule!(Unpaid, MarkPending, WithSparkIds => go Pending, SPARK_SENDING),
        rule!(Unpaid, MarkPending, Always => refuse NoSparkIds),
        rule!(Pending, MarkPending, Always => same),
        rule!(Completed, MarkPending, Always => same),
        rule!(Unpaid, Complete, WithSparkIds => go Completed, SPARK_PAID),
        rule!(Unpaid, Complete, Always => refuse NoSparkIds),
        rule!(Pending, Complete, Always => go Completed, SPARK_PAID),
        rule!(Completed, Complete, Always => same),
        rule!(Unpaid, Fail, Always => go Failed, SPARK_LOST),
        rule!(Pending, Fail, Always => go Failed, SPARK_LOST),
        rule!(Failed, Fail, Always => same),
        rule!(Completed, ProvePaid, Always => same),
        rule!(Failed, ProvePaid, Alarmed => same),
        rule!(Failed, ProvePaid, Always => go Failed, ALARM),
    ],
    terminal: &[EntityState::Completed, EntityState::Failed],
};
