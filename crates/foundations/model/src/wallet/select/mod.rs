//! Which coins pay for what, and why these.
//!
//! # The problem
//!
//! Every input costs a fee by its weight ([BIP 141]), change costs an output now and an input
//! later, and small coins may cost more than they hold. To spend many coins is cheap while fees are
//! low and dear while they are high. A set that matches the amount needs no change at all, but to
//! find one is a knapsack problem. And coins of one address that are spent apart tell a reader of
//! the chain more than coins spent together.
//!
//! # The answer
//!
//! The methods and the measure to compare them are Bitcoin Core's ([`coinselection.cpp`], after
//! Erhardt's [thesis]): branch and bound for a match, a random draw where there is none, and
//! *waste*, which weighs paying now against paying later:
//!
//! `waste = inputs × (rate − long-term rate) + (cost of change, or what no change gives away)`
//!
//! Everything is counted in whole satoshis and weight units. A coin is worth its amount less the
//! fee for its own input (its effective value); one that costs more than it brings is never chosen
//! unless required. Several methods are tried and the one that wastes least is taken; the answer
//! says what each came to.
//!
//! Randomness comes in as a seed, so that the same request has the same answer.
//!
//! [BIP 141]: https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki
//! [`coinselection.cpp`]:
//!     https://github.com/bitcoin/bitcoin/blob/master/src/wallet/coinselection.cpp
//! [thesis]: https://murch.one/erhardt2016coinselection.pdf

mod methods;
mod package;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::wallet::AddressId;

pub use methods::SelectionMethod;
pub use package::{PackageAncestor, UnpaidAncestors, unpaid};

/// Weight units that a transaction has before inputs and outputs: version, locktime, segwit marker.
pub const OVERHEAD_WEIGHT: u64 = 4 * 8 + 2;

/// The heaviest transaction that nodes relay.
pub const MAX_STANDARD_WEIGHT: u64 = 400_000;

/// Rates above this are taken for a mistake: 1,000 sat/vB.
pub const MAX_RATE: FeePerWeight = FeePerWeight { sat_per_kwu: 250_000 };

/// A fee rate, in satoshis per thousand weight units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FeePerWeight {
    /// Satoshis per thousand weight units; 1 sat/vB is 250.
    pub sat_per_kwu: u64,
}

impl FeePerWeight {
    /// The fee for a whole transaction: nodes count its virtual size in whole virtual bytes, so
    /// that is what is paid for.
    pub fn fee(self, weight: u64) -> u64 {
        // No transaction is that heavy; a fee that saturates is one that no coins pay.
        self.cost(virtual_size(weight).saturating_mul(4))
    }

    /// What a part of a transaction adds to its fee, in whole satoshis.
    pub fn cost(self, weight: u64) -> u64 {
        let cost = u128::from(self.sat_per_kwu) * u128::from(weight);
        u64::try_from(cost.div_ceil(1000)).unwrap_or(u64::MAX)
    }
}

/// Virtual bytes of a weight, rounded up as nodes do.
pub fn virtual_size(weight: u64) -> u64 {
    weight.div_ceil(4)
}

/// What a replacement must pay beyond what it replaces, for each virtual byte of its own: as nodes
/// have long asked for (Core's `DEFAULT_INCREMENTAL_RELAY_FEE`); newer ones ask for less.
pub const INCREMENTAL: FeePerWeight = FeePerWeight { sat_per_kwu: 250 };

/// How a fee is worked out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeeRule {
    /// By the rate alone.
    ByRate,
    /// This much, whatever the transaction weighs.
    Exactly(u64),
    /// By the rate, and at least what [BIP 125] asks of a replacement: the old fee and the relay of
    /// its own size on top, at a higher rate than the old one's.
    ///
    /// [BIP 125]: https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki
    Replacing {
        /// The old fee.
        fee: u64,
        /// The old weight.
        weight: u64,
    },
    /// By the rate for this and its unpaid ancestors together, less what those pay.
    Lifting {
        /// The fee of the ancestors.
        fee: u64,
        /// Four times their virtual sizes.
        weight: u64,
    },
}

impl FeeRule {
    /// The least fee of a transaction of this weight.
    pub fn fee(self, rate: FeePerWeight, weight: u64) -> u64 {
        let plain = rate.fee(weight);
        match self {
            Self::ByRate => plain,
            Self::Exactly(fee) => fee,
            Self::Replacing { fee, weight: old } => {
                // A fee that saturates here or below is one that no coins pay.
                let relayed = fee.saturating_add(INCREMENTAL.fee(weight));
                let size = u128::from(virtual_size(weight));
                let same = u128::from(fee) * size / u128::from(virtual_size(old).max(1));
                // One that saturates is one that no coins pay.
                let higher = u64::try_from(same).unwrap_or(u64::MAX).saturating_add(1);
                plain.max(relayed).max(higher)
            }
            Self::Lifting { fee, weight: parent } => {
                // No package is that heavy.
                let sizes = virtual_size(weight).saturating_add(virtual_size(parent));
                let package = rate.cost(sizes.saturating_mul(4));
                // Parents that pay more than their share lower nothing.
                plain.max(package.saturating_sub(fee))
            }
        }
    }
}

