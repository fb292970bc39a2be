//! Rolling back: undoing blocks from our own records, newest first.
//!
//! After a reorganisation the blocks of the losing branch must be undone, and the node may not have
//! them any more. So everything needed is here: the block's delta names the coins, and their bodies
//! lie in the delta itself (self-contained) or, to write them only once, in `utxo_unspent` and
//! `utxo_spent` (compact). A spent record may go only together with the delta that needs it; prune
//! sees to that.
//!
//! A rollback that stops halfway for want of data would leave a set that belongs to no block. Core
//! refuses likewise when undo data is gone (`DisconnectBlock` in its [`validation.cpp`]). Whether
//! the data reaches is a comparison of numbers here, made before anything changes.
//!
//! Invariant: refusals come before the first change. Undone blocks share batches, and each batch
//! ends on a block boundary; if the disk fails between two, calling again continues.
//!
//! [`validation.cpp`]: https://github.com/bitcoin/bitcoin/blob/master/src/validation.cpp

use std::collections::{HashMap, HashSet};

use unspent_model::{
    BlockHash, Family as ChainFamily, Network, Outpoint,
    chain::{BlockDelta, Created, Record, Spent},
};

use crate::{
    apply::read_coins,
    codec::{Cursor, StoredDelta, StoredPoint, decode_delta, decode_spent},
    coin::{Coin, SharedCoin},
    db::{Db, Get as _},
    error::{RollbackError, StoreError},
    mmr::Ground,
    pending::{Pending, State},
    points,
    schema::{Family, OutpointKey, SpentKey},
};

/// Where to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Before the first block. The coins of genesis stay.
    Origin,
    /// The last block with this height or, after a jump, the last below it.
    Height(u64),
    /// The last block with this slot or the last before it.
    Slot(u64),
    /// Exactly this block.
    Point {
        /// Height it must have: a guard against a mistyped hash.
        height: u64,
        /// Hash in wire order.
        hash: BlockHash,
    },
}

/// Finds the target's ordinal and refuses what can't be done.
pub(crate) fn resolve(db: &Db, state: &State, target: Target) -> Result<u64, RollbackError> {
    let tip = state.cursor.ordinal;
    let tip_point = state.cursor.point();
    let above = RollbackError::AboveTip(tip_point);
    let ordinal = match target {
        Target::Origin => 0,
        Target::Height(height) if tip_point.is_none_or(|tip| height > tip.height) => {
            return Err(above);
        }
        Target::Slot(slot) if tip_point.is_none_or(|tip| slot > tip.slot) => return Err(above),
        Target::Height(height) => points::last_where(db, tip, |p| p.point.height <= height)?,
        Target::Slot(slot) => points::last_where(db, tip, |p| p.point.slot <= slot)?,
        Target::Point { height, hash } => {
            let found = points::by_hash(db, &hash)?
                .filter(|(ordinal, point)| *ordinal <= tip && point.point.height == height);
            found.map(|(ordinal, _)| ordinal).ok_or(RollbackError::UnknownTarget)?
        }
    };
    allowed(db, state, ordinal)?;
    Ok(ordinal)
}

fn allowed(db: &Db, state: &State, ordinal: u64) -> Result<(), RollbackError> {
    let tip = state.cursor.ordinal;
    if let Some(hole) = state.holes.iter().rev().find(|hole| hole.ordinal > ordinal)
        && ordinal < tip
    {
        return Err(RollbackError::AcrossHole { resumes_at: hole.resumes_at });
    }
    if ordinal < state.horizon.floor && ordinal < tip {
        let target = points::at(db, ordinal)?.map_or(0, |point| point.point.height);
        let possible = tip - state.horizon.floor.min(tip);
        return Err(RollbackError::BelowHorizon { target, depth: tip - ordinal, possible });
    }
    Ok(())
}

/// Takes the block at the cursor back into the overlay; returns how many coin changes that
/// reversed.
pub(crate) fn undo_block(
    db: &Db,
    network: Network,
    pending: &mut Pending,
    state: &mut State,
) -> Result<usize, StoreError> {
    let ordinal = state.cursor.ordinal;
    let key = ordinal.to_be_bytes();
    let family = Family::Delta.name();
    let stored = db.get(Family::Delta, &key)?.ok_or_else(|| StoreError::absent(family, &key))?;
    let stored = decode_delta(&stored).map_err(StoreError::value(family, &key))?;
    if Some(stored.point) != state.cursor.point() {
        let what = format!("belongs to {:?}, not to the tip", stored.point);
        return Err(StoreError::Corrupt { place: format!("{family}[{ordinal}]"), what });
    }
    if let Some(commitment) = &mut state.commitment {
        let ground = Ground { db, frozen: None, network };
        pending.trees.undo(ground, commitment, &stored)?;
    }
    // Bodies may be on their way: a younger block undone in the same batch gave its coins back.
    let bodies = BodyFinder { db, chain: network.family(), pending, ordinal };
    let delta = bodies.complete(stored)?;
    pending.undo(&delta, &mut state.cursor);
    pending.set_delta(ordinal, None);
    Ok(delta.created.len() + delta.spent.len())
}

/// After the last block of a batch: the trees must have come back to the root they had.
pub(crate) fn rewound(
    db: &Db,
    network: Network,
    pending: &mut Pending,
    state: &mut State,
) -> Result<(), StoreError> {
    let Some(commitment) = &mut state.commitment else { return Ok(()) };
    let ground = Ground { db, frozen: None, network };
    pending.trees.rewound(ground, commitment, state.cursor.point())
}

