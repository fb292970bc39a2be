//! The road of a follower: whole blocks, one atomic step each.
//!
//! A block decides: what it spends is spent, frozen or not, and whoever spent the same output
//! without a block has lost. The records that a block concerns are read at once and written at
//! once, so the number of statements doesn't grow with the block.

use std::{collections::BTreeSet, sync::Arc};

use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    txstore::{DeletionWindows, MinedIn, Slot, SlotRefusal, SpendTerms},
};
use unspent_sql::{Arg, Row, SqlError, Tx};

use crate::{
    awaited,
    changes::{self, OutboxLine},
    codec,
    conflicts::{clear_conflict, condemn, give_back, load_children, spenders_but},
    error::TxStoreError,
    new_tx::{NewBlock, NewTx},
    spend::{InputOutcome, SpendOptions, TxSpends, spend_inputs},
    store::{TIP_FORWARD, TipRow, TxStore, sql_int},
    working::{LoadMode, WorkingSet},
};

const AT: &str = "SELECT height, hash FROM blocks WHERE height = $1";
const HIGHEST: &str =
    "SELECT height, hash FROM blocks WHERE height <= $1 ORDER BY height DESC LIMIT $2";
const KEEP: &str = "INSERT INTO blocks (height, hash, txids) VALUES ($1, $2, $3)";
const FORGET: &str = "DELETE FROM blocks WHERE height < $1";

/// What came of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedBlock {
    /// It was there before; nothing was changed.
    pub was_there: bool,
    /// Transactions that are new to the store.
    pub created: usize,
    /// Transactions that were there already and are mined now.
    pub mined: usize,
    /// Outputs spent whose transactions are in the store.
    pub spent: usize,
    /// Of these, outputs created in the same block.
    pub spent_in_block: usize,
    /// Inputs whose parents are not in the store.
    pub absent: usize,
    /// Transactions that lost to the block's.
    pub losers: usize,
}

impl TxStore {
    /// Adds a block on top of the tip. The first block of an empty store may have any height. The
    /// same block again changes nothing.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Gap`], [`TxStoreError::WrongParent`], [`TxStoreError::BlockMismatch`],
    /// [`TxStoreError::DoubleSpend`] or [`TxStoreError::Replayed`]; nothing is changed then.
    pub fn apply_block(&self, block: NewBlock) -> Result<AppliedBlock, TxStoreError> {
        let applied = self.apply_blocks(vec![block])?;
        Ok(applied.first().copied().unwrap_or_default())
    }

    /// Adds several blocks, all or none.
    ///
    /// # Errors
    ///
    /// As for [`TxStore::apply_block`].
    pub fn apply_blocks(&self, blocks: Vec<NewBlock>) -> Result<Vec<AppliedBlock>, TxStoreError> {
        let (windows, blocks) = (self.windows, Arc::new(blocks));
        self.door.write(move |tx| {
            let mut tip = TipRow::read(tx, TIP_FORWARD)?;
            let mut change = OutboxLine::default();
            let applied = blocks.iter().map(|block| {
                let applied = apply(tx, &mut tip, block, windows)?;
                change.add_block(block.point, &applied);
                Ok(applied)
            });
            let applied = applied.collect::<Result<Vec<_>, TxStoreError>>()?;
            changes::write(tx, &change)?;
            Ok(applied)
        })
    }

    /// The highest stored block up to a height. Only blocks that can still be undone are stored.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn stored_at(&self, height: u64) -> Result<Option<Point>, TxStoreError> {
        Ok(self.blocks_up_to(height, 1)?.first().copied())
    }

    /// Stored blocks up to a height, the highest first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn blocks_up_to(&self, height: u64, limit: u32) -> Result<Vec<Point>, TxStoreError> {
        let height = i64::try_from(height).unwrap_or(i64::MAX);
        self.door.read(move |tx| {
            let rows = tx.query(HIGHEST, &[Arg::Int(height), Arg::Int(limit.into())])?;
            let points: Result<Vec<Point>, SqlError> = rows.iter().map(point).collect();
            Ok(points?)
        })
    }
}

fn point(row: &Row) -> Result<Point, SqlError> {
    let height = row.natural("height")?;
    Ok(Point { height, slot: height, hash: BlockHash(row.hash("hash")?) })
}

/// The block that is stored at a height.
pub(crate) fn block_at(tx: &mut Tx<'_>, height: u64) -> Result<Option<Point>, TxStoreError> {
    let row = tx.maybe(AT, &[Arg::Int(sql_int(height)?)])?;
    Ok(row.as_ref().map(point).transpose()?)
}

