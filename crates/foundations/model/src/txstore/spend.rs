//! Who may spend an output, take a spend back, freeze an output or give it to somebody else.

use super::{
    deletion::RetentionBlocks,
    record::{ReassignedOutput, TxRecord},
    slot::{Slot, SlotEvent, Spender},
};
use crate::{ids::TxId, maturity};

/// Blocks that an output waits after it was given to somebody else.
pub const REASSIGN_COOLDOWN: u64 = 1_000;

/// What an output is: a hash over its place, value and script.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutputHash(pub [u8; 32]);

/// What a spend may pass over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpendTerms {
    /// Locks.
    pub ignore_locked: bool,
    /// That the parent lost a conflict.
    pub ignore_conflicting: bool,
    /// Everything but the spend of another: a block has decided it.
    pub block_decides: bool,
}

/// Why an output can't be spent, frozen, thawed or reassigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotRefusal {
    /// No such transaction.
    #[error("the transaction is not in the store")]
    TxNotFound,
    /// It has no such output.
    #[error("the transaction has no such output")]
    OutputNotFound,
    /// The output isn't what the spender believes.
    #[error("the output's script or value is not the one expected")]
    OutputMismatch,
    /// No spend of it can be valid.
    #[error("the output can never be spent")]
    Unspendable,
    /// The parent lost a conflict.
    #[error("the transaction is conflicting")]
    Conflicting,
    /// The parent is locked.
    #[error("the transaction is locked")]
    Locked,
    /// A coinbase that isn't old enough.
    #[error("the coinbase can't be spent before height {}", .from.map_or("unknown".into(), |h| h.to_string()))]
    CoinbaseImmature {
        /// From here on it may be spent; unknown while its block isn't on the best chain.
        from: Option<u64>,
    },
    /// The output is frozen.
    #[error("the output is frozen")]
    Frozen,
    /// It is frozen already.
    #[error("the output is already frozen")]
    AlreadyFrozen,
    /// It was reassigned lately.
    #[error("the output was reassigned and can't be spent before height {from}")]
    FrozenUntil {
        /// From here on it may be spent.
        from: u64,
    },
    /// It isn't frozen.
    #[error("the output is not frozen")]
    NotFrozen,
    /// Another one spent it.
    #[error("the output is spent by {}, input {}", .by.tx.on_bitcoin(), .by.vin)]
    Spent {
        /// Who.
        by: Spender,
    },
    /// The child spent it long ago and was deleted since.
    #[error("the output was spent by this transaction, which is settled and deleted")]
    InvalidSpend {
        /// The child.
        by: Spender,
    },
}

impl SlotRefusal {
    /// Its name, as programs read it.
    pub fn code(self) -> &'static str {
        match self {
            Self::TxNotFound => "TX_NOT_FOUND",
            Self::OutputNotFound => "UTXO_NOT_FOUND",
            Self::OutputMismatch => "UTXO_HASH_MISMATCH",
            Self::Unspendable => "UTXO_UNSPENDABLE",
            Self::Conflicting => "CONFLICTING",
            Self::Locked => "LOCKED",
            Self::CoinbaseImmature { .. } => "COINBASE_IMMATURE",
            Self::Frozen => "FROZEN",
            Self::AlreadyFrozen => "ALREADY_FROZEN",
            Self::FrozenUntil { .. } => "FROZEN_UNTIL",
            Self::NotFrozen => "UTXO_NOT_FROZEN",
            Self::Spent { .. } => "SPENT",
            Self::InvalidSpend { .. } => "INVALID_SPEND",
        }
    }
}

/// What the spender and the store know of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpectedOutput {
    /// What the spender believes it to be; nothing when it doesn't care.
    pub claimed: Option<OutputHash>,
    /// What the stored bytes say it is; needed when something is claimed.
    pub stored: Option<OutputHash>,
}

impl TxRecord {
    /// Spends an output at `height`. The same child spending it again changes nothing.
    ///
    /// # Errors
    ///
    /// [`SlotRefusal`], with nothing changed.
    pub fn spend(
        &mut self,
        vout: u32,
        by: Spender,
        expected: ExpectedOutput,
        height: u64,
        terms: SpendTerms,
        retention: RetentionBlocks,
    ) -> Result<(), SlotRefusal> {
        self.may_be_spent(vout, expected, height, terms)?;
        let slot = self.slot(vout)?;
        let event = match slot.spender() {
            Some(known) if known == by => SlotEvent::OwnSpend,
            Some(_) | None => SlotEvent::Spend,
        };
        let thawed = if terms.block_decides && slot == Slot::Frozen { Slot::Unspent } else { slot };
        let Some(after) = thawed.after(event, by) else { return Err(refusal(slot, by)) };
        if after != slot {
            self.slots.set(vout, after);
            self.reschedule(height, retention);
        }
        Ok(())
    }

