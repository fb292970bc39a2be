//! Bitcoin and Cardano bytes to [`unspent_model`] values: blocks, addresses, genesis, block files.
//!
//! | what | where |
//! |---|---|
//! | a block | [`decode_block`] |
//! | a Bitcoin block that several readers share | [`bitcoin::ParsedBlock`] |
//! | a Bitcoin header on its own, a network's first block | [`bitcoin_header`], [`genesis_hash`] |
//! | coins that exist before the first block | [`cardano::genesis`] |
//! | what a person types, and what a person reads | [`address`] |
//! | block files cut into blocks | [`bitcoin::framing`], [`cardano::framing`] |
//!
//! Everything here is a pure function of the bytes it is given. Whatever those bytes are, the
//! answer is a value or an error: nothing panics, and memory is bounded by the size of the input,
//! which is capped. Hashes are in wire order.
//!
//! Deliberately absent: sockets and files (a caller passes slices or readers), consensus rules
//! beyond what ties a body to its header, and anything that remembers.
//!
//! ```
//! use unspent_model::Network;
//! use unspent_networks::address::{self, Query};
//!
//! let text = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
//! let Query::Address(script) = address::parse_query(Network::BitcoinRegtest, text)? else {
//!     unreachable!("Bitcoin has no credentials");
//! };
//! assert_eq!(script.len(), 22);
//! assert_eq!(address::show_address(Network::BitcoinRegtest, &script), text);
//! # Ok::<(), unspent_networks::address::AddressError>(())
//! ```

use unspent_model::{
    Family, Network,
    chain::{Block, Output},
};

pub mod address;
pub mod bitcoin;
mod blake2b;
pub mod cardano;
mod error;
mod query;
mod spends;

pub use bitcoin::{RawHeader, bitcoin_header, genesis_hash};
pub use error::DecodeError;

/// Reads exactly one block.
///
/// `height` is what the header chain says. Bitcoin blocks need it, unless they are the network's
/// first or name it in their coinbase (BIP 34); Cardano blocks carry their number, and `height` is
/// not looked at.
///
/// # Errors
///
/// When the bytes aren't one whole block of this network. Proof of work and signatures are not
/// checked.
pub fn decode_block(
    network: Network,
    raw: &[u8],
    height: Option<u64>,
) -> Result<Block<Output>, DecodeError> {
    match network.family() {
        Family::Bitcoin => bitcoin::ParsedBlock::parse(raw)?.into_model(network, height),
        Family::Cardano => cardano::decode::decode(network, raw),
    }
}

#[cfg(test)]
mod tests {
    use unspent_model::network::NETWORKS;

    use super::*;

    #[test]
    fn every_network_has_the_row_that_its_family_needs() {
        for (network, name) in NETWORKS {
            let is_bitcoin = network.family() == Family::Bitcoin;
            assert_eq!(bitcoin::library_network(network).is_some(), is_bitcoin, "{name}");
            assert_eq!(cardano::magic(network).is_some(), !is_bitcoin, "{name}");
        }
    }
}