/// What the outputs get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaidAmount {
    /// The target; the fee comes on top.
    Target,
    /// The target less the fee.
    LessFee,
    /// All that the candidates hold, less the fee; at least the target.
    All,
}

/// A coin that may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoinCandidate {
    /// Satoshis.
    pub amount: u64,
    /// Weight of the input that spends it, signatures included.
    pub weight: u64,
    /// The smaller, the older: height of its block, or above all heights when in none.
    pub age: u64,
    /// Coins of one address have the same group.
    pub group: AddressId,
    /// Whether it must be chosen.
    pub required: bool,
}

/// What change would look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangePolicy {
    /// Weight of the change output.
    pub weight: u64,
    /// Weight of the input that will spend it one day.
    pub spend_weight: u64,
    /// The least that nodes take as an output; less is dust.
    pub min: u64,
}

impl ChangePolicy {
    /// The least change that is worth an output: above dust, and above what it will cost to spend
    /// on a day of usual fees.
    fn least(self, long_term: FeePerWeight) -> u64 {
        // Change that has to be worth more than there is isn't made.
        self.min.max(long_term.cost(self.spend_weight).saturating_add(1)).max(1)
    }
}

/// What is to be paid, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectionRequest {
    /// What the outputs hold together.
    pub target: u64,
    /// Weight of everything but inputs and change.
    pub base_weight: u64,
    /// The fee rate to pay.
    pub rate: FeePerWeight,
    /// The rate expected in the long run, which decides whether spending more coins now is waste.
    pub long_term_rate: FeePerWeight,
    /// How the fee is worked out.
    pub fee: FeeRule,
    /// What the outputs get.
    pub pays: PaidAmount,
    /// What change would look like.
    pub change: ChangePolicy,
    /// Whether change is the only output, so that there must be some.
    pub needs_change: bool,
    /// Whether a rate that looks like a mistake is meant.
    pub allow_high_fee: bool,
    /// Which methods to try.
    pub strategy: SelectionStrategy,
    /// Whether coins of one address are chosen together.
    pub by_address: bool,
    /// The heaviest transaction allowed.
    pub max_weight: u64,
    /// For the random draw.
    pub seed: u64,
}

impl SelectionRequest {
    /// What a unit of weight adds to what is wanted of the coins: nothing when the fee is fixed, or
    /// when the outputs bear it.
    fn part_rate(&self) -> FeePerWeight {
        let is_free = matches!(self.fee, FeeRule::Exactly(_)) || self.pays == PaidAmount::LessFee;
        if is_free { FeePerWeight { sat_per_kwu: 0 } } else { self.rate }
    }
}

/// Which methods to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelectionStrategy {
    /// All, and the least waste wins.
    Best,
    /// Only this one.
    Only(SelectionMethod),
}

/// What was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoinSelection {
    /// Places of the chosen candidates, ascending.
    pub chosen: Vec<usize>,
    /// What the outputs get together.
    pub paid: u64,
    /// What goes to miners.
    pub fee: u64,
    /// What comes back, if anything does.
    pub change: Option<u64>,
    /// Weight of the whole transaction.
    pub weight: u64,
    /// What this choice costs beyond the ideal one; may be negative.
    pub waste: i64,
    /// The method that found it.
    pub method: SelectionMethod,
    /// What each method came to.
    pub tried: Vec<(SelectionMethod, Result<i64, SelectError>)>,
}

impl CoinSelection {
    /// Why these coins, in one sentence.
    pub fn why(&self) -> String {
        let others: Vec<String> = self
            .tried
            .iter()
            .filter(|(method, _)| *method != self.method)
            .map(|(method, came_to)| match came_to {
                Ok(waste) => format!("{} wastes {waste}", method.name()),
                Err(error) => format!("{}: {error}", method.name()),
            })
            .collect();
        let change = match self.change {
            Some(change) => format!("change of {change}"),
            None => "no change".to_owned(),
        };
        let rest =
            if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        format!(
            "{} chose {} coins with {change} and a waste of {} sats{rest}",
            self.method.name(),
            self.chosen.len(),
            self.waste
        )
    }
}

/// Why nothing was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectError {
    /// The candidates don't suffice.
    #[error(
        "{missing} sats are missing: after paying for their own inputs, the coins bring {available}"
    )]
    Insufficient {
        /// What is missing.
        missing: u64,
        /// What all candidates bring after their own fees.
        available: u64,
    },
    /// No set of coins hits the amount without change.
    #[error("no set of coins matches without change")]
    NoExactMatch,
    /// The coins that suffice weigh too much.
    #[error("the transaction would weigh {weight} weight units; at most {max} are allowed")]
    TooHeavy {
        /// Weight of the attempt.
        weight: u64,
        /// Weight allowed.
        max: u64,
    },
    /// Sums went beyond what 64 bits hold.
    #[error("amounts or weights are too large")]
    Overflow,
    /// The rate looks like a mistake.
    #[error("a fee rate above 1,000 sat/vB looks like a mistake; allow a high fee if you mean it")]
    RateTooHigh,
    /// No node passes on what pays nothing.
    #[error("a fee rate of 0 is refused: no node would relay the transaction")]
    RateZero,
    /// The outputs that are to bear the fee hold less than it.
    #[error("the fee of {fee} sats is more than the outputs it is taken from hold")]
    FeeEatsAll {
        /// The fee.
        fee: u64,
    },
}

