//! The methods: branch and bound, a single random draw, largest first, oldest first.

use super::{
    CoinCandidate, CoinGroup, CoinSelection, FeeRule, PaidAmount, SelectError, SelectionRequest,
    signed,
};

/// How a set of coins is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SelectionMethod {
    /// Searches for a set that needs no change.
    BranchAndBound,
    /// Takes coins in random order until they suffice.
    RandomDraw,
    /// Takes the most valuable coins first.
    LargestFirst,
    /// Takes the oldest coins first.
    OldestFirst,
}

/// Every method with its name.
pub(super) const METHODS: [(SelectionMethod, &str); 4] = [
    (SelectionMethod::BranchAndBound, "branch-and-bound"),
    (SelectionMethod::RandomDraw, "random-draw"),
    (SelectionMethod::LargestFirst, "largest-first"),
    (SelectionMethod::OldestFirst, "oldest-first"),
];

/// Steps after which branch and bound settles for what it has. Core takes 100,000, with no lock
/// held: here other payments of the wallet wait meanwhile.
const BRANCH_LIMIT: u32 = 20_000;

impl SelectionMethod {
    /// As requests and answers spell it.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("", |(_, name)| name)
    }
}

/// Stands for a price that was not worked out.
const NOT_YET: SelectError = SelectError::NoExactMatch;

/// Where the chosen coins' value goes.
struct ValueSplit {
    paid: u64,
    fee: u64,
    change: Option<u64>,
    /// What no output gets beyond the fee that was wanted.
    given_away: u64,
}

pub(super) struct SelectionSearch<'a> {
    candidates: &'a [CoinCandidate],
    request: &'a SelectionRequest,
    /// Chosen in any case.
    required: Vec<&'a CoinGroup>,
    /// Free to choose and worth it, most valuable first.
    free: Vec<&'a CoinGroup>,
}

impl<'a> SelectionSearch<'a> {
    pub(super) fn new(
        candidates: &'a [CoinCandidate],
        groups: &'a [CoinGroup],
        request: &'a SelectionRequest,
    ) -> Self {
        let required = groups.iter().filter(|group| group.required).collect();
        // A coin is worth its input at the rate, whoever bears the fee; coins of one address that
        // no transaction can hold together are left alone.
        let most = request.max_weight.saturating_sub(request.base_weight);
        let fits = |group: &CoinGroup| !request.by_address || group.weight <= most;
        let is_worth =
            |group: &&CoinGroup| group.amount > request.rate.cost(group.weight) && fits(group);
        let mut free: Vec<&CoinGroup> =
            groups.iter().filter(|group| !group.required).filter(is_worth).collect();
        free.sort_by_key(|group| std::cmp::Reverse(group.value));
        Self { candidates, request, required, free }
    }

    pub(super) fn run(&self, method: SelectionMethod) -> Result<CoinSelection, SelectError> {
        match method {
            SelectionMethod::BranchAndBound => self.branch_and_bound(),
            SelectionMethod::RandomDraw => self.take_in(method, &self.shuffled()),
            SelectionMethod::LargestFirst => self.take_in(method, &self.free),
            SelectionMethod::OldestFirst => {
                let mut oldest = self.free.clone();
                oldest.sort_by_key(|group| group.age);
                self.take_in(method, &oldest)
            }
        }
    }

    /// All coins that are worth their input, for outputs that get all they hold.
    pub(super) fn everything(&self) -> Result<CoinSelection, SelectError> {
        let found = self.priced(SelectionMethod::LargestFirst, &self.free)?;
        self.light(CoinSelection {
            tried: vec![(SelectionMethod::LargestFirst, Ok(found.waste))],
            ..found
        })
    }

    /// Takes groups in order until they suffice.
    fn take_in(
        &self,
        method: SelectionMethod,
        order: &[&CoinGroup],
    ) -> Result<CoinSelection, SelectError> {
        let mut taken = Vec::new();
        let mut next = order.iter();
        let mut bound = self.bound();
        loop {
            // The exact price is worked out only once the cheap bound says that it may suffice:
            // otherwise a thousand small coins would be added up a thousand times.
            let priced = if bound >= 0 { self.priced(method, &taken) } else { Err(NOT_YET) };
            match (priced, next.next()) {
                (Ok(selection), _) => return self.light(selection),
                (Err(_), Some(group)) => {
                    taken.push(*group);
                    // Rounding up per group can make a sum a little too small, by a sat each.
                    bound = bound.saturating_add(group.value).saturating_add(1);
                }
                (Err(NOT_YET), None) => return Err(self.shortage(&taken)),
                (Err(reason), None) => return Err(reason),
            }
        }
    }

