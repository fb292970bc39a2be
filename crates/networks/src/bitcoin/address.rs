//! Bitcoin addresses and the scripts they stand for.

use bitcoin::{Address, Script, address::NetworkUnchecked};
use unspent_model::Network;

use super::MAX_SCRIPT_BYTES;
use crate::address::{AddressError, Query};

/// What a valid answer would have looked like.
const EXPECTED: &str = "a Bitcoin address of this network, or a scriptPubKey in hex";

pub(crate) fn parse(network: Network, text: &str) -> Result<Query, AddressError> {
    let not_ours = || AddressError::WrongNetwork { network };
    let ours = super::library_network(network).ok_or_else(not_ours)?;
    match text.parse::<Address<NetworkUnchecked>>() {
        Ok(address) => {
            let address = address.require_network(ours).map_err(|_| not_ours())?;
            Ok(Query::Address(address.script_pubkey().into_bytes()))
        }
        Err(reason) => match hex::decode(text) {
            Ok(script) if script.len() <= MAX_SCRIPT_BYTES => Ok(Query::Address(script)),
            Ok(_) | Err(_) => Err(AddressError::malformed(EXPECTED, reason)),
        },
    }
}

pub(crate) fn show(network: Network, script: &[u8]) -> Option<String> {
    let script = Script::from_bytes(script);
    let address = Address::from_script(script, super::library_network(network)?).ok()?;
    Some(address.to_string())
}
