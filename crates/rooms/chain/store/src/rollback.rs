//! Rolling back: undoing blocks from our own records, newest first.
//!
//! After a reorganisation the blocks of the losing branch must be undone, and the node may not have
//! them any more. So everything needed is in the block's delta: the bodies of the coins that it
//! spent, and of those that it created what deleting them takes. No coin is read.
//!
//! A rollback that stops halfway for want of data would leave a set that belongs to no block. Core
//! refuses likewise when undo data is gone (`DisconnectBlock` in its [`validation.cpp`]). Whether
//! the data reaches is a comparison of numbers here, made before anything changes.
//!
//! Invariant: refusals come before the first change. Undone blocks share batches, and each batch
//! ends on a block boundary; if the disk fails between two, calling again continues.
//!
//! [`validation.cpp`]: https://github.com/bitcoin/bitcoin/blob/master/src/validation.cpp

use std::{collections::HashMap, ops::RangeInclusive, thread::Scope};

use crossbeam_channel::{Receiver, bounded};
use unspent_model::{
    BlockHash, Family, Network, Outpoint,
    chain::{BlockDelta, Created, Spent},
};

use crate::{
    apply::read_coins,
    codec::{IndexCursor, StoredDelta, StoredPoint, TreeRewind, decode_delta},
    coin::{Coin, SharedCoin},
    db::{Db, Get as _},
    error::{RollbackError, StoreError},
    indexes::name::Indexes,
    mmr::TreeBase,
    pending::{self, PendingBatch, StoreState},
    points,
    schema::{ColumnFamily, OutpointKey},
};

/// Blocks whose undo data waits in memory to be carried out.
const BLOCKS_AHEAD: usize = 4;

/// Where to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RollbackTarget {
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
pub(crate) fn resolve(
    db: &Db,
    state: &StoreState,
    target: RollbackTarget,
) -> Result<u64, RollbackError> {
    let tip = state.cursor.ordinal;
    let tip_point = state.cursor.point();
    // A height or slot above the tip is as good as mistyped; a block is looked for by its hash.
    let above = RollbackError::AboveTip(tip_point);
    let ordinal = match target {
        RollbackTarget::Origin => 0,
        RollbackTarget::Height(height) if tip_point.is_none_or(|tip| height > tip.height) => {
            return Err(above);
        }
        RollbackTarget::Slot(slot) if tip_point.is_none_or(|tip| slot > tip.slot) => {
            return Err(above);
        }
        RollbackTarget::Height(height) => {
            points::last_where(db, tip, |p| p.point.height <= height)?
        }
        RollbackTarget::Slot(slot) => points::last_where(db, tip, |p| p.point.slot <= slot)?,
        RollbackTarget::Point { height, hash } => {
            let found = points::by_hash(db, &hash)?
                .filter(|(ordinal, point)| *ordinal <= tip && point.point.height == height);
            found.map(|(ordinal, _)| ordinal).ok_or(RollbackError::UnknownTarget)?
        }
    };
    allowed(db, state, ordinal)?;
    Ok(ordinal)
}

fn allowed(db: &Db, state: &StoreState, ordinal: u64) -> Result<(), RollbackError> {
    let tip = state.cursor.ordinal;
    if let Some(hole) = state.holes.iter().rev().find(|hole| hole.ordinal > ordinal)
        && ordinal < tip
    {
        return Err(RollbackError::AcrossHole { resumes_at: hole.resumes_at });
    }
    // A target that is the tip itself undoes nothing and needs no data, whatever was pruned.
    if ordinal < state.horizon.floor && ordinal < tip {
        let target = points::at(db, ordinal)?.map_or(0, |point| point.point.height);
        let possible = tip - state.horizon.floor.min(tip);
        return Err(RollbackError::BelowHorizon { target, depth: tip - ordinal, possible });
    }
    Ok(())
}

/// What undoing a block takes.
pub(crate) struct BlockUndo {
    stored: StoredDelta,
    delta: BlockDelta<SharedCoin>,
}

impl BlockUndo {
    pub(crate) fn read(db: &Db, network: Network, ordinal: u64) -> Result<Self, StoreError> {
        let key = ordinal.to_be_bytes();
        let family = ColumnFamily::Delta.name();
        let value =
            db.get(ColumnFamily::Delta, &key)?.ok_or_else(|| StoreError::absent(family, &key))?;
        let stored = decode_delta(&value).map_err(StoreError::value(family, &key))?;
        let delta = undoing(network.family(), &stored);
        Ok(Self { stored, delta })
    }
}

/// Reads the undo data of the blocks with these ordinals, newest first, on a thread of its own:
/// unpacking it and hashing its scripts is a third of the work of a rollback. The thread ends with
/// the last block, or when the receiver is dropped.
pub(crate) fn read_ahead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    db: &'scope Db,
    network: Network,
    ordinals: RangeInclusive<u64>,
) -> Receiver<Result<BlockUndo, StoreError>> {
    let (send, blocks) = bounded(BLOCKS_AHEAD);
    scope.spawn(move || {
        for ordinal in ordinals.rev() {
            if send.send(BlockUndo::read(db, network, ordinal)).is_err() {
                return;
            }
        }
    });
    blocks
}

/// Where blocks are undone, and for which indexes.
#[derive(Clone, Copy)]
pub(crate) struct UndoPlace<'a> {
    pub(crate) db: &'a Db,
    pub(crate) network: Network,
    pub(crate) indexes: Indexes,
}

