//! Real nodes and signers that tests start.
//!
//! | module | for |
//! |---|---|
//! | [`fetch`] | Bitcoin Knots out of Debian's archive, unpacked into a cache folder, nothing installed |
//! | [`knots`] | a node on a private chain, and its JSON-RPC |
//! | [`signer`] | a signer that shares no code with ours |
//!
//! Where the node can't be had a test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

pub mod fetch;
pub mod knots;
pub mod signer;

pub use knots::Knots;
pub use signer::Signer;
