//! Bitcoin and its test networks, through rust-bitcoin.

pub(crate) mod address;
mod block;
mod coins;
pub mod framing;
mod network;

pub use block::{ParsedBlock, RawHeader, bitcoin_header};
pub use coins::genesis_hash;
pub use network::{MAX_BLOCK_BYTES, MAX_SCRIPT_BYTES, library_network};
