//! The coins a transaction names, each once.

use std::collections::HashSet;

use unspent_model::Outpoint;

/// Up to here, looking through the list is quicker than hashing.
const SHORT: usize = 16;

/// The outpoints in their order, without repeats.
pub(crate) fn without_repeats(mut spends: Vec<Outpoint>) -> Vec<Outpoint> {
    if spends.len() > SHORT {
        let mut seen = HashSet::with_capacity(spends.len());
        spends.retain(|spend| seen.insert(*spend));
    } else if has_repeats(&spends) {
        let mut seen = Vec::with_capacity(spends.len());
        spends.retain(|spend| {
            let is_new = !seen.contains(spend);
            seen.push(*spend);
            is_new
        });
    }
    spends
}

fn has_repeats(spends: &[Outpoint]) -> bool {
    let mut rest = spends;
    while let Some((first, others)) = rest.split_first() {
        if others.contains(first) {
            return true;
        }
        rest = others;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outpoints(indexes: impl IntoIterator<Item = u32>) -> Vec<Outpoint> {
        indexes.into_iter().map(|index| Outpoint { index, ..Outpoint::default() }).collect()
    }

    #[test]
    fn repeats_go_and_the_order_stays() {
        assert_eq!(without_repeats(outpoints([3, 1, 3, 2, 1])), outpoints([3, 1, 2]));
        assert_eq!(without_repeats(outpoints([])), []);
        let long = (0..40).chain(0..40).rev();
        assert_eq!(without_repeats(outpoints(long)), outpoints((0..40).rev()));
    }
}
