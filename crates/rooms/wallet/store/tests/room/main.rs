//! The promises of the wallet room, each on SQLite and on PostgreSQL.
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

mod big_wallet;
mod birthdays;
mod conflicts;
mod cpfp;
mod crashes;
mod history;
mod importing;
mod input;
mod keys_of_others;
mod labels;
mod late;
mod leases;
mod ledger;
mod paying;
mod plans;
mod queries;
mod races;
mod random;
mod recording;
mod reorgs;
mod signing;
mod spending;
mod statements;
mod stopping;
mod watching;
