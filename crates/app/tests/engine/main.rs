//! The promises of the engine, on the simulated network.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs
)]

mod dated;
mod faulty;
mod following;
mod kill;
mod late;
mod mempool;
mod node;
mod node_mempool;
mod others;
mod panics;
mod plugged;
mod rig;
mod running;
mod stopping;
mod telling;
mod txstore;
