//! Cardano chunk files: the items found are the file, back to back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_networks::cardano::framing::split_cbor_items;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    for item in split_cbor_items(bytes) {
        let Ok(item) = item else { return };
        assert!(!item.is_empty());
        assert_eq!(rest.get(..item.len()), Some(item));
        rest = &rest[item.len()..];
    }
    assert!(rest.is_empty());
});
