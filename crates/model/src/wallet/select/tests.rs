//! Selection on coins made up for the purpose.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;

fn coin(amount: u64) -> Candidate {
    Candidate { amount, weight: 272, age: amount, group: 0, required: false }
}

fn request(target: u64) -> Request {
    Request {
        target,
        base_weight: OVERHEAD_WEIGHT + 4 + 124,
        rate: Rate { sat_per_kwu: 250 },
        long_term_rate: Rate { sat_per_kwu: 250 },
        min_fee: 0,
        change: ChangePolicy { weight: 124, spend_weight: 272, min: 294 },
        strategy: Strategy::Best,
        by_address: false,
        max_weight: MAX_STANDARD_WEIGHT,
        seed: 7,
    }
}

#[test]
fn branch_and_bound_finds_the_set_without_change() {
    let coins: Vec<_> = [50_000, 30_000, 20_000, 11_000, 7_000].map(coin).into();
    let fee = Rate { sat_per_kwu: 250 }.fee(OVERHEAD_WEIGHT + 4 + 124 + 2 * 272 + 4);
    let found = select(&coins, &request(41_000 - fee)).unwrap();
    assert_eq!((found.method, found.change, found.chosen), {
        (Method::BranchAndBound, None, vec![1, 3])
    });
}

#[test]
fn a_coin_that_costs_more_than_it_brings_is_left_alone_unless_required() {
    let mut coins = vec![coin(100_000), coin(10), coin(0)];
    let found = select(&coins, &request(50_000)).unwrap();
    assert_eq!(found.chosen, vec![0]);
    coins[1].required = true;
    assert_eq!(select(&coins, &request(50_000)).unwrap().chosen, vec![0, 1]);
}

#[test]
fn too_little_money_is_told_with_what_is_missing() {
    let error = select(&[coin(1_000)], &request(5_000)).unwrap_err();
    assert!(matches!(error, SelectError::Insufficient { missing, .. } if missing > 4_000));
    assert!(matches!(select(&[], &request(1)), Err(SelectError::Insufficient { .. })));
}

#[test]
fn too_heavy_is_told_and_not_taken() {
    let coins: Vec<_> = (0..100).map(|_| coin(1_000)).collect();
    let heavy = Request { max_weight: 2_000, ..request(50_000) };
    assert!(matches!(select(&coins, &heavy), Err(SelectError::TooHeavy { max: 2_000, .. })));
}

#[test]
fn coins_of_one_address_go_together_when_asked() {
    let mut coins: Vec<_> = [40_000, 30_000, 20_000].map(coin).into();
    (coins[0].group, coins[2].group) = (1, 1);
    let together = Request { by_address: true, ..request(35_000) };
    let found = select(&coins, &together).unwrap();
    assert!(!found.chosen.contains(&0) || found.chosen.contains(&2));
}

#[test]
fn largest_and_oldest_first_take_their_order() {
    let coins: Vec<_> = [10_000, 90_000, 50_000].map(coin).into();
    let only = |method| Request { strategy: Strategy::Only(method), ..request(9_000) };
    assert_eq!(select(&coins, &only(Method::LargestFirst)).unwrap().chosen, vec![1]);
    assert_eq!(select(&coins, &only(Method::OldestFirst)).unwrap().chosen, vec![0]);
}

#[test]
fn an_absurd_rate_is_refused() {
    let absurd = Request { rate: Rate { sat_per_kwu: 250_001 }, ..request(1) };
    assert_eq!(select(&[coin(1_000_000)], &absurd), Err(SelectError::RateTooHigh));
}

#[test]
fn a_replacement_pays_at_least_its_least_fee() {
    let paid = select(&[coin(100_000)], &Request { min_fee: 9_000, ..request(50_000) }).unwrap();
    assert!(paid.fee >= 9_000);
}

proptest! {
    #[test]
    fn money_in_equals_money_out_and_the_rate_is_paid(
        amounts in prop::collection::vec(0_u64..2_000_000, 0..40),
        target in 1_u64..3_000_000,
        rate in 250_u64..50_000,
        by_address: bool,
        seed: u64,
    ) {
        let coins: Vec<_> = amounts.iter().enumerate().map(|(at, amount)| Candidate {
            group: at as i64 / 3,
            ..coin(*amount)
        }).collect();
        let rate = Rate { sat_per_kwu: rate };
        let asked = Request { rate, by_address, seed, ..request(target) };
        if let Ok(found) = select(&coins, &asked) {
            let total: u64 = found.chosen.iter().map(|at| coins[*at].amount).sum();
            prop_assert_eq!(total, target + found.fee + found.change.unwrap_or(0));
            prop_assert!(found.fee >= asked.rate.fee(found.weight));
            prop_assert!(found.change.is_none_or(|change| change >= 294));
            prop_assert!(found.chosen.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(select(&coins, &asked).unwrap(), found);
        }
    }

    #[test]
    fn hostile_numbers_never_panic(
        amounts in prop::collection::vec(any::<u64>(), 0..8),
        weight: u64, target: u64, base_weight: u64, rate: u64, min_fee: u64,
    ) {
        let heavy = |amount: &u64| Candidate { weight, ..coin(*amount) };
        let coins: Vec<_> = amounts.iter().map(heavy).collect();
        let asked = Request {
            base_weight, min_fee, rate: Rate { sat_per_kwu: rate }, ..request(target)
        };
        let _ = select(&coins, &asked);
    }
}
