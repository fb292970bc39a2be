//! Bitcoin's networks, and what holds on all of them.

use unspent_model::Network;

/// A block may have this many bytes: the weight limit of 4,000,000 divided by its smallest factor.
pub const MAX_BLOCK_BYTES: usize = 4_000_000;

/// A longer script fails whatever is done, so an output with one is never a coin.
pub const MAX_SCRIPT_BYTES: usize = 10_000;

/// Bitcoin's networks in our words and in rust-bitcoin's.
const NETWORKS: [(Network, bitcoin::Network); 4] = [
    (Network::Bitcoin, bitcoin::Network::Bitcoin),
    (Network::BitcoinTestnet4, bitcoin::Network::Testnet4),
    (Network::BitcoinSignet, bitcoin::Network::Signet),
    (Network::BitcoinRegtest, bitcoin::Network::Regtest),
];

/// Our network in rust-bitcoin's words; `None` for Cardano.
pub fn library_network(network: Network) -> Option<bitcoin::Network> {
    NETWORKS.iter().find(|(ours, _)| *ours == network).map(|(_, theirs)| *theirs)
}
