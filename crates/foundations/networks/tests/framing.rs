//! Block files cut into blocks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{self, Cursor, Read};

use unspent_model::Network;
use unspent_networks::{
    bitcoin::framing::{Found, FramingError, Scanner, XorKey, magic, split_frames, xor},
    bitcoin_header,
    cardano::framing::{SplitError, split_cbor_items},
};

const NETWORK: Network = Network::BitcoinRegtest;
const PLAIN: XorKey = [0; 8];
/// Its first byte makes the first magic start with a zero.
const KEY: XorKey = [0xfa, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];

fn block(size: usize, seed: u8) -> Vec<u8> {
    (0..size).map(|i| seed.wrapping_mul(31).wrapping_add((i % 251).to_le_bytes()[0])).collect()
}

fn framed(block: &[u8]) -> Vec<u8> {
    let length = u32::try_from(block.len()).unwrap().to_le_bytes();
    [&magic(NETWORK).unwrap()[..], &length, block].concat()
}

/// Gives one byte at a time, as a slow pipe may.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let room = into.len().min(1);
        self.0.read(&mut into[..room])
    }
}

fn scan(file: &[u8], key: XorKey) -> Result<Vec<Found>, FramingError> {
    let all = Scanner::new(NETWORK, file, key).unwrap().collect::<Result<Vec<_>, _>>();
    let slowly = Scanner::new(NETWORK, Trickle(file), key).unwrap();
    let slowly = slowly.collect::<Result<Vec<_>, _>>();
    let seeking = Scanner::seeking(NETWORK, Cursor::new(file), key, 0).unwrap();
    let seeking = seeking.collect::<Result<Vec<_>, _>>();
    for other in [&slowly, &seeking] {
        match (&all, other) {
            (Ok(all), Ok(other)) => assert_eq!(all, other),
            (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
            (one, other) => panic!("{one:?} or {other:?}"),
        }
    }
    // Going on after any block finds the rest.
    for (i, found) in all.iter().flatten().enumerate() {
        let after = found.offset + found.length as u64;
        let rest = Scanner::seeking(NETWORK, Cursor::new(file), key, after).unwrap();
        let rest = rest.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(rest, all.as_ref().unwrap()[i + 1..]);
    }
    all
}

/// Blocks with padding of every length between them, and the zeros a node allocates at the end.
fn padded_file(key: XorKey) -> (Vec<u8>, Vec<Vec<u8>>) {
    let blocks: Vec<_> = (0..20).map(|i| block(81 + 97 * usize::from(i), i)).collect();
    let mut file = Vec::new();
    for (padding, block) in blocks.iter().enumerate() {
        let mut frame = framed(block);
        xor(&mut frame, &key, file.len() as u64);
        file.extend(frame);
        file.extend(vec![0; padding]);
    }
    file.extend(vec![0; 100_000]);
    (file, blocks)
}

#[test]
fn blocks_are_found_between_padding_with_and_without_a_key() {
    for key in [PLAIN, KEY] {
        let (file, blocks) = padded_file(key);
        let found = scan(&file, key).unwrap();
        assert_eq!(found.len(), blocks.len());
        for (found, block) in found.iter().zip(&blocks) {
            let start = usize::try_from(found.offset).unwrap();
            let mut bytes = file[start..start + found.length].to_vec();
            xor(&mut bytes, &key, found.offset);
            assert_eq!(&bytes, block);
            assert_eq!(found.header, bitcoin_header(block).unwrap());
        }
    }
}

#[test]
fn zeros_obfuscated_with_the_key_are_padding_too() {
    let mut file = [framed(&block(100, 1)), vec![0; 777], framed(&block(90, 2))].concat();
    xor(&mut file, &KEY, 0);
    assert_eq!(scan(&file, KEY).unwrap().len(), 2);
}

#[test]
fn a_plain_file_in_memory_splits_into_the_same_blocks() {
    let (file, blocks) = padded_file(PLAIN);
    let split: Vec<_> = split_frames(NETWORK, &file).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(split, blocks);
    assert_eq!(split_frames(NETWORK, &[]).unwrap().count(), 0);
}

#[test]
fn xor_twice_is_nothing_and_pieces_fit_together() {
    let plain = block(1_000, 3);
    let mut whole = plain.clone();
    xor(&mut whole, &KEY, 5);
    let mut pieces = plain.clone();
    let (left, right) = pieces.split_at_mut(333);
    xor(left, &KEY, 5);
    xor(right, &KEY, 5 + 333);
    assert_eq!(pieces, whole);
    assert_ne!(whole, plain);
    xor(&mut whole, &KEY, 5);
    assert_eq!(whole, plain);
}

#[test]
fn a_torn_block_is_an_error_that_names_its_offset() {
    let first = framed(&block(100, 1));
    let second = framed(&block(200, 2));
    let at = first.len() as u64;
    for cut in 1..second.len() {
        let file = [first.as_slice(), &second[..cut]].concat();
        let mut scanner = Scanner::new(NETWORK, file.as_slice(), PLAIN).unwrap();
        assert!(scanner.next().unwrap().is_ok());
        let error = scanner.next().unwrap().unwrap_err();
        assert!(matches!(error, FramingError::Torn { offset } if offset == at), "{cut}: {error}");
        assert!(scanner.next().is_none(), "nothing follows an error");
    }
}

#[test]
fn wrong_magic_wrong_key_and_wrong_lengths_are_refused() {
    let file = framed(&block(100, 1));
    let other = Scanner::new(Network::Bitcoin, file.as_slice(), PLAIN).unwrap().next();
    assert!(matches!(other, Some(Err(FramingError::BadMagic { offset: 0, .. }))));
    assert!(matches!(scan(&file, [9; 8]), Err(FramingError::BadMagic { offset: 0, .. })));
    for length in [0, 80, 4_000_001, u32::MAX] {
        let mut file = file.clone();
        file[4..8].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(scan(&file, PLAIN), Err(FramingError::BadLength { offset: 0, .. })));
    }
    let cardano = Scanner::new(Network::CardanoPreview, file.as_slice(), PLAIN);
    assert!(matches!(cardano, Err(FramingError::NoFraming(_))));
}

