//! One block onto the overlay: admission, look-ups, plan, undo data.
//!
//! A modern Bitcoin block needs several thousand coins, and a coin may be in one of three places:
//! among the changes collected so far, in the batch that is being flushed at this moment, or on
//! disk. They are asked in that order, newest first, and what is left goes to the disk as one
//! sorted batch, which RocksDB answers block by block instead of key by key (its wiki: "MultiGet
//! Performance").
//!
//! What the block does is `unspent_model::chain`'s decision; here it is laid over the database,
//! with the data that undoing it will need. In a bulk import most blocks are already deeper than
//! any rollback may reach when they come in, so they leave none: [`UndoPolicy`] says which.
//!
//! Invariant: all that can refuse a block or fail on it comes before the first change.

use std::collections::HashMap;

use unspent_model::{
    Family, Network, Outpoint,
    chain::{self, Admission, AdmitError, BlockDelta, Era, Header, Tip, Work},
};

use crate::{
    codec::{ImportHole, IndexCursor, StoredPoint, TreeRewind, UndoData, encode_delta},
    coin::{Coin, PreparedBlock, SharedCoin},
    db::{Db, Get as _},
    error::{ApplyError, StoreError},
    mmr::{BlockLeaves, TreeBase},
    open,
    options::Options,
    pending::{self, PendingBatch, StoreState},
    schema::{ColumnFamily, OutpointKey, decode_ordinal},
};

/// What became of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApplyOutcome {
    /// It was applied; this is what it did.
    New(CoinCounts),
    /// It had been applied before; nothing changed.
    Already,
}

/// What a block did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoinCounts {
    /// Coins created, those spent again by the same block included.
    pub created: usize,
    /// Coins spent, those created by the same block included.
    pub spent: usize,
    /// Coins created and spent by the same block.
    pub same_block: usize,
    /// Inputs that were not in the set: 0 on a chain without holes.
    pub missing: usize,
}

impl CoinCounts {
    /// Adds another block's counts.
    pub fn add(&mut self, more: &Self) {
        self.created += more.created;
        self.spent += more.spent;
        self.same_block += more.same_block;
        self.missing += more.missing;
    }
}

/// Which undo data a block leaves. What isn't written raises the floor instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UndoPolicy {
    pub(crate) delta: bool,
    pub(crate) spends: bool,
}

impl UndoPolicy {
    pub(crate) const KEEP: Self = Self { delta: true, spends: true };

    /// What a block needs when the chain is known to reach at least `known_tip`.
    pub(crate) fn below(known_tip: u64, ordinal: u64, options: &Options) -> Self {
        // A window beyond all heights keeps everything.
        let kept = |depth: u64| ordinal.saturating_add(depth) > known_tip;
        Self { delta: kept(options.delta_depth()), spends: kept(options.spent_depth()) }
    }
}

/// Blocks on their way to the disk, over the database.
pub(crate) struct BlockApplier<'a> {
    pub(crate) db: &'a Db,
    pub(crate) network: Network,
    pub(crate) options: &'a Options,
    pub(crate) pending: &'a mut PendingBatch,
    /// The batch before this one, which may still be being written.
    pub(crate) frozen: Option<&'a PendingBatch>,
    pub(crate) state: &'a mut StoreState,
}

