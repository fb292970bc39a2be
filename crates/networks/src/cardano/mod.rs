//! Cardano and its test networks, through pallas.

use unspent_model::Network;

use clock::Clock;

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

/// What reading a Cardano network's blocks and addresses takes.
struct Parameters {
    network: Network,
    magic: u32,
    /// The network's half of an address header (CIP-19): 1 on the main network, else 0.
    address_id: u8,
    clock: Clock,
}

/// Cardano's networks, from their genesis files.
static NETWORKS: [Parameters; 3] = [
    Parameters {
        network: Network::CardanoMainnet,
        magic: 764_824_073,
        address_id: 1,
        clock: Clock {
            start: 1_506_203_091,
            byron_epoch_slots: 21_600,
            shelley_slot: 4_492_800,
            epoch_slots: 432_000,
        },
    },
    Parameters {
        network: Network::CardanoPreprod,
        magic: 1,
        address_id: 0,
        clock: Clock {
            start: 1_654_041_600,
            byron_epoch_slots: 21_600,
            shelley_slot: 86_400,
            epoch_slots: 432_000,
        },
    },
    Parameters {
        network: Network::CardanoPreview,
        magic: 2,
        address_id: 0,
        clock: Clock {
            start: 1_666_656_000,
            byron_epoch_slots: 4_320,
            shelley_slot: 0,
            epoch_slots: 86_400,
        },
    },
];

fn parameters(network: Network) -> Option<&'static Parameters> {
    NETWORKS.iter().find(|row| row.network == network)
}

/// The number that tells Cardano networks apart; `None` for Bitcoin.
pub fn magic(network: Network) -> Option<u32> {
    parameters(network).map(|row| row.magic)
}

/// The network's half of an address header.
pub(crate) fn network_id(network: Network) -> u8 {
    parameters(network).map_or(0, |row| row.address_id)
}
