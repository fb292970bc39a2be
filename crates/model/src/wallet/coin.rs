//! What a coin is, derived in this one place from its parent, its spender and its lease.
//!
//! No status of a coin is stored anywhere, so none can drift.

use super::{Status, maturity};

/// What there is to know about a coin when its state is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoinFacts {
    /// Validity of the transaction that made it.
    pub parent: Status,
    /// Height of that transaction's block.
    pub height: Option<u64>,
    /// Whether that transaction is a coinbase.
    pub is_coinbase: bool,
    /// Whether a live transaction spends it.
    pub is_spent: bool,
    /// Whether somebody holds an active lease on it.
    pub is_leased: bool,
}

/// State of a coin. Exactly one holds at any time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CoinState {
    /// In a block, mature, unspent, free.
    Confirmed,
    /// Published, in no block we count, unspent, free.
    Unconfirmed,
    /// A coinbase output that is too young to be spent.
    Immature,
    /// Spent by a live transaction.
    Spent,
    /// Unspent and held by a lease.
    Leased,
    /// Made by a transaction that was never broadcast.
    Pending,
    /// Made by a failed or replaced transaction.
    DeadPermanent,
    /// Made by an orphaned coinbase, which a block may bring back.
    DeadRecoverable,
}

/// Every state with its name.
pub const COIN_STATES: [(CoinState, &str); 8] = [
    (CoinState::Confirmed, "confirmed"),
    (CoinState::Unconfirmed, "unconfirmed"),
    (CoinState::Immature, "immature"),
    (CoinState::Spent, "spent"),
    (CoinState::Leased, "leased"),
    (CoinState::Pending, "pending"),
    (CoinState::DeadPermanent, "dead"),
    (CoinState::DeadRecoverable, "dead-recoverable"),
];

impl CoinState {
    /// As programs and people read it in answers.
    pub fn name(self) -> &'static str {
        COIN_STATES.iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }

    /// Derives the state at a tip. A block above the wallet's tip doesn't count yet.
    pub fn of(facts: CoinFacts, tip: Option<u64>) -> Self {
        match facts.parent {
            Status::Failed | Status::Replaced => return Self::DeadPermanent,
            Status::Orphaned => return Self::DeadRecoverable,
            Status::Pending | Status::Published => {}
        }
        if facts.is_spent {
            return Self::Spent;
        }
        let depth = depth(facts.height, tip);
        if facts.is_coinbase && !maturity::wallet_may_spend(facts.height, tip) {
            return Self::Immature;
        }
        match (facts.is_leased, facts.parent) {
            (true, _) => Self::Leased,
            (false, Status::Pending) => Self::Pending,
            (false, _) if depth == 0 => Self::Unconfirmed,
            (false, _) => Self::Confirmed,
        }
    }
}

/// Confirmations: 1 in the tip itself, 0 in no block or in one above the tip.
pub fn depth(height: Option<u64>, tip: Option<u64>) -> u64 {
    match (height, tip) {
        (Some(height), Some(tip)) if height <= tip => tip - height + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(parent: Status, height: Option<u64>) -> CoinFacts {
        CoinFacts { parent, height, is_coinbase: false, is_spent: false, is_leased: false }
    }

    #[test]
    fn the_table_of_the_data_model_holds() {
        let tip = Some(500);
        let confirmed = coin(Status::Published, Some(400));
        assert_eq!(CoinState::of(confirmed, tip), CoinState::Confirmed);
        assert_eq!(CoinState::of(coin(Status::Published, None), tip), CoinState::Unconfirmed);
        let spent = CoinFacts { is_spent: true, ..confirmed };
        assert_eq!(CoinState::of(spent, tip), CoinState::Spent);
        let leased = CoinFacts { is_leased: true, ..confirmed };
        assert_eq!(CoinState::of(leased, tip), CoinState::Leased);
        let young = CoinFacts { is_coinbase: true, height: Some(401), ..confirmed };
        assert_eq!(CoinState::of(young, tip), CoinState::Immature);
        let ripe = CoinFacts { is_coinbase: true, ..confirmed };
        assert_eq!(CoinState::of(ripe, tip), CoinState::Confirmed);
        assert_eq!(CoinState::of(coin(Status::Pending, None), tip), CoinState::Pending);
        for dead in [Status::Failed, Status::Replaced] {
            let any = CoinFacts { is_spent: true, is_leased: true, ..coin(dead, None) };
            assert_eq!(CoinState::of(any, tip), CoinState::DeadPermanent);
        }
        let orphan = CoinFacts { is_coinbase: true, ..coin(Status::Orphaned, None) };
        assert_eq!(CoinState::of(orphan, tip), CoinState::DeadRecoverable);
    }

    #[test]
    fn a_block_above_the_tip_counts_as_no_block() {
        assert_eq!(depth(Some(101), Some(100)), 0);
        assert_eq!(depth(Some(100), Some(100)), 1);
        assert_eq!(depth(Some(100), None), 0);
        let ahead = coin(Status::Published, Some(101));
        assert_eq!(CoinState::of(ahead, Some(100)), CoinState::Unconfirmed);
    }
}
