//! Pruning: spent records and deltas that no rollback can need any more.
//!
//! Undo data is as large as the history it undoes; kept for ever, it outgrows the set of coins many
//! times over. What lies deeper than the windows goes. The difficulty is which spent records those
//! are: their keys start with the outpoint, because people ask for coins, so a block's spends lie
//! all over the family and no range of keys covers them (RocksDB's `DeleteRange` is of no use). But
//! each block's delta lists what it spent. So blocks are pruned in order, by their delta's own
//! list.
//!
//! Deleting much at once would make one block slow, and tombstones make scans slow until RocksDB
//! compacts them away. Each pass therefore takes a bounded number of entries; after a large
//! clean-up the families are compacted.
//!
//! Invariant: a block's spent records go by its own delta's list, never after the delta and, where
//! the delta is compact, in the same batch with it. The horizon moves in that batch too. A pass is
//! bounded by entries, but takes at least one whole block (two while behind), so pruning always
//! keeps up.

use crate::{
    codec::{Cursor, Horizon, Rewind, StoredDelta, decode_delta},
    db::{Batch, Db, Durability, Range},
    error::StoreError,
    mmr,
    options::Options,
    schema::{Family, SpentKey, decode_ordinal, names},
};

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// Deltas deleted.
    pub deltas: usize,
    /// Spent records deleted.
    pub spends: usize,
    /// Blocks that are due but left for the next pass.
    pub behind: u64,
}

/// Up to which ordinal deltas and spent records are due, with the chain at `cursor`. What lies
/// below the floor is of no use any more, however recent.
fn due(cursor: &Cursor, horizon: &Horizon, options: &Options) -> (u64, u64) {
    let below = |depth| cursor.ordinal.saturating_sub(depth).max(horizon.floor);
    (below(options.delta_depth()), below(options.spent_depth()).max(horizon.spends_floor))
}

/// One pass. O(1) when nothing is due.
pub(crate) fn pass(
    db: &Db,
    cursor: &Cursor,
    horizon: &mut Horizon,
    options: &Options,
) -> Result<Pruned, StoreError> {
    let (deltas_due, spends_due) = due(cursor, horizon, options);
    if deltas_due <= horizon.swept_deltas && spends_due <= horizon.swept_spends {
        return Ok(Pruned::default());
    }
    let mut pass = Pass {
        batch: db.batch(),
        horizon: *horizon,
        budget: options.prune_batch_size,
        pruned: Pruned::default(),
        settled: Vec::new(),
    };
    // Deltas first: a spend sweep never needs a delta that this sweep removes, because a compact
    // delta's spends go with it and a self-contained one's have gone before.
    pass.sweep(db, Sweep::Deltas, deltas_due)?;
    pass.sweep(db, Sweep::Spends, spends_due.max(pass.horizon.swept_deltas))?;
    let Pass { mut batch, horizon: swept, pruned, settled, .. } = pass;
    if !settled.is_empty() {
        mmr::sweep::settle(db, &mut batch, settled)?;
    }
    batch.put(Family::UtxoMeta, names::HORIZON, &swept.encode())?;
    // Losing this pass with the machine only means doing it again.
    batch.commit(Durability::Logged)?;
    *horizon = swept;
    Ok(pruned)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sweep {
    /// Delete deltas, with the spends of compact ones and any spends not swept yet.
    Deltas,
    /// Delete the spends of self-contained deltas, which stay.
    Spends,
}

struct Pass<'db> {
    batch: Batch<'db>,
    horizon: Horizon,
    budget: usize,
    pruned: Pruned,
    /// In the MMR store, leaves that no rollback gives back any more.
    settled: Vec<u64>,
}

impl Pass<'_> {
    fn sweep(&mut self, db: &Db, sweep: Sweep, due: u64) -> Result<(), StoreError> {
        let swept = match sweep {
            Sweep::Deltas => self.horizon.swept_deltas,
            Sweep::Spends => self.horizon.swept_spends,
        };
        if due <= swept {
            return Ok(());
        }
        let least = if due - swept > 1 { 2 } else { 1 };
        let (mut done, mut entries, mut reached) = (0, 0, due);
        let low = (swept + 1).to_be_bytes();
        let high = due.saturating_add(1).to_be_bytes();
        let view = db.view();
        view.scan(&Range::up(Family::Delta, &low, &high), |key, value| {
            let family = Family::Delta.name();
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family, key))?;
            if done >= least && entries >= self.budget {
                reached = ordinal - 1;
                return Ok(false);
            }
            let delta = decode_delta(value).map_err(StoreError::value(family, key))?;
            entries += self.block(sweep, ordinal, &delta)?;
            done += 1;
            Ok(true)
        })?;
        match sweep {
            Sweep::Deltas => {
                self.horizon.swept_deltas = reached;
                self.horizon.floor = self.horizon.floor.max(reached);
                self.horizon.swept_spends = self.horizon.swept_spends.max(reached);
            }
            Sweep::Spends => self.horizon.swept_spends = reached,
        }
        self.horizon.spends_floor = self.horizon.spends_floor.max(self.horizon.swept_spends);
        self.pruned.behind = self.pruned.behind.max(due - reached);
        Ok(())
    }

    /// Deletes what one block has due; returns the number of entries.
    fn block(
        &mut self,
        sweep: Sweep,
        ordinal: u64,
        delta: &StoredDelta,
    ) -> Result<usize, StoreError> {
        let mut entries = 0;
        let spends_remain = match sweep {
            Sweep::Deltas => !delta.is_self_contained() || ordinal > self.horizon.swept_spends,
            // A compact delta still needs them to be undone.
            Sweep::Spends => delta.is_self_contained(),
        };
        if spends_remain {
            for spent in &delta.spent {
                let key = SpentKey { outpoint: spent.outpoint, ordinal };
                self.batch.delete(Family::Spent, &key.encode())?;
            }
            entries += delta.spent.len();
            self.pruned.spends += delta.spent.len();
        }
        if sweep == Sweep::Deltas {
            self.batch.delete(Family::Delta, &ordinal.to_be_bytes())?;
            self.settled.extend(delta.rewind.iter().flat_map(Rewind::taken));
            entries += 1;
            self.pruned.deltas += 1;
        }
        Ok(entries)
    }
}
