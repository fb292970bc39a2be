//! A spent coin's record: what decodes re-encodes to the same bytes, and what was encoded decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::codec::{SpentRecord, decode_spent, encode_record, encode_spent};
use unspent_fuzz::{Source, damage, header};

fn encode(spent: &SpentRecord) -> Vec<u8> {
    let header = header(spent.at, spent.time, spent.epoch);
    encode_spent(spent.by, &header, &encode_record(&spent.record))
}

fn canonical(bytes: &[u8]) {
    if let Ok(spent) = decode_spent(bytes) {
        assert_eq!(encode(&spent), bytes);
    }
}

fuzz_target!(|bytes: &[u8]| {
    canonical(bytes);
    let mut source = Source(bytes);
    let spent = SpentRecord {
        by: source.maybe(Source::tx),
        at: source.point(),
        time: source.number(),
        epoch: source.maybe(Source::number),
        record: source.record(),
    };
    let mut encoded = encode(&spent);
    assert_eq!(decode_spent(&encoded).as_ref(), Ok(&spent));
    damage(&mut encoded, &mut source);
    canonical(&encoded);
});
