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
mod full_disk;
mod generated;
mod keyed;
mod limits;
mod load;
mod looking;
mod lookups;
mod metrics;
mod node;
mod node_tls;
mod private;
mod questions;
mod routes;
mod scanning;
mod sessions;
mod settings;
mod simulated;
mod stream;
mod tenants;
mod tls;
mod tokens;
mod told;
mod unit;
mod walk;
mod webhooks;
mod world;
