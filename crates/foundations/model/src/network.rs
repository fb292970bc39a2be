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

/// The money of a network: how it is written, and how much of it there can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Currency {
    /// Its short name, such as `BTC`.
    pub ticker: &'static str,
    /// Digits after the point: base units in one coin are ten to this power.
    pub decimals: u32,
    /// The base units there can ever be. An amount above it, or a sum of outputs, isn't money.
    pub max_money: u64,
}

impl Currency {
    const BTC: Self = Self::new("BTC", 8, 21_000_000);
    const ADA: Self = Self::new("ADA", 6, 45_000_000_000);

    const fn new(ticker: &'static str, decimals: u32, coins: u64) -> Self {
        Self { ticker, decimals, max_money: coins * 10_u64.pow(decimals) }
    }
}

/// How scripts and extended keys of a Bitcoin-like network are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressFormat {
    /// The first byte of a base58 address that pays a key's hash.
    pub key_hash: u8,
    /// The first byte of a base58 address that pays a script's hash.
    pub script_hash: u8,
    /// What a segwit address starts with.
    pub bech32: &'static str,
    /// Whether extended keys are `xpub` rather than `tpub`.
    pub main_keys: bool,
}

const MAIN: Option<AddressFormat> =
    Some(AddressFormat { key_hash: 0, script_hash: 5, bech32: "bc", main_keys: true });
const TEST: Option<AddressFormat> = test_format("tb");
const REGTEST: Option<AddressFormat> = test_format("bcrt");

const fn test_format(bech32: &'static str) -> Option<AddressFormat> {
    Some(AddressFormat { key_hash: 111, script_hash: 196, bech32, main_keys: false })
}

macro_rules! networks {
    ($(
        $(#[$doc:meta])* $network:ident, $family:ident, $name:literal, $coin:ident, $format:expr;
    )*) => {
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

            /// The network's money.
            pub const fn currency(self) -> Currency {
                match self {
                    $(Self::$network => Currency::$coin,)*
                }
            }

            /// The same network, where its transactions are Bitcoin's.
            pub const fn bitcoin(self) -> Option<BitcoinNetwork> {
                let address_format = match self {
                    $(Self::$network => $format,)*
                };
                match address_format {
                    Some(address_format) => Some(BitcoinNetwork { network: self, address_format }),
                    None => None,
                }
            }
        }
    };
}

// A name is written into every data folder: it may be added, never changed.
networks! {
    /// Bitcoin's main network.
    Bitcoin, Bitcoin, "bitcoin", BTC, MAIN;
    /// Bitcoin's fourth test network.
    BitcoinTestnet4, Bitcoin, "bitcoin-testnet4", BTC, TEST;
    /// Bitcoin's signed test network.
    BitcoinSignet, Bitcoin, "bitcoin-signet", BTC, TEST;
    /// A private Bitcoin chain for tests.
    BitcoinRegtest, Bitcoin, "bitcoin-regtest", BTC, REGTEST;
    /// Cardano's main network.
    CardanoMainnet, Cardano, "cardano-mainnet", ADA, None;
    /// Cardano's pre-production test network.
    CardanoPreprod, Cardano, "cardano-preprod", ADA, None;
    /// Cardano's preview test network.
    CardanoPreview, Cardano, "cardano-preview", ADA, None;
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

/// A network with Bitcoin's transactions, scripts and keys: what a wallet can be of.
///
/// Made by [`Network::bitcoin`] alone: Cardano can't be put in, so nothing ever has to guess what
/// one of its addresses would be in Bitcoin's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitcoinNetwork {
    network: Network,
    address_format: AddressFormat,
}

impl BitcoinNetwork {
    /// Which network it is.
    pub const fn network(self) -> Network {
        self.network
    }

    /// How its addresses and extended keys are written.
    pub const fn address_format(self) -> AddressFormat {
        self.address_format
    }

    /// The base units there can ever be.
    pub const fn max_money(self) -> u64 {
        self.network.currency().max_money
    }
}

impl fmt::Display for BitcoinNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.network.fmt(f)
    }
}

/// The largest amount on any Bitcoin-like network: what can be said of an amount before it is known
/// which network it is for.
pub const MOST_BITCOIN_MONEY: u64 = {
    let mut most = 0;
    let mut rest: &[(Network, &str)] = &NETWORKS;
    while let [(network, _), others @ ..] = rest {
        let max_money = network.currency().max_money;
        if network.bitcoin().is_some() && max_money > most {
            most = max_money;
        }
        rest = others;
    }
    most
};

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
    fn a_network_has_bitcoin_addresses_when_its_family_is_bitcoin() {
        for (network, name) in NETWORKS {
            let bitcoin = network.bitcoin();
            assert_eq!(bitcoin.is_some(), network.family() == Family::Bitcoin, "{name}");
            assert!(bitcoin.is_none_or(|bitcoin| bitcoin.network() == network), "{name}");
            assert!(bitcoin.is_none_or(|bitcoin| bitcoin.max_money() <= MOST_BITCOIN_MONEY));
        }
    }

    #[test]
    fn there_is_as_much_money_as_the_protocol_allows() {
        assert_eq!(Network::BitcoinRegtest.currency().max_money, 2_100_000_000_000_000);
        assert_eq!(Network::CardanoMainnet.currency().max_money, 45_000_000_000_000_000);
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
