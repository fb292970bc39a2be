//! Blocks for all wallets at once.
//!
//! A block is applied to every wallet that stands at its parent, and to those that were never
//! scanned and are born no earlier. So the tip moves all wallets together, and feeding old blocks
//! again brings a new or rewound wallet up to the others without touching them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use unspent_model::{Micros, Point};
use unspent_sql::{Arg, RowId, Tx};

use crate::{
    apply_mode::ApplyMode,
    batch::{BlockRef, RecordedChanges},
    error::WalletError,
    ids::{WalletId, sql_int},
    placed_block::PlacedBlock,
    record::{BatchRecorder, LockedRows, still_the_same, store_block},
    route::route,
    rows,
    stopped::or_stop,
    store::WalletStore,
    wallet_row::{WalletRow, lock_tip, set_tip},
    watch::WatchFilter,
};

/// Blocks kept below the tip even when no transaction of ours is in them, so that a reorganisation
/// can be recognised.
pub const BLOCKS_KEPT: u64 = 2_016;

/// Wallets at the tip that are looked at one by one. Of more, only those that a block concerns are.
const FEW: usize = 200;

/// Blocks applied in one database transaction at most.
pub const MAX_BLOCKS_AT_ONCE: usize = 1_000;

/// What applying blocks did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedBlocks {
    /// Wallets that moved; of many at the tip, only those that a block concerned.
    pub moved: BTreeSet<WalletId>,
    /// Wallets that the blocks stopped, because their own data can't take them.
    pub stopped: BTreeSet<WalletId>,
    /// What was recorded.
    pub recorded: RecordedChanges,
}

const TIP: &str = "SELECT block_height, header_hash FROM blocks ORDER BY block_height DESC LIMIT 1";
/// The block at a height, the one below it, and the tip; the height's own first.
const AROUND: &str = "SELECT block_height, header_hash FROM blocks
    WHERE block_height IN ($1, $2)
        OR block_height = (SELECT MAX(block_height) FROM blocks)
    ORDER BY CASE WHEN block_height = $1 THEN 0 ELSE 1 END";
const FOLLOWERS: &str = "SELECT id, next_id FROM wallets /*by idx_wallets_following*/
    WHERE follows_tip ORDER BY id LIMIT $1 FOR UPDATE";
const HERE: &str = "SELECT id, next_id FROM wallets
    WHERE scanned_height = $1 AND scanned_hash = $2 AND stopped_at IS NULL AND archived_at IS NULL
    ORDER BY id FOR UPDATE";
const NEWBORN: &str = "SELECT id, next_id FROM wallets
    WHERE scanned_height IS NULL AND NOT follows_tip AND birthday_height >= $1
        AND stopped_at IS NULL AND archived_at IS NULL
    ORDER BY id FOR UPDATE";
const MOVE_HERE: &str = "UPDATE wallets
    SET scanned_height = $3, scanned_hash = $4, follows_tip = $5
    WHERE scanned_height = $1 AND scanned_hash = $2 AND stopped_at IS NULL AND archived_at IS NULL";
const MOVE_NEWBORN: &str = "UPDATE wallets
    SET scanned_height = $2, scanned_hash = $3, follows_tip = $4
    WHERE scanned_height IS NULL AND NOT follows_tip AND birthday_height >= $1
        AND stopped_at IS NULL AND archived_at IS NULL";
const FORGET_BLOCK: &str = "DELETE FROM blocks WHERE block_height <= $1 AND block_height > $2
    AND NOT EXISTS (
        SELECT 1 FROM transactions t WHERE t.block_height = blocks.block_height
            AND t.block_height IS NOT NULL)";

impl WalletStore {
    /// Applies blocks in order, each to the wallets that stand at its parent, all in one
    /// transaction. A block that nobody waits for changes nothing.
    ///
    /// # Errors
    ///
    /// [`WalletError::BlockMismatch`], [`WalletError::WrongParent`] or [`WalletError::Gap`] when
    /// the source has gone another way; nothing is changed then.
    pub fn apply_blocks(
        &self,
        blocks: Vec<PlacedBlock>,
        now: Micros,
    ) -> Result<AppliedBlocks, WalletError> {
        if blocks.len() > MAX_BLOCKS_AT_ONCE {
            return Err(WalletError::Argument("more than 1,000 blocks at once".into()));
        }
        blocks.iter().try_for_each(check_names)?;
        let blocks: Arc<[PlacedBlock]> = blocks.into();
        let transactions = blocks.iter().map(|placed| placed.txids.len()).sum();
        self.batched_first(move |tx, mode| {
            // Held until the commit: whoever makes a wallet or gives one scripts waits,
            // so that nobody comes to watch something between two of these blocks.
            let tip = lock_tip(tx)?;
            let watch = WatchFilter::new(transactions);
            let mut applying =
                BlockApplier { tx, tip, watch, applied: AppliedBlocks::default(), now, mode };
            blocks.iter().try_for_each(|placed| applying.apply(placed))?;
            // One row for all who follow it: a wallet that no block concerns is not written at all.
            set_tip(applying.tx, applying.tip)?;
            Ok(applying.applied)
        })
    }