    /// A cheap test before the sums are done in full: what the required coins bring beyond what is
    /// wanted at least.
    fn bound(&self) -> i64 {
        let slack = signed(self.required.len() as u64);
        let value: i64 = self.required.iter().map(|group| group.value).sum();
        // A want that saturates leaves a bound that no coins reach.
        value.saturating_add(slack).saturating_sub(self.wanted())
    }

    /// What the coins must bring at least, after their own fees.
    fn wanted(&self) -> i64 {
        let request = self.request;
        let fee = match (request.pays, request.fee) {
            (PaidAmount::LessFee, _) => 0,
            (_, FeeRule::Exactly(fee)) => fee,
            _ => request.rate.cost(request.base_weight),
        };
        // A want that saturates is more than all coins hold: refused as a shortage.
        signed(request.target).saturating_add(signed(fee))
    }

    fn shortage(&self, taken: &[&CoinGroup]) -> SelectError {
        let request = self.request;
        let all = || self.required.iter().chain(taken);
        let value: i64 = all().map(|group| group.value).sum();
        let inputs: u64 = all().map(|group| group.weight).sum();
        // What the whole fee is beyond what the inputs cost, where a rule makes it higher.
        let whole = signed(request.fee.fee(request.rate, request.base_weight + inputs));
        let rest = whole.saturating_sub(signed(request.part_rate().cost(inputs)));
        let fee = if request.pays == PaidAmount::LessFee { 0 } else { rest };
        // Told to people: what is missing, as far as that can be counted.
        let needed = self.wanted().max(signed(request.target).saturating_add(fee));
        SelectError::Insufficient {
            // At least 1, whatever was saturated.
            missing: u64::try_from(needed.saturating_sub(value)).unwrap_or(0).max(1),
            available: u64::try_from(value).unwrap_or(0),
        }
    }

    fn light(&self, selection: CoinSelection) -> Result<CoinSelection, SelectError> {
        let (weight, max) = (selection.weight, self.request.max_weight);
        if weight > max { Err(SelectError::TooHeavy { weight, max }) } else { Ok(selection) }
    }

    /// Works out fee, change and waste of a set that may or may not suffice.
    fn priced(
        &self,
        method: SelectionMethod,
        taken: &[&CoinGroup],
    ) -> Result<CoinSelection, SelectError> {
        let all = || self.required.iter().chain(taken);
        let amount: u64 = all().map(|group| group.amount).sum();
        let inputs: u64 = all().map(|group| group.weight).sum();
        let mut chosen: Vec<usize> = all().flat_map(|group| group.members.clone()).collect();
        chosen.sort_unstable();
        let request = self.request;
        let bare = request.base_weight + inputs + count_weight(chosen.len());
        let split = self.split(amount, bare).ok_or_else(|| self.shortage(taken))?;
        let weight = bare + split.change.map_or(0, |_| request.change.weight);
        if split.paid == 0 && request.target > 0 {
            return Err(SelectError::FeeEatsAll { fee: split.fee });
        }
        // What these inputs cost now beyond what they would cost on a day of usual fees.
        let timing =
            signed(request.rate.cost(inputs)) - signed(request.long_term_rate.cost(inputs));
        let rest = match split.change {
            Some(_) => self.cost_of_change(),
            None => split.given_away,
        };
        Ok(CoinSelection {
            chosen,
            paid: split.paid,
            fee: split.fee,
            change: split.change,
            weight,
            waste: timing + signed(rest),
            method,
            tried: Vec::new(),
        })
    }

