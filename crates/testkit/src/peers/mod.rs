//! Real nodes and signers that tests start.
//!
//! | module | for |
//! |---|---|
//! | [`fetch`] | Bitcoin Knots out of Debian's archive, unpacked into a cache folder, nothing installed |
//! | [`knots`] | a node on a private chain, and its JSON-RPC |
//! | [`python`] | environments for programs out of Python packages |
//! | [`npm`] | folders of npm packages |
//! | [`signer`] | a signer that shares no code with ours |
//!
//! Where the node can't be had a test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

pub mod fetch;
pub mod knots;
pub mod npm;
pub mod python;
pub mod signer;

use std::env;

pub use knots::Knots;
pub use signer::Signer;

/// A peer, or `None` after saying that the test is skipped.
///
/// # Panics
///
/// When it can't be had though `UNSPENT_REQUIRE_PEERS` is set.
#[allow(clippy::panic, clippy::print_stderr)]
pub fn required<T>(name: &str, found: Result<T, String>) -> Option<T> {
    match found {
        Ok(peer) => Some(peer),
        Err(reason) if env::var_os("UNSPENT_REQUIRE_PEERS").is_some() => {
            panic!("{name} is required and can't be had: {reason}")
        }
        Err(reason) => {
            eprintln!("SKIPPED: {name} can't be had: {reason}");
            None
        }
    }
}
