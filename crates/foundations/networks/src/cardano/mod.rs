//! Cardano and its test networks, through pallas.

pub(crate) mod address;
mod body;
mod byron;
mod cbor;
pub mod clock;
pub(crate) mod decode;
pub mod framing;
pub mod genesis;
pub mod head;
mod network;
mod output;

pub use network::{MAX_BLOCK_BYTES, magic};
use network::{check_address, check_first_block, check_magic, network_id, parameters};