/// Whether the block is there already; an error when it can't stand where it says.
fn admit(tx: &mut Tx<'_>, tip: &TipRow, block: &NewBlock) -> Result<bool, TxStoreError> {
    let height = block.point.height;
    let Some(top) = tip.height else {
        // Every block was undone. What lay deep at the horizon may have been deleted, and another
        // block down there could spend it.
        if tip.horizon > 0 && height <= tip.horizon {
            return Err(TxStoreError::TooDeep { depth: tip.horizon - height + 1, possible: 0 });
        }
        return Ok(false);
    };
    // Nobody could tell whether a block fits on a height without a block.
    if tip.hash.is_none() {
        let why = "the height of this store is set by hand, so it can't follow blocks";
        return Err(TxStoreError::Argument(why.into()));
    }
    if height > top + 1 {
        return Err(TxStoreError::Gap { tip: top, got: height });
    }
    if height == top + 1 {
        let fits = tip.hash == block.parent;
        return if fits { Ok(false) } else { Err(TxStoreError::WrongParent { height }) };
    }
    match block_at(tx, height)? {
        Some(known) if known.hash == block.point.hash => Ok(true),
        Some(_) => Err(TxStoreError::BlockMismatch { height }),
        None => {
            // Told to people: a store above its own tip can undo nothing.
            let possible = top.saturating_sub(tip.horizon);
            Err(TxStoreError::TooDeep { depth: top - height + 1, possible })
        }
    }
}

fn apply(
    tx: &mut Tx<'_>,
    tip: &mut TipRow,
    block: &NewBlock,
    windows: DeletionWindows,
) -> Result<AppliedBlock, TxStoreError> {
    // Also when the outcome of a commit was unclear and the closure is run again.
    if admit(tx, tip, block)? {
        return Ok(AppliedBlock { was_there: true, ..AppliedBlock::default() });
    }
    let mut change = BlockChange::read(tx, block, windows)?;
    // Before any spend: a rival must have given an output back before the block can take it.
    change.settle_conflicts(tx)?;
    for new in &block.txs {
        change.take(new)?;
    }
    let applied = change.done;
    change.save(tx)?;
    let (height, hash) = (block.point.height, block.point.hash);
    tip.move_to(height, Some(hash), windows);
    tip.write(tx, applied.absent as u64)?;
    // Undoing goes by this list: nothing else leads from a block to its transactions.
    let txids = codec::txids(block.txs.iter().map(|new| new.txid));
    tx.execute(KEEP, &[Arg::Int(sql_int(height)?), Arg::Blob(&hash.0), Arg::Blob(&txids)])?;
    // What lies below the horizon is never undone, and only undoing asks for these lists.
    tx.execute(FORGET, &[Arg::Int(sql_int(tip.horizon)?)])?;
    Ok(applied)
}

/// A block on its way in.
struct BlockChange<'b> {
    block: &'b NewBlock,
    mined: MinedIn,
    windows: DeletionWindows,
    working: WorkingSet,
    waiters: Vec<awaited::WaitingParent>,
    /// Transactions of the block that were taken so far.
    taken: BTreeSet<TxId>,
    done: AppliedBlock,
}

impl<'b> BlockChange<'b> {
    /// Reads every record that the block names.
    fn read(
        tx: &mut Tx<'_>,
        block: &'b NewBlock,
        windows: DeletionWindows,
    ) -> Result<Self, TxStoreError> {
        let names = block.txs.iter().map(|new| new.txid);
        let coins = || block.txs.iter().flat_map(|new| new.inputs.iter().copied());
        let mut working = WorkingSet::new(LoadMode::ForUpdate);
        working.load(tx, names.clone().chain(coins().map(|coin| coin.tx)))?;
        working.load_slots(tx, coins())?;
        // Under the locks: a cleaner notes who waits only while it holds the parents.
        let waiters = awaited::waiting(tx, names)?;
        working.load(tx, waiters.iter().map(|waiter| waiter.parent))?;
        let Point { height, hash, .. } = block.point;
        let mined = MinedIn { height, hash, on_best_chain: true };
        let (taken, done) = (BTreeSet::new(), AppliedBlock::default());
        Ok(Self { block, mined, windows, working, waiters, taken, done })
    }

    /// Whoever spent what the block spends has lost.
    fn settle_conflicts(&mut self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        let mut rivals = BTreeSet::new();
        for new in &self.block.txs {
            rivals.extend(spenders_but(&self.working, &new.inputs, new.txid));
        }
        let known = self.block.txs.iter().filter_map(|new| self.working.get(new.txid));
        let revived = known.filter(|record| record.is_conflicting).map(|record| record.txid);
        let revived: BTreeSet<TxId> = revived.collect();
        // A loser that the block holds comes back, and with it its outputs that other losers had
        // spent.
        load_children(tx, &mut self.working, &revived)?;
        if rivals.is_empty() {
            return Ok(());
        }
        let height = self.mined.height;
        let losers = condemn(tx, &mut self.working, rivals, height, self.windows);
        // The rival is in an earlier block of this chain: no node would have taken both.
        if let Err(TxStoreError::IsMined(txid)) = losers {
            return Err(TxStoreError::DoubleSpend(txid));
        }
        self.done.losers = losers?.len();
        self.overrule_unknown();
        Ok(())
    }

