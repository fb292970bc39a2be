//! Bitcoin blocks and headers: a value or an error, whatever the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_model::Network;
use unspent_networks::{bitcoin_header, decode_block};

fuzz_target!(|bytes: &[u8]| {
    let _ = bitcoin_header(bytes);
    for height in [None, Some(0), Some(170), Some(u64::MAX)] {
        if let Ok(block) = decode_block(Network::Bitcoin, bytes, height) {
            assert!(block.coin_changes() <= bytes.len());
        }
    }
});
