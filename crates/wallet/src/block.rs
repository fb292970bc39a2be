//! Blocks for all wallets at once.
//!
//! A block is applied to every wallet that stands at its parent, and to those that were never
//! scanned and are born no earlier. So the tip moves all wallets together, and feeding old blocks
//! again brings a new or rewound wallet up to the others without touching them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bitcoin::{Block, Txid, hashes::Hash as _};
use unspent_model::BlockHash;
use unspent_sql::{Arg, SqlError, Tx};

use crate::{
    error::WalletError,
    record::{BlockRef, Recorded, Recording, Rows, TxSource, store_block},
    room::{Room, WalletId, WalletRow, lock_room, sql_int},
    route::{SeenTx, route},
    rows,
    stopped::or_stop,
    watch::Watch,
};

/// Blocks kept below the tip even when no transaction of ours is in them, so that a reorganisation
/// can be recognised.
pub const BLOCKS_KEPT: u64 = 2_016;

/// Blocks applied in one database transaction at most.
pub const MAX_BLOCKS_AT_ONCE: usize = 1_000;

/// A block with its place in the chain: a handle that is cheap to clone, whatever the block's size.
///
/// Hash and names come along because whoever decoded the block has worked them out to check it.
#[derive(Clone, Debug)]
pub struct PlacedBlock {
    /// Blocks between it and genesis.
    pub height: u64,
    /// The hash of its header.
    pub hash: BlockHash,
    /// The block itself, shared with every other room.
    pub block: Arc<Block>,
    /// The names of its transactions, in their order.
    pub txids: Arc<[Txid]>,
}

impl PlacedBlock {
    /// A block whose hash and names are known.
    pub fn new(height: u64, block: Arc<Block>, hash: BlockHash, txids: Arc<[Txid]>) -> Self {
        Self { height, hash, block, txids }
    }

    /// A block whose hash and names are worked out here.
    pub fn of(height: u64, block: Block) -> Self {
        let hash = BlockHash(block.block_hash().to_byte_array());
        let txids = block.txdata.iter().map(bitcoin::Transaction::compute_txid).collect();
        Self::new(height, Arc::new(block), hash, txids)
    }

    /// What a wallet keeps of it.
    pub fn reference(&self) -> BlockRef {
        BlockRef { height: self.height, hash: self.hash, time: self.block.header.time }
    }

    fn parent(&self) -> BlockHash {
        BlockHash(self.block.header.prev_blockhash.to_byte_array())
    }
}

/// What applying blocks did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Wallets that moved.
    pub moved: BTreeSet<WalletId>,
    /// Wallets that the blocks stopped, because their own data can't take them.
    pub stopped: BTreeSet<WalletId>,
    /// What was recorded.
    pub recorded: Recorded,
}

const TIP: &str = "SELECT block_height, header_hash FROM blocks ORDER BY block_height DESC LIMIT 1";
/// The block at a height, the one below it, and the tip; the height's own first.
const AROUND: &str = "SELECT block_height, header_hash FROM blocks
    WHERE block_height IN ($1, $2)
        OR block_height = (SELECT MAX(block_height) FROM blocks)
    ORDER BY CASE WHEN block_height = $1 THEN 0 ELSE 1 END";
const FOLLOWERS: &str = "SELECT id, next_id FROM wallets
    WHERE scanned_height = $1 AND scanned_hash = $2 AND stopped_at IS NULL AND archived_at IS NULL
    ORDER BY id FOR UPDATE";
const NEWBORN: &str = "SELECT id, next_id FROM wallets
    WHERE scanned_height IS NULL AND scanned_hash IS NULL AND birthday_height >= $1
        AND stopped_at IS NULL AND archived_at IS NULL
    ORDER BY id FOR UPDATE";
const MOVE_FOLLOWERS: &str = "UPDATE wallets SET scanned_height = $3, scanned_hash = $4
    WHERE scanned_height = $1 AND scanned_hash = $2 AND stopped_at IS NULL AND archived_at IS NULL";
const MOVE_NEWBORN: &str = "UPDATE wallets SET scanned_height = $2, scanned_hash = $3
    WHERE scanned_height IS NULL AND scanned_hash IS NULL AND birthday_height >= $1
        AND stopped_at IS NULL AND archived_at IS NULL";