/// Chooses coins.
///
/// # Errors
///
/// [`SelectError`] when no method finds a set; the best known reason is told.
pub fn select(
    candidates: &[CoinCandidate],
    request: &SelectionRequest,
) -> Result<CoinSelection, SelectError> {
    let by_rate = !matches!(request.fee, FeeRule::Exactly(_));
    if request.rate > MAX_RATE && !request.allow_high_fee {
        return Err(SelectError::RateTooHigh);
    }
    if by_rate && request.rate.sat_per_kwu == 0 {
        return Err(SelectError::RateZero);
    }
    check_sums(candidates, request)?;
    let groups = grouped(candidates, request);
    let search = methods::SelectionSearch::new(candidates, &groups, request);
    if request.pays == PaidAmount::All {
        return search.everything();
    }
    let asked = match request.strategy {
        SelectionStrategy::Best => methods::METHODS.map(|(method, _)| method).to_vec(),
        SelectionStrategy::Only(method) => vec![method],
    };
    let found: Vec<_> = asked.into_iter().map(|method| (method, search.run(method))).collect();
    let tried: Vec<_> = found
        .iter()
        .map(|(method, result)| (*method, result.as_ref().map(|s| s.waste).map_err(|e| *e)))
        .collect();
    let best = found.into_iter().filter_map(|(_, result)| result.ok());
    match best.min_by_key(|selection| (selection.waste, selection.chosen.len())) {
        Some(best) => Ok(CoinSelection { tried, ..best }),
        None => Err(worst_reason(&tried)),
    }
}

/// "Too heavy" and "too little" tell more than "no exact match".
fn worst_reason(tried: &[(SelectionMethod, Result<i64, SelectError>)]) -> SelectError {
    let reasons = || tried.iter().filter_map(|(_, result)| result.err());
    let told = reasons().find(|reason| *reason != SelectError::NoExactMatch);
    told.or_else(|| reasons().next()).unwrap_or(SelectError::NoExactMatch)
}

/// All sums below are taken over these, so none of them can overflow.
fn check_sums(candidates: &[CoinCandidate], request: &SelectionRequest) -> Result<(), SelectError> {
    let amounts: u128 = candidates.iter().map(|coin| u128::from(coin.amount)).sum();
    let weights: u128 = candidates.iter().map(|coin| u128::from(coin.weight)).sum();
    let (fixed, old) = match request.fee {
        FeeRule::ByRate => (0, 0),
        FeeRule::Exactly(fee) => (fee, 0),
        FeeRule::Replacing { fee, weight } | FeeRule::Lifting { fee, weight } => (fee, weight),
    };
    let all = amounts + u128::from(request.target) + u128::from(fixed);
    let heavy = weights
        + u128::from(old)
        + u128::from(request.base_weight)
        + u128::from(request.change.weight)
        + u128::from(request.change.spend_weight);
    let limit = u128::from(u64::MAX >> 22);
    let too_much = all > u128::from(u64::MAX >> 2) || heavy > limit;
    if too_much { Err(SelectError::Overflow) } else { Ok(()) }
}

/// Coins that are chosen together.
#[derive(Clone, Debug)]
struct CoinGroup {
    members: Vec<usize>,
    amount: u64,
    weight: u64,
    /// Amount less the fee for its own inputs; may be negative.
    value: i64,
    age: u64,
    required: bool,
}

fn grouped(candidates: &[CoinCandidate], request: &SelectionRequest) -> Vec<CoinGroup> {
    let mut groups: Vec<CoinGroup> = Vec::new();
    let mut places: HashMap<AddressId, usize> = HashMap::new();
    for (at, coin) in candidates.iter().enumerate() {
        let place = request.by_address.then(|| places.get(&coin.group).copied()).flatten();
        match place.and_then(|place| groups.get_mut(place)) {
            Some(group) => {
                group.members.push(at);
                group.amount += coin.amount;
                group.weight += coin.weight;
                group.age = group.age.min(coin.age);
                group.required |= coin.required;
            }
            None => {
                places.insert(coin.group, groups.len());
                groups.push(CoinGroup {
                    members: vec![at],
                    amount: coin.amount,
                    weight: coin.weight,
                    value: 0,
                    age: coin.age,
                    required: coin.required,
                });
            }
        }
    }
    let rate = request.part_rate();
    for group in &mut groups {
        // A coin that costs more than can be counted is worth nothing, and left alone.
        group.value = signed(group.amount).saturating_sub(signed(rate.cost(group.weight)));
    }
    groups
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
