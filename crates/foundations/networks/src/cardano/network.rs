//! Cardano's networks, and what tells that a block is of one of them.

use unspent_model::{BlockHash, Network};

use super::clock::Clock;
use crate::DecodeError;

/// A block has at most this many bytes. Today's limit on the main network is under 100,000; Byron
/// allowed 2,000,000.
pub const MAX_BLOCK_BYTES: usize = 8 * 1024 * 1024;

/// What reading a Cardano network's blocks and addresses takes.
pub(super) struct Parameters {
    network: Network,
    magic: u32,
    /// The network's half of an address header (CIP-19): 1 on the main network, else 0.
    address_id: u8,
    /// The hash of the block with number 0, as hex.
    first_block: &'static str,
    pub(super) clock: Clock,
}

/// Cardano's networks, from their genesis files.
static NETWORKS: [Parameters; 3] = [
    Parameters {
        network: Network::CardanoMainnet,
        magic: 764_824_073,
        address_id: 1,
        first_block: "89d9b5a5b8ddc8d7e5a6795e9774d97faf1efea59b2caf7eaf9f8c5b32059df4",
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
        first_block: "9ad7ff320c9cf74e0f5ee78d22a85ce42bb0a487d0506bf60cfb5a91ea4497d2",
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
        first_block: "268ae601af8f9214804735910a3301881fbe0eec9936db7d1fb9fc39e93d1e37",
        clock: Clock {
            start: 1_666_656_000,
            byron_epoch_slots: 4_320,
            shelley_slot: 0,
            epoch_slots: 86_400,
        },
    },
];

pub(super) fn parameters(network: Network) -> Option<&'static Parameters> {
    NETWORKS.iter().find(|row| row.network == network)
}

/// The chain's first block is the network's own.
pub(super) fn check_first_block(
    network: Network,
    height: u64,
    hash: &BlockHash,
) -> Result<(), DecodeError> {
    let first = parameters(network).map_or("", |row| row.first_block);
    if height > 0 || hex::encode(hash.0) == first {
        return Ok(());
    }
    let reason = format!("its first block is {first}, not {}", hex::encode(hash.0));
    Err(DecodeError::OtherNetwork { network, reason })
}

/// Byron's headers name their network.
pub(super) fn check_magic(network: Network, found: u32) -> Result<(), DecodeError> {
    match magic(network) {
        Some(expected) if expected != found => {
            let reason = format!("its magic is {found}, not {expected}");
            Err(DecodeError::OtherNetwork { network, reason })
        }
        Some(_) | None => Ok(()),
    }
}

/// From Shelley on the ledger takes no output to an address of another network. Byron's addresses
/// have another form (CIP-19, type 8) and may not say whose they are.
pub(super) fn check_address(network: Network, address: &[u8]) -> Result<(), DecodeError> {
    const BYRON: u8 = 8;
    let Some(head) = address.first().filter(|head| *head >> 4 != BYRON) else { return Ok(()) };
    let (found, expected) = (head & 0x0f, network_id(network));
    if found == expected {
        return Ok(());
    }
    let reason = format!("it pays to an address of network id {found}, not {expected}");
    Err(DecodeError::OtherNetwork { network, reason })
}

/// The number that tells Cardano networks apart; `None` for Bitcoin.
pub fn magic(network: Network) -> Option<u32> {
    parameters(network).map(|row| row.magic)
}

/// The network's half of an address header.
pub(super) fn network_id(network: Network) -> u8 {
    parameters(network).map_or(0, |row| row.address_id)
}
