//! The six kinds of entity, what they may be, and what may happen to them.

use std::{fmt, str::FromStr};

/// A payment or a part of one, kept as one row with a state of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EntityKind {
    /// Pays a Lightning invoice by a melt.
    CashuSendQuote,
    /// Makes a token to hand over.
    CashuSendSwap,
    /// Is paid by a Lightning invoice, or by the melt of a token of another account.
    CashuReceiveQuote,
    /// Claims a token at its own mint.
    CashuReceiveSwap,
    /// Pays a Lightning invoice through Spark.
    SparkSendQuote,
    /// Is paid through Spark, by an invoice or by the melt of a token.
    SparkReceiveQuote,
}

/// Where an entity stands. Each kind knows some of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EntityState {
    /// Proofs are reserved; the swap that makes the token is to come.
    Draft,
    /// Waits for the payment, or for being paid.
    Unpaid,
    /// Under way, or out of our hands.
    Pending,
    /// The payment has happened.
    Paid,
    /// Everything is stored.
    Completed,
    /// Over without success.
    Failed,
    /// Over because its time passed.
    Expired,
    /// Taken back before anybody claimed it.
    Reversed,
}

/// What may happen to an entity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EntityEvent {
    /// A melt is asked for, or was seen under way.
    MarkMeltInitiated,
    /// The payment is under way.
    MarkPending,
    /// The mint says that our invoice is paid.
    ProcessPayment,
    /// As above, after the entity was over.
    LatePayment,
    /// The token's proofs are made.
    Commit,
    /// Success.
    Complete,
    /// No success, and proven so.
    Fail,
    /// The token was claimed by somebody else, or the quote issued to another copy of the database.
    FailClaimed,
    /// Its time passed, and the mint says that nothing was paid.
    Expire,
    /// The token came back to us.
    ReversalWon,
    /// The receiver was quicker than our taking back.
    ReversalLost,
    /// New outputs: the old ones can't be signed any more.
    TakeNewRange,
    /// Outputs to which reserved proofs are swapped, so that no late melt can spend them.
    TakeFenceRange,
    /// That swap is done.
    Fence,
    /// The mint proves a payment that we had given up.
    ProvePaid,
    /// What a melt of a token left over came back.
    StoreSourceChange,
    /// Paid, while change may still be owed.
    CompleteOwing,
    /// A part of the change that was owed came.
    TakeChange,
    /// Change that is due is missing, or can't be used.
    MissChange,
    /// The last of the change came, or no more of it is waited for.
    CloseChange,
    /// Others have claimed a part of the token.
    ClaimedInPart,
    /// The receiver was quicker than our taking back for a part of the token.
    ReversalShort,
    /// The claim goes on without what others have spent, or with fewer proofs at a time.
    TakeRest,
    /// Some of the token's proofs are claimed; the next ones follow.
    StoreBatch,
    /// People don't want the claim any more.
    Cancel,
}

/// How two entities of one kind differ from birth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EntityVariant {
    /// The only way there is.
    Plain,
    /// A send swap whose proofs have the right sum already.
    Exact,
    /// A send swap that needs a swap at the mint first.
    NeedsSwap,
    /// Paid by an invoice.
    Lightning,
    /// Paid by melting a token.
    CashuToken,
}

/// Every kind with its name in the database.
pub const ENTITY_KINDS: [(EntityKind, &str); 6] = [
    (EntityKind::CashuSendQuote, "CASHU_SEND_QUOTE"),
    (EntityKind::CashuSendSwap, "CASHU_SEND_SWAP"),
    (EntityKind::CashuReceiveQuote, "CASHU_RECEIVE_QUOTE"),
    (EntityKind::CashuReceiveSwap, "CASHU_RECEIVE_SWAP"),
    (EntityKind::SparkSendQuote, "SPARK_SEND_QUOTE"),
    (EntityKind::SparkReceiveQuote, "SPARK_RECEIVE_QUOTE"),
];

/// Every state with its name in the database.
pub const ENTITY_STATES: [(EntityState, &str); 8] = [
    (EntityState::Draft, "DRAFT"),
    (EntityState::Unpaid, "UNPAID"),
    (EntityState::Pending, "PENDING"),
    (EntityState::Paid, "PAID"),
    (EntityState::Completed, "COMPLETED"),
    (EntityState::Failed, "FAILED"),
    (EntityState::Expired, "EXPIRED"),
    (EntityState::Reversed, "REVERSED"),
];

/// Every event with its name in the journal.
pub const ENTITY_EVENTS: [(EntityEvent, &str); 25] = [
    (EntityEvent::MarkMeltInitiated, "mark_melt_initiated"),
    (EntityEvent::MarkPending, "mark_pending"),
    (EntityEvent::ProcessPayment, "process_payment"),
    (EntityEvent::LatePayment, "late_payment"),
    (EntityEvent::Commit, "commit"),
    (EntityEvent::Complete, "complete"),
    (EntityEvent::Fail, "fail"),
    (EntityEvent::FailClaimed, "fail_claimed"),
    (EntityEvent::Expire, "expire"),
    (EntityEvent::ReversalWon, "reversal_won"),
    (EntityEvent::ReversalLost, "reversal_lost"),
    (EntityEvent::TakeNewRange, "take_new_range"),
    (EntityEvent::TakeFenceRange, "take_fence_range"),
    (EntityEvent::Fence, "fence"),
    (EntityEvent::ProvePaid, "prove_paid"),
    (EntityEvent::StoreSourceChange, "store_source_change"),
    (EntityEvent::CompleteOwing, "complete_owing"),
    (EntityEvent::TakeChange, "take_change"),
    (EntityEvent::MissChange, "miss_change"),
    (EntityEvent::CloseChange, "close_change"),
    (EntityEvent::ClaimedInPart, "claimed_in_part"),
    (EntityEvent::ReversalShort, "reversal_short"),
    (EntityEvent::TakeRest, "take_rest"),
    (EntityEvent::StoreBatch, "store_batch"),
    (EntityEvent::Cancel, "cancel"),
];

/// Every variant with its name in the database.
pub const VARIANTS: [(EntityVariant, &str); 5] = [
    (EntityVariant::Plain, "PLAIN"),
    (EntityVariant::Exact, "EXACT"),
    (EntityVariant::NeedsSwap, "NEEDS_SWAP"),
    (EntityVariant::Lightning, "LIGHTNING"),
    (EntityVariant::CashuToken, "CASHU_TOKEN"),
];

/// The text names nothing of ours.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown {what} `{text}`")]
pub struct UnknownName {
    /// What kind of name was looked for.
    pub what: &'static str,
    /// What was found.
    pub text: String,
}

/// Names in both directions from one list.
macro_rules! named {
    ($type:ty, $list:expr, $what:literal) => {
        impl $type {
            /// Its name in the database.
            pub fn name(self) -> &'static str {
                $list.iter().find(|(value, _)| *value == self).map_or("", |(_, name)| name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let found = $list.iter().find(|(_, name)| *name == text);
                let unknown = || UnknownName { what: $what, text: text.to_owned() };
                found.map(|(value, _)| *value).ok_or_else(unknown)
            }
        }
    };
}
pub(crate) use named;

named!(EntityKind, ENTITY_KINDS, "kind of entity");
named!(EntityState, ENTITY_STATES, "state of an entity");
named!(EntityEvent, ENTITY_EVENTS, "event");
named!(EntityVariant, VARIANTS, "variant");

impl EntityKind {
    /// Whether it keeps money in proofs of a mint.
    pub fn is_cashu(self) -> bool {
        !matches!(self, Self::SparkSendQuote | Self::SparkReceiveQuote)
    }
}
