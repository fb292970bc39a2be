//! The built binary, end to end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod beside;
mod bitcoin;
mod cardano;
mod chain_faults;
mod demo;
mod ecash;
mod faults;
mod node;
mod proofs;
mod run;
mod settings;
mod simulated;
mod txstore;
