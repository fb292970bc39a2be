//! The promises of the ecash room, each on SQLite and on PostgreSQL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs
)]

mod audits;
mod births;
mod change;
mod claims;
mod copies;
mod fixture;
mod keysets;
mod ledger;
mod lightning;
mod mint;
mod plans;
mod races;
mod random;
mod reference;
mod secrets;
mod spark;
mod storm;
mod tables;
mod tokens;
