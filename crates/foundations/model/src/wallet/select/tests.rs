//! Selection on coins made up for the purpose.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;

fn coin(amount: u64) -> CoinCandidate {
    CoinCandidate { amount, weight: 272, age: amount, group: AddressId(0), required: false }
}

fn request(target: u64) -> SelectionRequest {
    SelectionRequest {
        target,
        base_weight: OVERHEAD_WEIGHT + 4 + 124,
        rate: FeePerWeight { sat_per_kwu: 250 },
        long_term_rate: FeePerWeight { sat_per_kwu: 250 },
        fee: FeeRule::ByRate,
        pays: PaidAmount::Target,
        needs_change: false,
        allow_high_fee: false,
        change: ChangePolicy { weight: 124, spend_weight: 272, min: 294 },
        strategy: SelectionStrategy::Best,
        by_address: false,
        max_weight: MAX_STANDARD_WEIGHT,
        seed: 7,
    }
}

#[test]
fn branch_and_bound_finds_the_set_without_change() {
    let coins: Vec<_> = [50_000, 30_000, 20_000, 11_000, 7_000].map(coin).into();
    let fee = FeePerWeight { sat_per_kwu: 250 }.fee(OVERHEAD_WEIGHT + 4 + 124 + 2 * 272 + 4);
    let found = select(&coins, &request(41_000 - fee)).unwrap();
    assert_eq!((found.method, found.change, found.chosen), {
        (SelectionMethod::BranchAndBound, None, vec![1, 3])
    });
}

#[test]
fn a_coin_without_effective_value_is_left_alone_unless_required() {
    let mut coins = vec![coin(100_000), coin(10), coin(0)];
    let found = select(&coins, &request(50_000)).unwrap();
    assert_eq!(found.chosen, vec![0]);
    coins[1].required = true;
    assert_eq!(select(&coins, &request(50_000)).unwrap().chosen, vec![0, 1]);
}

#[test]
fn insufficient_coins_are_refused_with_what_is_missing() {
    let error = select(&[coin(1_000)], &request(5_000)).unwrap_err();
    assert!(matches!(error, SelectError::Insufficient { missing, .. } if missing > 4_000));
    assert!(matches!(select(&[], &request(1)), Err(SelectError::Insufficient { .. })));
}

#[test]
fn a_selection_above_the_maximum_weight_is_refused() {
    let coins: Vec<_> = (0..100).map(|_| coin(1_000)).collect();
    let heavy = SelectionRequest { max_weight: 2_000, ..request(50_000) };
    assert!(matches!(select(&coins, &heavy), Err(SelectError::TooHeavy { max: 2_000, .. })));
}

#[test]
fn coins_of_one_address_are_spent_together_when_asked() {
    let mut coins: Vec<_> = [40_000, 30_000, 20_000].map(coin).into();
    (coins[0].group, coins[2].group) = (AddressId(1), AddressId(1));
    let together = SelectionRequest { by_address: true, ..request(35_000) };
    let found = select(&coins, &together).unwrap();
    assert!(!found.chosen.contains(&0) || found.chosen.contains(&2));
}

#[test]
fn largest_and_oldest_first_take_their_order() {
    let coins: Vec<_> = [10_000, 90_000, 50_000].map(coin).into();
    let only =
        |method| SelectionRequest { strategy: SelectionStrategy::Only(method), ..request(9_000) };
    assert_eq!(select(&coins, &only(SelectionMethod::LargestFirst)).unwrap().chosen, vec![1]);
    assert_eq!(select(&coins, &only(SelectionMethod::OldestFirst)).unwrap().chosen, vec![0]);
}

#[test]
fn a_high_fee_rate_is_refused() {
    let absurd = SelectionRequest { rate: FeePerWeight { sat_per_kwu: 250_001 }, ..request(1) };
    assert_eq!(select(&[coin(1_000_000)], &absurd), Err(SelectError::RateTooHigh));
}

#[test]
fn a_fee_rate_of_zero_is_refused() {
    let free = SelectionRequest { rate: FeePerWeight { sat_per_kwu: 0 }, ..request(1) };
    assert_eq!(select(&[coin(1_000_000)], &free), Err(SelectError::RateZero));
}

#[test]
fn the_fee_is_for_whole_virtual_bytes() {
    let five = FeePerWeight { sat_per_kwu: 1_250 };
    assert_eq!((five.fee(561), five.cost(561)), (5 * 141, 702));
    assert_eq!(virtual_size(561), 141);
}

#[test]
fn a_bump_pays_the_old_fee_its_relay_and_a_higher_rate() {
    let paid = |fee, weight| {
        let asked = SelectionRequest { fee: FeeRule::Replacing { fee, weight }, ..request(50_000) };
        let found = select(&[coin(100_000)], &asked).unwrap();
        (found.fee, virtual_size(found.weight))
    };
    let (fee, size) = paid(9_000, 400_000);
    assert_eq!(fee, 9_000 + size, "old fee and one sat for each virtual byte");
    let (fee, size) = paid(3_000, 400);
    assert!(fee * 100 > 3_000 * size, "the rate is higher than 30 sat/vB");
}

