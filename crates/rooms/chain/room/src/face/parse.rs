//! What people type, as values.

use unspent_chain::{Owner, RollbackTarget};
use unspent_model::{BlockHash, Network, Outpoint};
use unspent_networks::address::{Query, parse_query};
use unspent_server::{error::CliError, json::parse_outpoint};

/// An address, a script hash or a payment credential.
pub(crate) fn owner(network: Network, text: &str) -> anyhow::Result<Owner> {
    Ok(match parse_query(network, text)? {
        Query::Address(raw) => Owner::address(network.family(), &raw),
        Query::Credential(credential) => Owner::Credential(credential),
        Query::ScriptHash(hash) => Owner::script_hash(&hash),
    })
}

/// `TXID:VOUT`; Cardano's `TXID#INDEX` is read too.
pub(crate) fn outpoint(network: Network, text: &str) -> Result<Outpoint, CliError> {
    parse_outpoint(network, text).ok_or_else(|| {
        CliError::usage(format!("`{text}` is not a coin"))
            .hint("write TXID:VOUT: 64 hex digits, then the number of the output")
    })
}

/// `HEIGHT`, `slot:N`, `HEIGHT:HASH` or `origin`.
pub(crate) fn target(network: Network, text: &str) -> Result<RollbackTarget, CliError> {
    let parsed = match text.split_once(':') {
        None if text == "origin" => Some(RollbackTarget::Origin),
        None => digits(text).map(RollbackTarget::Height),
        Some(("slot", slot)) => digits(slot).map(RollbackTarget::Slot),
        Some((height, hash)) => digits(height).and_then(|height| {
            let hash = BlockHash(network.parse_hash(hash)?);
            Some(RollbackTarget::Point { height, hash })
        }),
    };
    parsed.ok_or_else(|| {
        CliError::usage(format!("`{text}` is not a place on the chain"))
            .hint("write HEIGHT, slot:N, HEIGHT:HASH or origin")
    })
}

/// Digits only: no sign, no space.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use unspent_model::TxId;

    use super::*;

    #[test]
    fn targets_and_coins_are_read_and_nonsense_is_refused() {
        let network = Network::Bitcoin;
        let hash = "00".repeat(31) + "01";
        let mut wire = [0; 32];
        wire[0] = 1;
        assert_eq!(target(network, "origin").unwrap(), RollbackTarget::Origin);
        assert_eq!(target(network, "17").unwrap(), RollbackTarget::Height(17));
        assert_eq!(target(network, "slot:17").unwrap(), RollbackTarget::Slot(17));
        let point = RollbackTarget::Point { height: 17, hash: BlockHash(wire) };
        assert_eq!(target(network, &format!("17:{hash}")).unwrap(), point);
        for bad in
            ["", "-1", "+1", "slot:", "slot:x", "17:", "17:zz", "x:y", "99999999999999999999"]
        {
            assert!(target(network, bad).is_err(), "{bad}");
        }
        for written in [format!("{hash}:3"), format!("{hash}#3")] {
            let coin = outpoint(network, &written).unwrap();
            assert_eq!(coin, Outpoint::new(TxId(wire), 3));
        }
        for bad in ["", "#", "zz#1", &format!("{hash}#"), &format!("{hash}#4294967296")] {
            assert!(outpoint(network, bad).is_err(), "{bad}");
        }
    }
}
