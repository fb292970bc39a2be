//! Many entries in the order of their keys, without leaving the processor's caches.
//!
//! A bulk batch has a million entries of up to a hundred bytes, in the order of a hash map. Sorting
//! them in place, or by reference, reaches all over memory for each of them. So they are dealt out
//! first, by the leading bits of their keys, and each share is sorted by itself: keys are hashes,
//! so shares are of about the same size, and small enough to stay in a cache.

use std::cmp::Ordering;

use crate::error::StoreError;

/// Entries that are sorted together, about. Some hundred kilobytes.
const SHARE: usize = 2_048;
/// At most two to this power shares: each one is a place in memory that is written to in turn.
const MOST_BITS: u32 = 9;

/// How to tell which of two entries comes first.
pub(crate) struct KeyOrder<T> {
    /// The beginning of the key, as a number: decides nearly always.
    pub(crate) first: fn(&T) -> u64,
    /// Decides the rest.
    pub(crate) compare: fn(&T, &T) -> Ordering,
}

impl<T> KeyOrder<T> {
    /// Visits all entries in order; `about` so many come.
    pub(crate) fn visit(
        &self,
        about: usize,
        entries: impl Iterator<Item = T>,
        mut visit: impl FnMut(&T) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for share in self.deal(about, entries) {
            let first = |entry| ((self.first)(entry), entry);
            let mut order: Vec<(u64, &T)> = share.iter().map(first).collect();
            order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| (self.compare)(a.1, b.1)));
            order.into_iter().try_for_each(|(_, entry)| visit(entry))?;
        }
        Ok(())
    }

    /// Shares in the order of their keys, each in none.
    fn deal(&self, about: usize, entries: impl Iterator<Item = T>) -> Vec<Vec<T>> {
        let bits = (about / SHARE).checked_ilog2().map_or(0, |bits| (bits + 1).min(MOST_BITS));
        let count = 1_usize << bits;
        let room = about / count + about / count / 8;
        let mut shares: Vec<Vec<T>> = (0..count).map(|_| Vec::with_capacity(room)).collect();
        for entry in entries {
            // All 64 bits off is no shift that a processor knows: then there is one share.
            let share = (self.first)(&entry).checked_shr(u64::BITS - bits).unwrap_or_default();
            let share = usize::try_from(share).ok().and_then(|share| shares.get_mut(share));
            if let Some(share) = share {
                share.push(entry);
            }
        }
        shares
    }
}

/// The beginning of a key that is a hash.
pub(crate) fn first_of(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_their_keys_however_many_they_are() {
        let order = KeyOrder { first: |key: &[u8; 9]| first_of(key), compare: Ord::cmp };
        for count in [0_usize, 1, SHARE, SHARE * 3, 200_000] {
            let mut state = 7_u64;
            let mut keys = Vec::new();
            for at in 0..count {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // One in four begins like all others of its kind: the last byte decides.
                let first = if at % 4 == 0 { u64::MAX } else { state };
                let mut key = [u8::try_from(state >> 56).unwrap(); 9];
                key[..8].copy_from_slice(&first.to_be_bytes());
                keys.push(key);
            }
            let mut seen = Vec::new();
            order
                .visit(count, keys.iter().copied(), |key| {
                    seen.push(*key);
                    Ok(())
                })
                .unwrap();
            keys.sort_unstable();
            assert_eq!(seen, keys);
        }
    }
}
