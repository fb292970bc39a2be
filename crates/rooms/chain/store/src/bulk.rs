//! Catching up: many blocks in one batch, flushed on a thread of its own.
//!
//! Applying block by block syncs the log after each one, and writes coins that are spent again a
//! few blocks later. From genesis that is hundreds of thousands of syncs and a good part of the
//! writing for nothing. In bulk, blocks are collected in memory; a coin that is born and dies
//! inside the batch never reaches the disk, keys are written in order, and the log isn't written at
//! all.
//!
//! Without a log, families that RocksDB flushes one by one could come back from a crash out of
//! step. So all of them are flushed as one group (its wiki: "Atomic flush"), and only then is the
//! batch acknowledged. Meanwhile the next batch is collected; what it needs of the one under way it
//! finds in memory.
//!
//! A batch ends when it has taken its share of the memory budget (`Options::batch_memory`): in the
//! first years of a chain that is tens of thousands of blocks, later some hundreds.
//!
//! Invariant: one flush is one batch that ends on a block boundary, and never are two under way. A
//! batch being flushed stays readable in memory until the next one starts. Queries, status and
//! events see only what is flushed; a crash leaves the last flush.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    apply::{ApplyOutcome, BlockApplier, CoinCounts, UndoPolicy},
    coin::PreparedBlock,
    db::Durability,
    error::{ApplyError, StoreError},
    index::ChainIndex,
    mmr::TreeBase,
    pending::{PendingBatch, StoreState},
    query, telemetry,
};

/// A batch is flushed after this time even if there is memory left: with a slow source a crash must
/// not cost hours.
const FLUSH_AFTER: Duration = Duration::from_secs(60);

/// A full batch on its way to the disk, with the state that holds once it is there.
struct FlushJob {
    pending: Arc<PendingBatch>,
    state: StoreState,
    counts: CoinCounts,
}

/// Catching up. Nothing is durable before [`BulkWriter::finish`] or an automatic flush; dropping it
/// without finishing loses the blocks since the last one.
pub struct BulkWriter<'a> {
    index: &'a mut ChainIndex,
    pending: PendingBatch,
    frozen: Option<Arc<PendingBatch>>,
    state: StoreState,
    counts: CoinCounts,
    /// Since when the batch has been filling.
    filling: Instant,
    known_tip: u64,
    allow_holes: bool,
    flusher: Option<Flusher>,
}

impl<'a> BulkWriter<'a> {
    pub(crate) fn new(index: &'a mut ChainIndex, coming: u64, allow_holes: bool) -> Self {
        Self {
            pending: PendingBatch::default(),
            frozen: None,
            state: index.state.clone(),
            counts: CoinCounts::default(),
            filling: Instant::now(),
            // A guess of the source; at most it keeps no undo data of what it says is coming.
            known_tip: index.state.cursor.ordinal.saturating_add(coming),
            allow_holes,
            flusher: None,
            index,
        }
    }

    /// Takes a block in; flushes by itself when the batch is full.
    ///
    /// # Errors
    ///
    /// [`ApplyError`]: a refused block leaves the batch as it was; after a failure of the disk the
    /// blocks since the last flush are lost and have to be fed again.
    pub fn apply(&mut self, block: PreparedBlock) -> Result<ApplyOutcome, ApplyError> {
        self.index.usable()?;
        let mut stage = BlockApplier {
            db: &self.index.db,
            network: self.index.network,
            options: &self.index.options,
            pending: &mut self.pending,
            frozen: self.frozen.as_deref(),
            state: &mut self.state,
        };
        let (known_tip, options) = (self.known_tip, &self.index.options);
        let undo = |ordinal| UndoPolicy::below(known_tip, ordinal, options);
        let applied = stage.apply(block, self.allow_holes, undo);
        if matches!(applied, Err(ApplyError::Store(_))) && self.state.commitment.is_some() {
            // The trees may be halfway into the block.
            self.index.mark_broken();
        }
        let applied = applied?;
        let ApplyOutcome::New(counts) = applied else { return Ok(applied) };
        self.counts.add(&counts);
        if self.is_full() {
            self.flush()?;
        }
        Ok(applied)
    }

    /// The batch has taken its share of memory, or has been waiting for long.
    fn is_full(&self) -> bool {
        let options = &self.index.options;
        self.pending.memory() >= options.batch_memory()
            || self.pending.blocks >= options.bulk_blocks
            || self.filling.elapsed() >= FLUSH_AFTER
    }