    /// A spender that isn't in the store and was never deleted can't stand against a block.
    fn overrule_unknown(&mut self) {
        for new in &self.block.txs {
            for coin in &new.inputs {
                let slot = self.working.get(coin.tx).and_then(|p| p.slots.get(coin.index));
                let Some(Slot::Spent(by)) = slot else {
                    continue;
                };
                // One that is here was a rival above, and is judged there.
                if by.tx == new.txid || self.working.get(by.tx).is_some() {
                    continue;
                }
                if let Some(parent) = self.working.get_mut(coin.tx) {
                    give_back(parent, coin.index, by.tx, self.mined.height, self.windows);
                }
            }
        }
    }

    /// One transaction of the block.
    fn take(&mut self, new: &NewTx) -> Result<(), TxStoreError> {
        let (height, retention) = (self.mined.height, self.windows.retention);
        let is_known = self.working.get(new.txid).is_some();
        if is_known {
            self.done.mined += 1;
            self.revive(new);
        } else {
            self.done.created += 1;
            let mut record = new.record(height);
            if height == 0 {
                // The first block's coinbase never was a coin.
                (0..record.slots.len()).for_each(|vout| {
                    record.slots.set(vout, Slot::Unspendable);
                });
            }
            self.working.add(new, record);
        }
        if let Some(record) = self.working.get_mut(new.txid) {
            record.set_mined(self.mined, retention);
        }
        // Also when it was known: as a loser it had given its inputs back, and its parents may have
        // come since.
        self.spend(new, is_known)?;
        self.taken.insert(new.txid);
        Ok(())
    }

    /// The chain is the judge: what it holds is no loser.
    fn revive(&mut self, new: &NewTx) {
        if self.working.get(new.txid).is_some_and(|record| record.is_conflicting) {
            self.working.put_inputs(new.txid, new.inputs.clone());
            clear_conflict(&mut self.working, new.txid, self.mined.height, self.windows);
        }
    }

    fn spend(&mut self, new: &NewTx, is_known: bool) -> Result<(), TxStoreError> {
        let terms = SpendTerms { block_decides: true, ..SpendTerms::default() };
        // A store that began in the middle of the chain doesn't have the parents below.
        let options = SpendOptions { terms, allow_absent: true };
        let spends = TxSpends::of(new);
        let height = self.mined.height;
        let working = &mut self.working;
        let outcome = spend_inputs(working, &spends, &|_| None, height, options, self.windows);
        let mut refused = false;
        for (input, outcome) in spends.inputs.iter().zip(&outcome.inputs) {
            match outcome {
                InputOutcome::Spent => self.done.spent += 1,
                InputOutcome::Absent => self.done.absent += 1,
                // Its mark was written and it is still there: a cleaner was stopped in between.
                InputOutcome::Refused(SlotRefusal::InvalidSpend { .. }) if is_known => {
                    refused = true;
                }
                InputOutcome::Refused(why) => return Err(refusal(new.txid, *why, input.coin)),
            }
            self.done.spent_in_block += usize::from(self.taken.contains(&input.coin.tx));
        }
        if refused {
            self.spend_one_by_one(&spends, options);
        }
        Ok(())
    }

    /// What was marked stays so; the rest is spent.
    fn spend_one_by_one(&mut self, spends: &TxSpends, options: SpendOptions) {
        for input in &spends.inputs {
            let one = TxSpends { child: spends.child, inputs: vec![*input] };
            let (working, height) = (&mut self.working, self.mined.height);
            spend_inputs(working, &one, &|_| None, height, options, self.windows);
        }
    }

    fn save(mut self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        awaited::wake(&mut self.working, &self.waiters, self.windows);
        self.working.save(tx)?;
        awaited::forget(tx, awaited::answered(&self.waiters))
    }
}

/// Why a block can't be taken.
fn refusal(txid: TxId, why: SlotRefusal, coin: Outpoint) -> TxStoreError {
    if let SlotRefusal::InvalidSpend { .. } = why {
        return TxStoreError::Replayed(txid);
    }
    if let SlotRefusal::Spent { by } = why {
        return TxStoreError::DoubleSpend(by.tx);
    }
    TxStoreError::BadBlock { txid, coin, why }
}
