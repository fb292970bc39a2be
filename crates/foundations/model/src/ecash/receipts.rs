//! Machines of what comes in: an invoice or a token's melt, a token of the same mint, Spark.

use super::{
    entity::{EntityEvent as On, EntityKind, EntityState as S, Variant},
    machine::{EntityEffect as Do, Machine, Rule, Then, When, Why},
    transaction::TransactionEvent as Tx,
};

const fn rule(from: S, on: On, when: When, then: Then) -> Rule {
    Rule { from, on, when, then }
}

const SAME: Then = Then::Same;
const WRONG_VARIANT: Then = Then::Refuse(Why::WrongVariant);
const TOKEN: Variant = Variant::CashuToken;
const LOST: &[Do] = &[Do::Transaction(Tx::Fail)];
const ISSUE: &[Do] = &[Do::TakeRange, Do::Transaction(Tx::Proceed)];
/// The only way out of a terminal state: the mint has the money and it is ours.
const ISSUE_LATE: &[Do] = &[Do::TakeRange, Do::Transaction(Tx::Reopen)];
const STORED: &[Do] = &[Do::StoreUnspent, Do::Transaction(Tx::Complete)];
const MELT: Then = Then::Go(S::Unpaid, &[Do::MarkMelt]);
const CHANGE: &[Do] = &[Do::StoreSourceChange];

/// UNPAID → PAID → COMPLETED, or FAILED, or EXPIRED. The counter is used at PAID, not before.
pub const CASHU_RECEIVE_QUOTE: Machine = Machine {
    kind: EntityKind::CashuReceiveQuote,
    states: &[S::Unpaid, S::Paid, S::Completed, S::Failed, S::Expired],
    events: &[
        On::MarkMeltInitiated,
        On::ProcessPayment,
        On::LatePayment,
        On::Complete,
        On::Fail,
        On::Expire,
        On::TakeNewRange,
        On::StoreSourceChange,
    ],
    rules: &[
        rule(S::Unpaid, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Paid, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Completed, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Failed, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Expired, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Unpaid, On::MarkMeltInitiated, When::IsWithoutMelt(TOKEN), MELT),
        rule(S::Unpaid, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Paid, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Completed, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Failed, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Expired, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Unpaid, On::ProcessPayment, When::Always, Then::Go(S::Paid, ISSUE)),
        rule(S::Paid, On::ProcessPayment, When::Always, SAME),
        rule(S::Completed, On::ProcessPayment, When::Always, SAME),
        rule(S::Expired, On::LatePayment, When::Always, Then::Go(S::Paid, ISSUE_LATE)),
        rule(S::Failed, On::LatePayment, When::Always, Then::Go(S::Paid, ISSUE_LATE)),
        rule(S::Paid, On::LatePayment, When::Always, SAME),
        rule(S::Completed, On::LatePayment, When::Always, SAME),
        rule(S::Paid, On::Complete, When::Always, Then::Go(S::Completed, STORED)),
        rule(S::Completed, On::Complete, When::Always, SAME),
        rule(S::Unpaid, On::Fail, When::Always, Then::Go(S::Failed, LOST)),
        rule(S::Failed, On::Fail, When::Always, SAME),
        rule(S::Unpaid, On::Expire, When::PastExpiry, Then::Go(S::Expired, LOST)),
        rule(S::Unpaid, On::Expire, When::Always, Then::Refuse(Why::NotExpired)),
        rule(S::Expired, On::Expire, When::Always, SAME),
        rule(S::Paid, On::TakeNewRange, When::Always, Then::Go(S::Paid, &[Do::TakeRange])),
        rule(S::Unpaid, On::StoreSourceChange, OPEN, Then::Go(S::Unpaid, CHANGE)),
        rule(S::Paid, On::StoreSourceChange, OPEN, Then::Go(S::Paid, CHANGE)),
        rule(S::Completed, On::StoreSourceChange, OPEN, Then::Go(S::Completed, CHANGE)),
        rule(S::Unpaid, On::StoreSourceChange, When::Is(TOKEN), SAME),
        rule(S::Paid, On::StoreSourceChange, When::Is(TOKEN), SAME),
        rule(S::Completed, On::StoreSourceChange, When::Is(TOKEN), SAME),
    ],
    terminal: &[S::Completed, S::Failed, S::Expired],
};

