//! The writer: opens a folder, applies, rolls back and prunes. One per folder.

use std::{path::Path, sync::Arc, thread, time::Instant};

use crossbeam_channel::Receiver;
use unspent_model::{Network, Point, chain::GenesisCoin};

use crate::{
    acknowledged::{AcknowledgedNote, DurableMark},
    apply::{ApplyOutcome, BlockApplier, CoinCounts, UndoPolicy},
    bulk::BulkWriter,
    coin::PreparedBlock,
    db::{Db, Durability, MemoryShares, OpenMode},
    error::{ApplyError, OpenError, RollbackError, StoreError},
    indexes::IndexRow,
    open,
    options::Options,
    pending::{PendingBatch, StoreState},
    prune,
    prune::Pruned,
    query::{self, Reader},
    rollback::{self, BlockUndo, RollbackTarget, UndoPlace},
    schema::{ALL_FAMILIES, CHAIN_FAMILIES},
    telemetry,
};

/// Entries pruned at once that make compaction worth its while.
const LARGE_PRUNE: usize = 1_000_000;

/// What opening found that the operator should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenReport {
    /// Something acknowledged is no longer there: a torn log was cut back to a block boundary. The
    /// number of blocks applied that had been acknowledged; what is missing has to be fed again.
    pub torn: Option<u64>,
    /// Blocks the index was ahead of the chain, and that were undone.
    pub reconciled: u64,
}

/// What a rollback did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RolledBack {
    /// Blocks undone.
    pub blocks: u64,
    /// Coins created or spent by those blocks.
    pub reversals: usize,
    /// The tip afterwards; `None` at the origin.
    pub tip: Option<Point>,
}

/// The index of one chain, open for writing.
pub struct ChainIndex {
    pub(crate) db: Arc<Db>,
    pub(crate) network: Network,
    pub(crate) options: Options,
    pub(crate) state: StoreState,
    pub(crate) acknowledged: AcknowledgedNote,
    allow_holes: bool,
    /// A write failed: what the database shows may differ from `state` until it is opened again.
    broken: bool,
}

impl ChainIndex {
    /// Opens a folder for writing, creating it with the coins of `genesis` when it is new.
    ///
    /// A non-empty `genesis` must be the one the folder was built from.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; the folder is then unchanged.
    pub fn open(
        folder: &Path,
        network: Network,
        options: Options,
        genesis: &[GenesisCoin],
    ) -> Result<(Self, OpenReport), OpenError> {
        options.check()?;
        let database = open::database_folder(folder)?;
        let memory =
            MemoryShares { block_cache: options.block_cache, write_buffer: options.write_buffer };
        let mut db = Db::open(&database, OpenMode::ReadWrite, options.enabled, memory)?;
        let recovered = db.sequence();
        let state = open::prepare(&mut db, folder, network, &options, genesis)?;
        let (acknowledged, said) = AcknowledgedNote::open(folder);
        let mut index = Self {
            db: Arc::new(db),
            network,
            options,
            state,
            acknowledged,
            allow_holes: false,
            broken: false,
        };
        // Preparing ended with a synced commit: the floor that was read is on disk for good.
        index.db.set_forgotten(index.state.horizon.spends_floor);
        // Against the number taken right after recovery: preparing the folder has written since.
        let torn = said.filter(|noted| noted.sequence > recovered).map(|noted| noted.ordinal);
        let reconciled = index.reconcile()?;
        index.note();
        if let Some(acknowledged) = torn {
            let there = index.state.cursor.ordinal;
            tracing::warn!(
                acknowledged,
                there,
                "an incomplete log was cut back to a block boundary"
            );
        }
        telemetry::totals(&index.state.cursor);
        Ok((index, OpenReport { torn, reconciled }))
    }

    /// From now on a block may come after a gap. For imports that were told to; never for
    /// following.
    pub fn allow_holes(&mut self) {
        self.allow_holes = true;
    }

    /// The last block applied; `None` at the origin.
    pub fn tip(&self) -> Option<Point> {
        self.state.cursor.point()
    }

    /// Blocks applied since the origin.
    pub fn ordinal(&self) -> u64 {
        self.state.cursor.ordinal
    }