impl BlockApplier<'_> {
    /// Takes one more block in. After an error nothing has changed.
    pub(crate) fn apply(
        &mut self,
        block: PreparedBlock,
        allow_holes: bool,
        undo: impl FnOnce(u64) -> UndoPolicy,
    ) -> Result<ApplyOutcome, ApplyError> {
        let header = block.header;
        let admission = self.admit(&header, allow_holes)?;
        if admission == Admission::Below {
            return self.below(&header);
        }
        let counts = if self.options.enabled {
            self.coins(block, undo(self.state.cursor.ordinal + 1))?
        } else {
            CoinCounts::default()
        };
        // Only once the coins are in: the hole's ordinal is read off the cursor before it moves,
        // and a block that failed above leaves no hole behind.
        if admission == Admission::AfterHole {
            self.note_hole(&header);
        }
        self.advance(&header);
        Ok(ApplyOutcome::New(counts))
    }

    fn admit(&self, header: &Header, allow_holes: bool) -> Result<Admission, ApplyError> {
        let tip = self.state.cursor.tip.map(|(point, era)| Tip { point, era });
        let admission = chain::admit(tip.as_ref(), header, allow_holes)?;
        // The points may be ahead of the index (it was switched off for a while): then they decide.
        let next = (self.state.cursor.ordinal + 1).to_be_bytes();
        if admission != Admission::Below
            && let Some(known) = self.db.get(ColumnFamily::Points, &next)?
        {
            let known = StoredPoint::decode(&known)
                .map_err(StoreError::value(ColumnFamily::Points.name(), &next))?;
            if known.point.hash != header.point.hash {
                return Err(AdmitError::OtherBranch { height: header.point.height }.into());
            }
        }
        Ok(admission)
    }

    /// A repeat if we know its hash, else another branch.
    fn below(&self, header: &Header) -> Result<ApplyOutcome, ApplyError> {
        let hash = &header.point.hash;
        // In bulk a block may have been taken in and not be on disk yet: still a repeat.
        let waiting = self.pending.has_block(hash)
            || self.frozen.is_some_and(|frozen| frozen.has_block(hash));
        let known = match self.db.get(ColumnFamily::Hashes, &hash.0)? {
            Some(ordinal) => {
                let ordinal = decode_ordinal(&ordinal)
                    .map_err(StoreError::key(ColumnFamily::Hashes.name(), &hash.0))?;
                // Points run ahead of an index that was switched off for a while. A block that the
                // chain knows but the index hasn't taken in is no repeat of the index's own.
                ordinal <= self.state.cursor.ordinal
            }
            None => waiting,
        };
        if known {
            return Ok(ApplyOutcome::Already);
        }
        Err(AdmitError::OtherBranch { height: header.point.height }.into())
    }

    fn note_hole(&mut self, header: &Header) {
        self.state.holes.push(ImportHole {
            ordinal: self.state.cursor.ordinal + 1,
            left_at: self.state.cursor.point().map(|point| point.height),
            resumes_at: header.point.height,
        });
    }

    fn coins(
        &mut self,
        mut block: PreparedBlock,
        undo: UndoPolicy,
    ) -> Result<CoinCounts, ApplyError> {
        let header = block.header;
        // Before the plan is made of them: the coins are shared from there on.
        if let Some(commitment) = &self.state.commitment {
            let created = block.txs.iter_mut().flat_map(|tx| &mut tx.creates);
            let leaves = commitment.leaves..;
            leaves.zip(created).for_each(|(leaf, (_, coin))| Coin::place(coin, leaf));
        }
        let retired = self.retired(header.era)?;
        let mut found = self.resolve(&chain::lookups(&block))?;
        let delta = chain::plan(block, retired, |outpoint| found.remove(outpoint));
        // The trees can't be put back once they change, so what is cheap to refuse goes first.
        let totals = pending::totals_after(&delta, &self.state.cursor)?;
        let rewind = self.grow_trees(&delta, undo)?;
        // Encoded before the overlay changes: what can't be encoded must leave no half block.
        let value = self.undo_value(&delta, &header, undo, rewind.as_ref())?;
        self.pending.apply(&delta);
        self.state.cursor = totals;
        self.keep_undo(&delta, undo, value);
        Ok(count(&delta))
    }

    /// In the MMR store, takes the block into both trees.
    fn grow_trees(
        &mut self,
        delta: &BlockDelta<SharedCoin>,
        undo: UndoPolicy,
    ) -> Result<Option<TreeRewind>, StoreError> {
        let Some(commitment) = &mut self.state.commitment else { return Ok(None) };
        let frozen = self.frozen.map(|frozen| &frozen.trees);
        let base = TreeBase { db: self.db, frozen, network: self.network };
        let parent = self.state.cursor.point();
        let block = BlockLeaves { delta, parent, keeps_undo: undo.delta };
        self.pending.trees.apply(base, commitment, &block)
    }

    fn undo_value(
        &self,
        delta: &BlockDelta<SharedCoin>,
        header: &Header,
        undo: UndoPolicy,
        rewind: Option<&TreeRewind>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if !undo.delta {
            return Ok(None);
        }
        let Header { time, epoch, .. } = *header;
        let self_contained = self.options.self_contained;
        let value = encode_delta(&UndoData { delta, time, epoch, self_contained, rewind });
        let key = (self.state.cursor.ordinal + 1).to_be_bytes();
        value.map(Some).map_err(StoreError::value(ColumnFamily::Delta.name(), &key))
    }

    fn keep_undo(
        &mut self,
        delta: &BlockDelta<SharedCoin>,
        undo: UndoPolicy,
        value: Option<Vec<u8>>,
    ) {
        let ordinal = self.state.cursor.ordinal + 1;
        if undo.spends {
            self.pending.record_spends(ordinal, delta);
        } else {
            self.state.horizon.spends_floor = ordinal;
        }
        match value {
            Some(value) => self.pending.set_delta(ordinal, Some(value)),
            None => self.state.horizon.floor = ordinal,
        }
    }

    /// The redeem coins of genesis that this block's era withdraws.
    fn retired(&self, era: Era) -> Result<Vec<(Outpoint, SharedCoin)>, StoreError> {
        let before = match self.state.cursor.tip {
            Some((_, before)) => before,
            None if era == Era::Bitcoin => return Ok(Vec::new()),
            // Cardano's genesis is of the first era.
            None => Era::Byron,
        };
        if era == Era::Bitcoin || !chain::retires_redeem_coins(before, era) {
            return Ok(Vec::new());
        }
        let redeem = open::redeem_coins(self.db)?;
        let mut unclaimed: Vec<_> = self.resolve(&redeem)?.into_iter().collect();
        // A map has no order, and a delta's bytes must be the same on every machine.
        unclaimed.sort_unstable_by_key(|(outpoint, _)| *outpoint);
        Ok(unclaimed)
    }

    /// Finds coins by sorted outpoints: in the overlays first, the rest on disk in one sweep.
    fn resolve(&self, wanted: &[Outpoint]) -> Result<FoundCoins, StoreError> {
        let mut found = FoundCoins::with_capacity_and_hasher(wanted.len(), Default::default());
        let mut on_disk = Vec::new();
        for outpoint in wanted {
            let ahead = self.pending.find(outpoint);
            match ahead.or_else(|| self.frozen.and_then(|frozen| frozen.find(outpoint))) {
                Some(Some(coin)) => {
                    found.insert(*outpoint, coin.clone());
                }
                // Spent further up, whatever the disk still says.
                Some(None) => {}
                None => on_disk.push(*outpoint),
            }
        }
        read_coins(self.db, self.network.family(), &on_disk, |outpoint, coin| {
            found.insert(outpoint, coin);
        })?;
        Ok(found)
    }

    fn advance(&mut self, header: &Header) {
        let work = self.state.tip.map_or(Work::default(), |tip| tip.work);
        let point = StoredPoint {
            point: header.point,
            era: header.era,
            time: header.time,
            // No chain has 2^256 hashes behind it, and what it has decides nothing here.
            work: work.checked_add(header.work).unwrap_or(work),
        };
        let cursor = &mut self.state.cursor;
        *cursor = IndexCursor {
            ordinal: cursor.ordinal + 1,
            tip: Some((header.point, header.era)),
            ..*cursor
        };
        self.state.tip = Some(point);
        self.pending.add_point(cursor.ordinal, point);
        self.pending.blocks += 1;
    }
}

type FoundCoins = HashMap<Outpoint, SharedCoin, foldhash::fast::RandomState>;

/// Reads coins that are on disk, by sorted outpoints; absent ones are passed over.
pub(crate) fn read_coins(
    db: &Db,
    chain: Family,
    sorted: &[Outpoint],
    mut take: impl FnMut(Outpoint, SharedCoin),
) -> Result<(), StoreError> {
    let keys: Vec<_> = sorted.iter().map(|outpoint| OutpointKey(*outpoint).encode()).collect();
    let values = db.multi_get(ColumnFamily::Unspent, &keys)?;
    for ((outpoint, key), value) in sorted.iter().zip(&keys).zip(values) {
        let Some(value) = value else { continue };
        let coin = Coin::from_stored(chain, &value);
        let coin = coin.map_err(StoreError::value(ColumnFamily::Unspent.name(), key))?;
        take(*outpoint, coin.into());
    }
    Ok(())
}

fn count(delta: &BlockDelta<SharedCoin>) -> CoinCounts {
    CoinCounts {
        created: delta.created.len(),
        spent: delta.spent.len(),
        same_block: delta.spent.iter().filter(|spent| spent.born_here).count(),
        missing: delta.missing.len(),
    }
}
