//! What a child has to pay for: its unconfirmed ancestors, as miners count them.
//!
//! A miner takes the transaction whose fee over size is highest, together with what it rests on and
//! isn't taken yet. An ancestor that is worth its while by itself goes first, and its surplus is
//! gone then: it helps nobody above it. So what is taken anyway at the rate is left out, and the
//! child pays for the rest. Core's wallet counts in the same way (`MiniMiner`).

use super::FeePerWeight;

/// An unconfirmed transaction below the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageAncestor {
    /// In satoshis.
    pub fee: u64,
    /// In virtual bytes.
    pub virtual_size: u64,
    /// Places, in the same list, of those it rests on directly.
    pub parents: Vec<usize>,
}

/// Ancestors that no miner takes at the rate unless somebody pays for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpaidAncestors {
    /// How many.
    pub count: usize,
    /// What they pay together, in satoshis.
    pub fee: u64,
    /// Their size together, in virtual bytes.
    pub virtual_size: u64,
}

/// Which of the ancestors are left to pay for at a rate.
pub fn unpaid(ancestors: &[PackageAncestor], rate: FeePerWeight) -> UnpaidAncestors {
    let mut left = vec![true; ancestors.len()];
    loop {
        let groups = (0..ancestors.len()).filter(|place| is_left(&left, *place));
        let groups = groups.map(|place| {
            let members = with_ancestors(ancestors, &left, place);
            (sum(ancestors, &members), members)
        });
        let best = groups.max_by(|(a, _), (b, _)| {
            let value = |fee: u64, size: u64| u128::from(fee) * u128::from(size.max(1));
            value(a.fee, b.virtual_size).cmp(&value(b.fee, a.virtual_size))
        });
        match best {
            Some((group, members)) if group.fee >= cost(rate, group.virtual_size) => {
                for place in members {
                    if let Some(flag) = left.get_mut(place) {
                        *flag = false;
                    }
                }
            }
            _ => break,
        }
    }
    let rest: Vec<usize> = (0..ancestors.len()).filter(|place| is_left(&left, *place)).collect();
    sum(ancestors, &rest)
}

fn cost(rate: FeePerWeight, virtual_size: u64) -> u64 {
    // No package is that heavy; a fee that saturates is one that no coins pay.
    rate.cost(virtual_size.saturating_mul(4))
}

fn is_left(left: &[bool], place: usize) -> bool {
    left.get(place).copied().unwrap_or(false)
}

/// A transaction and all that is left below it.
fn with_ancestors(ancestors: &[PackageAncestor], left: &[bool], place: usize) -> Vec<usize> {
    let (mut members, mut at) = (vec![place], 0);
    while let Some(member) = members.get(at).copied() {
        let parents = ancestors.get(member).map_or(&[][..], |found| &found.parents);
        for parent in parents {
            if is_left(left, *parent) && !members.contains(parent) {
                members.push(*parent);
            }
        }
        at += 1;
    }
    members
}

fn sum(ancestors: &[PackageAncestor], members: &[usize]) -> UnpaidAncestors {
    let mut total = UnpaidAncestors { count: members.len(), ..UnpaidAncestors::default() };
    for found in members.iter().filter_map(|place| ancestors.get(*place)) {
        // Fees of what stands in a mempool are less than all coins there are.
        total.fee = total.fee.saturating_add(found.fee);
        total.virtual_size = total.virtual_size.saturating_add(found.virtual_size);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: FeePerWeight = FeePerWeight { sat_per_kwu: 2_500 };

    fn line(fees: &[u64]) -> Vec<PackageAncestor> {
        let of = |(place, fee): (usize, &u64)| PackageAncestor {
            fee: *fee,
            virtual_size: 100,
            parents: if place == 0 { vec![] } else { vec![place - 1] },
        };
        fees.iter().enumerate().map(of).collect()
    }

    fn left(fees: &[u64]) -> (usize, u64, u64) {
        let UnpaidAncestors { count, fee, virtual_size } = unpaid(&line(fees), TEN);
        (count, fee, virtual_size)
    }

    #[test]
    fn cpfp_pays_for_all_ancestors_below_the_rate() {
        assert_eq!(left(&[]), (0, 0, 0));
        assert_eq!(left(&[100, 200, 300]), (3, 600, 300));
        assert_eq!(left(&[1_000, 1_000]), (0, 0, 0));
    }

    #[test]
    fn an_ancestor_above_the_rate_is_mined_first_and_its_surplus_helps_nobody() {
        assert_eq!(left(&[9_000, 100]), (1, 100, 100));
        assert_eq!(left(&[9_000, 100, 200]), (2, 300, 200));
    }

    #[test]
    fn an_ancestor_that_is_a_cpfp_itself_takes_those_below_it_along() {
        assert_eq!(left(&[100, 1_900]), (0, 0, 0));
        assert_eq!(left(&[100, 1_900, 100]), (1, 100, 100));
        assert_eq!(left(&[100, 1_800, 100]), (3, 2_000, 300));
    }

    #[test]
    fn ancestors_that_several_share_count_once() {
        let mut found = line(&[100, 200]);
        found.push(PackageAncestor { fee: 300, virtual_size: 100, parents: vec![0] });
        found.push(PackageAncestor { fee: 400, virtual_size: 100, parents: vec![1, 2] });
        assert_eq!(
            unpaid(&found, TEN),
            UnpaidAncestors { count: 4, fee: 1_000, virtual_size: 400 }
        );
    }

    /// Whatever is left out, child and ancestors together reach the rate.
    #[test]
    fn the_whole_cpfp_package_reaches_the_rate() {
        let mut seed = 1_u64;
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let count = usize::try_from(1 + next(6)).unwrap_or(1);
            let found: Vec<PackageAncestor> = (0..count)
                .map(|place| PackageAncestor {
                    fee: next(3_000),
                    virtual_size: 50 + next(200),
                    parents: (0..place).filter(|_| next(2) == 0).collect(),
                })
                .collect();
            let rest = unpaid(&found, TEN);
            let child = cost(TEN, 100 + rest.virtual_size).saturating_sub(rest.fee);
            let fees: u64 = found.iter().map(|one| one.fee).sum();
            let sizes: u64 = found.iter().map(|one| one.virtual_size).sum();
            assert!(child + fees >= cost(TEN, 100 + sizes), "{found:?}");
        }
    }
}
