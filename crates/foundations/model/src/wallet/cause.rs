//! Why something changed: the words of the journal and of the replacement edges.

use std::{fmt, str::FromStr};

/// Why a line stands in the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JournalCause {
    /// Made here.
    Created,
    /// Heard of, without a node that vouches for it.
    Relayed,
    /// A node's mempool holds it.
    Mempool,
    /// We sent it.
    Broadcast,
    /// A block holds it.
    Confirmed,
    /// Its block left the best chain.
    Disconnected,
    /// Another unconfirmed transaction took its inputs.
    Replaced,
    /// A confirmed transaction took its inputs.
    DoubleSpent,
    /// A parent is no longer live.
    ParentInvalid,
    /// Nothing conflicts with it any longer.
    Revived,
    /// A confirmed child proves that it must be live.
    ChildConfirmed,
    /// Taken back by its maker before it was sent.
    Withdrawn,
    /// The mempool no longer holds it; its status stays.
    Evicted,
    /// It spent a coin that somebody else had leased.
    ForcedSpend,
    /// Removed by hand; this line is what remains.
    Pruned,
    /// A replacement edge that went with a pruned transaction.
    PrunedEdge,
}

/// Every cause with its name in the database.
pub const CAUSES: [(JournalCause, &str); 16] = [
    (JournalCause::Created, "created"),
    (JournalCause::Relayed, "relayed"),
    (JournalCause::Mempool, "mempool"),
    (JournalCause::Broadcast, "broadcast"),
    (JournalCause::Confirmed, "confirmed"),
    (JournalCause::Disconnected, "disconnected"),
    (JournalCause::Replaced, "replaced"),
    (JournalCause::DoubleSpent, "double_spent"),
    (JournalCause::ParentInvalid, "parent_invalid"),
    (JournalCause::Revived, "revived"),
    (JournalCause::ChildConfirmed, "child_confirmed"),
    (JournalCause::Withdrawn, "withdrawn"),
    (JournalCause::Evicted, "evicted"),
    (JournalCause::ForcedSpend, "forced_spend"),
    (JournalCause::Pruned, "pruned"),
    (JournalCause::PrunedEdge, "pruned_edge"),
];

/// Why one transaction stands in another's way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EdgeCause {
    /// Both were unconfirmed and the second won.
    Replaced,
    /// The second was confirmed.
    DoubleSpent,
    /// Both were unconfirmed, nothing said which is better, and the first stayed.
    Undecided,
}

/// Every edge cause with its name in the database.
pub const EDGE_CAUSES: [(EdgeCause, &str); 3] = [
    (EdgeCause::Replaced, "replaced"),
    (EdgeCause::DoubleSpent, "double_spent"),
    (EdgeCause::Undecided, "undecided"),
];

/// The text is no cause of ours.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown cause `{0}`")]
pub struct UnknownCause(pub String);

impl JournalCause {
    /// Its name in the database.
    pub fn name(self) -> &'static str {
        CAUSES.iter().find(|(cause, _)| *cause == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for JournalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JournalCause {
    type Err = UnknownCause;

    fn from_str(text: &str) -> Result<Self, UnknownCause> {
        let found = CAUSES.iter().find(|(_, name)| *name == text);
        found.map(|(cause, _)| *cause).ok_or_else(|| UnknownCause(text.to_owned()))
    }
}

impl EdgeCause {
    /// Its name in the database.
    pub fn name(self) -> &'static str {
        EDGE_CAUSES.iter().find(|(cause, _)| *cause == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for EdgeCause {
    type Err = UnknownCause;

    fn from_str(text: &str) -> Result<Self, UnknownCause> {
        let found = EDGE_CAUSES.iter().find(|(_, name)| *name == text);
        found.map(|(cause, _)| *cause).ok_or_else(|| UnknownCause(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_name() {
        for (cause, name) in CAUSES {
            assert_eq!((cause.name(), name.parse()), (name, Ok(cause)));
        }
        for (cause, name) in EDGE_CAUSES {
            assert_eq!((cause.name(), name.parse()), (name, Ok(cause)));
        }
    }
}