    /// What stands against any spend at `height`, in the order in which it is looked at.
    fn may_be_spent(
        &self,
        vout: u32,
        expected: ExpectedOutput,
        height: u64,
        terms: SpendTerms,
    ) -> Result<(), SlotRefusal> {
        if terms.block_decides {
            return Ok(());
        }
        if self.is_conflicting && !terms.ignore_conflicting {
            return Err(SlotRefusal::Conflicting);
        }
        if self.is_locked && !terms.ignore_locked {
            return Err(SlotRefusal::Locked);
        }
        if self.is_coinbase {
            let mined = self.mined_height();
            if !mined.is_some_and(|mined| maturity::block_may_spend(mined, height)) {
                let from = mined.map(|mined| mined + maturity::COINBASE_MATURITY);
                return Err(SlotRefusal::CoinbaseImmature { from });
            }
        }
        self.slot(vout)?;
        self.is_expected(vout, expected)?;
        match self.reassignment(vout) {
            Some(given) if given.spendable_at > height => {
                Err(SlotRefusal::FrozenUntil { from: given.spendable_at })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_expected(&self, vout: u32, expected: ExpectedOutput) -> Result<(), SlotRefusal> {
        let stored = match self.reassignment(vout) {
            // Whoever says nothing may still mean the former owner's output.
            Some(given) => Some(given.output),
            None if expected.claimed.is_none() => return Ok(()),
            None => expected.stored,
        };
        if stored == expected.claimed { Ok(()) } else { Err(SlotRefusal::OutputMismatch) }
    }

    fn reassignment(&self, vout: u32) -> Option<&ReassignedOutput> {
        self.reassigned.iter().find(|given| given.vout == vout)
    }

    fn slot(&self, vout: u32) -> Result<Slot, SlotRefusal> {
        self.slots.get(vout).ok_or(SlotRefusal::OutputNotFound)
    }

    /// Takes a spend back. Only the spender that is named can; for others nothing changes.
    ///
    /// # Errors
    ///
    /// [`SlotRefusal::InvalidSpend`] when the spender is settled and deleted,
    /// [`SlotRefusal::OutputNotFound`]; nothing is changed.
    pub fn unspend(
        &mut self,
        vout: u32,
        by: Spender,
        height: u64,
        retention: RetentionBlocks,
    ) -> Result<bool, SlotRefusal> {
        let slot = self.slot(vout)?;
        if slot.spender() != Some(by) {
            return Ok(false);
        }
        let after = slot.after(SlotEvent::OwnUnspend, by).ok_or(refusal(slot, by))?;
        self.slots.set(vout, after);
        self.reschedule(height, retention);
        Ok(true)
    }

    /// Marks an output whose spender is about to be deleted. A date that waited for that child
    /// moves back to the head of the queue. `false` when the output doesn't name it.
    pub fn mark_pruned(&mut self, vout: u32, child: TxId) -> bool {
        let Some(slot) = self.slots.get(vout) else { return false };
        let Some(by) = slot.spender().filter(|by| by.tx == child) else { return false };
        let Some(after) = slot.after(SlotEvent::OwnDelete, by) else { return false };
        self.slots.set(vout, after);
        self.wake();
        true
    }

    /// A child went: what waited for that is looked at again as soon as its height allows.
    pub fn wake(&mut self) {
        if self.preserve_until.is_none() {
            self.due_at = self.delete_at;
        }
    }

    /// Freezes a coin.
    ///
    /// # Errors
    ///
    /// [`SlotRefusal`], with nothing changed.
    pub fn freeze(&mut self, vout: u32) -> Result<(), SlotRefusal> {
        let slot = self.slot(vout)?;
        match slot.after(SlotEvent::Freeze, NOBODY) {
            Some(after) => {
                self.slots.set(vout, after);
                Ok(())
            }
            None if slot == Slot::Frozen => Err(SlotRefusal::AlreadyFrozen),
            None => Err(refusal(slot, NOBODY)),
        }
    }

    /// Thaws a coin. One that was reassigned goes on waiting.
    ///
    /// # Errors
    ///
    /// [`SlotRefusal::NotFrozen`] or [`SlotRefusal::OutputNotFound`], with nothing changed.
    pub fn unfreeze(&mut self, vout: u32) -> Result<(), SlotRefusal> {
        let after = self.slot(vout)?.after(SlotEvent::Unfreeze, NOBODY);
        self.slots.set(vout, after.ok_or(SlotRefusal::NotFrozen)?);
        Ok(())
    }

    /// Gives a frozen coin to somebody else; it can be spent [`REASSIGN_COOLDOWN`] blocks later.
    ///
    /// # Errors
    ///
    /// [`SlotRefusal`], with nothing changed.
    pub fn reassign(
        &mut self,
        vout: u32,
        from: ExpectedOutput,
        to: OutputHash,
        height: u64,
        retention: RetentionBlocks,
    ) -> Result<(), SlotRefusal> {
        let slot = self.slot(vout)?;
        let after = slot.after(SlotEvent::Unfreeze, NOBODY).ok_or(SlotRefusal::NotFrozen)?;
        self.is_expected(vout, from)?;
        self.slots.set(vout, after);
        self.reassigned.retain(|given| given.vout != vout);
        // No height is that high.
        let spendable_at = height.saturating_add(REASSIGN_COOLDOWN);
        self.reassigned.push(ReassignedOutput { vout, output: to, spendable_at });
        self.reschedule(height, retention);
        Ok(())
    }
}

const NOBODY: Spender = Spender { tx: TxId([0; 32]), vin: 0 };

/// Why nothing happens to a slot in this state.
fn refusal(slot: Slot, by: Spender) -> SlotRefusal {
    match slot {
        Slot::Unspendable => SlotRefusal::Unspendable,
        Slot::SpentPruned(known) if known == by => SlotRefusal::InvalidSpend { by },
        Slot::Spent(known) | Slot::SpentPruned(known) => SlotRefusal::Spent { by: known },
        Slot::Frozen => SlotRefusal::Frozen,
        Slot::Unspent => SlotRefusal::NotFrozen,
    }
}
