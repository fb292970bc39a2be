//! What a person types to name coins, and how addresses are shown.

use unspent_model::{Family, Network};

use crate::{bitcoin, cardano};

/// The longest text looked at: twice the longest script, in hex.
pub const MAX_QUERY_CHARS: usize = 20_000;

/// Whose coins are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Coins of exactly this raw address; on Bitcoin, of this scriptPubKey.
    Address(Vec<u8>),
    /// Coins of every address with this payment credential.
    Credential([u8; 28]),
    /// Coins of the scriptPubKey whose SHA-256 this is (Bitcoin), in the order in which SHA-256 is
    /// written, as Esplora's interface has it; Electrum's protocol reverses it.
    ScriptHash([u8; 32]),
}

/// Text that names no coins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It isn't an address of any kind.
    #[error("not an address: {reason}; expected {expected}")]
    Malformed {
        /// What would have been right.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// It is an address, but of another network.
    #[error("the address belongs to another network than {network}")]
    WrongNetwork {
        /// The network asked.
        network: Network,
    },
    /// A stake address holds no coins.
    #[error("a stake address holds no coins; ask for a payment address or a payment credential")]
    StakeAddress,
}

impl AddressError {
    pub(crate) fn malformed(expected: &'static str, reason: impl ToString) -> Self {
        Self::Malformed { expected, reason: reason.to_string() }
    }
}

/// Reads an address or a payment credential of this network.
///
/// Cardano: bech32 (`addr`, `addr_test`), base58, or hex of the raw address; credentials as bech32
/// (`addr_vkh`, `script`, `addr_shared_vkh`) or as 56 hex digits. Bitcoin: an address, hex of a
/// scriptPubKey, or `scripthash:` and the hex of its SHA-256.
///
/// # Errors
///
/// When the text is none of these, or belongs to another network.
pub fn parse_query(network: Network, text: &str) -> Result<Query, AddressError> {
    let length = text.len();
    if length == 0 || length > MAX_QUERY_CHARS {
        let reason = format!("{length} characters");
        return Err(AddressError::malformed("1 to 20,000 characters", reason));
    }
    match network.family() {
        Family::Bitcoin => bitcoin::address::parse(network, text),
        Family::Cardano => cardano::address::parse(network, text),
    }
}

/// An address as people of this network write it, or hex where there is no such form.
pub fn show_address(network: Network, addr: &[u8]) -> String {
    let shown = match network.family() {
        Family::Bitcoin => bitcoin::address::show(network, addr),
        Family::Cardano => cardano::address::show(addr),
    };
    shown.unwrap_or_else(|| hex::encode(addr))
}

/// A stake address in bech32, or hex where the bytes are none.
pub fn show_stake_address(network: Network, addr: &[u8]) -> String {
    let shown = match network.family() {
        Family::Bitcoin => None,
        Family::Cardano => cardano::address::show_stake(addr),
    };
    shown.unwrap_or_else(|| hex::encode(addr))
}

/// Blake2b of `N` bytes.
pub(crate) fn blake2b<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let hash = blake2b_simd::Params::new().hash_length(N).hash(bytes);
    let mut key = [0; N];
    key.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    key
}
