//! Real nodes and signers that tests start.
//!
//! | module | for |
//! |---|---|
//! | [`fetch`] | Bitcoin Knots out of Debian's archive, unpacked into a cache folder, nothing installed |
//! | [`knots`] | a node on a private chain, and its JSON-RPC |
//! | `python` | environments for programs out of Python packages |
//! | [`signer`] | a signer that shares no code with ours |
//!
//! Where the node can't be had a test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

pub mod fetch;
pub mod knots;
pub(crate) mod python;
pub mod signer;

pub use knots::Knots;
pub use signer::Signer;