const FORGET_BLOCK: &str = "DELETE FROM blocks WHERE block_height <= $1 AND block_height > $2
    AND NOT EXISTS (
        SELECT 1 FROM transactions t WHERE t.block_height = blocks.block_height
            AND t.block_height IS NOT NULL)";

impl Room {
    /// Applies blocks in order, each to the wallets that stand at its parent, all in one
    /// transaction. A block that nobody waits for changes nothing.
    ///
    /// # Errors
    ///
    /// [`WalletError::BlockMismatch`], [`WalletError::WrongParent`] or [`WalletError::Gap`] when
    /// the source has gone another way; nothing is changed then.
    pub fn apply_blocks(&self, blocks: Vec<PlacedBlock>, now: i64) -> Result<Applied, WalletError> {
        if blocks.len() > MAX_BLOCKS_AT_ONCE {
            return Err(WalletError::Argument("more than 1,000 blocks at once".into()));
        }
        blocks.iter().try_for_each(check_names)?;
        let blocks: Arc<[PlacedBlock]> = blocks.into();
        let transactions = blocks.iter().map(|placed| placed.txids.len()).sum();
        self.with_care(move |tx, care| {
            lock_room(tx)?;
            let watch = Watch::new(transactions);
            let mut applying = Applying { tx, watch, applied: Applied::default(), now, care };
            blocks.iter().try_for_each(|placed| applying.apply(placed))?;
            Ok(applying.applied)
        })
    }

    /// The highest stored block.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn tip(&self) -> Result<Option<(u64, BlockHash)>, WalletError> {
        self.door.read(tip)
    }
}

/// The highest stored block.
pub(crate) fn tip(tx: &mut Tx<'_>) -> Result<Option<(u64, BlockHash)>, WalletError> {
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
    let why = format!("block {height} came with {names} names for {txs} transactions");
    Err(WalletError::Argument(why))
}

/// How a change goes into wallets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// Into all of them together, which is quick, and fails as a whole.
    Together,
    /// Into each by itself, with what nearly never happens looked for; whoever can't take it is
    /// stopped.
    Apart,
}

impl Room {
    /// Runs a change to all wallets quickly; where somebody's own data stands in the way, again
    /// with care.
    pub(crate) fn with_care<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>, Care) -> Result<T, WalletError> + Send + Sync + 'static,
    ) -> Result<T, WalletError> {
        let work = Arc::new(work);
        let again = work.clone();
        match self.door.write(move |tx| work(tx, Care::Together)) {
            Err(error) if error.is_of_one_wallet() => {
                self.door.write(move |tx| again(tx, Care::Apart))
            }
            result => result,
        }
    }

    /// The same for one wallet: others' changes run beside it.
    pub(crate) fn with_care_for<T: Send + 'static>(
        &self,
        wallet: WalletId,
        work: impl Fn(&mut Tx<'_>, Care) -> Result<T, WalletError> + Send + Sync + 'static,
    ) -> Result<T, WalletError> {
        let work = Arc::new(work);
        let again = work.clone();
        match self.door.write_for(wallet.0, move |tx| work(tx, Care::Together)) {
            Err(error) if error.is_of_one_wallet() => {
                self.door.write_for(wallet.0, move |tx| again(tx, Care::Apart))
            }
            result => result,
        }
    }
}

/// Blocks on their way into the wallets, one after the other.
struct Applying<'a, 'c> {
    tx: &'a mut Tx<'c>,
    watch: Watch,
    applied: Applied,
    now: i64,
    care: Care,
}

