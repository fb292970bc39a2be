//! Bitcoin blocks and headers: a value or an error, whatever the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_model::Network;
use unspent_networks::{bitcoin::ParsedBlock, bitcoin_header, decode_block};

fuzz_target!(|bytes: &[u8]| {
    let _ = bitcoin_header(bytes);
    let parsed = ParsedBlock::parse(bytes);
    for height in [None, Some(0), Some(170), Some(u64::MAX)] {
        let decoded = decode_block(Network::Bitcoin, bytes, height);
        if let Ok(block) = &decoded {
            assert!(block.coin_changes() <= bytes.len());
        }
        let shared = parsed.as_ref().map_err(Clone::clone);
        assert_eq!(shared.and_then(|block| block.to_model(Network::Bitcoin, height)), decoded);
    }
});
