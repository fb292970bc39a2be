//! A balance is never a bare number: named classes that sum up.

use super::CoinState;

/// How much, and in how many coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoinSum {
    /// Satoshis.
    pub sats: u64,
    /// Coins.
    pub coins: u64,
}

impl CoinSum {
    /// Adds one coin.
    pub fn add(&mut self, sats: u64) {
        // All coins that there can be are worth less than 2^51: only what isn't money saturates.
        self.sats = self.sats.saturating_add(sats);
        self.coins += 1;
    }

    /// Both together; `None` where that is more than can be counted.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (sats, coins) =
            (self.sats.checked_add(other.sats), self.coins.checked_add(other.coins));
        Some(Self { sats: sats?, coins: coins? })
    }

    /// What remains after taking `other` away; `None` where there is less than that.
    pub fn minus(self, other: Self) -> Option<Self> {
        let (sats, coins) =
            (self.sats.checked_sub(other.sats), self.coins.checked_sub(other.coins));
        Some(Self { sats: sats?, coins: coins? })
    }
}

/// The classes of a wallet's unspent coins. Each live, unspent coin is in exactly one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Balance {
    /// Mature, free, and at least `minconf` deep.
    pub confirmed: CoinSum,
    /// Unconfirmed or not deep enough, made by a transaction of our own (change).
    pub unconfirmed_own: CoinSum,
    /// Unconfirmed or not deep enough, from somebody else, who may still take it back.
    pub unconfirmed_foreign: CoinSum,
    /// Coinbase outputs that are too young.
    pub immature: CoinSum,
    /// Held by active leases.
    pub leased: CoinSum,
    /// Not to be spent until somebody thaws them.
    pub frozen: CoinSum,
    /// Made by transactions that were never broadcast.
    pub pending: CoinSum,
    /// Made by unconfirmed transactions that the node no longer has.
    pub dropped: CoinSum,
    /// Confirmed coins that an unconfirmed transaction spends: gone if it confirms. Not part of the
    /// total.
    pub leaving: CoinSum,
}

/// A coin as a balance counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BalancedCoin {
    /// Its state.
    pub state: CoinState,
    /// Whether a payment of the wallet's own made it.
    pub is_own: bool,
    /// Whether it has the confirmations that were asked for.
    pub is_deep: bool,
    /// What it is worth.
    pub sats: u64,
}

impl Balance {
    /// Everything unspent, whatever its class.
    pub fn total(&self) -> u128 {
        self.classes().iter().map(|(_, sum)| u128::from(sum.sats)).sum()
    }

    /// The classes that sum up to the total, with their names.
    pub fn classes(&self) -> [(&'static str, CoinSum); 8] {
        [
            ("confirmed", self.confirmed),
            ("unconfirmed_own", self.unconfirmed_own),
            ("unconfirmed_foreign", self.unconfirmed_foreign),
            ("immature", self.immature),
            ("leased", self.leased),
            ("frozen", self.frozen),
            ("pending", self.pending),
            ("dropped", self.dropped),
        ]
    }

    /// Adds one unspent coin of a known state to its class.
    pub fn add(&mut self, coin: BalancedCoin) {
        let BalancedCoin { state, is_own, is_deep, sats } = coin;
        match (state, is_own) {
            (CoinState::Confirmed, _) if is_deep => self.confirmed.add(sats),
            (CoinState::Confirmed | CoinState::Unconfirmed, true) => self.unconfirmed_own.add(sats),
            (CoinState::Confirmed | CoinState::Unconfirmed, false) => {
                self.unconfirmed_foreign.add(sats);
            }
            (CoinState::Immature, _) => self.immature.add(sats),
            (CoinState::Leased, _) => self.leased.add(sats),
            (CoinState::Frozen, _) => self.frozen.add(sats),
            (CoinState::Pending, _) => self.pending.add(sats),
            (CoinState::Dropped, _) => self.dropped.add(sats),
            (CoinState::Spent | CoinState::DeadPermanent | CoinState::DeadRecoverable, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_sum_up_and_spent_or_dead_coins_are_in_none() {
        let mut balance = Balance::default();
        for (at, (state, _)) in super::super::COIN_STATES.iter().enumerate() {
            let (state, is_own) = (*state, at % 2 == 0);
            balance.add(BalancedCoin { state, is_own, is_deep: true, sats: 10 });
        }
        assert_eq!(balance.total(), 70);
        assert_eq!(balance.classes().iter().map(|(_, sum)| sum.coins).sum::<u64>(), 7);
    }

    #[test]
    fn a_sum_never_goes_below_nothing_nor_beyond_what_can_be_counted() {
        let (few, many) = (CoinSum { sats: 5, coins: 1 }, CoinSum { sats: 7, coins: 2 });
        assert_eq!(many.minus(few), Some(CoinSum { sats: 2, coins: 1 }));
        assert_eq!(few.plus(few), Some(CoinSum { sats: 10, coins: 2 }));
        assert_eq!(few.minus(many), None);
        assert_eq!(CoinSum { sats: 9, coins: 1 }.minus(many), None, "fewer coins");
        assert_eq!(CoinSum { sats: u64::MAX, coins: 0 }.plus(few), None);
    }
}