/// Takes the block at the cursor back into the overlay; returns how many coin changes that
/// reversed.
pub(crate) fn undo_block(
    place: UndoPlace<'_>,
    BlockUndo { stored, mut delta }: BlockUndo,
    pending: &mut PendingBatch,
    state: &mut StoreState,
) -> Result<usize, StoreError> {
    let UndoPlace { db, network, indexes } = place;
    let ordinal = state.cursor.ordinal;
    // A delta left over from another branch would undo coins that this block never touched.
    if Some(stored.point) != state.cursor.point() {
        let place = format!("{}[{ordinal}]", ColumnFamily::Delta.name());
        let what = format!("belongs to {:?}, not to the tip", stored.point);
        return Err(StoreError::Corrupt { place, what });
    }
    if indexes.need_bodies() {
        complete_created(db, network, pending, &mut delta)?;
    }
    let totals = pending::totals_before(&delta, &state.cursor)?;
    if let Some(commitment) = &mut state.commitment {
        let base = TreeBase { db, frozen: None, network };
        pending.trees.undo(base, commitment, &stored)?;
    }
    pending.undo(&delta, ordinal);
    state.cursor = totals;
    pending.set_delta(ordinal, None);
    Ok(delta.created.len() + delta.spent.len())
}

/// Gives created coins their bodies, for indexes whose keys are made of them. What a block created
/// and left is in the set before it is undone: on disk, or in the overlay where a later block spent
/// it and was undone with this one.
fn complete_created(
    db: &Db,
    network: Network,
    pending: &PendingBatch,
    delta: &mut BlockDelta<SharedCoin>,
) -> Result<(), StoreError> {
    let absent = |outpoint: Outpoint| {
        StoreError::absent(ColumnFamily::Unspent.name(), &OutpointKey(outpoint).encode())
    };
    let mut on_disk = Vec::new();
    for made in delta.created.iter_mut().filter(|made| !made.spent_here) {
        match pending.find(&made.outpoint) {
            Some(Some(coin)) => made.coin = coin.clone(),
            Some(None) => return Err(absent(made.outpoint)),
            None => on_disk.push(made.outpoint),
        }
    }
    // The batched read takes sorted keys only; a delta has them in the order of the block.
    on_disk.sort_unstable();
    let mut found = HashMap::with_capacity(on_disk.len());
    read_coins(db, network.family(), &on_disk, |outpoint, coin| {
        found.insert(outpoint, coin);
    })?;
    let waiting = delta.created.iter_mut().filter(|made| !made.spent_here);
    for made in waiting.filter(|made| on_disk.binary_search(&made.outpoint).is_ok()) {
        made.coin = found.remove(&made.outpoint).ok_or_else(|| absent(made.outpoint))?;
    }
    Ok(())
}

/// After the last block of a batch: the trees must have come back to the root they had.
pub(crate) fn rewound(
    db: &Db,
    network: Network,
    pending: &mut PendingBatch,
    state: &mut StoreState,
) -> Result<(), StoreError> {
    let Some(commitment) = &mut state.commitment else { return Ok(()) };
    let base = TreeBase { db, frozen: None, network };
    pending.trees.rewound(base, commitment, state.cursor.point())
}

/// Moves the cursor one block down, dropping the point.
pub(crate) fn step_back(
    db: &Db,
    pending: &mut PendingBatch,
    state: &mut StoreState,
) -> Result<(), StoreError> {
    let IndexCursor { ordinal, tip, .. } = state.cursor;
    if let Some((point, _)) = tip {
        pending.drop_point(ordinal, point.hash);
    }
    // The origin is never undone: there is a block at the cursor.
    let before = ordinal.saturating_sub(1);
    let point = points::at(db, before)?;
    state.cursor.ordinal = before;
    state.cursor.tip = point.map(|StoredPoint { point, era, .. }| (point, era));
    state.tip = point;
    // What is undone may come back with spends of its own, which count.
    state.horizon.spends_floor = state.horizon.spends_floor.min(before);
    pending.blocks += 1;
    Ok(())
}

/// The change to take back. Created coins are without bodies: they only leave.
fn undoing(chain: Family, stored: &StoredDelta) -> BlockDelta<SharedCoin> {
    // They go back to the leaves they had.
    let leaves = |of: fn(&TreeRewind) -> &Vec<u64>| {
        let known = stored.rewind.iter().flat_map(of).copied().map(Some);
        known.chain(std::iter::repeat(None))
    };
    let spent = stored.spent.iter().zip(leaves(|rewind| &rewind.spent));
    let spent = spent.map(|(spent, leaf)| Spent {
        outpoint: spent.outpoint,
        coin: Coin::new(chain, &spent.record).at_leaf(leaf).into(),
        by: spent.by,
        born_here: spent.born_here,
    });
    // Of a coin that the block itself spent nothing leaves.
    let created = stored.created.iter().map(|made| Created {
        outpoint: made.outpoint,
        coin: Coin::leaving(&made.listing.unwrap_or_default(), stored.point.slot).into(),
        spent_here: made.listing.is_none(),
    });
    let overwritten = stored.overwritten.iter().zip(leaves(|rewind| &rewind.overwritten));
    BlockDelta {
        point: stored.point,
        created: created.collect(),
        spent: spent.collect(),
        overwritten: overwritten
            .map(|((lost, body), leaf)| (*lost, Coin::new(chain, body).at_leaf(leaf).into()))
            .collect(),
        missing: stored.missing.clone(),
        tx_flags: stored.tx_flags.clone(),
    }
}
