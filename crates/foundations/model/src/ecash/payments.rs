//! Machines of what goes out: Lightning by a melt, a token, Lightning through Spark.

use super::{
    entity::{EntityEvent as On, EntityKind, EntityState as S, Variant},
    machine::{EntityEffect as Do, Machine, Rule, Then, When, Why},
    transaction::TransactionEvent as Tx,
};

const fn rule(from: S, on: On, when: When, then: Then) -> Rule {
    Rule { from, on, when, then }
}

const SAME: Then = Then::Same;
const PAID_WITH_CHANGE: &[Do] =
    &[Do::SpendReserved, Do::StoreUnspent, Do::Transaction(Tx::Complete)];
const GIVEN_UP: &[Do] = &[Do::ReleaseReserved, Do::Transaction(Tx::Fail)];
/// The reserved proofs are gone by our own swap; what it made is ours.
const FENCED: &[Do] = &[Do::SpendReserved, Do::StoreUnspent, Do::Transaction(Tx::Fail)];
/// The mint took the proofs after all. What it gave back is ours.
const PAID_AFTER_ALL: &[Do] = &[Do::SpendProven, Do::StoreUnspent, Do::RaiseAlarm];

/// UNPAID → PENDING → PAID, or FAILED, or EXPIRED. PENDING never expires.
pub const CASHU_SEND_QUOTE: Machine = Machine {
    kind: EntityKind::CashuSendQuote,
    states: &[S::Unpaid, S::Pending, S::Paid, S::Failed, S::Expired],
    events: &[
        On::MarkMeltInitiated,
        On::MarkPending,
        On::Complete,
        On::Fail,
        On::Expire,
        On::TakeNewRange,
        On::TakeFenceRange,
        On::Fence,
        On::ProvePaid,
    ],
    rules: &[
        rule(S::Unpaid, On::MarkMeltInitiated, When::WithoutMelt, GO_MELT_UNPAID),
        rule(S::Unpaid, On::MarkMeltInitiated, When::Always, SAME),
        rule(S::Pending, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Paid, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Unpaid, On::MarkPending, When::Always, Then::Go(S::Pending, &[])),
        rule(S::Pending, On::MarkPending, When::Always, SAME),
        rule(S::Paid, On::MarkPending, When::Always, SAME),
        rule(S::Unpaid, On::Complete, When::Always, Then::Go(S::Paid, PAID_WITH_CHANGE)),
        rule(S::Pending, On::Complete, When::Always, Then::Go(S::Paid, PAID_WITH_CHANGE)),
        rule(S::Paid, On::Complete, When::Always, SAME),
        rule(S::Unpaid, On::Fail, When::Always, Then::Go(S::Failed, GIVEN_UP)),
        rule(S::Pending, On::Fail, When::Always, Then::Go(S::Failed, GIVEN_UP)),
        rule(S::Failed, On::Fail, When::Always, SAME),
        rule(S::Unpaid, On::Expire, When::PastExpiry, Then::Go(S::Expired, GIVEN_UP)),
        rule(S::Unpaid, On::Expire, When::Always, Then::Refuse(Why::NotExpired)),
        rule(S::Expired, On::Expire, When::Always, SAME),
        rule(S::Unpaid, On::TakeNewRange, When::Always, Then::Go(S::Unpaid, &[Do::TakeRange])),
        rule(S::Unpaid, On::TakeFenceRange, When::FenceTaken, SAME),
        rule(S::Unpaid, On::TakeFenceRange, When::Always, GO_FENCE_UNPAID),
        rule(S::Pending, On::TakeFenceRange, When::FenceTaken, SAME),
        rule(S::Pending, On::TakeFenceRange, When::Always, GO_FENCE_PENDING),
        rule(S::Unpaid, On::Fence, When::FenceTaken, Then::Go(S::Failed, FENCED)),
        rule(S::Pending, On::Fence, When::FenceTaken, Then::Go(S::Failed, FENCED)),
        rule(S::Failed, On::Fence, When::FenceTaken, SAME),
        rule(S::Paid, On::ProvePaid, When::Always, SAME),
        rule(S::Failed, On::ProvePaid, When::Alarmed, SAME),
        rule(S::Failed, On::ProvePaid, When::Always, Then::Go(S::Failed, PAID_AFTER_ALL)),
        rule(S::Expired, On::ProvePaid, When::Alarmed, SAME),
        rule(S::Expired, On::ProvePaid, When::Always, Then::Go(S::Expired, PAID_AFTER_ALL)),
    ],
    terminal: &[S::Paid, S::Failed, S::Expired],
};

