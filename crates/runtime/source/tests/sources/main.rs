//! Block sources: a real Bitcoin node, nodes that lie, Cardano servers, folders.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    clippy::cast_possible_truncation,
    missing_docs
)]

mod cardano;
mod cardano_server;
mod core_hostile;
mod core_node;
mod folders;
mod follow;