    /// The highest stored block.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn tip(&self) -> Result<Option<Point>, WalletError> {
        self.door.read(tip)
    }
}

/// The highest stored block.
pub(crate) fn tip(tx: &mut Tx<'_>) -> Result<Option<Point>, WalletError> {
    let Some(row) = tx.maybe(TIP, &[])? else { return Ok(None) };
    Ok(Some(rows::block(&row)?))
}

/// A name too few would hide a transaction.
fn check_names(placed: &PlacedBlock) -> Result<(), WalletError> {
    let (names, txs) = (placed.txids.len(), placed.block.txdata.len());
    if names == txs {
        return Ok(());
    }
    let height = placed.height;
    let why = format!("block {height} came with {names} txids for {txs} transactions");
    Err(WalletError::Argument(why))
}

/// Blocks on their way into the wallets, one after the other.
struct BlockApplier<'a, 'c> {
    tx: &'a mut Tx<'c>,
    /// The room's tip; written once, at the end.
    tip: Option<Point>,
    watch: WatchFilter,
    applied: AppliedBlocks,
    now: Micros,
    mode: ApplyMode,
}

impl BlockApplier<'_, '_> {
    fn apply(&mut self, placed: &PlacedBlock) -> Result<(), WalletError> {
        let block = placed.reference();
        let is_stored = admit(self.tx, placed, &block)?;
        let step = TipStep::of(placed, self.tip);
        let waiting = waiting(self.tx, placed, step)?;
        if waiting.is_empty() && is_stored && step == TipStep::Elsewhere {
            return Ok(());
        }
        if !is_stored {
            store_block(self.tx, &block)?;
        }
        // Reading what wallets know pays only where they are few, and then nobody else can give
        // them a script meanwhile, because all of them are locked.
        if waiting.are_many {
            self.watch = WatchFilter::off();
        } else {
            self.watch.catch_up(self.tx, &waiting.next_ids)?;
        }
        if !waiting.is_empty() && self.watch.may_concern(placed) {
            self.record(placed, &waiting)?;
        }
        move_wallets(self.tx, placed, step, &waiting)?;
        if step == TipStep::Grows {
            self.tip = Some(placed.point());
        }
        let stopped = &self.applied.stopped;
        let moved = waiting.next_ids.into_keys().filter(|wallet| !stopped.contains(wallet));
        self.applied.moved.extend(moved);
        if let Some(old) = block.height.checked_sub(BLOCKS_KEPT) {
            // A few heights at a time: the rest went when their own turn came.
            let args = [Arg::Int(sql_int(old)?), Arg::Int(sql_int(old)? - 2)];
            self.tx.execute(FORGET_BLOCK, &args)?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        placed: &PlacedBlock,
        waiting: &WaitingWallets,
    ) -> Result<(), WalletError> {
        let block = placed.reference();
        let txs = placed.seen_txs();
        let may_wait =
            |wallet: WalletId| waiting.are_many || waiting.next_ids.contains_key(&wallet);
        let mut routes = route(self.tx, &txs, &self.watch, &may_wait)?;
        let mut rows = WalletRow::lock_all(self.tx, routes.concerned.keys().copied())?;
        if waiting.are_many {
            routes = still_the_same(self.tx, &txs, routes, &may_wait)?;
            // Routing asked about every wallet. Who stands elsewhere
            // or is stopped meets this block later.
            rows.retain(|wallet, row| {
                (row.follows_tip && !row.is_idle) || waiting.next_ids.contains_key(wallet)
            });
            self.applied.moved.extend(rows.keys());
        }
        let done = std::mem::take(&mut self.applied.recorded);
        let mut recording = BatchRecorder::new(&txs, routes, done, self.now);
        if self.mode == ApplyMode::Batched {
            recording.record_in(self.tx, &mut rows, self.mode, None)?;
            self.applied.recorded = recording.done;
            return Ok(());
        }
        for (wallet, row) in rows {
            // The room's row is written last, so what was read of
            // it is behind by the blocks before.
            let place = if row.follows_tip { self.tip } else { row.scanned };
            let mut one = LockedRows::from([(wallet, row)]);
            let into_one =
                |tx: &mut Tx<'_>| recording.record_in(tx, &mut one, ApplyMode::Isolated, None);
            let height = Some(block.height);
            if or_stop(self.tx, (wallet, place), height, self.now, into_one)?.is_none() {
                self.applied.stopped.insert(wallet);
                self.applied.moved.remove(&wallet);
            }
        }
        self.applied.recorded = recording.done;
        Ok(())
    }
}

/// What a block is to the room's tip.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TipStep {
    /// Its child: whoever follows the tip moves.
    Grows,
    /// The tip itself: whoever reaches it follows it from now on.
    Arrives,
    /// Neither; whoever waits for it has a place of its own.
    Elsewhere,
}

