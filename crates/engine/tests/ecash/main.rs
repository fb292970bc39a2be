//! The ecash room against a real mint on loopback, with a bad line to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs
)]

mod answers;
mod checking;
mod daemon;
mod listening;
mod paying;
mod purse;
mod sparking;
