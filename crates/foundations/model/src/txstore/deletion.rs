//! Whether a record may be deleted now; if not, why, and when to look again.

use std::collections::BTreeMap;

use super::{
    record::TxRecord,
    slot::{Slot, Spender},
};
use crate::ids::TxId;

/// For how many blocks a record is kept after the event that finished it; 0 for ever. Heights stand
/// beside it wherever a date is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetentionBlocks(pub u64);

/// The depths that deletion goes by, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeletionWindows {
    /// From the event that finished a record to its deletion.
    pub retention: RetentionBlocks,
    /// How deep a child, and the record itself, must lie in the best chain.
    pub safety: u64,
    /// How deep a reorganisation may go.
    pub rollback: u64,
}

impl Default for DeletionWindows {
    fn default() -> Self {
        Self { retention: RetentionBlocks(288), safety: 288, rollback: 288 }
    }
}

/// What the verdict has to know of a child that is in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildState {
    /// Its height on the best chain, none while it is unmined.
    pub mined_height: Option<u64>,
    /// Whether it lost a conflict.
    pub is_conflicting: bool,
}

/// Why a record stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeepReason {
    /// Its height has not come, or it has none.
    NotDue,
    /// An operator keeps it.
    Preserved,
    /// It is locked.
    Locked,
    /// It is in no block of the best chain.
    Unmined,
    /// It has coins.
    Unspent,
    /// One of its outputs changed hands.
    Reassigned,
    /// It is itself not deep enough.
    Shallow,
    /// It lost, and a live output still names it as its spender.
    StillNamed,
    /// A child is unmined.
    ChildUnmined,
    /// A child is not deep enough.
    ChildShallow,
    /// A child isn't in the store and wasn't deleted by us.
    ChildUnknown,
    /// A child lost a conflict and waits for its own deletion.
    ChildConflicting,
}

/// Every reason and its name, as programs read it.
pub const KEEP_REASONS: [(KeepReason, &str); 12] = [
    (KeepReason::NotDue, "not_due"),
    (KeepReason::Preserved, "preserved"),
    (KeepReason::Locked, "locked"),
    (KeepReason::Unmined, "unmined"),
    (KeepReason::Unspent, "unspent"),
    (KeepReason::Reassigned, "reassigned"),
    (KeepReason::Shallow, "shallow"),
    (KeepReason::StillNamed, "still_named"),
    (KeepReason::ChildUnmined, "child_unmined"),
    (KeepReason::ChildShallow, "child_shallow"),
    (KeepReason::ChildUnknown, "child_unknown"),
    (KeepReason::ChildConflicting, "child_conflicting"),
];

impl KeepReason {
    /// Its name.
    pub fn name(self) -> &'static str {
        let row = KEEP_REASONS.iter().find(|(reason, _)| *reason == self);
        row.map_or("", |(_, name)| name)
    }
}

/// When a record that stays can next be decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryAt {
    /// At that height.
    At(u64),
    /// Once that child is mined, and the safety window later.
    AfterMining(TxId),
    /// When something happens to the record itself: a spend, a block, a deleted child.
    OnChange,
}

/// What stands against a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeletionBlocker {
    /// What it is.
    pub reason: KeepReason,
    /// The child that stands against it, and the output that names it.
    pub child: Option<(u32, Spender)>,
    /// How deep that child lies, the tip's block counting as 0.
    pub depth: Option<u64>,
    /// When to look again.
    pub retry_at: RetryAt,
}

/// What becomes of a record now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeletionVerdict {
    /// It goes.
    Delete,
    /// It stays, by its weightiest blocker.
    Keep(DeletionBlocker),
}

/// The verdict at `height`. All pages of the record must have been read; `children` holds what the
/// store has of the children that its slots name.
pub fn verdict(
    record: &TxRecord,
    children: &BTreeMap<TxId, ChildState>,
    height: u64,
    windows: DeletionWindows,
) -> DeletionVerdict {
    let found = blockers(record, children, height, windows);
    match found.into_iter().max_by_key(|blocker| weight(blocker.retry_at)) {
        Some(kept) => DeletionVerdict::Keep(kept),
        None => DeletionVerdict::Delete,
    }
}

