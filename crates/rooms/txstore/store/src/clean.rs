//! The cleaner: deletes what nobody can need any more.
//!
//! Due records are looked at in chunks. For a chunk: the records, all children of all their
//! outputs in one read, the verdicts; then the parents of those that may go, and the verdict again
//! on what the rows hold under their locks; the parents' outputs are marked; then the records go,
//! each only in the version that was judged. The marks come before the deletions, so that each step
//! is right by itself.
//!
//! On SQLite some chunks share a commit. The tip's row is held from the first read to the commit,
//! so no child that was found deep can leave the best chain before its parent is gone. Whatever
//! isn't deleted leaves the head of the queue: for a height at which it can be decided, or until a
//! child is mined ([`crate::awaited`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use unspent_model::{
    Outpoint, TxId,
    txstore::{
        ChildState, DeletionBlocker, DeletionVerdict, DeletionWindows, KeepReason, RetryAt, Slot,
        TxRecord, verdict,
    },
};
use unspent_sql::{Arg, Backend, BulkStatement, Column, Row, Tx};

use crate::{
    awaited::{self, WaitingParent},
    conflicts::give_back,
    error::TxStoreError,
    status::{DELETED, LOSERS_DELETED, add_to_tally},
    store::{TIP_SHARED, TipRow, TxStore, sql_int, txid},
    working::{LoadMode, WorkingSet},
};

/// Due records of one step: their children are one batched read.
pub const CHUNK: usize = 500;
/// Steps of one transaction on SQLite: names are random, so each step writes most pages of their
/// index, and together they write them once. A server has no such cost, and others wait for locks.
const CHUNKS_TOGETHER: usize = 8;
/// A loser that a live output still names is looked at again after so many blocks.
const LOOK_AGAIN: u64 = 144;

const DUE: &str = "SELECT txid FROM due WHERE height <= $1 ORDER BY height, txid LIMIT $2";
const CHILDREN: BulkStatement = BulkStatement {
    sqlite: "SELECT txid, mined_height, unmined_since, is_conflicting FROM transactions
        WHERE txid = $1",
    postgres: "SELECT txid, mined_height, unmined_since, is_conflicting FROM transactions
        WHERE txid = ANY($1::bytea[])",
};
const CHILDREN_HELD: BulkStatement = BulkStatement {
    sqlite: CHILDREN.sqlite,
    postgres: "SELECT txid, mined_height, unmined_since, is_conflicting FROM transactions
        WHERE txid = ANY($1::bytea[]) ORDER BY txid FOR KEY SHARE",
};
const LEAVE_QUEUE: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM due WHERE txid = $2 AND height <= $1",
    postgres: "DELETE FROM due WHERE height <= $1 AND txid = ANY($2::bytea[])",
};

/// How far a pass goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanLimits {
    /// Due records of one step, at most [`CHUNK`].
    pub chunk: usize,
    /// Due records that are looked at in all.
    pub most: usize,
}

impl Default for CleanLimits {
    fn default() -> Self {
        Self { chunk: CHUNK, most: usize::MAX }
    }
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// The height it judged by.
    pub height: u64,
    /// Due records that were looked at.
    pub looked_at: usize,
    /// Records that went.
    pub deleted: usize,
    /// Of these, losers of conflicts.
    pub losers: usize,
    /// Records that stay, by reason.
    pub kept: BTreeMap<KeepReason, usize>,
    /// Preservations that ended.
    pub expired: usize,
    /// Steps that it took.
    pub chunks: usize,
    /// How long it took.
    pub took: Duration,
    /// The limit was reached; more may be due.
    pub is_cut: bool,
}