    /// Divides what the coins hold between outputs, change and miners; `None` when it is too
    /// little. Change below what is worth an output goes to miners, or to outputs that bear the
    /// fee.
    fn split(&self, amount: u64, bare: u64) -> Option<ValueSplit> {
        let request = self.request;
        let fee = request.fee.fee(request.rate, bare);
        let changed = request.fee.fee(request.rate, bare + request.change.weight);
        let is_worth = |change: &u64| *change >= request.change.least(request.long_term_rate);
        if request.pays == PaidAmount::All {
            let paid = amount.checked_sub(fee).filter(|paid| *paid >= request.target.max(1))?;
            return Some(ValueSplit { paid, fee, change: None, given_away: 0 });
        }
        let excess = amount.checked_sub(request.target)?;
        if request.pays == PaidAmount::LessFee {
            let change = Some(excess).filter(is_worth);
            let fee = if change.is_some() { changed } else { fee };
            let rest = amount - change.unwrap_or(0);
            // What the fee leaves nothing of pays nothing, and is refused as dust.
            let paid = rest.saturating_sub(fee).min(request.target);
            return Some(ValueSplit { paid, fee: rest - paid, change, given_away: 0 });
        }
        let over = excess.checked_sub(fee)?;
        let change = excess.checked_sub(changed).filter(is_worth);
        if change.is_none() && request.needs_change {
            return None;
        }
        let fee = excess - change.unwrap_or(0);
        Some(ValueSplit { paid: request.target, fee, change, given_away: over })
    }

    fn cost_of_change(&self) -> u64 {
        let change = self.request.change;
        let now = self.request.rate.cost(change.weight);
        // Change that costs more than there is isn't made.
        now.saturating_add(self.request.long_term_rate.cost(change.spend_weight))
    }

    /// Looks for a set whose value lies between what is wanted and that plus the cost of change.
    fn branch_and_bound(&self) -> Result<CoinSelection, SelectError> {
        let required: i64 = self.required.iter().map(|group| group.value).sum();
        let wanted = self.wanted() - required;
        // The whole transaction's size is rounded up once, each group's fee too.
        let rounding = signed(self.request.rate.cost(7)) + signed(self.free.len() as u64);
        let most = wanted.saturating_add(signed(self.cost_of_change())).saturating_add(rounding);
        let mut rest: i64 = self.free.iter().map(|group| group.value).sum();
        if required + rest < self.wanted() {
            return Err(self.shortage(&self.free));
        }
        // Depth first over "with" and "without" each coin, the most valuable first: `path` are the
        // coins taken, `value` their sum, `rest` what those from `at` on could still add.
        let mut path: Vec<usize> = Vec::new();
        let mut best: Option<CoinSelection> = None;
        let (mut value, mut at) = (0_i64, 0_usize);
        for _ in 0..BRANCH_LIMIT {
            // Too much already, as change would be cheaper; or never enough, whatever is added.
            let hopeless = value > most || value + rest < wanted;
            // What seems to suffice may lack the few satoshis by which sizes are rounded up.
            let is_enough = !hopeless && value >= wanted && self.keep_better(&mut best, &path);
            if hopeless || is_enough || at >= self.free.len() {
                // Go back to the last one taken and leave it out instead.
                let Some(last) = path.pop() else { break };
                for group in self.free.get(last + 1..at).unwrap_or_default() {
                    rest += group.value;
                }
                value -= self.free.get(last).map_or(0, |group| group.value);
                at = last + 1;
            } else if let Some(group) = self.free.get(at) {
                path.push(at);
                value += group.value;
                rest -= group.value;
                at += 1;
            }
        }
        best.ok_or(SelectError::NoExactMatch)
    }

    /// Whether the coins suffice; they are kept if they fit better than the best so far.
    fn keep_better(&self, best: &mut Option<CoinSelection>, path: &[usize]) -> bool {
        let taken: Vec<&CoinGroup> =
            path.iter().filter_map(|at| self.free.get(*at).copied()).collect();
        let Ok(found) = self.priced(SelectionMethod::BranchAndBound, &taken) else { return false };
        let fits = found.change.is_none() && found.weight <= self.request.max_weight;
        if fits && best.as_ref().is_none_or(|best| found.waste < best.waste) {
            *best = Some(found);
        }
        true
    }

    fn shuffled(&self) -> Vec<&'a CoinGroup> {
        let mut order = self.free.clone();
        let mut state = self.request.seed;
        for at in (1..order.len()).rev() {
            let with = splitmix(&mut state) % (at as u64 + 1);
            order.swap(at, usize::try_from(with).unwrap_or(at));
        }
        debug_assert!(order.len() <= self.candidates.len());
        order
    }
}

/// Weight of the count of inputs beyond the one byte that is always there.
fn count_weight(inputs: usize) -> u64 {
    if inputs < 253 { 4 } else { 12 }
}

/// One step of SplitMix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
