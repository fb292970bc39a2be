//! Cardano and its test networks, through pallas.

use unspent_model::Network;

pub(crate) mod address;
mod body;
mod byron;
mod cbor;
pub mod clock;
pub(crate) mod decode;
pub mod framing;
pub mod genesis;
pub mod head;
mod output;

/// A block has at most this many bytes. Today's limit on the main network is under 100,000; Byron
/// allowed 2,000,000.
pub const MAX_BLOCK_BYTES: usize = 8 * 1024 * 1024;

/// The number that tells Cardano networks apart; `None` for Bitcoin.
pub fn magic(network: Network) -> Option<u32> {
    match network {
        Network::CardanoMainnet => Some(764_824_073),
        Network::CardanoPreprod => Some(1),
        Network::CardanoPreview => Some(2),
        Network::Bitcoin
        | Network::BitcoinTestnet4
        | Network::BitcoinSignet
        | Network::BitcoinRegtest => None,
    }
}

/// The network's half of an address header.
pub(crate) fn network_id(network: Network) -> u8 {
    u8::from(network == Network::CardanoMainnet)
}
