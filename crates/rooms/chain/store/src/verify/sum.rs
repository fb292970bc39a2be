//! Sums of sets that don't depend on the order of their elements.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::quality::FixedState;

/// Two hashes of 64 bits that have nothing to do with each other.
const HASHES: [FixedState; 2] =
    [FixedState::with_seed(0x243f_6a88_85a3_08d3), FixedState::with_seed(0x1319_8a2e_0370_7344)];

/// A set, or a multiset, in three numbers: how many elements, and two sums of their hashes, each
/// modulo 2^64.
///
/// An accident that makes two sets differ leaves their sums equal with a chance of one in 2^128:
/// hashes of different elements are as good as random. Addition instead of exclusive or: an element
/// that is there twice doesn't cancel itself. Somebody who wants to deceive could find sets of
/// equal sums, but whoever can write to the folder can as well rewrite both tellings: this guards
/// against mistakes, not against the owner of the disk. Hence no cryptographic hash, which took a
/// third of a whole check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SetSum {
    count: u64,
    sums: [u64; HASHES.len()],
}

impl SetSum {
    /// Adds the element that consists of these parts. All but the last must have a fixed length.
    pub(super) fn add(&mut self, parts: &[&[u8]]) {
        self.count += 1;
        for (sum, hash) in self.sums.iter_mut().zip(&HASHES) {
            let mut state = hash.build_hasher();
            parts.iter().for_each(|part| state.write(part));
            *sum = sum.wrapping_add(state.finish());
        }
    }

    /// Adds the elements of another sum.
    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.wrapping_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(elements: &[&[u8]]) -> SetSum {
        let mut sum = SetSum::default();
        elements.iter().for_each(|element| sum.add(&[element]));
        sum
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        assert_eq!(sum(&[b"a", b"b", b"c"]), sum(&[b"c", b"a", b"b"]));
        assert_ne!(sum(&[b"a", b"b"]), sum(&[b"a", b"c"]));
        assert_ne!(sum(&[b"a", b"a"]), sum(&[b"b", b"b"]));
        assert_ne!(sum(&[b"a", b"a"]), sum(&[]));
        let mut halves = sum(&[b"a"]);
        halves.merge(sum(&[b"b"]));
        assert_eq!(halves, sum(&[b"b", b"a"]));
    }
}
