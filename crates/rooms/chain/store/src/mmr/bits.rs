//! The bits of 1,024 leaves.

use unspent_verify::{Hash, LiveChunk, hash, proof::CHUNK_BITS, tree::Node};

use crate::{
    error::StoreError,
    schema::{ColumnFamily, NodeKey},
};

const BYTES: usize = 128;

/// Height of the tree over the leaves of one chunk. Higher up nothing is pruned: those nodes are a
/// thousandth of all.
pub(crate) const CHUNK_HEIGHT: u8 = 10;

/// Which chunk a leaf's bits are in.
pub(crate) fn chunk_of(leaf: u64) -> u64 {
    leaf / CHUNK_BITS
}

/// The first leaf behind a leaf's chunk.
pub(crate) fn chunk_end(leaf: u64) -> u64 {
    (chunk_of(leaf) + 1) * CHUNK_BITS
}

/// How many chunks so many leaves have.
pub(crate) fn chunk_count(leaves: u64) -> u64 {
    leaves.div_ceil(CHUNK_BITS)
}

/// 1,024 leaves, as they lie on disk: live bits, then settled bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bits {
    /// 1 while the leaf is unspent.
    pub(crate) live: [u8; BYTES],
    /// 1 once the leaf was spent at or before the floor: no rollback gives it back.
    pub(crate) settled: [u8; BYTES],
}

impl Bits {
    pub(crate) const NONE: Self = Self { live: [0; BYTES], settled: [0; BYTES] };

    pub(crate) fn encode(&self) -> [u8; 2 * BYTES] {
        let mut bytes = [0; 2 * BYTES];
        let (live, settled) = bytes.split_at_mut(BYTES);
        live.copy_from_slice(&self.live);
        settled.copy_from_slice(&self.settled);
        bytes
    }

    pub(crate) fn decode(key: &[u8; NodeKey::LEN], value: &[u8]) -> Result<Self, StoreError> {
        let whole = value.split_first_chunk().and_then(|(live, settled)| {
            Some(Self { live: *live, settled: settled.try_into().ok()? })
        });
        whole.ok_or_else(|| {
            let place = format!("{}[{key:02x?}]", ColumnFamily::MmrNodes.name());
            StoreError::Corrupt { place, what: "the bits are cut short".into() }
        })
    }

    pub(crate) fn is_live(&self, leaf: u64) -> bool {
        LiveChunk(self.live).is_live(leaf)
    }

    pub(crate) fn is_settled(&self, leaf: u64) -> bool {
        LiveChunk(self.settled).is_live(leaf)
    }

    pub(crate) fn set_live(&mut self, leaf: u64, to: bool) {
        set(&mut self.live, leaf, to);
    }

    pub(crate) fn settle(&mut self, leaf: u64) {
        set(&mut self.settled, leaf, true);
    }

    /// Bits of leaves from `first` on are 0; `first` lies in this chunk.
    pub(crate) fn cut(&mut self, first: u64) {
        let mut kept = u32::try_from(first % CHUNK_BITS).unwrap_or(0);
        for byte in &mut self.live {
            *byte &= !u8::MAX.checked_shr(kept).unwrap_or(0);
            // None of the later bytes is kept.
            kept = kept.saturating_sub(8);
        }
    }

    /// The leaf of the second tree.
    pub(crate) fn hash(&self, number: u64) -> Hash {
        hash::chunk(number, &self.live)
    }

    pub(crate) fn count_live(&self) -> u64 {
        self.live.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }
}

fn set(bytes: &mut [u8; BYTES], leaf: u64, to: bool) {
    let bit = usize::try_from(leaf % CHUNK_BITS).unwrap_or(0);
    let Some(byte) = bytes.get_mut(bit / 8) else { return };
    let mask = 0x80 >> (bit % 8);
    if to { *byte |= mask } else { *byte &= !mask }
}

