//! The promises of the transaction store, each on SQLite and on PostgreSQL.
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

mod blocks;
mod cases;
mod conflicts;
mod crashes;
mod desk;
mod edges;
mod growth;
mod plans;
mod races;
mod random;
mod real;
mod reference;
mod statements;
mod timelines;