#[test]
fn magics_are_those_of_the_networks() {
    assert_eq!(magic(Network::Bitcoin), Some([0xf9, 0xbe, 0xb4, 0xd9]));
    assert_eq!(magic(Network::BitcoinTestnet4), Some([0x1c, 0x16, 0x3f, 0x28]));
    assert_eq!(magic(Network::BitcoinSignet), Some([0x0a, 0x03, 0xcf, 0x40]));
    assert_eq!(magic(Network::BitcoinRegtest), Some([0xfa, 0xbf, 0xb5, 0xda]));
    assert_eq!(magic(Network::CardanoMainnet), None);
}

#[test]
fn chunks_split_into_items_and_a_torn_one_is_named() {
    let items: [&[u8]; 5] = [&[0x82, 1, 2], &[0x9f, 1, 0xff], &[0x42, 7, 7], &[0xa0], &[0x00]];
    let chunk = items.concat();
    let split: Vec<_> = split_cbor_items(&chunk).collect::<Result<_, _>>().unwrap();
    assert_eq!(split, items);
    assert_eq!(split_cbor_items(&[]).count(), 0);
    let torn: Vec<_> = split_cbor_items(&chunk[..8]).collect();
    assert_eq!(torn, [Ok(items[0]), Ok(items[1]), Err(SplitError::Torn { offset: 6 })]);
    let damaged: Vec<_> = split_cbor_items(&[0x00, 0xfe, 0x00]).collect();
    assert!(matches!(damaged[..], [Ok(_), Err(SplitError::Malformed { offset: 1, .. })]));
}

#[test]
fn an_item_larger_than_any_block_is_refused() {
    let mut chunk = vec![0x00, 0x5a, 0x00, 0x90, 0x00, 0x00];
    chunk.resize(10 * 1024 * 1024, 0);
    let split: Vec<_> = split_cbor_items(&chunk).collect();
    let limit = 8 * 1024 * 1024;
    assert_eq!(split, [Ok(&[0x00][..]), Err(SplitError::TooLarge { offset: 1, limit })]);
}
