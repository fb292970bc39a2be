//! When a coinbase may be spent. Two rules are in use, so both stand here under their own names.

/// Blocks that a coinbase must wait.
pub const COINBASE_MATURITY: u64 = 100;

/// Height of the last block that counts; `None` before the first. A type of its own because beside
/// the height of a coin it would only be another number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainTip(pub Option<u64>);

/// The wallet's rule: at this tip the coin is safe to choose, `tip - height >= 100`.
///
/// It waits one block longer than consensus asks, as Bitcoin Core's wallet does, so that one
/// disconnected block doesn't make a waiting spend invalid.
pub fn wallet_may_spend(height: Option<u64>, ChainTip(tip): ChainTip) -> bool {
    match (height, tip) {
        (Some(height), Some(tip)) => {
            tip.checked_sub(height).is_some_and(|past| past >= COINBASE_MATURITY)
        }
        _ => false,
    }
}

/// The rule of consensus: a block at `spending_height` may hold the spend.
pub fn block_may_spend(height: u64, spending_height: u64) -> bool {
    spending_height.checked_sub(height).is_some_and(|past| past >= COINBASE_MATURITY)
}

/// The highest block whose coinbase the wallet may spend at `tip`, if any is old enough.
pub fn mature_up_to(tip: Option<u64>) -> Option<u64> {
    tip.and_then(|tip| tip.checked_sub(COINBASE_MATURITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coinbase_is_mature_for_the_wallet_at_tip_h_plus_100() {
        let at = |tip| wallet_may_spend(Some(1000), ChainTip(Some(tip)));
        assert_eq!([at(1098), at(1099), at(1100)], [false, false, true]);
        assert!(!wallet_may_spend(None, ChainTip(Some(5000))));
        assert!(!wallet_may_spend(Some(1000), ChainTip(None)));
        assert_eq!((mature_up_to(Some(1100)), mature_up_to(Some(99))), (Some(1000), None));
    }

    #[test]
    fn a_coinbase_is_mature_for_a_block_at_h_plus_100() {
        assert_eq!([block_may_spend(1000, 1099), block_may_spend(1000, 1100)], [false, true]);
        assert!(!block_may_spend(1000, 3));
    }
}
