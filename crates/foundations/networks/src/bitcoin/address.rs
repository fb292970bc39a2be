//! Bitcoin addresses and the scripts they stand for.

use bitcoin::{Address, Script, address::NetworkUnchecked};
use unspent_model::Network;

use super::MAX_SCRIPT_BYTES;
use crate::query::{AddressError, Query};

/// What a valid answer would have looked like.
const EXPECTED: &str = "a Bitcoin address of this network, a scriptPubKey in hex, or \
    scripthash: and 64 hex digits";

/// Before the SHA-256 of a script: without it 64 hex digits are a script of 32 bytes.
const SCRIPT_HASH: &str = "scripthash:";

pub(crate) fn parse(network: Network, text: &str) -> Result<Query, AddressError> {
    let not_ours = || AddressError::WrongNetwork { network };
    let ours = super::library_network(network).ok_or_else(not_ours)?;
    if let Some(digits) = text.strip_prefix(SCRIPT_HASH) {
        let mut hash = [0; 32];
        let read = hex::decode_to_slice(digits, &mut hash);
        return read
            .map(|()| Query::ScriptHash(hash))
            .map_err(|reason| AddressError::malformed(EXPECTED, reason));
    }
    match text.parse::<Address<NetworkUnchecked>>() {
        Ok(address) => {
            let address = address.require_network(ours).map_err(|_| not_ours())?;
            Ok(Query::Address(address.script_pubkey().into_bytes()))
        }
        // Few mean hex: of what is neither, the complaint is about the address.
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