impl TxStore {
    /// Looks at everything that is due at the tip and deletes what may go. May be run at any time,
    /// again, in several processes, and stopped anywhere.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::NoTip`]; whatever the database says. What earlier steps deleted stays so.
    pub fn clean(&self, limits: CleanLimits) -> Result<CleanReport, TxStoreError> {
        let (started, windows) = (Instant::now(), self.windows);
        let chunk = limits.chunk.clamp(1, CHUNK);
        let together = if self.backend() == Backend::Sqlite { CHUNKS_TOGETHER } else { 1 };
        let mut report = CleanReport::default();
        let mut is_over = false;
        while !is_over && !report.is_cut {
            // The last chunk may look at more than was left.
            let left = limits.most.saturating_sub(report.looked_at);
            let steps = self.door.write_for(CLEANERS, move |tx| {
                clean_chunks(tx, ChunkLimits { chunk, together, left }, windows)
            })?;
            steps.iter().for_each(|step| report.add(step));
            report.is_cut = report.looked_at >= limits.most;
            // What was deleted may have let others go.
            is_over = steps.last().is_none_or(|step| step.due < chunk && step.deleted == 0);
        }
        report.took = started.elapsed();
        Ok(report)
    }
}

/// How far one transaction goes.
#[derive(Clone, Copy)]
struct ChunkLimits {
    chunk: usize,
    together: usize,
    left: usize,
}

/// Some chunks in one transaction: until nothing is due, or the limits are reached.
fn clean_chunks(
    tx: &mut Tx<'_>,
    limits: ChunkLimits,
    windows: DeletionWindows,
) -> Result<Vec<ChunkReport>, TxStoreError> {
    let (mut steps, mut left) = (Vec::new(), limits.left);
    while steps.len() < limits.together && left > 0 {
        let size = limits.chunk.min(left);
        let step = clean_chunk(tx, size, windows)?;
        left -= step.due;
        let is_over = step.due < size && step.deleted == 0;
        steps.push(step);
        if is_over {
            break;
        }
    }
    Ok(steps)
}

/// Cleaners of one process follow each other, beside other writers.
const CLEANERS: i64 = 1;

impl CleanReport {
    fn add(&mut self, step: &ChunkReport) {
        self.height = step.height;
        self.chunks += usize::from(step.due > 0);
        self.looked_at += step.due;
        self.deleted += step.deleted;
        self.losers += step.losers;
        self.expired += step.expired;
        for reason in &step.kept {
            *self.kept.entry(*reason).or_default() += 1;
        }
    }
}

/// What one step did.
#[derive(Debug, Default)]
struct ChunkReport {
    height: u64,
    due: usize,
    deleted: usize,
    losers: usize,
    expired: usize,
    kept: Vec<KeepReason>,
}

fn clean_chunk(
    tx: &mut Tx<'_>,
    size: usize,
    windows: DeletionWindows,
) -> Result<ChunkReport, TxStoreError> {
    // Shared: blocks may be added meanwhile, but none undone.
    let height = TipRow::read(tx, TIP_SHARED)?.height.ok_or(TxStoreError::NoTip)?;
    let due = tx.query(DUE, &[Arg::Int(sql_int(height)?), Arg::Int(sql_int(size as u64)?)])?;
    let due = due.iter().map(txid).collect::<Result<Vec<TxId>, _>>()?;
    let mut report = ChunkReport { height, due: due.len(), ..ChunkReport::default() };
    if due.is_empty() {
        return Ok(report);
    }
    let mut chunk = CleanChunk::lock(tx, &due, height, windows)?;
    chunk.judge(&due, &mut report);
    chunk.look_once_more(tx)?;
    chunk.carry_out(tx, &mut report)?;
    Ok(report)
}

/// All children of all outputs of these records, in one read. Children that are marked as deleted
/// are asked for too: one that is still there counts.
pub(crate) fn read_children<'r>(
    tx: &mut Tx<'_>,
    records: impl Iterator<Item = &'r TxRecord>,
) -> Result<BTreeMap<TxId, ChildState>, TxStoreError> {
    let slots = records.flat_map(|record| record.slots.iter());
    let children: BTreeSet<TxId> = slots.filter_map(|(_, slot)| Some(slot.spender()?.tx)).collect();
    let names = Column::hashes(children.iter().map(|child| child.0));
    child_states(&tx.query_set(CHILDREN, &[], &[names])?)
}

