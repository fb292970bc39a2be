//! The daemon as its clients meet it: the built binary on a simulated network.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

mod access;
mod backup;
mod cardano;
mod commands;
mod crash;
mod daemon;
mod described;
mod ecash;
mod keyed;
mod limits;
mod load;
mod node;
mod routes;
mod scanning;
mod stream;
mod tls;
mod webhooks;
mod world;