    /// Blocks taken in, flushed or not.
    pub fn ordinal(&self) -> u64 {
        self.state.cursor.ordinal
    }

    /// Makes everything durable, then prunes what has become due.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the index stands at the last flush.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.index.usable()?;
        self.flush()?;
        self.wait()?;
        // Near the tip one pass follows each block; here none did.
        self.index.prune_all()?;
        Ok(())
    }

    /// Hands the batch to the flushing thread, waiting for the one before.
    fn flush(&mut self) -> Result<(), StoreError> {
        if self.pending.blocks == 0 {
            return Ok(());
        }
        // While the batch before is still being written: its trees are read in memory.
        self.settle_root()?;
        self.wait()?;
        self.filling = Instant::now();
        let next = self.emptied();
        let pending = Arc::new(std::mem::replace(&mut self.pending, next));
        self.frozen = Some(pending.clone());
        let batch = FlushJob { pending, state: self.state.clone(), counts: self.counts };
        self.counts = CoinCounts::default();
        let index = &self.index;
        let flusher = self.flusher.get_or_insert_with(|| Flusher::start(index));
        flusher.send(batch)
    }

    /// An overlay for the next batch: the one before the last, which is on disk.
    fn emptied(&mut self) -> PendingBatch {
        // The thread that flushed it let go of it before it told the outcome, which was waited for.
        let mut pending = self.frozen.take().and_then(Arc::into_inner).unwrap_or_default();
        pending.clear();
        pending
    }

    /// In the MMR store: builds both trees up to the last block of the batch.
    fn settle_root(&mut self) -> Result<(), StoreError> {
        let StoreState { commitment: Some(commitment), cursor, .. } = &mut self.state else {
            return Ok(());
        };
        let frozen = self.frozen.as_deref().map(|frozen| &frozen.trees);
        let base = TreeBase { db: &self.index.db, frozen, network: self.index.network };
        let settled = self.pending.trees.settle_root(base, commitment, cursor.point());
        settled.inspect_err(|_| self.index.mark_broken())
    }

    /// Waits until the flush under way, if any, is on disk.
    fn wait(&mut self) -> Result<(), StoreError> {
        // What a failed flush left on disk isn't known here; the folder opened again tells.
        let outcome = self.flusher.as_mut().map(Flusher::wait).transpose();
        let arrived = outcome.inspect_err(|_| self.index.mark_broken())?.flatten();
        if let Some(state) = arrived {
            self.index.acknowledge(state);
        }
        Ok(())
    }
}

impl Drop for BulkWriter<'_> {
    fn drop(&mut self) {
        // A flush under way ends either way; knowing its outcome keeps the index in step with the
        // disk.
        let _ = self.wait();
    }
}

/// The thread that flushes. At most one batch is under way.
struct Flusher {
    batches: Option<Sender<FlushJob>>,
    outcomes: Receiver<Result<StoreState, StoreError>>,
    under_way: bool,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    fn start(index: &ChainIndex) -> Self {
        // One place each: with one batch under way at most, neither side ever waits here.
        let (batches, inbox) = bounded::<FlushJob>(1);
        let (outbox, outcomes) = bounded(1);
        let (db, indexes) = (index.db.clone(), index.kept_indexes());
        let thread = thread::spawn(move || {
            for FlushJob { pending, state, counts } in inbox {
                let started = Instant::now();
                let written = pending.commit(&db, &state, indexes.as_deref(), Durability::Flushed);
                let outcome = written.map(|sampled| {
                    query::measure(&db, sampled);
                    telemetry::flushed(&state.cursor, pending.blocks, &counts, started.elapsed());
                    state
                });
                // Whoever hears of the outcome may use the overlay's memory again.
                drop(pending);
                if outbox.send(outcome).is_err() {
                    return;
                }
            }
        });
        Self { batches: Some(batches), outcomes, under_way: false, thread: Some(thread) }
    }

    fn send(&mut self, batch: FlushJob) -> Result<(), StoreError> {
        let batches = self.batches.as_ref().ok_or(StoreError::FlusherGone)?;
        batches.send(batch).map_err(|_| StoreError::FlusherGone)?;
        self.under_way = true;
        Ok(())
    }

    fn wait(&mut self) -> Result<Option<StoreState>, StoreError> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(None);
        }
        self.outcomes.recv().map_err(|_| StoreError::FlusherGone)?.map(Some)
    }
}

impl Drop for Flusher {
    /// The thread shares the database: it must be gone before the folder can be opened again.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has already shown itself as a missing outcome.
            let _ = thread.join();
        }
    }
}
