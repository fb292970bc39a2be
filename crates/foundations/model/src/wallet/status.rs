//! What a stored transaction may be, and every legal move between.
//!
//! Validity (this status) and confirmation (a block height or none) are two separate truths; the
//! only rule that binds them is that a confirmed transaction is published.

use std::{fmt, str::FromStr};

/// Validity of a stored transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TxStatus {
    /// Created here, never broadcast.
    Pending,
    /// In a mempool or in a block, as far as we know.
    Published,
    /// Lost to another unconfirmed transaction after having been published.
    Replaced,
    /// Lost to a confirmed transaction, lost before being published, or lost a parent.
    Failed,
    /// A coinbase whose block left the best chain.
    Orphaned,
}

/// Every status with its name in the database.
pub const STATUSES: [(TxStatus, &str); 5] = [
    (TxStatus::Pending, "pending"),
    (TxStatus::Published, "published"),
    (TxStatus::Replaced, "replaced"),
    (TxStatus::Failed, "failed"),
    (TxStatus::Orphaned, "orphaned"),
];

/// What may happen to a stored transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StatusMove {
    /// We sent it, or a node's mempool holds it.
    Publish,
    /// A block on the best chain holds it.
    Confirm,
    /// Its block left the best chain.
    Disconnect,
    /// An unconfirmed transaction that spends one of its inputs won.
    LoseUnconfirmed,
    /// A confirmed transaction that spends one of its inputs won.
    LoseConfirmed,
    /// A transaction whose output it spends is no longer live.
    LoseParent,
    /// Nothing conflicts with it any longer, all its inputs live, and it had been published.
    RevivePublished,
    /// As above, and it had never been published.
    RevivePending,
    /// Its maker took it back before broadcasting it.
    Withdraw,
}

impl fmt::Display for StatusMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Publish => "be published",
            Self::Confirm => "be confirmed",
            Self::Disconnect => "leave its block",
            Self::LoseUnconfirmed => "lose to an unconfirmed one",
            Self::LoseConfirmed => "lose to a confirmed one",
            Self::LoseParent => "lose its parent",
            Self::RevivePublished => "come back as published",
            Self::RevivePending => "come back as pending",
            Self::Withdraw => "be withdrawn",
        })
    }
}

/// Every kind of move.
pub const MOVES: [StatusMove; 9] = [
    StatusMove::Publish,
    StatusMove::Confirm,
    StatusMove::Disconnect,
    StatusMove::LoseUnconfirmed,
    StatusMove::LoseConfirmed,
    StatusMove::LoseParent,
    StatusMove::RevivePublished,
    StatusMove::RevivePending,
    StatusMove::Withdraw,
];

/// Every legal move of an ordinary transaction; repeats that must be harmless are rows too.
pub const TABLE: &[(TxStatus, StatusMove, TxStatus)] = &[
    (TxStatus::Pending, StatusMove::Publish, TxStatus::Published),
    (TxStatus::Pending, StatusMove::Confirm, TxStatus::Published),
    (TxStatus::Pending, StatusMove::LoseUnconfirmed, TxStatus::Failed),
    (TxStatus::Pending, StatusMove::LoseConfirmed, TxStatus::Failed),
    (TxStatus::Pending, StatusMove::LoseParent, TxStatus::Failed),
    (TxStatus::Pending, StatusMove::Withdraw, TxStatus::Failed),
    (TxStatus::Published, StatusMove::Publish, TxStatus::Published),
    (TxStatus::Published, StatusMove::Confirm, TxStatus::Published),
    (TxStatus::Published, StatusMove::Disconnect, TxStatus::Published),
    (TxStatus::Published, StatusMove::LoseUnconfirmed, TxStatus::Replaced),
    (TxStatus::Published, StatusMove::LoseConfirmed, TxStatus::Failed),
    (TxStatus::Published, StatusMove::LoseParent, TxStatus::Failed),
    (TxStatus::Replaced, StatusMove::Publish, TxStatus::Published),
    (TxStatus::Replaced, StatusMove::Confirm, TxStatus::Published),
    (TxStatus::Replaced, StatusMove::LoseConfirmed, TxStatus::Replaced),
    (TxStatus::Replaced, StatusMove::RevivePublished, TxStatus::Published),
    (TxStatus::Failed, StatusMove::Publish, TxStatus::Published),
    (TxStatus::Failed, StatusMove::Confirm, TxStatus::Published),
    (TxStatus::Failed, StatusMove::LoseConfirmed, TxStatus::Failed),
    (TxStatus::Failed, StatusMove::RevivePublished, TxStatus::Published),
    (TxStatus::Failed, StatusMove::RevivePending, TxStatus::Pending),
];

