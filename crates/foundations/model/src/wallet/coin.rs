//! What a coin is, derived in this one place from its parent, its spender and its lease.
//!
//! No status of a coin is stored anywhere, so none can drift.

use super::{
    TxStatus,
    maturity::{self, ChainTip},
};

/// What there is to know about a coin when its state is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoinFacts {
    /// Validity of the transaction that made it.
    pub parent: TxStatus,
    /// Height of that transaction's block.
    pub height: Option<u64>,
    /// Whether that transaction is a coinbase.
    pub is_coinbase: bool,
    /// Whether a live transaction spends it.
    pub is_spent: bool,
    /// Whether somebody holds an active lease on it.
    pub is_leased: bool,
    /// Whether somebody said that it is not to be spent.
    pub is_frozen: bool,
    /// Whether the node was found without that transaction. Says nothing once it is in a block.
    pub is_dropped: bool,
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
    /// Unspent, and not to be spent until somebody thaws it.
    Frozen,
    /// Made by a transaction that was never broadcast.
    Pending,
    /// Made by a transaction that was sent, is in no block and that the node no longer has: it may
    /// come back, and nobody should count on it.
    Dropped,
    /// Made by a failed or replaced transaction.
    DeadPermanent,
    /// Made by an orphaned coinbase, which a block may bring back.
    DeadRecoverable,
}

/// Every state with its name.
pub const COIN_STATES: [(CoinState, &str); 10] = [
    (CoinState::Confirmed, "confirmed"),
    (CoinState::Unconfirmed, "unconfirmed"),
    (CoinState::Immature, "immature"),
    (CoinState::Spent, "spent"),
    (CoinState::Leased, "leased"),
    (CoinState::Frozen, "frozen"),
    (CoinState::Pending, "pending"),
    (CoinState::Dropped, "dropped"),
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
            TxStatus::Failed | TxStatus::Replaced => return Self::DeadPermanent,
            TxStatus::Orphaned => return Self::DeadRecoverable,
            TxStatus::Pending | TxStatus::Published => {}
        }
        if facts.is_spent {
            return Self::Spent;
        }
        let tip = ChainTip(tip);
        let depth = depth(facts.height, tip);
        if facts.is_coinbase && !maturity::wallet_may_spend(facts.height, tip) {
            return Self::Immature;
        }
        if facts.is_leased {
            return Self::Leased;
        }
        if facts.is_frozen {
            return Self::Frozen;
        }
        match (facts.parent, depth) {
            (TxStatus::Pending, _) => Self::Pending,
            (_, 0) if facts.is_dropped && facts.height.is_none() => Self::Dropped,
            (_, 0) => Self::Unconfirmed,
            _ => Self::Confirmed,
        }
    }
}

/// Confirmations: 1 in the tip itself, 0 in no block or in one above the tip.
pub fn depth(height: Option<u64>, ChainTip(tip): ChainTip) -> u64 {
    match (height, tip) {
        (Some(height), Some(tip)) if height <= tip => tip - height + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(parent: TxStatus, height: Option<u64>) -> CoinFacts {
        CoinFacts {
            parent,
            height,
            is_coinbase: false,
            is_spent: false,
            is_leased: false,
            is_frozen: false,
            is_dropped: false,
        }
    }

    #[test]
    fn the_table_of_coin_states_holds() {
        let tip = Some(500);
        let confirmed = coin(TxStatus::Published, Some(400));
        assert_eq!(CoinState::of(confirmed, tip), CoinState::Confirmed);
        assert_eq!(CoinState::of(coin(TxStatus::Published, None), tip), CoinState::Unconfirmed);
        let spent = CoinFacts { is_spent: true, ..confirmed };
        assert_eq!(CoinState::of(spent, tip), CoinState::Spent);
        let leased = CoinFacts { is_leased: true, ..confirmed };
        assert_eq!(CoinState::of(leased, tip), CoinState::Leased);
        let frozen = CoinFacts { is_frozen: true, ..confirmed };
        assert_eq!(CoinState::of(frozen, tip), CoinState::Frozen);
        let young = CoinFacts { is_coinbase: true, height: Some(401), ..confirmed };
        assert_eq!(CoinState::of(young, tip), CoinState::Immature);
        let ripe = CoinFacts { is_coinbase: true, ..confirmed };
        assert_eq!(CoinState::of(ripe, tip), CoinState::Confirmed);
        assert_eq!(CoinState::of(coin(TxStatus::Pending, None), tip), CoinState::Pending);
        for dead in [TxStatus::Failed, TxStatus::Replaced] {
            let any = CoinFacts { is_spent: true, is_leased: true, ..coin(dead, None) };
            assert_eq!(CoinState::of(any, tip), CoinState::DeadPermanent);
        }
        let orphan = CoinFacts { is_coinbase: true, ..coin(TxStatus::Orphaned, None) };
        assert_eq!(CoinState::of(orphan, tip), CoinState::DeadRecoverable);
    }

    #[test]
    fn a_dropped_coin_has_a_state_of_its_own() {
        let tip = Some(500);
        let dropped = CoinFacts { is_dropped: true, ..coin(TxStatus::Published, None) };
        assert_eq!(CoinState::of(dropped, tip), CoinState::Dropped);
        let mined = CoinFacts { height: Some(400), ..dropped };
        assert_eq!(CoinState::of(mined, tip), CoinState::Confirmed);
        let ahead = CoinFacts { height: Some(501), ..dropped };
        assert_eq!(CoinState::of(ahead, tip), CoinState::Unconfirmed);
        let unsent = CoinFacts { parent: TxStatus::Pending, ..dropped };
        assert_eq!(CoinState::of(unsent, tip), CoinState::Pending);
        let held = CoinFacts { is_leased: true, is_frozen: true, ..dropped };
        assert_eq!(CoinState::of(held, tip), CoinState::Leased, "a lease ends by itself");
    }

    #[test]
    fn a_block_above_the_tip_counts_as_no_block() {
        assert_eq!(depth(Some(101), ChainTip(Some(100))), 0);
        assert_eq!(depth(Some(100), ChainTip(Some(100))), 1);
        assert_eq!(depth(Some(100), ChainTip(None)), 0);
        let ahead = coin(TxStatus::Published, Some(101));
        assert_eq!(CoinState::of(ahead, Some(100)), CoinState::Unconfirmed);
    }
}