/// For each height from 1 to [`CHUNK_HEIGHT`] which nodes of a chunk have settled leaves only: bits
/// in the order of nodes, the first the highest of the first word.
pub(crate) struct FullNodes(Vec<Vec<u64>>);

impl FullNodes {
    pub(crate) fn of(settled: &[u8; BYTES]) -> Self {
        let mut below: Vec<u64> =
            settled.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
        let mut levels = Vec::with_capacity(CHUNK_HEIGHT.into());
        for _ in 0..CHUNK_HEIGHT {
            let halves = below.chunks(2).map(|pair| {
                let both = |at: usize| pair.get(at).map_or(0, |word| pairs(*word));
                both(0) << 32 | both(1)
            });
            below = halves.collect();
            levels.push(below.clone());
        }
        Self(levels)
    }

    /// Whether the node at a height has settled leaves only; `within` counts from the chunk's first
    /// node of that height.
    pub(crate) fn has(&self, height: u8, within: u64) -> bool {
        let level = usize::from(height).checked_sub(1).and_then(|height| self.0.get(height));
        let word = level.and_then(|level| level.get(usize::try_from(within / 64).unwrap_or(0)));
        word.is_some_and(|word| word >> (63 - within % 64) & 1 == 1)
    }
}

/// Each two neighbouring bits as one, which is 1 when both are; in the lower half.
fn pairs(word: u64) -> u64 {
    // A thousand pairs for each chunk that is written: by whole words that costs next to nothing.
    let mut both = word & word << 1 & 0xaaaa_aaaa_aaaa_aaaa;
    both >>= 1;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333_u64),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        both = (both | both >> shift) & mask;
    }
    both
}

/// Nodes of a chunk that nobody needs any more now that more leaves are settled: both children of
/// every node that has become full.
pub(crate) fn superfluous(number: u64, before: &[u8; BYTES], after: &[u8; BYTES]) -> Vec<Node> {
    if before == after {
        return Vec::new();
    }
    let (before, after) = (FullNodes::of(before), FullNodes::of(after));
    let mut nodes = Vec::new();
    for height in 1..=CHUNK_HEIGHT {
        let width = 1_u64 << (CHUNK_HEIGHT - height);
        for within in (0..width).filter(|at| after.has(height, *at) && !before.has(height, *at)) {
            let left = 2 * (number * width + within);
            nodes.extend([(height - 1, left), (height - 1, left + 1)]);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_full_when_all_its_leaves_are_settled() {
        let mut bits = Bits::NONE;
        let holes = [3_u64, 700, 701, 1023];
        for leaf in (0..1024).filter(|leaf| !holes.contains(leaf)) {
            bits.settle(leaf);
        }
        let full = FullNodes::of(&bits.settled);
        for height in 1..=CHUNK_HEIGHT {
            for at in 0..1024_u64 >> height {
                let leaves = at << height..(at + 1) << height;
                let expected = leaves.clone().all(|leaf| !holes.contains(&leaf));
                assert_eq!(full.has(height, at), expected, "{height} {at}");
            }
        }
        let all = superfluous(5, &[0; 128], &[0xff; 128]);
        assert_eq!(all.len(), 2046);
        let rest = superfluous(5, &bits.settled, &[0xff; 128]);
        let first = superfluous(5, &[0; 128], &bits.settled);
        assert_eq!(first.len() + rest.len(), all.len());
        assert!(all.iter().all(|(height, index)| index >> (10 - height) == 5));
    }

    #[test]
    fn cutting_clears_the_rest() {
        let mut bits = Bits { live: [0xff; 128], settled: [0; 128] };
        bits.cut(4096 + 13);
        assert_eq!(bits.count_live(), 13);
        assert!(bits.is_live(12) && !bits.is_live(13));
        bits.set_live(12, false);
        assert_eq!(bits.count_live(), 12);
        assert_eq!(Bits::decode(&[0; NodeKey::LEN], &bits.encode()).unwrap(), bits);
        assert!(Bits::decode(&[0; NodeKey::LEN], &[0; 255]).is_err());
    }
}
