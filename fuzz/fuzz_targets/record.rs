//! A coin's record: what decodes re-encodes to the same bytes, and what was encoded decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::codec::{decode_record, encode_record};
use unspent_fuzz::{Source, damage};

fn canonical(bytes: &[u8]) {
    if let Ok(record) = decode_record(bytes) {
        assert_eq!(encode_record(&record), bytes);
    }
}

fuzz_target!(|bytes: &[u8]| {
    canonical(bytes);
    let mut source = Source(bytes);
    let record = source.record();
    let mut encoded = encode_record(&record);
    assert_eq!(decode_record(&encoded).as_ref(), Ok(&record));
    damage(&mut encoded, &mut source);
    canonical(&encoded);
});
