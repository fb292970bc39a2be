//! What a person types to name coins, and how addresses are shown.

use unspent_model::{Family, Network};

pub use crate::query::{AddressError, Query};
use crate::{bitcoin, cardano};

/// The longest text looked at: twice the longest script, in hex.
pub const MAX_QUERY_CHARS: usize = 20_000;

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