/// Moves the cursor one block down, dropping the point.
pub(crate) fn step_back(
    db: &Db,
    pending: &mut Pending,
    state: &mut State,
) -> Result<(), StoreError> {
    let Cursor { ordinal, tip, .. } = state.cursor;
    if let Some((point, _)) = tip {
        pending.drop_point(ordinal, point.hash);
    }
    let before = ordinal.saturating_sub(1);
    let point = points::at(db, before)?;
    state.cursor.ordinal = before;
    state.cursor.tip = point.map(|StoredPoint { point, era, .. }| (point, era));
    state.tip = point;
    // What is undone may come back with spends of its own, which must be swept again.
    state.horizon.swept_spends = state.horizon.swept_spends.min(before);
    state.horizon.spends_floor = state.horizon.spends_floor.min(before);
    pending.blocks += 1;
    Ok(())
}

type Bodies = HashMap<Outpoint, SharedCoin>;

/// Finds what a stored delta leaves out: in the delta itself, in the overlay, or on disk.
struct BodyFinder<'a> {
    db: &'a Db,
    chain: ChainFamily,
    pending: &'a Pending,
    /// The block of the delta.
    ordinal: u64,
}

impl BodyFinder<'_> {
    /// The delta with all its bodies.
    fn complete(&self, stored: StoredDelta) -> Result<BlockDelta<SharedCoin>, StoreError> {
        let spent_bodies = self.spent(&stored)?;
        let created_bodies = self.created(&stored, &spent_bodies)?;
        let StoredDelta { point, created, spent, tx_flags, overwritten, missing, .. } = stored;
        let born: HashSet<Outpoint> = created.iter().map(|created| created.outpoint).collect();
        let created = created.into_iter().map(|entry| {
            let spent_here = spent_bodies.contains_key(&entry.outpoint);
            let coin = match (entry.record, spent_bodies.get(&entry.outpoint)) {
                (Some(record), _) => self.coin(&record),
                (None, Some(coin)) => coin.clone(),
                (None, None) => body(&created_bodies, &entry.outpoint, Family::Unspent)?,
            };
            Ok(Created { outpoint: entry.outpoint, coin, spent_here })
        });
        let created = created.collect::<Result<_, StoreError>>()?;
        let spent = spent.into_iter().map(|entry| {
            let coin = body(&spent_bodies, &entry.outpoint, Family::Spent)?;
            let born_here = born.contains(&entry.outpoint);
            Ok(Spent { outpoint: entry.outpoint, coin, by: entry.by, born_here })
        });
        let spent = spent.collect::<Result<_, StoreError>>()?;
        let overwritten = overwritten.into_iter();
        let overwritten = overwritten.map(|(lost, record)| (lost, self.coin(&record))).collect();
        Ok(BlockDelta { point, created, spent, overwritten, missing, tx_flags })
    }

    fn coin(&self, record: &Record) -> SharedCoin {
        Coin::new(self.chain, record).into()
    }

    /// Bodies of the coins the block spent, from the delta or from `utxo_spent`.
    fn spent(&self, stored: &StoredDelta) -> Result<Bodies, StoreError> {
        let mut bodies = Bodies::with_capacity(stored.spent.len());
        let mut on_disk = Vec::new();
        for entry in &stored.spent {
            match &entry.record {
                Some(record) => {
                    bodies.insert(entry.outpoint, self.coin(record));
                }
                None => on_disk.push(entry.outpoint),
            }
        }
        on_disk.sort_unstable();
        let key =
            |outpoint: &Outpoint| SpentKey { outpoint: *outpoint, ordinal: self.ordinal }.encode();
        let keys: Vec<_> = on_disk.iter().map(key).collect();
        let family = Family::Spent.name();
        let values = self.db.multi_get(Family::Spent, &keys)?;
        for ((outpoint, key), value) in on_disk.iter().zip(&keys).zip(values) {
            let value = value.ok_or_else(|| StoreError::absent(family, key))?;
            let spent = decode_spent(&value).map_err(StoreError::value(family, key))?;
            if spent.at != stored.point {
                let what = format!("names {:?} as its block, not {:?}", spent.at, stored.point);
                return Err(StoreError::Corrupt { place: format!("{family}[{outpoint:?}]"), what });
            }
            bodies.insert(*outpoint, self.coin(&spent.record));
        }
        Ok(bodies)
    }

    /// Bodies of the coins the block created and left unspent: the overlay's or those on disk.
    fn created(&self, stored: &StoredDelta, spent: &Bodies) -> Result<Bodies, StoreError> {
        let mut bodies = Bodies::new();
        let mut on_disk = Vec::new();
        for entry in &stored.created {
            if entry.record.is_some() || spent.contains_key(&entry.outpoint) {
                continue;
            }
            match self.pending.find(&entry.outpoint).flatten() {
                Some(coin) => {
                    bodies.insert(entry.outpoint, coin.clone());
                }
                None => on_disk.push(entry.outpoint),
            }
        }
        on_disk.sort_unstable();
        read_coins(self.db, self.chain, &on_disk, |outpoint, coin| {
            bodies.insert(outpoint, coin);
        })?;
        Ok(bodies)
    }
}

fn body(bodies: &Bodies, outpoint: &Outpoint, family: Family) -> Result<SharedCoin, StoreError> {
    let found = bodies.get(outpoint).cloned();
    found.ok_or_else(|| StoreError::absent(family.name(), &OutpointKey(*outpoint).encode()))
}
