//! The methods: branch and bound, a single random draw, largest first, oldest first.

use super::{Candidate, Group, Request, SelectError, Selection, signed};

/// How a set of coins is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Method {
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
pub(super) const METHODS: [(Method, &str); 4] = [
    (Method::BranchAndBound, "branch-and-bound"),
    (Method::RandomDraw, "random-draw"),
    (Method::LargestFirst, "largest-first"),
    (Method::OldestFirst, "oldest-first"),
];

/// Steps after which branch and bound settles for what it has; Core's `TOTAL_TRIES`.
const BRANCH_LIMIT: u32 = 100_000;

impl Method {
    /// As requests and answers spell it.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("", |(_, name)| name)
    }
}

pub(super) struct Search<'a> {
    candidates: &'a [Candidate],
    request: &'a Request,
    /// Chosen in any case.
    required: Vec<&'a Group>,
    /// Free to choose and worth it, most valuable first.
    free: Vec<&'a Group>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        candidates: &'a [Candidate],
        groups: &'a [Group],
        request: &'a Request,
    ) -> Self {
        let required = groups.iter().filter(|group| group.required).collect();
        let mut free: Vec<&Group> =
            groups.iter().filter(|group| !group.required && group.value > 0).collect();
        free.sort_by_key(|group| std::cmp::Reverse(group.value));
        Self { candidates, request, required, free }
    }

    pub(super) fn run(&self, method: Method) -> Result<Selection, SelectError> {
        match method {
            Method::BranchAndBound => self.branch_and_bound(),
            Method::RandomDraw => self.take_in(method, &self.shuffled()),
            Method::LargestFirst => self.take_in(method, &self.free),
            Method::OldestFirst => {
                let mut oldest = self.free.clone();
                oldest.sort_by_key(|group| group.age);
                self.take_in(method, &oldest)
            }
        }
    }

    /// Takes groups in order until they suffice.
    fn take_in(&self, method: Method, order: &[&Group]) -> Result<Selection, SelectError> {
        let mut taken = Vec::new();
        let mut next = order.iter();
        loop {
            // The exact price is worked out only once the cheap bound says that it may suffice:
            // otherwise a thousand small coins would be added up a thousand times.
            if self.bound(&taken) >= 0
                && let Ok(selection) = self.priced(method, &taken)
            {
                return self.light(selection);
            }
            match next.next() {
                Some(group) => taken.push(*group),
                None => return Err(self.shortage(&taken)),
            }
        }
    }

    /// A cheap, exact enough test before the sums are done in full: value less target and base fee.
    fn bound(&self, taken: &[&Group]) -> i64 {
        // Rounding up per group can make the sum a little too small, at most one sat each.
        let slack = signed((taken.len() + self.required.len()) as u64);
        let value: i64 = self.required.iter().chain(taken).map(|group| group.value).sum();
        value.saturating_add(slack).saturating_sub(self.wanted())
    }

    fn wanted(&self) -> i64 {
        signed(self.request.target) + signed(self.request.rate.fee(self.request.base_weight))
    }

    fn shortage(&self, taken: &[&Group]) -> SelectError {
        let value: i64 = self.required.iter().chain(taken).map(|group| group.value).sum();
        let needed = self.wanted().max(signed(self.request.target + self.request.min_fee));
        SelectError::Insufficient {
            missing: u64::try_from(needed.saturating_sub(value)).unwrap_or(0).max(1),
            available: u64::try_from(value).unwrap_or(0),
        }
    }

    fn light(&self, selection: Selection) -> Result<Selection, SelectError> {
        let (weight, max) = (selection.weight, self.request.max_weight);
        if weight > max { Err(SelectError::TooHeavy { weight, max }) } else { Ok(selection) }
    }

    /// Works out fee, change and waste of a set that may or may not suffice.
    fn priced(&self, method: Method, taken: &[&Group]) -> Result<Selection, SelectError> {
        let all = || self.required.iter().chain(taken);
        let amount: u64 = all().map(|group| group.amount).sum();
        let inputs: u64 = all().map(|group| group.weight).sum();
        let mut chosen: Vec<usize> = all().flat_map(|group| group.members.clone()).collect();
        chosen.sort_unstable();
        let request = self.request;
        let bare = request.base_weight + inputs + count_weight(chosen.len());
        let fee_of = |weight| request.rate.fee(weight).max(request.min_fee);
        let short = || self.shortage(taken);
        let excess = amount.checked_sub(request.target).ok_or_else(short)?;
        let over = excess.checked_sub(fee_of(bare)).ok_or_else(short)?;
        let change = excess.checked_sub(fee_of(bare + request.change.weight));
        // Less than dust can't be an output: it goes to the miners.
        let change = change.filter(|change| *change >= request.change.min.max(1));
        let weight = if change.is_some() { bare + request.change.weight } else { bare };
        // What these inputs cost now beyond what they would cost on a day of usual fees.
        let timing = signed(request.rate.fee(inputs)) - signed(request.long_term_rate.fee(inputs));
        let rest = match change {
            Some(_) => signed(self.cost_of_change()),
            None => signed(over),
        };
        Ok(Selection {
            chosen,
            fee: excess - change.unwrap_or(0),
            change,
            weight,
            waste: timing + rest,
            method,
            tried: Vec::new(),
        })
    }

    fn cost_of_change(&self) -> u64 {
        let change = self.request.change;
        let now = self.request.rate.fee(change.weight);
        now.saturating_add(self.request.long_term_rate.fee(change.spend_weight))
    }

    /// Looks for a set whose value lies between what is wanted and that plus the cost of change.
    fn branch_and_bound(&self) -> Result<Selection, SelectError> {
        let required: i64 = self.required.iter().map(|group| group.value).sum();
        let wanted = self.wanted() - required;
        let most = wanted.saturating_add(signed(self.cost_of_change()));
        let mut rest: i64 = self.free.iter().map(|group| group.value).sum();
        if required + rest < self.wanted() {
            return Err(self.shortage(&self.free));
        }
        // Depth first over "with" and "without" each coin, the most valuable first: `path` are the
        // coins taken, `value` their sum, `rest` what those from `at` on could still add.
        let mut path: Vec<usize> = Vec::new();
        let mut best: Option<Selection> = None;
        let (mut value, mut at) = (0_i64, 0_usize);
        for _ in 0..BRANCH_LIMIT {
            // Too much already, as change would be cheaper; or never enough, whatever is added.
            let hopeless = value > most || value + rest < wanted;
            if !hopeless && value >= wanted {
                self.keep_better(&mut best, &path);
            }
            if hopeless || value >= wanted || at >= self.free.len() {
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

    fn keep_better(&self, best: &mut Option<Selection>, path: &[usize]) {
        let taken: Vec<&Group> = path.iter().filter_map(|at| self.free.get(*at).copied()).collect();
        let Ok(found) = self.priced(Method::BranchAndBound, &taken) else { return };
        let fits = found.change.is_none() && found.weight <= self.request.max_weight;
        if fits && best.as_ref().is_none_or(|best| found.waste < best.waste) {
            *best = Some(found);
        }
    }

    fn shuffled(&self) -> Vec<&'a Group> {
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
