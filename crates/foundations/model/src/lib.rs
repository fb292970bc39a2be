//! What a coin may do, decided here and nowhere else.
//!
//! This crate is pure: no I/O, no clock, no randomness, no async. Every change is a value before it
//! is a write; stores carry such values out in one atomic step.
//!
//! | module | decides |
//! |---|---|
//! | [`chain`] | what a block does to the set of unspent outputs, and how that is undone |
//! | [`ecash`] | what may happen to ecash: payments, proofs, transactions |
//! | [`headers`] | which of several competing branches carries the most work |
//! | [`ids`] | the names of things: transactions, blocks, outpoints |
//! | [`kind`] | what to do about an error |
//! | [`maturity`] | when a coinbase may be spent: the wallet's rule and that of consensus |
//! | [`micros`] | how every room writes a moment |
//! | [`network`] | the networks we know: money, address format, default windows |
//! | [`txstore`] | what may happen to a node's transactions, and which of them may go |
//! | [`wallet`] | what may happen to a wallet's transactions and coins |
//!
//! Rooms do not import each other, and neither do their modules here.

pub mod chain;
pub mod ecash;
pub mod headers;
pub mod ids;
pub mod kind;
pub mod maturity;
pub mod micros;
pub mod network;
pub mod txstore;
pub mod wallet;

pub use ids::{BitcoinOutpoint, BitcoinTxId, BlockHash, Outpoint, Point, TxId};
pub use kind::{Kind, RefusalKind, ServedError};
pub use micros::Micros;
pub use network::{BitcoinNetwork, Family, Network};
