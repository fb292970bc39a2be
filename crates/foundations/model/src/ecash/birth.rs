//! How entities begin: their first state, that of their transaction, and whether outputs are
//! reserved then.

use super::{
    entity::{EntityKind, EntityState, EntityVariant},
    transaction::{PaymentDirection, TransactionKind, TransactionState},
};

/// When a range of a keyset's counter is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterUse {
    /// Never: no outputs.
    Never,
    /// At creation, if the payment can leave something over.
    AtCreationForChange,
    /// At creation, always.
    AtCreation,
    /// Once the mint says that it is paid.
    WhenPaid,
}

/// How a kind and variant of entity begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntityBirth {
    /// Of what kind.
    pub kind: EntityKind,
    /// Of what variant.
    pub variant: EntityVariant,
    /// Its first state.
    pub state: EntityState,
    /// The first state of its transaction.
    pub transaction: TransactionState,
    /// What the transaction is about.
    pub transaction_kind: TransactionKind,
    /// Which way the money goes.
    pub direction: PaymentDirection,
    /// When outputs are reserved.
    pub counter: CounterUse,
}

macro_rules! birth {
    ($kind:ident $how:ident: $state:ident, $tx:ident, $tx_kind:ident $way:ident, $use:ident) => {
        EntityBirth {
            kind: EntityKind::$kind,
            variant: EntityVariant::$how,
            state: EntityState::$state,
            transaction: TransactionState::$tx,
            transaction_kind: TransactionKind::$tx_kind,
            direction: PaymentDirection::$way,
            counter: CounterUse::$use,
        }
    };
}

/// Every way to begin.
pub const BIRTHS: [EntityBirth; 9] = [
    birth!(CashuSendQuote Plain: Unpaid, Pending, CashuLightning Send, AtCreationForChange),
    birth!(CashuSendSwap Exact: Pending, Pending, CashuToken Send, Never),
    birth!(CashuSendSwap NeedsSwap: Draft, Pending, CashuToken Send, AtCreation),
    // Outputs only once it is paid: most invoices never are, and each counter that is burnt is one
    // more that a restore from the seed must ask for.
    birth!(CashuReceiveQuote Lightning: Unpaid, Draft, CashuLightning Receive, WhenPaid),
    // PENDING from the start, unlike an invoice: the payer is a token that we hold.
    birth!(CashuReceiveQuote CashuToken: Unpaid, Pending, CashuToken Receive, WhenPaid),
    birth!(CashuReceiveSwap Plain: Pending, Pending, CashuToken Receive, AtCreation),
    birth!(SparkSendQuote Plain: Unpaid, Draft, SparkLightning Send, Never),
    birth!(SparkReceiveQuote Lightning: Unpaid, Draft, SparkLightning Receive, Never),
    birth!(SparkReceiveQuote CashuToken: Unpaid, Pending, CashuToken Receive, Never),
];

impl EntityBirth {
    /// How such an entity begins; `None` for a variant that the kind doesn't have.
    pub fn of(kind: EntityKind, variant: EntityVariant) -> Option<&'static Self> {
        BIRTHS.iter().find(|birth| (birth.kind, birth.variant) == (kind, variant))
    }
}

/// The state of the transaction of an entity that is over.
pub fn transaction_at_end(state: EntityState) -> Option<TransactionState> {
    match state {
        EntityState::Paid | EntityState::Completed => Some(TransactionState::Completed),
        EntityState::Failed | EntityState::Expired => Some(TransactionState::Failed),
        EntityState::Reversed => Some(TransactionState::Reversed),
        EntityState::Draft | EntityState::Unpaid | EntityState::Pending => None,
    }
}
