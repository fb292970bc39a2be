//! Address text of each network: what is accepted can be shown, and what is shown is accepted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_model::network::NETWORKS;
use unspent_networks::address::{Query, parse_query, show_address, show_stake_address};

fuzz_target!(|bytes: &[u8]| {
    for (network, _) in NETWORKS {
        let _ = show_address(network, bytes);
        let _ = show_stake_address(network, bytes);
        let Ok(text) = str::from_utf8(bytes) else { continue };
        if let Ok(Query::Address(raw)) = parse_query(network, text) {
            let shown = show_address(network, &raw);
            assert_eq!(parse_query(network, &shown), Ok(Query::Address(raw)), "{network} {shown}");
        }
    }
});