fn child_states(rows: &[Row]) -> Result<BTreeMap<TxId, ChildState>, TxStoreError> {
    let mut found = BTreeMap::new();
    for row in rows {
        let is_unmined = row.opt_natural("unmined_since")?.is_some();
        let mined_height = row.opt_natural("mined_height")?.filter(|_| !is_unmined);
        let is_conflicting = row.flag("is_conflicting")?;
        found.insert(txid(row)?, ChildState { mined_height, is_conflicting });
    }
    Ok(found)
}

/// A chunk under its locks.
struct CleanChunk {
    height: u64,
    windows: DeletionWindows,
    working: WorkingSet,
    children: BTreeMap<TxId, ChildState>,
    /// Records that seemed to go, so that their parents were read.
    going: BTreeSet<TxId>,
    /// Who is to wait for whom, and whether the child is in the store.
    parked: Vec<(WaitingParent, bool)>,
    losers: Vec<TxId>,
    /// Queue entries without a record, or under another height than the record says.
    stray: Vec<TxId>,
}

impl CleanChunk {
    /// Locks the due records, reads all their children, and locks the parents of those that seem to
    /// go. Due records are finished and deep, so that nobody else holds one of them and waits for
    /// one of the parents.
    fn lock(
        tx: &mut Tx<'_>,
        due: &[TxId],
        height: u64,
        windows: DeletionWindows,
    ) -> Result<Self, TxStoreError> {
        let mut working = WorkingSet::new(LoadMode::ForUpdate);
        working.load_whole(tx, due.iter().copied())?;
        working.load_all_slots(tx, due.iter().copied())?;
        let records = || due.iter().filter_map(|txid| working.get(*txid));
        let children = read_children(tx, records())?;
        let is_due = |record: &TxRecord| record.due_at.is_some_and(|at| at <= height);
        let is_stray = |txid: &TxId| !working.get(*txid).is_some_and(is_due);
        let stray = due.iter().copied().filter(is_stray).collect();
        let may_go = |record: &&TxRecord| {
            verdict(record, &children, height, windows) == DeletionVerdict::Delete
        };
        let going: BTreeSet<TxId> = records().filter(may_go).map(|record| record.txid).collect();
        // Only parents of those: a lock keeps others waiting, and what stays changes no parent.
        let coins = going.iter().flat_map(|txid| working.inputs(*txid));
        let coins: Vec<Outpoint> = coins.copied().collect();
        working.load(tx, coins.iter().map(|coin| coin.tx))?;
        working.load_slots(tx, coins)?;
        let (parked, losers) = (Vec::new(), Vec::new());
        Ok(Self { height, windows, working, children, going, parked, losers, stray })
    }

    /// Takes every verdict again, on what earlier ones of the chunk have left, and changes the
    /// records accordingly.
    fn judge(&mut self, due: &[TxId], report: &mut ChunkReport) {
        for txid in due {
            let Some(record) = self.working.get_mut(*txid) else { continue };
            // The queue had it under another height than its row: the row is right, the entry goes.
            if record.due_at.is_none_or(|at| at > self.height) {
                continue;
            }
            if record.expire_preservation(self.height, self.windows.retention) {
                report.expired += 1;
            }
            match self.verdict(*txid) {
                DeletionVerdict::Delete if self.going.contains(txid) => self.delete(*txid, report),
                // Its child went a moment ago. It still heads the queue.
                DeletionVerdict::Delete => {}
                DeletionVerdict::Keep(kept) => {
                    report.kept.push(kept.reason);
                    self.keep(*txid, kept);
                }
            }
        }
    }

    fn verdict(&self, txid: TxId) -> DeletionVerdict {
        let Some(record) = self.working.get(txid) else {
            return DeletionVerdict::Keep(still_named(self.height));
        };
        let found = verdict(record, &self.children, self.height, self.windows);
        let is_named = || self.working.inputs(txid).iter().any(|coin| self.is_named(txid, *coin));
        // An output that names a deleted loser would look like one whose child got lost, and keep
        // its parent for ever.
        if found == DeletionVerdict::Delete && record.is_conflicting && is_named() {
            return DeletionVerdict::Keep(still_named(self.height));
        }
        found
    }

