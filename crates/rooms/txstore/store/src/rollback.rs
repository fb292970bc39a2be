//! Undoing blocks, from the store's own records.
//!
//! Each block is undone in one step that is right by itself, with the tip's row held whole. Its
//! transactions are unmined afterwards; what they spent stays spent by them, until another block
//! decides otherwise. A coinbase can't be mined again elsewhere, so it and what descends from it
//! are conflicting.

use std::collections::BTreeSet;

use unspent_model::{
    Point, TxId,
    txstore::{DeletionWindows, TxRecord},
};
use unspent_sql::{Arg, Tx};

use crate::{
    block::block_at,
    changes::{self, OutboxLine},
    codec,
    conflicts::condemn,
    error::TxStoreError,
    mined::wake_parents,
    store::{TIP, TIP_WHOLE, TipRow, TxStore, sql_int},
    working::{LoadMode, WorkingSet},
};

const TXIDS: &str = "SELECT txids FROM blocks WHERE height = $1";
const LOWEST: &str = "SELECT height FROM blocks ORDER BY height LIMIT 1";
const UNDO: &str = "DELETE FROM blocks WHERE height = $1";

/// What came of undoing blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// Blocks undone.
    pub blocks: usize,
    /// Transactions that are unmined now.
    pub unmined: usize,
    /// Coinbases of lost blocks and what descends from them.
    pub losers: usize,
}

impl TxStore {
    /// Undoes every block above `to`; all of them for `None`. Whether it can be done is found out
    /// before anything is changed; a crash in between leaves a whole number of blocks.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::TooDeep`] with the depth, or [`TxStoreError::BlockNotFound`]; nothing is
    /// changed then.
    pub fn roll_back(&self, to: Option<Point>) -> Result<RolledBack, TxStoreError> {
        let mut done = RolledBack::default();
        // For the whole way at once: found out block by block, a refusal would come half way down.
        self.door.read(move |tx| may_roll_back(tx, to))?;
        let windows = self.windows;
        loop {
            let step = self.door.write(move |tx| undo_one(tx, to, windows))?;
            let Some(step) = step else { return Ok(done) };
            done.blocks += 1;
            done.unmined += step.unmined;
            done.losers += step.losers;
        }
    }
}

fn may_roll_back(tx: &mut Tx<'_>, to: Option<Point>) -> Result<TipRow, TxStoreError> {
    let tip = TipRow::read(tx, TIP)?;
    is_within(tx, &tip, to)?;
    if let Some(to) = to
        && block_at(tx, to.height)? != Some(to)
    {
        return Err(TxStoreError::BlockNotFound { height: to.height });
    }
    Ok(tip)
}

/// A store that began inside the window can lose all its blocks.
fn is_within(tx: &mut Tx<'_>, tip: &TipRow, to: Option<Point>) -> Result<(), TxStoreError> {
    let target = match to {
        Some(to) => to.height,
        None => match tx.maybe(LOWEST, &[])? {
            // Below the first block there is nothing to go back to.
            Some(row) => row.natural("height")?.saturating_sub(1),
            None => return Ok(()),
        },
    };
    tip.may_go_back_to(Some(target))
}

/// Undoes the highest block, unless it is the one to stay.
fn undo_one(
    tx: &mut Tx<'_>,
    to: Option<Point>,
    windows: DeletionWindows,
) -> Result<Option<RolledBack>, TxStoreError> {
    // Judged again under the lock: another process may have moved the tip since the first look.
    let mut tip = TipRow::read(tx, TIP_WHOLE)?;
    is_within(tx, &tip, to)?;
    let Some(top) = tip.point() else { return Ok(None) };
    if to.is_some_and(|to| to.height >= top.height) {
        return Ok(None);
    }
    let row = tx.maybe(TXIDS, &[Arg::Int(sql_int(top.height)?)])?;
    let row = row.ok_or(TxStoreError::BlockNotFound { height: top.height })?;
    let txids = codec::read_txids(&row.blob("txids")?)?;
    let done = unmine(tx, &txids, top, windows)?;
    tx.execute(UNDO, &[Arg::Int(sql_int(top.height)?)])?;
    let below = match top.height.checked_sub(1) {
        Some(below) => block_at(tx, below)?,
        None => None,
    };
    (tip.height, tip.hash) = (below.map(|below| below.height), below.map(|below| below.hash));
    tip.write(tx, 0)?;
    changes::write(tx, &OutboxLine::undone(top, &done))?;
    Ok(Some(done))
}

fn unmine(
    tx: &mut Tx<'_>,
    txids: &[TxId],
    block: Point,
    windows: DeletionWindows,
) -> Result<RolledBack, TxStoreError> {
    let mut working = WorkingSet::new(LoadMode::ForUpdate);
    working.load(tx, txids.iter().copied())?;
    let mut done = RolledBack { blocks: 1, ..RolledBack::default() };
    let mut lost = BTreeSet::new();
    for txid in txids {
        let Some(record) = working.get_mut(*txid) else { continue };
        record.unset_mined(block.hash, block.height, windows.retention);
        done.unmined += usize::from(!record.is_mined());
        if record.is_coinbase && !TxRecord::is_mined(record) {
            lost.insert(*txid);
        }
    }
    wake_parents(tx, &mut working, txids)?;
    done.losers = condemn(tx, &mut working, lost, block.height, windows)?.len();
    working.save(tx)?;
    Ok(done)
}
