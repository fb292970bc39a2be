//! Which proofs pay, what they cost, and into which amounts a sum is split.

/// A proof that may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProofOffer {
    /// What it is worth.
    pub amount: u64,
    /// What spending it costs, in thousandths.
    pub fee_ppk: u64,
}

/// The proofs don't suffice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{needed} are needed with fees, {available} are there; nothing was changed")]
pub struct NotEnough {
    /// What all offered proofs are worth.
    pub available: u128,
    /// What they would have to be worth, with the fee of spending them all.
    pub needed: u128,
}

/// What a mint takes for spending proofs: the sum of their shares, rounded up once.
pub fn input_fee(shares_ppk: impl IntoIterator<Item = u64>) -> u64 {
    let sum: u128 = shares_ppk.into_iter().map(u128::from).sum();
    u64::try_from(sum.div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Places of the proofs that pay `amount` and the fee of spending themselves, in ascending order.
///
/// A walk from the largest down takes what fits. Amounts of a keyset divide each other, so that the
/// walk hits a sum exactly whenever some choice does. If it ends short, the smallest proof that
/// covers the rest joins, or else the largest; what has become needless leaves.
///
/// # Errors
///
/// [`NotEnough`] when all together don't pay.
pub fn select_proofs(offers: &[ProofOffer], amount: u64) -> Result<Vec<usize>, NotEnough> {
    let mut order: Vec<(usize, ProofOffer)> = offers.iter().copied().enumerate().collect();
    order.sort_by_key(|(at, offer)| (std::cmp::Reverse(offer.amount), *at));
    let mut tally = ProofTally { amount, sum: 0, shares_ppk: 0 };
    let (mut chosen, mut left) = (Vec::new(), Vec::new());
    for (at, offer) in order {
        let with = tally.with(offer);
        if with.sum <= with.due() {
            tally = with;
            chosen.push((at, offer));
        } else {
            left.push((at, offer));
        }
    }
    while !tally.pays() {
        // From the smallest up, else the largest.
        let closing = left.iter().rposition(|(_, offer)| tally.with(*offer).pays());
        if left.is_empty() {
            return Err(NotEnough { available: tally.sum, needed: tally.due() });
        }
        let (at, offer) = left.remove(closing.unwrap_or(0));
        tally = tally.with(offer);
        chosen.push((at, offer));
    }
    Ok(tally.without_needless(chosen))
}

/// What the proofs chosen so far are worth and cost.
#[derive(Clone, Copy)]
struct ProofTally {
    amount: u64,
    sum: u128,
    shares_ppk: u128,
}

impl ProofTally {
    fn with(&self, offer: ProofOffer) -> Self {
        Self {
            amount: self.amount,
            sum: self.sum + u128::from(offer.amount),
            shares_ppk: self.shares_ppk + u128::from(offer.fee_ppk),
        }
    }

    fn due(&self) -> u128 {
        u128::from(self.amount) + self.shares_ppk.div_ceil(1000)
    }

    fn pays(&self) -> bool {
        self.sum > 0 && self.sum >= self.due()
    }

    /// Smallest first: what can go without the rest falling short goes.
    fn without_needless(mut self, mut chosen: Vec<(usize, ProofOffer)>) -> Vec<usize> {
        chosen.sort_by_key(|(at, offer)| (offer.amount, *at));
        let mut kept = Vec::new();
        for (at, offer) in chosen {
            let sum = self.sum - u128::from(offer.amount);
            let shares_ppk = self.shares_ppk - u128::from(offer.fee_ppk);
            let without = Self { amount: self.amount, sum, shares_ppk };
            if without.pays() {
                self = without;
            } else {
                kept.push(at);
            }
        }
        kept.sort_unstable();
        kept
    }
}

/// How many blank outputs take any change up to `most`: one for each power of two.
pub fn blank_outputs(most: u64) -> u32 {
    match most {
        0 => 0,
        1 => 1,
        // ceil(log2(most))
        _ => u64::BITS - (most - 1).leading_zeros(),
    }
}

/// A sum as amounts of a keyset, the largest first; `None` when they can't make it up.
pub fn split_amount(mut sum: u64, amounts: &[u64]) -> Option<Vec<u64>> {
    let mut known: Vec<u64> = amounts.iter().copied().filter(|amount| *amount > 0).collect();
    known.sort_unstable_by(|a, b| b.cmp(a));
    let mut parts = Vec::new();
    for amount in known {
        // Only a keyset without large amounts comes near this; the mint would refuse it anyway.
        if sum / amount > MAX_PARTS {
            return None;
        }
        while sum >= amount {
            parts.push(amount);
            sum -= amount;
        }
    }
    (sum == 0).then_some(parts)
}

/// Parts of one amount in a split.
const MAX_PARTS: u64 = 1_000;

/// What has to be sent so that the receiver gets `amount` after paying for the swap of the parts.
/// The fee and the split hang on each other, so the search goes up until they agree; `None` when
/// the amounts can't make it up.
pub fn with_receive_fee(amount: u64, fee_ppk: u64, amounts: &[u64]) -> Option<u64> {
    let mut to_send = amount;
    for _ in 0..u64::BITS {
        let parts = split_amount(to_send, amounts)?;
        let fee = input_fee(parts.iter().map(|_| fee_ppk));
        let enough = amount.checked_add(fee)?;
        if enough <= to_send {
            return Some(to_send);
        }
        to_send = enough;
    }
    None
}