const OPEN: When = When::SourceChangeOpen;

const WON: &[Do] = &[Do::StoreUnspent, Do::Transaction(Tx::Complete), Do::Partner(On::ReversalWon)];
const CLAIMED: &[Do] = &[Do::Transaction(Tx::Fail), Do::Partner(On::ReversalLost)];

/// PENDING → COMPLETED or FAILED. One that takes a token back moves the token's own swap too.
pub const CASHU_RECEIVE_SWAP: Machine = Machine {
    kind: EntityKind::CashuReceiveSwap,
    states: &[S::Pending, S::Completed, S::Failed],
    events: &[On::Complete, On::Fail, On::FailClaimed, On::TakeNewRange],
    rules: &[
        rule(S::Pending, On::Complete, When::Reverses, Then::Go(S::Completed, WON)),
        rule(S::Pending, On::Complete, When::Always, Then::Go(S::Completed, STORED)),
        rule(S::Completed, On::Complete, When::Always, SAME),
        rule(S::Pending, On::FailClaimed, When::Reverses, Then::Go(S::Failed, CLAIMED)),
        rule(S::Pending, On::FailClaimed, When::Always, Then::Go(S::Failed, LOST)),
        rule(S::Failed, On::FailClaimed, When::Always, SAME),
        rule(S::Pending, On::Fail, When::Always, Then::Go(S::Failed, LOST)),
        rule(S::Failed, On::Fail, When::Always, SAME),
        rule(S::Pending, On::TakeNewRange, When::Always, Then::Go(S::Pending, &[Do::TakeRange])),
    ],
    terminal: &[S::Completed, S::Failed],
};

const SPARK_PAID: &[Do] = &[Do::Transaction(Tx::Complete)];
const SPARK_PAID_LATE: &[Do] = &[Do::Transaction(Tx::Reopen), Do::Transaction(Tx::Complete)];

/// UNPAID → PAID, or FAILED, or EXPIRED. PAID is the end: there are no proofs to store.
pub const SPARK_RECEIVE_QUOTE: Machine = Machine {
    kind: EntityKind::SparkReceiveQuote,
    states: &[S::Unpaid, S::Paid, S::Failed, S::Expired],
    events: &[
        On::MarkMeltInitiated,
        On::Complete,
        On::LatePayment,
        On::Fail,
        On::Expire,
        On::StoreSourceChange,
    ],
    rules: &[
        rule(S::Unpaid, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Paid, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Failed, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Expired, On::MarkMeltInitiated, When::Is(Variant::Lightning), WRONG_VARIANT),
        rule(S::Unpaid, On::MarkMeltInitiated, When::IsWithoutMelt(TOKEN), MELT),
        rule(S::Unpaid, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Paid, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Failed, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Expired, On::MarkMeltInitiated, When::MeltMarked, SAME),
        rule(S::Unpaid, On::Complete, When::Always, Then::Go(S::Paid, SPARK_PAID)),
        rule(S::Paid, On::Complete, When::Always, SAME),
        rule(S::Expired, On::LatePayment, When::Always, Then::Go(S::Paid, SPARK_PAID_LATE)),
        rule(S::Failed, On::LatePayment, When::Always, Then::Go(S::Paid, SPARK_PAID_LATE)),
        rule(S::Paid, On::LatePayment, When::Always, SAME),
        rule(S::Unpaid, On::Fail, When::Always, Then::Go(S::Failed, LOST)),
        rule(S::Failed, On::Fail, When::Always, SAME),
        rule(S::Unpaid, On::Expire, When::PastExpiry, Then::Go(S::Expired, LOST)),
        rule(S::Unpaid, On::Expire, When::Always, Then::Refuse(Why::NotExpired)),
        rule(S::Expired, On::Expire, When::Always, SAME),
        rule(S::Unpaid, On::StoreSourceChange, OPEN, Then::Go(S::Unpaid, CHANGE)),
        rule(S::Paid, On::StoreSourceChange, OPEN, Then::Go(S::Paid, CHANGE)),
        rule(S::Unpaid, On::StoreSourceChange, When::Is(TOKEN), SAME),
        rule(S::Paid, On::StoreSourceChange, When::Is(TOKEN), SAME),
    ],
    terminal: &[S::Paid, S::Failed, S::Expired],
};