const GO_MELT_UNPAID: Then = Then::Go(S::Unpaid, &[Do::MarkMelt]);
const GO_FENCE_UNPAID: Then = Then::Go(S::Unpaid, &[Do::TakeFenceRange]);
const GO_FENCE_PENDING: Then = Then::Go(S::Pending, &[Do::TakeFenceRange]);

const TOKEN_MADE: &[Do] =
    &[Do::SpendReserved, Do::StoreReserved, Do::StoreUnspent, Do::Transaction(Tx::Proceed)];
const TOKEN_CLAIMED: &[Do] = &[Do::SpendReserved, Do::Transaction(Tx::Complete)];
const TOKEN_BACK: &[Do] = &[Do::SpendReserved, Do::Transaction(Tx::Reverse)];

/// DRAFT → PENDING → COMPLETED or REVERSED; FAILED only from DRAFT. Born PENDING when the sum fits.
pub const CASHU_SEND_SWAP: Machine = Machine {
    kind: EntityKind::CashuSendSwap,
    states: &[S::Draft, S::Pending, S::Completed, S::Failed, S::Reversed],
    events: &[
        On::Commit,
        On::Complete,
        On::Fail,
        On::ReversalWon,
        On::ReversalLost,
        On::TakeNewRange,
    ],
    rules: &[
        rule(S::Draft, On::Commit, When::Always, Then::Go(S::Pending, TOKEN_MADE)),
        rule(S::Pending, On::Commit, When::Is(Variant::NeedsSwap), SAME),
        rule(S::Pending, On::Complete, When::BeingReversed, Then::Refuse(Why::BeingReversed)),
        rule(S::Pending, On::Complete, When::Always, Then::Go(S::Completed, TOKEN_CLAIMED)),
        rule(S::Completed, On::Complete, When::Always, SAME),
        rule(S::Draft, On::Fail, When::Always, Then::Go(S::Failed, GIVEN_UP)),
        rule(S::Failed, On::Fail, When::Always, SAME),
        rule(S::Pending, On::ReversalWon, When::Always, Then::Go(S::Reversed, TOKEN_BACK)),
        rule(S::Reversed, On::ReversalWon, When::Always, SAME),
        rule(S::Pending, On::ReversalLost, When::Always, Then::Go(S::Completed, TOKEN_CLAIMED)),
        rule(S::Completed, On::ReversalLost, When::Always, SAME),
        rule(S::Draft, On::TakeNewRange, When::Always, Then::Go(S::Draft, &[Do::TakeRange])),
    ],
    terminal: &[S::Completed, S::Failed, S::Reversed],
};

const SPARK_PAID: &[Do] = &[Do::Transaction(Tx::Complete)];
const SPARK_LOST: &[Do] = &[Do::Transaction(Tx::Fail)];

/// UNPAID → PENDING → COMPLETED, or FAILED.
pub const SPARK_SEND_QUOTE: Machine = Machine {
    kind: EntityKind::SparkSendQuote,
    states: &[S::Unpaid, S::Pending, S::Completed, S::Failed],
    events: &[On::MarkPending, On::Complete, On::Fail, On::ProvePaid],
    rules: &[
        rule(S::Unpaid, On::MarkPending, When::WithSparkIds, GO_SPARK_PENDING),
        rule(S::Unpaid, On::MarkPending, When::Always, Then::Refuse(Why::NoSparkIds)),
        rule(S::Pending, On::MarkPending, When::Always, SAME),
        rule(S::Completed, On::MarkPending, When::Always, SAME),
        rule(S::Unpaid, On::Complete, When::WithSparkIds, Then::Go(S::Completed, SPARK_PAID)),
        rule(S::Unpaid, On::Complete, When::Always, Then::Refuse(Why::NoSparkIds)),
        rule(S::Pending, On::Complete, When::Always, Then::Go(S::Completed, SPARK_PAID)),
        rule(S::Completed, On::Complete, When::Always, SAME),
        rule(S::Unpaid, On::Fail, When::Always, Then::Go(S::Failed, SPARK_LOST)),
        rule(S::Pending, On::Fail, When::Always, Then::Go(S::Failed, SPARK_LOST)),
        rule(S::Failed, On::Fail, When::Always, SAME),
        rule(S::Completed, On::ProvePaid, When::Always, SAME),
        rule(S::Failed, On::ProvePaid, When::Alarmed, SAME),
        rule(S::Failed, On::ProvePaid, When::Always, Then::Go(S::Failed, &[Do::RaiseAlarm])),
    ],
    terminal: &[S::Completed, S::Failed],
};

const GO_SPARK_PENDING: Then = Then::Go(S::Pending, &[Do::Transaction(Tx::Proceed)]);
