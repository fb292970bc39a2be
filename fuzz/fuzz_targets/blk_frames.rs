//! Bitcoin block files: every block found lies inside the file, with and without obfuscation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_model::Network;
use unspent_networks::bitcoin::framing::{Scanner, magic, split_frames, xor};

fn scan(bytes: &[u8]) {
    let mut end = 0;
    for block in split_frames(Network::Bitcoin, bytes).into_iter().flatten().flatten() {
        end += block.len();
        assert!(end <= bytes.len());
    }
}

fuzz_target!(|bytes: &[u8]| {
    scan(bytes);
    // A fuzzer does not guess the magic: give it frames.
    let mut framed = Vec::new();
    for part in bytes.chunks(100) {
        framed.extend(magic(Network::Bitcoin).unwrap_or_default());
        framed.extend_from_slice(part);
    }
    scan(&framed);
    let (key, body) = bytes.split_at(bytes.len().min(8));
    let key = key.try_into().unwrap_or([0x5a; 8]);
    xor(&mut framed, &key, 0);
    for scanned in [framed.as_slice(), body] {
        let found = Scanner::new(Network::Bitcoin, scanned, key).into_iter().flatten();
        for found in found.flatten() {
            assert!(found.offset + found.length as u64 <= scanned.len() as u64);
        }
    }
});
