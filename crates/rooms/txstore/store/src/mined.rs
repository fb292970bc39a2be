//! Which blocks hold a transaction, and whether these are on the best chain.
//!
//! Whatever takes a transaction out of the best chain holds the tip's row whole: no cleaner is at
//! work meanwhile that has just found a child deep enough.

use std::{collections::BTreeSet, sync::Arc};

use unspent_model::{
    BlockHash, TxId,
    txstore::{MinedIn, TxRecord},
};
use unspent_sql::Tx;

use crate::{
    awaited::{self, WaitingParent},
    error::TxStoreError,
    store::{TIP_WHOLE, TipRow, TxStore, writer_key},
    working::{LoadMode, WorkingSet},
};

impl TxStore {
    /// A block holds these transactions. A block on the best chain ends their being unmined and
    /// their lock.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`] when some are not in the store; nothing is changed then.
    pub fn set_mined(&self, txids: Vec<TxId>, block: MinedIn) -> Result<(), TxStoreError> {
        let (windows, txids) = (self.windows, Arc::new(txids));
        let Some(first) = txids.first() else { return Ok(()) };
        self.door.write_for(writer_key(*first), move |tx| {
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            let waiters = load_with_waiters(tx, &mut working, &txids, block.on_best_chain)?;
            change_all(&mut working, &txids, |record| {
                record.set_mined(block, windows.retention);
                Ok(())
            })?;
            awaited::wake(&mut working, &waiters, windows);
            working.save(tx)?;
            awaited::forget(tx, awaited::answered(&waiters))
        })
    }

    /// The block no longer holds these transactions; `height` is the tip's. Those that are not in
    /// the store are passed over. Says how many changed.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::TooDeep`] for a block deeper than the window; nothing is changed then.
    pub fn unset_mined(
        &self,
        txids: Vec<TxId>,
        block: BlockHash,
        height: u64,
    ) -> Result<usize, TxStoreError> {
        let (retention, txids) = (self.windows.retention, Arc::new(txids));
        self.door.write(move |tx| {
            let tip = TipRow::read(tx, TIP_WHOLE)?;
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, txids.iter().copied())?;
            let mut changed = 0;
            for txid in txids.iter() {
                let Some(record) = working.get_mut(*txid) else { continue };
                if let Some(known) = record.blocks.iter().find(|known| known.hash == block) {
                    tip.may_leave(known.height)?;
                }
                changed += usize::from(record.unset_mined(block, height, retention));
            }
            wake_parents(tx, &mut working, &txids)?;
            working.save(tx)?;
            Ok(changed)
        })
    }

    /// The blocks of these transactions are on the best chain, or no longer; `height` is the tip's.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`], [`TxStoreError::InNoBlock`] or [`TxStoreError::TooDeep`]; nothing
    /// is changed then.
    pub fn mark_longest_chain(
        &self,
        txids: Vec<TxId>,
        is_on: bool,
        height: u64,
    ) -> Result<(), TxStoreError> {
        let (windows, txids) = (self.windows, Arc::new(txids));
        self.door.write(move |tx| {
            let tip = TipRow::read(tx, TIP_WHOLE)?;
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            let waiters = load_with_waiters(tx, &mut working, &txids, is_on)?;
            change_all(&mut working, &txids, |record| {
                if is_on {
                    let is_there = record.join_best_chain(height, windows.retention);
                    return if is_there {
                        Ok(())
                    } else {
                        Err(TxStoreError::InNoBlock(record.txid))
                    };
                }
                if let Some(mined) = record.mined_height() {
                    tip.may_leave(mined)?;
                }
                record.leave_best_chain(height, windows.retention);
                Ok(())
            })?;
            if !is_on {
                wake_parents(tx, &mut working, &txids)?;
            }
            awaited::wake(&mut working, &waiters, windows);
            working.save(tx)?;
            awaited::forget(tx, awaited::answered(&waiters))
        })
    }
}

/// Parents were queued for the height at which these would have been deep enough, which says
/// nothing any more: they may be mined again, and lower.
pub(crate) fn wake_parents(
    tx: &mut Tx<'_>,
    working: &mut WorkingSet,
    txids: &[TxId],
) -> Result<(), TxStoreError> {
    working.load_inputs(tx, txids.iter().copied())?;
    let inputs = txids.iter().flat_map(|txid| working.inputs(*txid));
    let parents: BTreeSet<TxId> = inputs.map(|coin| coin.tx).collect();
    working.load(tx, parents.iter().copied())?;
    for parent in parents {
        if let Some(parent) = working.get_mut(parent) {
            parent.wake();
        }
    }
    Ok(())
}

impl TipRow {
    /// Refuses to take something out of a block that is too deep.
    pub(crate) fn may_leave(&self, block: u64) -> Result<(), TxStoreError> {
        let tip = self.height.unwrap_or(0);
        if self.horizon > 0 && block <= self.horizon {
            // Told to people; a block above the tip is no depth.
            let depth = tip.saturating_sub(block) + 1;
            let possible = tip.saturating_sub(self.horizon);
            return Err(TxStoreError::TooDeep { depth, possible });
        }
        Ok(())
    }
}

/// Locks the transactions, and only then asks who waits for them: a cleaner notes that while it
/// holds the child, so that either it sees the child mined, or we see its note.
fn load_with_waiters(
    tx: &mut Tx<'_>,
    working: &mut WorkingSet,
    txids: &[TxId],
    are_mined: bool,
) -> Result<Vec<WaitingParent>, TxStoreError> {
    working.load(tx, txids.iter().copied())?;
    if !are_mined {
        return Ok(Vec::new());
    }
    let waiters = awaited::waiting(tx, txids.iter().copied())?;
    working.load(tx, waiters.iter().map(|waiter| waiter.parent))?;
    Ok(waiters)
}

/// Changes all of them, or says which are missing.
fn change_all(
    working: &mut WorkingSet,
    txids: &[TxId],
    mut change: impl FnMut(&mut TxRecord) -> Result<(), TxStoreError>,
) -> Result<(), TxStoreError> {
    let missing: Vec<TxId> =
        txids.iter().copied().filter(|txid| working.get(*txid).is_none()).collect();
    if !missing.is_empty() {
        return Err(TxStoreError::Missing(missing));
    }
    for txid in txids {
        if let Some(record) = working.get_mut(*txid) {
            change(record)?;
        }
    }
    Ok(())
}

/// Changes records by their names; all of them must be there.
pub(crate) fn change_records(
    tx: &mut Tx<'_>,
    txids: &[TxId],
    change: impl FnMut(&mut TxRecord) -> Result<(), TxStoreError>,
) -> Result<(), TxStoreError> {
    let mut working = WorkingSet::new(LoadMode::ForUpdate);
    working.load(tx, txids.iter().copied())?;
    change_all(&mut working, txids, change)?;
    working.save(tx)
}
