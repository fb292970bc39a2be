//! Sums of sets that don't depend on the order of their elements.

/// A set, or a multiset, in two numbers: how many elements, and their hashes added modulo 2^128.
///
/// Two different sets have equal sums with a chance of one in 2^128, whatever accident made them
/// differ, because every hash is as good as random. Addition instead of exclusive or: an element
/// that is there twice doesn't cancel itself. Somebody who wants to deceive could find sets of
/// equal sums, but whoever can write to the folder can as well rewrite both tellings: this guards
/// against mistakes, not against the owner of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SetSum {
    count: u64,
    sum: u128,
}

impl SetSum {
    /// Adds the element that consists of these parts. All but the last must have a fixed length.
    pub(super) fn add(&mut self, parts: &[&[u8]]) {
        let mut state = blake2b_simd::Params::new().hash_length(16).to_state();
        for part in parts {
            state.update(part);
        }
        let hash = state.finalize();
        let number = hash.as_bytes().first_chunk().copied().map_or(0, u128::from_le_bytes);
        self.count += 1;
        self.sum = self.sum.wrapping_add(number);
    }

    /// Adds the elements of another sum.
    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
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