/// Every legal move of a coinbase, which exists in a block or not at all.
pub const COINBASE_TABLE: &[(TxStatus, StatusMove, TxStatus)] = &[
    (TxStatus::Published, StatusMove::Confirm, TxStatus::Published),
    (TxStatus::Published, StatusMove::Disconnect, TxStatus::Orphaned),
    (TxStatus::Orphaned, StatusMove::Confirm, TxStatus::Published),
];

/// A move that no row of the table allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a {from} transaction can't {step}")]
pub struct IllegalMove {
    /// Where it stands.
    pub from: TxStatus,
    /// What was tried.
    pub step: StatusMove,
}

impl TxStatus {
    /// The status after `step`.
    ///
    /// # Errors
    ///
    /// [`IllegalMove`] when the table has no such row.
    pub fn after(self, step: StatusMove, is_coinbase: bool) -> Result<Self, IllegalMove> {
        let table = if is_coinbase { COINBASE_TABLE } else { TABLE };
        let row = table.iter().find(|(from, on, _)| (*from, *on) == (self, step));
        row.map(|(_, _, to)| *to).ok_or(IllegalMove { from: self, step })
    }

    /// Whether its inputs count as spent and its outputs as coins.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Published)
    }

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        STATUSES.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for TxStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is no status of ours.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown transaction status `{0}`")]
pub struct UnknownStatus(pub String);

impl FromStr for TxStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let found = STATUSES.iter().find(|(_, name)| *name == text);
        found.map(|(status, _)| *status).ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_status_and_move_is_decided_once() {
        for table in [TABLE, COINBASE_TABLE] {
            for (status, _) in STATUSES {
                for step in MOVES {
                    let rows = table.iter().filter(|(from, on, _)| (*from, *on) == (status, step));
                    assert!(rows.count() <= 1, "{status} {step:?}");
                }
            }
        }
    }

    #[test]
    fn an_ordinary_transaction_is_never_orphaned_and_a_coinbase_never_pending() {
        assert!(
            TABLE
                .iter()
                .all(|(from, _, to)| { *from != TxStatus::Orphaned && *to != TxStatus::Orphaned })
        );
        let ours = [TxStatus::Published, TxStatus::Orphaned];
        assert!(
            COINBASE_TABLE.iter().all(|(from, _, to)| ours.contains(from) && ours.contains(to))
        );
    }

    #[test]
    fn confirming_always_publishes() {
        for (status, _) in STATUSES {
            for coinbase in [false, true] {
                if let Ok(after) = status.after(StatusMove::Confirm, coinbase) {
                    assert_eq!(after, TxStatus::Published);
                }
            }
        }
    }

    #[test]
    fn only_a_pending_transaction_can_be_withdrawn() {
        for (status, _) in STATUSES {
            let allowed = status.after(StatusMove::Withdraw, false).is_ok();
            assert_eq!(allowed, status == TxStatus::Pending);
        }
    }

    #[test]
    fn names_are_read_back() {
        for (status, name) in STATUSES {
            assert_eq!(name.parse(), Ok(status));
        }
        assert!("abandoned".parse::<TxStatus>().is_err());
    }
}