/// What can't be dated weighs more than any height.
fn weight(retry_at: RetryAt) -> (u8, u64) {
    match retry_at {
        RetryAt::OnChange => (2, 0),
        RetryAt::AfterMining(_) => (1, 0),
        RetryAt::At(height) => (0, height),
    }
}

/// Everything that stands against a deletion at `height`; nothing when the record may go.
pub fn blockers(
    record: &TxRecord,
    children: &BTreeMap<TxId, ChildState>,
    height: u64,
    windows: DeletionWindows,
) -> Vec<DeletionBlocker> {
    let mut found: Vec<DeletionBlocker> = own_blockers(record, height, windows).collect();
    // A page that was not read may name anybody.
    if record.slots.missing_pages().next().is_some() {
        found.push(plain(KeepReason::ChildUnknown, RetryAt::OnChange));
    }
    let slots = record.slots.iter();
    found.extend(
        slots.filter_map(|(vout, slot)| child_blocker(vout, slot, children, height, windows)),
    );
    found
}

fn plain(reason: KeepReason, retry_at: RetryAt) -> DeletionBlocker {
    DeletionBlocker { reason, child: None, depth: None, retry_at }
}

fn own_blockers(
    record: &TxRecord,
    height: u64,
    windows: DeletionWindows,
) -> impl Iterator<Item = DeletionBlocker> {
    let held = [
        (record.is_locked, KeepReason::Locked),
        (!record.is_conflicting && !record.is_mined(), KeepReason::Unmined),
        (!record.is_conflicting && record.slots.open() > 0, KeepReason::Unspent),
        (!record.is_conflicting && !record.reassigned.is_empty(), KeepReason::Reassigned),
    ];
    let held = held.into_iter().filter(|(holds, _)| *holds);
    let held = held.map(|(_, reason)| plain(reason, RetryAt::OnChange));
    let preserved =
        record.preserve_until.map(|until| plain(KeepReason::Preserved, RetryAt::At(until)));
    let due = match record.delete_at {
        Some(at) if at <= height => None,
        Some(at) => Some(plain(KeepReason::NotDue, RetryAt::At(at))),
        None => Some(plain(KeepReason::NotDue, RetryAt::OnChange)),
    };
    // A reorganisation may still take it out of its block and put it into another one.
    let settled = record.mined_height().and_then(|mined| mined.checked_add(windows.safety));
    let shallow = settled.filter(|settled| !record.is_conflicting && *settled > height);
    let shallow = shallow.map(|settled| plain(KeepReason::Shallow, RetryAt::At(settled)));
    held.chain(preserved).chain(due).chain(shallow)
}

fn child_blocker(
    vout: u32,
    slot: Slot,
    children: &BTreeMap<TxId, ChildState>,
    height: u64,
    windows: DeletionWindows,
) -> Option<DeletionBlocker> {
    let by = slot.spender()?;
    let block = |reason, depth, retry_at| {
        Some(DeletionBlocker { reason, child: Some((vout, by)), depth, retry_at })
    };
    let Some(child) = children.get(&by.tx) else {
        if matches!(slot, Slot::SpentPruned(_)) {
            return None;
        }
        return block(KeepReason::ChildUnknown, None, RetryAt::AfterMining(by.tx));
    };
    if child.is_conflicting {
        // Losers go leaves first; the mark that a leaf leaves brings its parent back.
        return block(KeepReason::ChildConflicting, None, RetryAt::OnChange);
    }
    let Some(mined) = child.mined_height else {
        return block(KeepReason::ChildUnmined, None, RetryAt::AfterMining(by.tx));
    };
    // A height beyond all there can be: never settled, so it is kept.
    let settled = mined.saturating_add(windows.safety);
    let depth = height.checked_sub(mined);
    if settled > height {
        return block(KeepReason::ChildShallow, depth, RetryAt::At(settled));
    }
    None
}
