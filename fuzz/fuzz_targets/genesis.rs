//! Genesis files: a value or an error, whatever the bytes; coins come sorted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_model::Network;
use unspent_networks::cardano::genesis::genesis_coins;

fuzz_target!(|bytes: &[u8]| {
    for network in [Network::CardanoMainnet, Network::CardanoPreview] {
        let middle = bytes.len() / 2;
        for files in [&[bytes][..], &[&bytes[..middle], &bytes[middle..]][..]] {
            if let Ok(coins) = genesis_coins(network, files) {
                assert!(coins.is_sorted_by_key(|coin| coin.outpoint));
            }
        }
    }
});
