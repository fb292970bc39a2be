//! Pruning: undo data that no rollback can need any more, and spends that nobody asks for.
//!
//! Undo data is as large as the history it undoes; kept for ever, it outgrows the set of coins many
//! times over. What lies deeper than the windows goes: deltas by a range of ordinals, and the
//! pointers to their spends by raising the floor below which they don't count. Compactions drop
//! those; see [`forgotten`](crate::forgotten).
//!
//! In the MMR store a pass also settles the leaves that its deltas took, and must read them for
//! that. Each pass therefore takes a bounded number of entries.
//!
//! Invariant: what is deleted and the horizon that says so move in one batch. A pass is bounded by
//! entries, but takes at least one whole block (two while behind), so pruning always keeps up.

use crate::{
    codec::{CodecError, IndexCursor, PruneHorizon, TreeRewind, decode_counts, decode_delta},
    db::{Db, Durability, ScanRange},
    error::StoreError,
    mmr,
    options::Options,
    schema::{ColumnFamily, decode_ordinal, names},
};

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// Deltas deleted.
    pub deltas: usize,
    /// Spends forgotten.
    pub spends: usize,
    /// Blocks that are due but left for the next pass.
    pub behind: u64,
}

/// Up to which ordinal deltas and spends are due, with the chain at `cursor`. What lies below the
/// floor is of no use any more, however recent.
fn due(cursor: &IndexCursor, horizon: &PruneHorizon, options: &Options) -> (u64, u64) {
    // Nothing is due in a chain shorter than the window.
    let below = |depth| cursor.ordinal.saturating_sub(depth).max(horizon.floor);
    let deltas = below(options.delta_depth());
    (deltas, below(options.spent_depth()).max(horizon.spends_floor))
}

/// One pass. O(1) when nothing is due.
pub(crate) fn pass(
    db: &Db,
    cursor: &IndexCursor,
    horizon: &mut PruneHorizon,
    options: &Options,
    has_trees: bool,
) -> Result<Pruned, StoreError> {
    let (deltas_due, spends_due) = due(cursor, horizon, options);
    if deltas_due <= horizon.swept_deltas && spends_due <= horizon.spends_floor {
        return Ok(Pruned::default());
    }
    let mut pass = PrunePass {
        horizon: *horizon,
        budget: options.prune_batch_size,
        pruned: Pruned::default(),
        settled: has_trees.then(Vec::new),
    };
    // Deltas first: that raises the floor of spends as well, and leaves less to the second sweep.
    pass.sweep(db, PruneKind::Deltas, deltas_due)?;
    // Compact ones keep theirs as long as they are there.
    if options.self_contained {
        pass.sweep(db, PruneKind::Spends, spends_due)?;
    }
    let PrunePass { horizon: swept, pruned, settled, .. } = pass;
    let mut batch = db.batch(0);
    let (low, high) = (horizon.swept_deltas + 1, swept.swept_deltas + 1);
    // Nothing was swept where the end isn't above the start.
    match high.saturating_sub(low) {
        0 => {}
        // Near the tip one goes after each block; ranges would pile up.
        1 => batch.delete(ColumnFamily::Delta, &low.to_be_bytes())?,
        _ => {
            let (low, high) = (low.to_be_bytes(), high.to_be_bytes());
            batch.delete_range(ColumnFamily::Delta, &low[..]..&high[..])?;
        }
    }
    if let Some(settled) = settled.filter(|leaves| !leaves.is_empty()) {
        mmr::sweep::settle(db, &mut batch, settled)?;
    }
    batch.put(ColumnFamily::UtxoMeta, names::HORIZON, &swept.encode())?;
    // Losing this pass with the machine only means doing it again.
    batch.commit(Durability::Logged)?;
    *horizon = swept;
    Ok(pruned)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PruneKind {
    /// Delete deltas; their spends are forgotten with them.
    Deltas,
    /// Forget spends; the deltas stay.
    Spends,
}

struct PrunePass {
    horizon: PruneHorizon,
    budget: usize,
    pruned: Pruned,
    /// In the MMR store, leaves that no rollback gives back any more.
    settled: Option<Vec<u64>>,
}

impl PrunePass {
    fn sweep(&mut self, db: &Db, sweep: PruneKind, due: u64) -> Result<(), StoreError> {
        let swept = match sweep {
            PruneKind::Deltas => self.horizon.swept_deltas,
            PruneKind::Spends => self.horizon.spends_floor,
        };
        if due <= swept {
            return Ok(());
        }
        // One new block comes due per block applied: taking two while behind is what catches up.
        let least = if due - swept > 1 { 2 } else { 1 };
        let (mut done, mut entries, mut reached) = (0, 0, due);
        let low = (swept + 1).to_be_bytes();
        // No ordinal is near the highest.
        let high = due.saturating_add(1).to_be_bytes();
        let view = db.view();
        view.scan(&ScanRange::up(ColumnFamily::Delta, &low, &high), |key, value| {
            let family = ColumnFamily::Delta.name();
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family, key))?;
            if done >= least && entries >= self.budget {
                reached = ordinal - 1;
                return Ok(false);
            }
            let counted = self.block(sweep, ordinal, value);
            entries += counted.map_err(StoreError::value(family, key))?;
            done += 1;
            Ok(true)
        })?;
        if sweep == PruneKind::Deltas {
            self.horizon.swept_deltas = reached;
            self.horizon.floor = self.horizon.floor.max(reached);
        }
        self.horizon.spends_floor = self.horizon.spends_floor.max(reached);
        self.pruned.behind = self.pruned.behind.max(due - reached);
        Ok(())
    }

    /// Counts what one block has due; returns the number of entries.
    fn block(&mut self, sweep: PruneKind, ordinal: u64, value: &[u8]) -> Result<usize, CodecError> {
        let mut entries = 0;
        if ordinal > self.horizon.spends_floor {
            let spends = usize::try_from(decode_counts(value)?.spent).unwrap_or(usize::MAX);
            entries += spends;
            self.pruned.spends += spends;
        }
        if sweep == PruneKind::Deltas {
            if let Some(settled) = &mut self.settled {
                settled.extend(decode_delta(value)?.rewind.iter().flat_map(TreeRewind::taken));
            }
            entries += 1;
            self.pruned.deltas += 1;
        }
        Ok(entries)
    }
}
