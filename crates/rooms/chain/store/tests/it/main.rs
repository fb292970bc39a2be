//! The chain room from outside, one binary so that RocksDB is linked once.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::cast_possible_truncation
)]

mod again;
mod beside;
mod cases;
mod codecs;
mod driver;
mod forgotten;
mod histories;
mod modes;
mod node;
mod real_chains;
mod telemetry;
mod torn;
mod trees;
mod windows;
