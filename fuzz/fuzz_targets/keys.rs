//! Keys: what decodes re-encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::schema::{AddressKey, OutpointKey, SpentKey, decode_ordinal};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(key) = OutpointKey::decode(bytes) {
        assert_eq!(key.encode(), bytes);
    }
    if let Ok(key) = SpentKey::decode(bytes) {
        assert_eq!(key.encode(), bytes);
    }
    if let Ok(key) = AddressKey::decode(bytes) {
        assert_eq!(key.encode(), bytes);
    }
    if let Ok(ordinal) = decode_ordinal(bytes) {
        assert_eq!(ordinal.to_be_bytes(), bytes);
    }
});