impl TipStep {
    fn of(placed: &PlacedBlock, tip: Option<Point>) -> Self {
        if tip.is_none() || tip == placed.parent_place() {
            return Self::Grows;
        }
        if tip == Some(placed.point()) { Self::Arrives } else { Self::Elsewhere }
    }
}

/// Whether the block is already stored; an error when it can't stand where it says.
fn admit(tx: &mut Tx<'_>, placed: &PlacedBlock, block: &BlockRef) -> Result<bool, WalletError> {
    let height = block.height;
    let args = [Arg::Int(sql_int(height)?), Arg::Int(sql_int(height)? - 1)];
    let (mut tip, mut is_stored) = (None, false);
    for row in tx.query(AROUND, &args)? {
        let Point { height: at, hash, .. } = rows::block(&row)?;
        tip = tip.max(Some(at));
        if at == height && hash != block.hash {
            return Err(WalletError::BlockMismatch { height });
        }
        is_stored |= at == height;
        if !is_stored && Some(at) == height.checked_sub(1) && hash != placed.parent() {
            return Err(WalletError::WrongParent { height });
        }
    }
    match tip {
        // Below the tip a missing row only means that it was
        // forgotten; above, blocks would be skipped.
        Some(tip) if height > tip + 1 => Err(WalletError::Gap { tip, got: height }),
        Some(_) | None => Ok(is_stored),
    }
}

/// The wallets that a block moves.
struct WaitingWallets {
    /// Those that were looked at, now locked, each with the row id it will give next.
    next_ids: BTreeMap<WalletId, RowId>,
    /// Some stand at the block's parent by themselves.
    has_here: bool,
    /// Some were never scanned.
    has_newborn: bool,
    /// So many follow the tip that only those concerned are looked at.
    are_many: bool,
}

impl WaitingWallets {
    fn is_empty(&self) -> bool {
        self.next_ids.is_empty() && !self.are_many
    }
}

fn waiting(
    tx: &mut Tx<'_>,
    placed: &PlacedBlock,
    step: TipStep,
) -> Result<WaitingWallets, WalletError> {
    let mut found = WaitingWallets {
        next_ids: BTreeMap::new(),
        has_here: false,
        has_newborn: false,
        are_many: false,
    };
    let mut rows = Vec::new();
    if let Some(Point { height: before, hash: parent, .. }) = placed.parent_place() {
        rows = tx.query(HERE, &[Arg::Int(sql_int(before)?), Arg::Blob(&parent.0)])?;
        found.has_here = !rows.is_empty();
    }
    // Who is born at this block or above needs nothing below it, so it may begin here.
    let newborn = tx.query(NEWBORN, &[Arg::Int(sql_int(placed.height)?)])?;
    found.has_newborn = !newborn.is_empty();
    rows.extend(newborn);
    if step == TipStep::Grows {
        // One more than few tells that they are many.
        let followers = tx.query(FOLLOWERS, &[Arg::Int(FEW as i64 + 1)])?;
        found.are_many = followers.len() > FEW;
        if !found.are_many {
            rows.extend(followers);
        }
    }
    for row in rows {
        found.next_ids.insert(WalletId(row.row_id("id")?.0), row.row_id("next_id")?);
    }
    Ok(found)
}

/// Moves the cursors of everybody who waited for the block and doesn't follow the tip anyway.
fn move_wallets(
    tx: &mut Tx<'_>,
    placed: &PlacedBlock,
    step: TipStep,
    waiting: &WaitingWallets,
) -> Result<(), WalletError> {
    let is_tip = step != TipStep::Elsewhere;
    // At the tip a wallet has no place of its own, or each block would write every wallet's row.
    let own = (!is_tip).then_some((sql_int(placed.height)?, &placed.hash.0));
    let to = [
        Arg::OptInt(own.map(|(height, _)| height)),
        Arg::OptBlob(own.map(|(_, hash)| hash.as_slice())),
        Arg::Flag(is_tip),
    ];
    let parent = placed.parent_place().filter(|_| waiting.has_here);
    if let Some(Point { height: before, hash: parent, .. }) = parent {
        let from = [Arg::Int(sql_int(before)?), Arg::Blob(&parent.0)];
        tx.execute(MOVE_HERE, &[&from[..], &to[..]].concat())?;
    }
    if waiting.has_newborn {
        let from = [Arg::Int(sql_int(placed.height)?)];
        tx.execute(MOVE_NEWBORN, &[&from[..], &to[..]].concat())?;
    }
    Ok(())
}