    /// Whether an output of a transaction that is no loser names this one as its spender.
    fn is_named(&self, txid: TxId, coin: Outpoint) -> bool {
        let parent = self.working.get(coin.tx).filter(|parent| !parent.is_conflicting);
        let slot = parent.and_then(|parent| parent.slots.get(coin.index));
        matches!(slot, Some(Slot::Spent(by)) if by.tx == txid)
    }

    fn delete(&mut self, txid: TxId, report: &mut ChunkReport) {
        let is_loser = self.working.get(txid).is_some_and(|record| record.is_conflicting);
        for coin in self.working.inputs(txid).to_vec() {
            let Some(parent) = self.working.get_mut(coin.tx) else { continue };
            if is_loser {
                // It never really spent anything; whoever waits for it to go may go on.
                parent.remove_rival(txid);
                if give_back(parent, coin.index, txid, self.height, self.windows) {
                    parent.wake();
                }
            } else {
                // It lies below the safety window: no reorganisation makes its input a coin again.
                parent.mark_pruned(coin.index, txid);
            }
        }
        self.working.delete(txid);
        report.deleted += 1;
        if is_loser {
            report.losers += 1;
            self.losers.push(txid);
        }
    }

    /// Moves a record that stays away from the head of the queue.
    fn keep(&mut self, txid: TxId, kept: DeletionBlocker) {
        let (height, parked) = (self.height, &mut self.parked);
        let Some(record) = self.working.get_mut(txid) else { return };
        record.due_at = match kept.retry_at {
            // Never at or below this height, or the pass would meet it again and not end.
            RetryAt::At(at) => Some(at.max(height + 1)),
            RetryAt::AfterMining(child) => {
                parked.push((WaitingParent { child, parent: txid }, false));
                None
            }
            RetryAt::OnChange => None,
        };
    }

    /// Children that somebody is to wait for are read again under locks: one that was mined since
    /// the first look wakes nobody any more.
    fn look_once_more(&mut self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        let names: BTreeSet<TxId> = self.parked.iter().map(|(waiter, _)| waiter.child).collect();
        let names = Column::hashes(names.iter().map(|child| child.0));
        let children = child_states(&tx.query_set(CHILDREN_HELD, &[], &[names])?)?;
        for (waiter, _) in std::mem::take(&mut self.parked) {
            let child = children.get(&waiter.child);
            match child.and_then(|child| child.mined_height) {
                Some(mined) => {
                    // A height beyond all there can be: never settled, so it is kept.
                    let settled = mined.saturating_add(self.windows.safety).max(self.height + 1);
                    if let Some(parent) = self.working.get_mut(waiter.parent) {
                        parent.due_at = Some(settled);
                    }
                }
                None => self.parked.push((waiter, child.is_some())),
            }
        }
        Ok(())
    }

    fn carry_out(self, tx: &mut Tx<'_>, report: &mut ChunkReport) -> Result<(), TxStoreError> {
        self.working.save(tx)?;
        awaited::park(tx, &self.parked)?;
        // Their parents were woken above; a wait for what is gone would never end.
        awaited::forget(tx, self.losers.into_iter())?;
        let stray = Column::hashes(self.stray.iter().map(|txid| txid.0));
        tx.execute_set(LEAVE_QUEUE, &[Arg::Int(sql_int(self.height)?)], &[stray])?;
        let finished = report.deleted - report.losers;
        add_to_tally(tx, &[(DELETED, finished), (LOSERS_DELETED, report.losers)])
    }
}

fn still_named(height: u64) -> DeletionBlocker {
    // No height is near the highest.
    let retry_at = RetryAt::At(height.saturating_add(LOOK_AGAIN));
    DeletionBlocker { reason: KeepReason::StillNamed, child: None, depth: None, retry_at }
}
