//! Cardano blocks of any era: a value or an error, whatever the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_model::Network;
use unspent_networks::decode_block;

fuzz_target!(|bytes: &[u8]| {
    for network in [Network::CardanoMainnet, Network::CardanoPreview] {
        if let Ok(block) = decode_block(network, bytes, None) {
            assert!(block.coin_changes() <= bytes.len());
        }
    }
});
