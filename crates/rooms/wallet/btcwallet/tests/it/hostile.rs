//! Bytes that nobody meant well.

use unspent_btcwallet::{ReadError, WalletFile, bolt};

use super::file;

const PAGE: usize = 4096;

/// Everything but the opening of the seal, which takes a second.
fn read(bytes: &[u8]) -> Result<usize, ReadError> {
    let file = WalletFile::read(bytes)?;
    Ok(file.history.txs.len() + file.history.unspent(0).len() + file.keys.addresses.len())
}

#[test]
fn no_flipped_byte_brings_the_reader_down() {
    for name in ["a/wallet.db", "b/wallet.db", "e/wallet.db"] {
        let Some(mut bytes) = file(name) else { return };
        let whole = read(&bytes).unwrap();
        let mut refused = 0;
        // Every byte three ways takes ten minutes and found nothing; each run takes some.
        for (at, flip) in (0..bytes.len()).step_by(37).zip([0xFF, 0x01, 0x80].into_iter().cycle()) {
            bytes[at] ^= flip;
            refused += u32::from(read(&bytes).is_err());
            bytes[at] ^= flip;
        }
        assert!(refused > 100, "{name}: only {refused} changes were noticed");
        assert_eq!(read(&bytes).unwrap(), whole);
    }
}

#[test]
fn no_cut_brings_the_reader_down() {
    let Some(bytes) = file("b/wallet.db") else { return };
    let whole = read(&bytes).unwrap();
    for long in (0..bytes.len()).step_by(61) {
        // Pages that were never given are no loss.
        if let Ok(found) = read(&bytes[..long]) {
            assert_eq!(found, whole, "{long}");
            assert!(long > bytes.len() / 2);
        }
    }
}

#[test]
fn random_runs_of_bytes_are_refused_or_read_but_end() {
    let Some(whole) = file("b/wallet.db") else { return };
    // A small generator is enough: the same runs each time.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..=next() % 8 {
            let (at, long) = (next() % bytes.len(), next() % 32);
            let from = next() % (bytes.len() - long);
            let to = (at + long).min(bytes.len());
            let run = bytes[from..from + (to - at)].to_vec();
            bytes[at..to].copy_from_slice(&run);
        }
        let _ = read(&bytes);
    }
}

/// The smallest file: two meta pages, and then whatever follows.
fn made(pages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..2_u64 {
        let mut meta = Vec::new();
        meta.extend(0xED0C_DAED_u32.to_le_bytes());
        meta.extend(2_u32.to_le_bytes());
        meta.extend((PAGE as u32).to_le_bytes());
        meta.extend(0_u32.to_le_bytes());
        let last = pages.len() as u64 + 2;
        for field in [2, 0, u64::MAX, last, number] {
            meta.extend(field.to_le_bytes());
        }
        let sum = meta.iter().fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        let mut page = header(number, 4, 0);
        page.extend(meta);
        page.extend(sum.to_le_bytes());
        page.resize(PAGE, 0);
        bytes.extend(page);
    }
    for page in pages {
        let mut page = page.clone();
        page.resize(PAGE, 0);
        bytes.extend(page);
    }
    bytes
}

fn header(number: u64, flags: u16, count: u16) -> Vec<u8> {
    let mut page = number.to_le_bytes().to_vec();
    page.extend(flags.to_le_bytes());
    page.extend(count.to_le_bytes());
    page.extend(0_u32.to_le_bytes());
    page
}

fn branch(number: u64, children: &[u64]) -> Vec<u8> {
    let mut page = header(number, 1, children.len() as u16);
    for child in children {
        page.extend(0_u32.to_le_bytes());
        page.extend(0_u32.to_le_bytes());
        page.extend(child.to_le_bytes());
    }
    page
}

#[test]
fn a_tree_that_bites_its_tail_is_refused() {
    let circle = made(&[branch(2, &[3]), branch(3, &[2])]);
    let error = bolt::read(&circle).unwrap_err().to_string();
    assert!(error.contains("two places refer to it"), "{error}");
    let shared = made(&[branch(2, &[3, 3]), header(3, 2, 0)]);
    assert!(bolt::read(&shared).is_err());
    let meta = made(&[branch(2, &[1])]);
    assert!(bolt::read(&meta).unwrap_err().to_string().contains("no such page"));
    assert!(bolt::read(&made(&[header(2, 2, 0)])).unwrap().entries().next().is_none());
}

/// Small buckets inside each other, each with as many elements as fit, all of the same bytes.
#[test]
fn overlapping_buckets_do_not_multiply() {
    let mut value = [0_u8; 16].to_vec();
    value.extend(header(0, 2, 0));
    for _ in 0..8 {
        let count = 12_u16;
        let mut outer = [0_u8; 16].to_vec();
        outer.extend(header(0, 2, count));
        for n in 0..count {
            let far = u32::from(count - n) * 16;
            outer.extend(1_u32.to_le_bytes());
            outer.extend(far.to_le_bytes());
            outer.extend(u32::from(n).to_le_bytes()); // a longer key each time, so in order
            outer.extend((value.len() as u32 + 12 - u32::from(n)).to_le_bytes());
        }
        outer.extend([0; 12]);
        outer.extend(&value);
        value = outer;
    }
    let mut leaf = header(2, 2, 1);
    for field in [1_u32, 16, 0, value.len() as u32] {
        leaf.extend(field.to_le_bytes());
    }
    leaf.extend(value);
    assert!(leaf.len() < PAGE);
    assert!(bolt::read(&made(&[leaf])).is_err());
}