#[test]
fn cpfp_pays_for_the_parent() {
    let lifting = FeeRule::Lifting { fee: 100, weight: 800 };
    let rate = FeePerWeight { sat_per_kwu: 2_500 };
    let asked =
        SelectionRequest { fee: lifting, rate, needs_change: true, target: 0, ..request(0) };
    let found = select(&[CoinCandidate { required: true, ..coin(100_000) }], &asked).unwrap();
    assert_eq!(found.fee, 10 * (200 + virtual_size(found.weight)) - 100);
    assert_eq!((found.paid, found.change), (0, Some(100_000 - found.fee)));
}

#[test]
fn an_exact_fee_is_paid_exactly() {
    let asked = SelectionRequest { fee: FeeRule::Exactly(777), ..request(50_000) };
    let found = select(&[coin(100_000)], &asked).unwrap();
    assert_eq!((found.fee, found.change), (777, Some(100_000 - 50_000 - 777)));
}

#[test]
fn outputs_bear_the_fee_when_asked() {
    let asked = SelectionRequest { pays: PaidAmount::LessFee, ..request(50_000) };
    let found = select(&[coin(50_000), coin(30_000)], &asked).unwrap();
    assert_eq!((found.chosen, found.change), (vec![0], None));
    assert_eq!(found.paid, 50_000 - found.fee);
    let asked = SelectionRequest { rate: MAX_RATE, ..asked };
    let eaten = select(&[coin(50_000)], &asked);
    assert!(matches!(
        eaten,
        Err(SelectError::FeeEatsAll { .. } | SelectError::Insufficient { .. })
    ));
}

#[test]
fn all_spends_every_coin_with_effective_value() {
    let asked = SelectionRequest { pays: PaidAmount::All, ..request(0) };
    let found = select(&[coin(50_000), coin(30_000), coin(20)], &asked).unwrap();
    assert_eq!((found.chosen, found.change), (vec![0, 1], None));
    assert_eq!(found.paid, 80_000 - found.fee);
    assert_eq!(found.fee, asked.rate.fee(found.weight));
}

#[test]
fn change_that_costs_more_to_spend_than_it_holds_is_not_made() {
    let long_term_rate = FeePerWeight { sat_per_kwu: 2_500 };
    let asked = |target| SelectionRequest { long_term_rate, ..request(target) };
    let fee = |found: &CoinSelection| FeePerWeight { sat_per_kwu: 250 }.fee(found.weight);
    // 600 sats are no dust, but to spend them will cost 680.
    let without = select(&[coin(100_000)], &asked(100_000 - 110 - 31 - 600)).unwrap();
    assert_eq!(without.change, None);
    assert!(without.fee > fee(&without));
    let with = select(&[coin(100_000)], &asked(100_000 - 110 - 31 - 900)).unwrap();
    assert!(with.change.is_some_and(|change| change > 680), "{with:?}");
}

#[test]
fn coins_of_one_address_that_no_transaction_can_hold_are_left_alone() {
    let mut coins: Vec<_> =
        (0..60).map(|_| CoinCandidate { group: AddressId(1), ..coin(90_000) }).collect();
    coins.push(CoinCandidate { group: AddressId(2), ..coin(70_000) });
    let asked = SelectionRequest { by_address: true, max_weight: 10_000, ..request(50_000) };
    assert_eq!(select(&coins, &asked).unwrap().chosen, vec![60]);
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
        let coins: Vec<_> = amounts.iter().enumerate().map(|(at, amount)| CoinCandidate {
            group: AddressId(at as i64 / 3),
            ..coin(*amount)
        }).collect();
        let rate = FeePerWeight { sat_per_kwu: rate };
        let asked = SelectionRequest { rate, by_address, seed, ..request(target) };
        if let Ok(found) = select(&coins, &asked) {
            let total: u64 = found.chosen.iter().map(|at| coins[*at].amount).sum();
            prop_assert_eq!(total, found.paid + found.fee + found.change.unwrap_or(0));
            prop_assert_eq!(found.paid, target);
            prop_assert!(found.fee >= asked.rate.fee(found.weight));
            prop_assert!(found.change.is_none_or(|change| change >= 294));
            prop_assert!(found.chosen.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(select(&coins, &asked).unwrap(), found);
        }
    }

    #[test]
    fn hostile_numbers_never_panic(
        amounts in prop::collection::vec(any::<u64>(), 0..8),
        weight: u64, target: u64, base_weight: u64, rate: u64, fee: u64, rule in 0..4, pays in 0..3,
    ) {
        let rules = [
            FeeRule::ByRate,
            FeeRule::Exactly(fee),
            FeeRule::Replacing { fee, weight },
            FeeRule::Lifting { fee, weight },
        ];
        let heavy = |amount: &u64| CoinCandidate { weight, ..coin(*amount) };
        let coins: Vec<_> = amounts.iter().map(heavy).collect();
        let asked = SelectionRequest {
            base_weight,
            fee: rules[rule as usize],
            pays: [PaidAmount::Target, PaidAmount::LessFee, PaidAmount::All][pays as usize],
            rate: FeePerWeight { sat_per_kwu: rate % 300_000 },
            ..request(target)
        };
        let _ = select(&coins, &asked);
    }
}
