//! The chain room's rules: what a block does to the set of unspent outputs.
//!
//! | a coin is | because | and leaves that state by |
//! |---|---|---|
//! | unknown | never created, or its block was undone | an applied block that creates it |
//! | unspent | a block created it | a block that spends it; undoing its block |
//! | spent | a block spent it | undoing that block; pruning |
//! | pruned | its spend is older than the window | nothing: it is forgotten |
//!
//! A block becomes a [`BlockDelta`] ([`plan()`]); [`BlockDelta::forward`] lists what it does to the
//! set and [`BlockDelta::backward`] the exact inverse. [`admit`] says which block may come next.
//!
//! Deliberately absent: ledger validation (blocks come from a node that did it), and any notion of
//! where coins are stored.

mod admit;
mod block;
mod delta;
mod muhash;
mod plan;

pub use admit::{Admission, AdmitError, Tip, admit};
pub use block::{Asset, Block, Born, Era, GenesisCoin, Header, Output, Record, Tx, Work};
pub use delta::{BlockDelta, Created, Effect, SpendingInput, Spent, TxFlags};
pub use muhash::MuHash;
pub use plan::{lookups, plan, retires_redeem_coins};
