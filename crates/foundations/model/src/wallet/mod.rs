//! What may happen in a wallet, as tables and pure functions.
//!
//! | module | decides |
//! |---|---|
//! | [`status`] | what a stored transaction may be, and every legal move |
//! | [`cause`] | the words of the journal and of the replacement edges |
//! | [`coin`] | the state of a coin, derived from its parent, its spender and its lease |
//! | [`balance`] | the classes of a balance |
//! | [`lease`] | who gets a coin that is asked for |
//! | [`facts`] | what is known of the neighbourhood of a change |
//! | [`plan`] | what an event changes: conflicts, invalidation, revival |
//! | [`select`] | which coins pay for what, and why these |
//! | [`prune`] | which history may go |
//! | [`amount`] | amounts as people write them |
//!
//! Invariant kept by every plan: no two live transactions spend the same output, a live transaction
//! has no dead parent, and a coin's spender is the one live transaction that spends it.

pub mod amount;
pub mod balance;
pub mod cause;
pub mod coin;
pub mod facts;
pub mod lease;
pub mod plan;
pub mod prune;
pub mod select;
pub mod status;

pub use balance::{Balance, BalancedCoin, CoinSum};
pub use cause::{CAUSES, EDGE_CAUSES, EdgeCause, JournalCause};
pub use coin::{COIN_STATES, CoinFacts, CoinState};
pub use facts::{AddressId, Coin, Confirmation, KnownFacts, StoredTx};
pub use lease::LockId;
pub use plan::{
    PlanOutcome, PlanRefusal, SightingPlace, TxSighting, WalletEvent, WalletPlan, plan,
};
pub use status::{STATUSES, StatusMove, TxStatus};

pub use crate::maturity;