    /// The network this folder serves.
    pub fn network(&self) -> Network {
        self.network
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A handle for queries, usable from any thread while this one writes.
    pub fn reader(&self) -> Reader {
        Reader::new(self.db.clone(), self.network, self.options.enabled)
    }

    /// Applies one block; when this returns `Ok`, it is on disk and synced. Then prunes a little.
    ///
    /// # Errors
    ///
    /// [`ApplyError`]; the index is then unchanged.
    pub fn apply(&mut self, block: PreparedBlock) -> Result<ApplyOutcome, ApplyError> {
        let started = Instant::now();
        self.usable()?;
        let (mut pending, mut state) = (PendingBatch::default(), self.state.clone());
        let mut stage = BlockApplier {
            db: &self.db,
            network: self.network,
            options: &self.options,
            pending: &mut pending,
            frozen: None,
            state: &mut state,
        };
        let applied = stage.apply(block, self.allow_holes, |_| UndoPolicy::KEEP)?;
        let ApplyOutcome::New(counts) = applied else { return Ok(applied) };
        self.commit(&pending, state, Durability::Synced)?;
        telemetry::applied(&self.state.cursor, &counts, started.elapsed());
        if let Err(error) = self.prune() {
            // The block is on disk and acknowledged; the next call is refused until a reopening.
            tracing::error!(%error, "pruning failed");
        }
        Ok(applied)
    }

    /// Starts catching up: many blocks share one flush, and queries see only what is flushed.
    ///
    /// `coming` is how many more blocks the source is known to have. Undo data is left out for
    /// blocks that will be deeper than the window once those are in.
    pub fn bulk(&mut self, coming: u64) -> BulkWriter<'_> {
        let allow_holes = self.allow_holes;
        BulkWriter::new(self, coming, allow_holes)
    }

    /// Prunes what is due, a bounded amount. Runs after each block by itself.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; nothing was pruned then.
    pub fn prune(&mut self) -> Result<Pruned, StoreError> {
        if !self.options.enabled {
            return Ok(Pruned::default());
        }
        let started = Instant::now();
        self.usable()?;
        let has_trees = self.state.commitment.is_some();
        let StoreState { cursor, horizon, .. } = &mut self.state;
        let pruned = prune::pass(&self.db, cursor, horizon, &self.options, has_trees);
        // After a failed write nobody knows whether the log has it; memory must not guess.
        let pruned = pruned.inspect_err(|_| self.broken = true)?;
        telemetry::pruned(&pruned, started.elapsed());
        Ok(pruned)
    }

    /// Prunes everything that is due, pass by pass, and compacts after a large amount.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; passes before the failing one hold.
    pub fn prune_all(&mut self) -> Result<Pruned, StoreError> {
        let mut total = Pruned::default();
        loop {
            let pass = self.prune()?;
            total.deltas += pass.deltas;
            total.spends += pass.spends;
            if pass.behind == 0 {
                break;
            }
        }
        // A log that could not be synced may lack what memory takes as written.
        self.db.sync().inspect_err(|_| self.broken = true)?;
        self.db.set_forgotten(self.state.horizon.spends_floor);
        if total.spends + total.deltas >= LARGE_PRUNE {
            let pruned = ALL_FAMILIES.iter().filter(|family| family.facts().is_pruned);
            pruned.copied().try_for_each(|family| self.db.compact(family))?;
        }
        Ok(total)
    }

    /// Undoes every block above `target`, newest first.
    ///
    /// # Errors
    ///
    /// [`RollbackError`]: a refusal changes nothing; after a failure of the disk the index stands
    /// at a block boundary and calling again continues.
    pub fn rollback(&mut self, target: RollbackTarget) -> Result<RolledBack, RollbackError> {
        self.usable()?;
        let ordinal = rollback::resolve(&self.db, &self.state, target)?;
        self.rollback_to(ordinal)
    }

    pub(crate) fn rollback_to(&mut self, target: u64) -> Result<RolledBack, RollbackError> {
        let started = Instant::now();
        let tip = self.state.cursor.ordinal;
        let (db, network) = (self.db.clone(), self.network);
        let reversals = thread::scope(|scope| {
            let is_kept = self.options.enabled;
            // No ordinal is near the highest.
            let going = target.saturating_add(1)..=tip;
            let undos = is_kept.then(|| rollback::read_ahead(scope, &db, network, going));
            self.undo_to(target, undos.as_ref())
        })?;
        telemetry::rolled_back(&self.state.cursor, tip - target, reversals, started.elapsed());
        Ok(RolledBack { blocks: tip - target, reversals, tip: self.tip() })
    }