impl Applying<'_, '_> {
    fn apply(&mut self, placed: &PlacedBlock) -> Result<(), WalletError> {
        let block = placed.reference();
        let is_stored = admit(self.tx, placed, &block)?;
        let (waiting, has_newborn) = waiting(self.tx, placed)?;
        if waiting.is_empty() && is_stored {
            return Ok(());
        }
        if !is_stored {
            store_block(self.tx, &block)?;
        }
        self.watch.catch_up(self.tx, &waiting)?;
        if !waiting.is_empty() && self.watch.may_concern(placed) {
            self.record(placed, &waiting)?;
        }
        move_wallets(self.tx, placed, has_newborn)?;
        let stopped = &self.applied.stopped;
        self.applied.moved.extend(waiting.into_keys().filter(|wallet| !stopped.contains(wallet)));
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
        waiting: &BTreeMap<WalletId, i64>,
    ) -> Result<(), WalletError> {
        let block = placed.reference();
        let named = placed.block.txdata.iter().zip(placed.txids.iter());
        let txs: Vec<SeenTx<'_>> = (0_u64..)
            .zip(named)
            .map(|(place, (tx, txid))| SeenTx::new(tx, *txid, TxSource::Block(block, place)))
            .collect();
        let is_waiting = |wallet: WalletId| waiting.contains_key(&wallet);
        let routes = route(self.tx, &txs, &self.watch, &is_waiting)?;
        let mut rows = WalletRow::lock_all(self.tx, routes.concerned.keys().copied())?;
        let done = std::mem::take(&mut self.applied.recorded);
        let mut recording = Recording::new(&txs, routes, done, self.now);
        if self.care == Care::Together {
            recording.record_in(self.tx, &mut rows, self.care, None)?;
            self.applied.recorded = recording.done;
            return Ok(());
        }
        for (wallet, row) in rows {
            let mut one = Rows::from([(wallet, row)]);
            let into_one =
                |tx: &mut Tx<'_>| recording.record_in(tx, &mut one, Care::Apart, None);
            if or_stop(self.tx, wallet, Some(block.height), self.now, into_one)?.is_none() {
                self.applied.stopped.insert(wallet);
            }
        }
        self.applied.recorded = recording.done;
        Ok(())
    }
}

/// Moves the cursors of everybody who waited for the block.
fn move_wallets(
    tx: &mut Tx<'_>,
    placed: &PlacedBlock,
    has_newborn: bool,
) -> Result<(), WalletError> {
    let (height, hash) = (Arg::Int(sql_int(placed.height)?), Arg::Blob(&placed.hash.0));
    if let Some(before) = placed.height.checked_sub(1) {
        let parent = placed.parent();
        let from = [Arg::Int(sql_int(before)?), Arg::Blob(&parent.0), height, hash];
        tx.execute(MOVE_FOLLOWERS, &from)?;
    }
    if has_newborn {
        tx.execute(MOVE_NEWBORN, &[height, height, hash])?;
    }
    Ok(())
}

/// Whether the block is already stored; an error when it can't stand where it says.
fn admit(tx: &mut Tx<'_>, placed: &PlacedBlock, block: &BlockRef) -> Result<bool, WalletError> {
    let height = block.height;
    let args = [Arg::Int(sql_int(height)?), Arg::Int(sql_int(height)? - 1)];
    let mut tip = None;
    for row in tx.query(AROUND, &args)? {
        let (at, hash) = rows::block(&row)?;
        tip = tip.max(Some(at));
        if at == height {
            return if hash == block.hash {
                Ok(true)
            } else {
                Err(WalletError::BlockMismatch { height })
            };
        }
        if Some(at) == height.checked_sub(1) && hash != placed.parent() {
            return Err(WalletError::WrongParent { height });
        }
    }
    match tip {
        Some(tip) if height > tip + 1 => Err(WalletError::Gap { tip, got: height }),
        Some(_) | None => Ok(false),
    }
}

/// The wallets that the block moves, now locked, each with the row id it will give next; and
/// whether some of them were never scanned.
fn waiting(
    tx: &mut Tx<'_>,
    placed: &PlacedBlock,
) -> Result<(BTreeMap<WalletId, i64>, bool), WalletError> {
    let mut rows = Vec::new();
    if let Some(before) = placed.height.checked_sub(1) {
        let parent = placed.parent();
        let args = [Arg::Int(sql_int(before)?), Arg::Blob(&parent.0)];
        rows.extend(tx.query(FOLLOWERS, &args)?);
    }
    let newborn = tx.query(NEWBORN, &[Arg::Int(sql_int(placed.height)?)])?;
    let has_newborn = !newborn.is_empty();
    rows.extend(newborn);
    let ids = rows.iter().map(|row| Ok((WalletId(row.int("id")?), row.int("next_id")?)));
    Ok((ids.collect::<Result<_, SqlError>>()?, has_newborn))
}
