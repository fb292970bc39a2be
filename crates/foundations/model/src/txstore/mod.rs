//! What may happen to the transactions of a node, as tables and pure functions.
//!
//! An output is a [`Slot`]. Everything that may happen to one, and nothing else ([`SLOT_TABLE`]):
//!
//! | state | spend | unspend by its spender | its spender is deleted | freeze | unfreeze, reassign |
//! |---|---|---|---|---|---|
//! | unspent | spent | the same | the same | frozen | not frozen |
//! | spent by (child, input) | the same child: the same; another: refused | unspent | spent, pruned | refused | not frozen |
//! | spent, pruned | refused, the same child too | refused | the same | refused | not frozen |
//! | frozen | refused | the same | the same | refused | unspent |
//! | unspendable | refused | the same | the same | refused | not frozen |
//!
//! A record is unmined, mined on the best chain, or conflicting (it lost to another spender). It
//! gets a height at which it may go ([`schedule`]), and when that comes, a [`DeletionVerdict`]:
//!
//! | record | goes when |
//! |---|---|
//! | unmined, locked, preserved, reassigned, or with an unspent output | never, as long as it is that |
//! | mined, all spendable outputs spent (or none there) | its height has come, it is deep enough, and each child is pruned or deep enough on the best chain |
//! | conflicting | its height has come, no live output names it, and no child of it is there |
//!
//! | module | decides |
//! |---|---|
//! | [`slot`] | what may happen to an output |
//! | [`record`] | what may happen to a transaction |
//! | [`spend`] | who may spend an output, freeze it, reassign it |
//! | [`schedule`] | at which height a record may go |
//! | [`deletion`] | whether it goes, and if not, why and when to look again |
//!
//! Absence proves nothing: a child that isn't there keeps its parent unless the parent's slot says
//! that the child was deleted. Depth is measured on the best chain; fork blocks don't count.

pub mod deletion;
pub mod record;
pub mod schedule;
pub mod slot;
pub mod spend;

pub use deletion::{
    ChildState, DeletionBlocker, DeletionVerdict, DeletionWindows, KEEP_REASONS, KeepReason,
    RetentionBlocks, RetryAt, blockers, verdict,
};
pub use record::{MinedIn, ReassignedOutput, TxRecord};
pub use slot::{
    PAGE_SLOTS, SLOT_TABLE, Slot, SlotCounts, SlotEvent, SlotState, Slots, Spender, is_unspendable,
};
pub use spend::{ExpectedOutput, OutputHash, REASSIGN_COOLDOWN, SlotRefusal, SpendTerms};

#[cfg(test)]
mod tests;
