//! A stored transaction: where it is mined, what holds it, when it may go.
//!
//! Every change ends with [`TxRecord::reschedule`], which is called by the changes themselves.

use super::{deletion::RetentionBlocks, schedule, slot::Slots, spend::OutputHash};
use crate::ids::{BlockHash, TxId};

/// A block that holds the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MinedIn {
    /// Its height.
    pub height: u64,
    /// Its hash.
    pub hash: BlockHash,
    /// Whether it is on the best chain, as far as we were told.
    pub on_best_chain: bool,
}

/// An output that an operator gave to somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReassignedOutput {
    /// Which output.
    pub vout: u32,
    /// What it is now.
    pub output: OutputHash,
    /// The first height at which it may be spent.
    pub spendable_at: u64,
}

/// A stored transaction, without its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxRecord {
    /// Its name.
    pub txid: TxId,
    /// Raised with every write.
    pub version: u64,
    /// Whether it is the first of a block.
    pub is_coinbase: bool,
    /// What it paid, when that is known.
    pub fee: Option<u64>,
    /// Its bytes.
    pub size: u64,
    /// Its outputs.
    pub slots: Slots,
    /// Outputs that were given to somebody else.
    pub reassigned: Vec<ReassignedOutput>,
    /// Conflicting transactions that spend outputs of this one.
    pub rivals: Vec<TxId>,
    /// The blocks that hold it, forks too.
    pub blocks: Vec<MinedIn>,
    /// Since which height it is in no block of the best chain. The earliest is kept.
    pub unmined_since: Option<u64>,
    /// Nobody may spend its outputs for now.
    pub is_locked: bool,
    /// It lost to another spender of its inputs, or descends from a loser.
    pub is_conflicting: bool,
    /// From this height on it may be deleted, if its children allow it.
    pub delete_at: Option<u64>,
    /// An operator keeps it up to this height.
    pub preserve_until: Option<u64>,
    /// Under which height it stands in the due queue, if it does.
    pub due_at: Option<u64>,
}

impl TxRecord {
    /// A new record, in no block yet.
    pub fn new(txid: TxId, slots: Slots, height: u64) -> Self {
        Self {
            txid,
            version: 0,
            is_coinbase: false,
            fee: None,
            size: 0,
            slots,
            reassigned: Vec::new(),
            rivals: Vec::new(),
            blocks: Vec::new(),
            unmined_since: Some(height),
            is_locked: false,
            is_conflicting: false,
            delete_at: None,
            preserve_until: None,
            due_at: None,
        }
    }

    /// Height of its block on the best chain; the highest, where there are several.
    pub fn mined_height(&self) -> Option<u64> {
        let best = self.blocks.iter().filter(|block| block.on_best_chain);
        best.map(|block| block.height).max()
    }

    /// Whether it is settled in the best chain.
    pub fn is_mined(&self) -> bool {
        self.unmined_since.is_none() && self.mined_height().is_some()
    }

    /// A block holds it. A block that is known already only learns whether it is on the best chain.
    pub fn set_mined(&mut self, block: MinedIn, retention: RetentionBlocks) {
        match self.blocks.iter_mut().find(|known| known.hash == block.hash) {
            Some(known) => known.on_best_chain |= block.on_best_chain,
            None => self.blocks.push(block),
        }
        if self.mined_height().is_some() {
            self.unmined_since = None;
            self.is_locked = false;
        }
        self.reschedule(block.height, retention);
    }

    /// The block is no longer one that holds it; `height` is the tip's. `false` when it never was.
    pub fn unset_mined(
        &mut self,
        block: BlockHash,
        height: u64,
        retention: RetentionBlocks,
    ) -> bool {
        let before = self.blocks.len();
        self.blocks.retain(|known| known.hash != block);
        let is_changed = self.blocks.len() != before;
        if is_changed {
            self.settle_unmined(height);
            self.reschedule(height, retention);
        }
        is_changed
    }

    /// All its blocks are off the best chain.
    pub fn leave_best_chain(&mut self, height: u64, retention: RetentionBlocks) {
        self.blocks.iter_mut().for_each(|block| block.on_best_chain = false);
        self.settle_unmined(height);
        self.reschedule(height, retention);
    }

    /// Its highest block is on the best chain. `false` when no block holds it.
    pub fn join_best_chain(&mut self, height: u64, retention: RetentionBlocks) -> bool {
        let Some(block) = self.blocks.iter_mut().max_by_key(|block| block.height) else {
            return false;
        };
        block.on_best_chain = true;
        self.unmined_since = None;
        self.reschedule(height, retention);
        true
    }

    /// Unmined from now on, if no block of the best chain is left; the earliest height stays.
    fn settle_unmined(&mut self, height: u64) {
        if self.mined_height().is_none() {
            let since = self.unmined_since.map_or(height, |since| since.min(height));
            self.unmined_since = Some(since);
        }
    }

    /// Locks or unlocks all outputs.
    pub fn set_locked(&mut self, locked: bool, height: u64, retention: RetentionBlocks) {
        self.is_locked = locked;
        self.reschedule(height, retention);
    }

    /// It lost, or no longer did.
    pub fn set_conflicting(&mut self, conflicting: bool, height: u64, retention: RetentionBlocks) {
        if self.is_conflicting != conflicting {
            // A date that was set for other reasons says nothing about a loser, and the reverse.
            self.is_conflicting = conflicting;
            self.delete_at = None;
        }
        self.reschedule(height, retention);
    }

    /// Kept up to that height, whatever else holds; a later height wins over an earlier.
    pub fn preserve(&mut self, until: u64, height: u64, retention: RetentionBlocks) {
        self.preserve_until = Some(self.preserve_until.map_or(until, |known| known.max(until)));
        self.reschedule(height, retention);
    }

    /// Ends a preservation whose height has come, and sees anew whether the record may go.
    pub fn expire_preservation(&mut self, height: u64, retention: RetentionBlocks) -> bool {
        let is_over = self.preserve_until.is_some_and(|until| until <= height);
        if is_over {
            self.preserve_until = None;
            self.reschedule(height, retention);
        }
        is_over
    }

    /// Remembers a conflicting child.
    pub fn add_rival(&mut self, child: TxId) {
        if !self.rivals.contains(&child) {
            self.rivals.push(child);
        }
    }

    /// Forgets a conflicting child.
    pub fn remove_rival(&mut self, child: TxId) {
        self.rivals.retain(|known| *known != child);
    }

    /// Sees anew whether and when the record may go, after an event at `height`.
    pub fn reschedule(&mut self, height: u64, retention: RetentionBlocks) {
        let delete_at = schedule::delete_at(self, height, retention);
        let is_moved = delete_at != self.delete_at;
        self.delete_at = delete_at;
        if self.preserve_until.is_some() {
            self.due_at = self.preserve_until;
        } else if is_moved || self.due_at.is_none() {
            // What was put aside until something happens is looked at again: something did.
            self.due_at = delete_at;
        }
    }
}
