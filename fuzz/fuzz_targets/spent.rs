//! A pointer to a spend: what decodes re-encodes to the same bytes, and what was encoded decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::codec::{decode_pointer, encode_pointer};
use unspent_fuzz::{Source, damage};

fn canonical(bytes: &[u8]) {
    if let Ok(number) = decode_pointer(bytes) {
        assert_eq!(encode_pointer(number), bytes);
    }
}

fuzz_target!(|bytes: &[u8]| {
    canonical(bytes);
    let mut source = Source(bytes);
    let number = u32::from_be_bytes(source.array());
    let mut encoded = encode_pointer(number);
    assert_eq!(decode_pointer(&encoded), Ok(number));
    damage(&mut encoded, &mut source);
    canonical(&encoded);
});