    /// Undoes blocks in batches; `None` where no coins are kept. Returns how many coin changes that
    /// reversed.
    fn undo_to(
        &mut self,
        target: u64,
        undos: Option<&Receiver<Result<BlockUndo, StoreError>>>,
    ) -> Result<usize, StoreError> {
        let mut reversals = 0;
        while self.state.cursor.ordinal > target {
            let (mut pending, mut state) = (PendingBatch::default(), self.state.clone());
            while state.cursor.ordinal > target && pending.memory() < self.options.batch_memory() {
                if let Some(undos) = undos {
                    let undo = undos.recv().map_err(|_| StoreError::ReaderGone)??;
                    let place = self.undo_place();
                    reversals += rollback::undo_block(place, undo, &mut pending, &mut state)?;
                }
                rollback::step_back(&self.db, &mut pending, &mut state)?;
            }
            rollback::rewound(&self.db, self.network, &mut pending, &mut state)?;
            self.commit(&pending, state, Durability::Synced)?;
        }
        Ok(reversals)
    }

    /// Rewrites the families of the index without what was deleted from them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the index is switched off.
    pub fn compact(&self) -> Result<(), StoreError> {
        let index = self.db.families().iter().filter(|family| !CHAIN_FAMILIES.contains(family));
        index.copied().try_for_each(|family| self.db.compact(family))
    }

    /// Waits until the database has nothing left to tidy up in the background.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn settle(&self) -> Result<(), StoreError> {
        self.db.settle()
    }

    fn commit(
        &mut self,
        pending: &PendingBatch,
        state: StoreState,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let indexes = self.kept_indexes();
        let written = pending.commit(&self.db, &state, indexes.as_deref(), durability);
        let sampled = written.inspect_err(|_| self.broken = true)?;
        self.acknowledge(state);
        query::measure(&self.db, sampled);
        Ok(())
    }

    fn undo_place(&self) -> UndoPlace<'_> {
        UndoPlace { db: &self.db, network: self.network, indexes: self.options.indexes }
    }

    /// Refuses to go on after a failed write.
    pub(crate) fn usable(&self) -> Result<(), StoreError> {
        if self.broken { Err(StoreError::NeedsReopen) } else { Ok(()) }
    }

    /// A write failed on another thread.
    pub(crate) fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// The disk now shows `state`.
    pub(crate) fn acknowledge(&mut self, state: StoreState) {
        self.state = state;
        self.db.set_forgotten(self.state.horizon.spends_floor);
        self.note();
    }

    fn note(&self) {
        let noted =
            DurableMark { sequence: self.db.sequence(), ordinal: self.state.cursor.ordinal };
        self.acknowledged.write(noted);
    }

    /// The secondary indexes to write; `None` with the index switched off.
    pub(crate) fn kept_indexes(&self) -> Option<Vec<IndexRow>> {
        self.options.enabled.then(|| self.options.indexes.rows(self.network.family()))
    }

    /// Brings an index that is ahead of the chain, or on another branch, back to it. That happens
    /// when it was switched off while the chain was rolled back.
    fn reconcile(&mut self) -> Result<u64, OpenError> {
        if !self.options.enabled {
            return Ok(0);
        }
        let mut undone = 0;
        while let Some(point) = self.state.cursor.point() {
            let ordinal = self.state.cursor.ordinal;
            let stored = crate::points::at(&*self.db, ordinal)?;
            if stored.is_some_and(|stored| stored.point == point) {
                break;
            }
            self.undo_detached(ordinal)?;
            undone += 1;
        }
        Ok(undone)
    }

    /// Undoes one block of the index alone; its point already belongs to another branch or is gone.
    fn undo_detached(&mut self, ordinal: u64) -> Result<(), OpenError> {
        let refused = || {
            let refusal = RollbackError::BelowHorizon { target: 0, depth: 1, possible: 0 };
            OpenError::Reconcile(Box::new(refusal))
        };
        if ordinal <= self.state.horizon.floor {
            return Err(refused());
        }
        let (mut pending, mut state) = (PendingBatch::default(), self.state.clone());
        let undo = BlockUndo::read(&self.db, self.network, ordinal)?;
        rollback::undo_block(self.undo_place(), undo, &mut pending, &mut state)?;
        if !open::step_back_detached(&self.db, &mut state)? {
            return Err(refused());
        }
        rollback::rewound(&self.db, self.network, &mut pending, &mut state)?;
        self.commit(&pending, state, Durability::Synced)?;
        Ok(())
    }
}

/// The counts of an applied block; zero for a repeat.
impl ApplyOutcome {
    /// What the block did.
    pub fn counts(&self) -> CoinCounts {
        match self {
            Self::New(counts) => *counts,
            Self::Already => CoinCounts::default(),
        }
    }
}
