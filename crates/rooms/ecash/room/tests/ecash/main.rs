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

mod accounts;
mod answers;
mod cases;
mod checking;
mod copies;
mod crossing;
mod daemon;
mod killing;
mod listening;
mod lying;
mod parts;
mod paying;
mod purse;
mod refusals;
mod repeating;
mod rotating;
mod second_mint;
mod sparking;
mod wallet;
mod working;
