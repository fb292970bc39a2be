//! Every hash: Blake2b-256 with a byte in front that says what is hashed, so that nothing can be
//! taken for something else.
//!
//! | byte | what | follows |
//! |---|---|---|
//! | 0x00 | an output | place (8), txid (32), output index (4), Blake2b-256 of its record |
//! | 0x01, 0x04 | a node of the outputs, of the live bits | height (1), index at that height (8), left, right |
//! | 0x02, 0x05 | a bag of peaks of the outputs, of the live bits | number of leaves (8), left peak, bag of the rest |
//! | 0x03 | 1,024 live bits | number of the chunk (8), 128 bytes |
//! | 0x10 | the root of a block | length of the network's name (1), name, height (8), block hash, leaves (8), live leaves (8), root of the outputs, root of the live bits |
//!
//! Numbers are unsigned and big-endian. A tree without leaves has the hash of its bag's byte and
//! eight zero bytes as its root.

use alloc::vec::Vec;

use blake2b_simd::{
    Params,
    many::{HashManyJob, hash_many},
};

/// 32 bytes of Blake2b.
pub type Hash = [u8; 32];

const OUTPUT: u8 = 0x00;
const CHUNK: u8 = 0x03;
const ROOT: u8 = 0x10;

/// Hashes handed to the processor at once.
const AT_ONCE: usize = 64;

/// The hash of pieces one after another.
pub(crate) fn of(parts: &[&[u8]]) -> Hash {
    let mut params = Params::new();
    params.hash_length(32);
    // What fits into one block of the hash, as nodes do, is hashed in one go.
    let mut block = [0; 128];
    let mut length = 0;
    for part in parts {
        let Some(place) = block.get_mut(length..length + part.len()) else {
            let mut state = params.to_state();
            parts.iter().for_each(|part| {
                state.update(part);
            });
            return hash_of(&state.finalize());
        };
        place.copy_from_slice(part);
        length += part.len();
    }
    hash_of(&params.hash(block.get(..length).unwrap_or_default()))
}

fn hash_of(digest: &blake2b_simd::Hash) -> Hash {
    digest.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// An output at its place.
pub fn output(place: u64, txid: &[u8; 32], vout: u32, record: &[u8]) -> Hash {
    let (place, vout) = (place.to_be_bytes(), vout.to_be_bytes());
    of(&[&[OUTPUT], &place, txid, &vout, &of(&[record])])
}

/// Outputs one after another, the first at `first`: the same as [`output`] for each, several at a
/// time where the processor can.
pub fn outputs(first: u64, outputs: &[(&[u8; 32], u32, &[u8])]) -> Vec<Hash> {
    let records: Vec<&[u8]> = outputs.iter().map(|(_, _, record)| *record).collect();
    let mut leaves = Vec::with_capacity(outputs.len());
    for ((place, (txid, vout, _)), record) in (first..).zip(outputs).zip(each(&records)) {
        let (place, vout) = (place.to_be_bytes(), vout.to_be_bytes());
        leaves.push(joined::<77>(&[&[OUTPUT], &place, *txid, &vout, &record]));
    }
    each(&leaves)
}

/// The hash of each, several at a time where the processor can.
fn each(inputs: &[impl AsRef<[u8]>]) -> Vec<Hash> {
    let mut params = Params::new();
    params.hash_length(32);
    let mut hashes = Vec::with_capacity(inputs.len());
    for some in inputs.chunks(AT_ONCE) {
        let mut jobs: Vec<_> =
            some.iter().map(|input| HashManyJob::new(&params, input.as_ref())).collect();
        hash_many(jobs.iter_mut());
        hashes.extend(jobs.iter().map(|job| hash_of(&job.to_hash())));
    }
    hashes
}

/// Pieces one after another; together they have this length.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut all = [0; N];
    let mut rest = all.as_mut_slice();
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len().min(rest.len()));
        place.copy_from_slice(part.get(..place.len()).unwrap_or_default());
        rest = after;
    }
    all
}

/// 1,024 live bits: the first bit is the highest of the first byte.
pub fn chunk(number: u64, bits: &[u8; 128]) -> Hash {
    of(&[&[CHUNK], &number.to_be_bytes(), bits])
}

/// What differs between the two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain {
    node: u8,
    bag: u8,
}

impl Domain {
    /// The tree of outputs.
    pub const OUTPUTS: Self = Self { node: 0x01, bag: 0x02 };
    /// The tree of live bits.
    pub const LIVE: Self = Self { node: 0x04, bag: 0x05 };

    /// A node over two others.
    pub fn node(self, height: u8, index: u64, left: &Hash, right: &Hash) -> Hash {
        of(&[&[self.node, height], &index.to_be_bytes(), left, right])
    }

    /// Nodes of one height, each over two others: the same as [`Self::node`] for each.
    pub(crate) fn nodes(self, height: u8, pairs: &[(u64, [Hash; 2])]) -> Vec<(u64, Hash)> {
        let input = |(index, [left, right]): &(u64, [Hash; 2])| {
            joined::<74>(&[&[self.node, height], &index.to_be_bytes(), left, right])
        };
        let inputs: Vec<_> = pairs.iter().map(input).collect();
        pairs.iter().map(|(index, _)| *index).zip(each(&inputs)).collect()
    }

    /// The root over all peaks, the highest first.
    pub fn bag(self, leaves: u64, peaks: &[Hash]) -> Hash {
        let count = leaves.to_be_bytes();
        let Some((last, left)) = peaks.split_last() else { return of(&[&[self.bag], &count]) };
        let join = |bag: Hash, peak: &Hash| of(&[&[self.bag], &count, peak, &bag]);
        left.iter().rev().fold(*last, join)
    }
}

/// The root of a block.
pub(crate) fn root(
    network: &str,
    numbers: [u64; 3],
    block_hash: &[u8; 32],
    roots: [&Hash; 2],
) -> Hash {
    let [height, leaves, live] = numbers.map(u64::to_be_bytes);
    // Names of networks are short; a longer one than 255 bytes fits no root of ours.
    let length = u8::try_from(network.len()).unwrap_or(u8::MAX);
    let (name, [outputs, bits]) = (network.as_bytes(), roots);
    of(&[&[ROOT, length], name, &height, block_hash, &leaves, &live, outputs, bits])
}
