//! The networks we know: one row each in the table below.
//!
//! A network is named in many places: on the command line, in a data folder, in a configuration. So
//! that adding one is adding a row, the enum, its list and its names are made from the table. What
//! only the reading of blocks needs (magic numbers, clocks) stands in `unspent-networks`, which has
//! a row per network too; a test there finds a row that is missing.

use std::{fmt, str::FromStr};

/// Two families of chains, which differ in how blocks are read and hashes are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Bitcoin and its test networks.
    Bitcoin,
    /// Cardano and its test networks.
    Cardano,
}

macro_rules! networks {
    ($($(#[$doc:meta])* $network:ident, $family:ident, $name:literal;)*) => {
        /// A network a data folder may serve. One folder serves exactly one.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Network {
            $($(#[$doc])* $network,)*
        }

        /// Every network with its name on the command line and on disk.
        pub const NETWORKS: [(Network, &str); [$($name),*].len()] =
            [$((Network::$network, $name)),*];

        impl Network {
            /// Bitcoin or Cardano.
            pub fn family(self) -> Family {
                match self {
                    $(Self::$network => Family::$family,)*
                }
            }

            /// The network's name, as the command line and the data folder spell it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$network => $name,)*
                }
            }
        }
    };
}

// A name is written into every data folder: it may be added, never changed.
networks! {
    /// Bitcoin's main network.
    Bitcoin, Bitcoin, "bitcoin";
    /// Bitcoin's fourth test network.
    BitcoinTestnet4, Bitcoin, "bitcoin-testnet4";
    /// Bitcoin's signed test network.
    BitcoinSignet, Bitcoin, "bitcoin-signet";
    /// A private Bitcoin chain for tests.
    BitcoinRegtest, Bitcoin, "bitcoin-regtest";
    /// Cardano's main network.
    CardanoMainnet, Cardano, "cardano-mainnet";
    /// Cardano's pre-production test network.
    CardanoPreprod, Cardano, "cardano-preprod";
    /// Cardano's preview test network.
    CardanoPreview, Cardano, "cardano-preview";
}

/// How many blocks back things are kept, unless the operator says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// Spent coins are forgotten this many blocks after their spend.
    pub prune_depth: u64,
    /// Blocks that can be undone, counted from the tip.
    pub rollback_window: u64,
}

impl Network {
    /// The windows an operator gets without asking: two days of Bitcoin blocks; on Cardano the
    /// security parameter k = 2160, past which a node itself never rolls back, and twice that.
    pub fn default_windows(self) -> Windows {
        match self.family() {
            Family::Bitcoin => Windows { prune_depth: 288, rollback_window: 288 },
            Family::Cardano => Windows { prune_depth: 2160, rollback_window: 4320 },
        }
    }

    /// A transaction or block hash as people of this network write it.
    pub fn show_hash(self, wire: &[u8; 32]) -> String {
        let mut bytes = *wire;
        if self.family() == Family::Bitcoin {
            bytes.reverse();
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a hash as people of this network write it; `None` when it isn't 64 hex digits.
    pub fn parse_hash(self, text: &str) -> Option<[u8; 32]> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        if self.family() == Family::Bitcoin {
            bytes.reverse();
        }
        Some(bytes)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name given is no network of ours.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown network `{0}`; known: {known}", known = known_names())]
pub struct UnknownNetwork(pub String);

fn known_names() -> String {
    NETWORKS.map(|(_, name)| name).join(", ")
}

impl FromStr for Network {
    type Err = UnknownNetwork;

    fn from_str(text: &str) -> Result<Self, UnknownNetwork> {
        let found = NETWORKS.iter().find(|(_, name)| *name == text);
        found.map(|(network, _)| *network).ok_or_else(|| UnknownNetwork(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_has_its_own_name() {
        for (network, name) in NETWORKS {
            assert_eq!(network.name(), name);
            assert_eq!(name.parse(), Ok(network));
        }
        assert_eq!("dogecoin".parse::<Network>(), Err(UnknownNetwork("dogecoin".into())));
    }

    #[test]
    fn bitcoin_shows_hashes_reversed_and_cardano_does_not() {
        let mut wire = [0; 32];
        wire[0] = 0xab;
        assert!(Network::Bitcoin.show_hash(&wire).ends_with("ab"));
        assert!(Network::CardanoPreview.show_hash(&wire).starts_with("ab"));
        for (network, _) in NETWORKS {
            assert_eq!(network.parse_hash(&network.show_hash(&wire)), Some(wire));
            assert_eq!(network.parse_hash("zz"), None);
            assert_eq!(network.parse_hash(&"é".repeat(32)), None);
            assert_eq!(network.parse_hash(&"+1".repeat(32)), None, "a sign is no digit");
        }
    }
}
