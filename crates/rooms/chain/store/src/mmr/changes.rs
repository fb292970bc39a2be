//! What a batch changes in both trees: blocks applied, or blocks undone.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use unspent_model::{Network, Outpoint, Point, chain::BlockDelta};
use unspent_verify::{Hash, hash, proof::CHUNK_BITS, tree::Node};

use super::bits::{Bits, CHUNK_HEIGHT, FullNodes, chunk_count, chunk_end, chunk_of, superfluous};
use crate::{
    codec::{CodecError, StoredDelta, TreeCommitment, TreeRewind},
    coin::SharedCoin,
    db::{Batch, Db},
    error::StoreError,
    schema::{ColumnFamily, NodeKey, OutpointKey, TreeKind, names},
};

/// What trees stand on: the batch before this one, which may still be being written, and the disk.
#[derive(Clone, Copy)]
pub(crate) struct TreeBase<'a> {
    pub(crate) db: &'a Db,
    pub(crate) frozen: Option<&'a TreeChanges>,
    pub(crate) network: Network,
}

/// A chunk of bits, and what it had settled before the batch.
struct ChunkSlot {
    settled_before: [u8; 128],
    now: Bits,
}

/// Changes on their way to the disk.
#[derive(Default)]
pub(crate) struct TreeChanges {
    /// Leaves that no node stands on yet.
    pub(super) fresh: Vec<Hash>,
    /// Leaves below the batch: its nodes start at `base >> height`.
    base: Option<u64>,
    /// New nodes of the outputs, by height.
    levels: Vec<Vec<Hash>>,
    chunks: BTreeMap<u64, ChunkSlot>,
    /// Chunks whose hashes are not in the tree yet.
    pub(super) touched: BTreeSet<u64>,
    live: BTreeMap<Node, Hash>,
    /// The root is not that of the last block taken in.
    pub(super) stale: bool,
    /// Leaves before the first block undone.
    cut_from: Option<u64>,
    /// The root that the last block undone says was there before it.
    expected: Option<Hash>,
}

/// A block on its way into the trees.
pub(crate) struct BlockLeaves<'a> {
    pub(crate) delta: &'a BlockDelta<SharedCoin>,
    /// The block before.
    pub(crate) parent: Option<Point>,
    /// It may be undone: its root and its leaves are kept. Else its spends are settled.
    pub(crate) keeps_undo: bool,
}

impl TreeChanges {
    /// About how much memory the changes take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        // Maps and trees are about two thirds full.
        let places = self.chunks.len() * size_of::<(u64, ChunkSlot)>()
            + self.touched.len() * size_of::<u64>()
            + self.live.len() * size_of::<(Node, Hash)>();
        let nodes = self.levels.iter().map(Vec::len).sum::<usize>() + self.fresh.len();
        places * 3 / 2 + nodes * size_of::<Hash>()
    }

    /// Takes a block in; returns what its delta keeps.
    pub(crate) fn apply(
        &mut self,
        base: TreeBase<'_>,
        commitment: &mut TreeCommitment,
        block: &BlockLeaves<'_>,
    ) -> Result<Option<TreeRewind>, StoreError> {
        let BlockLeaves { delta, parent, keeps_undo } = *block;
        // In bulk the root is left stale over many blocks; the delta keeps that of the parent.
        if keeps_undo {
            self.settle_root(base, commitment, parent)?;
        }
        let (first, before) = (commitment.leaves, commitment.root);
        let spent = delta.spent.iter().map(|spent| leaf(&spent.outpoint, &spent.coin));
        let spent = spent.collect::<Result<_, _>>()?;
        let overwritten = delta.overwritten.iter().map(|(lost, coin)| leaf(lost, coin));
        let overwritten = overwritten.collect::<Result<_, _>>()?;
        let mut rewind = TreeRewind { first, spent, overwritten, before, after: Hash::default() };
        // Leaves of this block itself are not there yet: `append` leaves the bits of spent ones 0.
        self.read_chunks(base, rewind.taken().filter(|leaf| *leaf < first))?;
        for leaf in rewind.taken().filter(|leaf| *leaf < first) {
            self.set_live(leaf, false);
        }
        let made = delta.created.iter().map(|made| (&made.outpoint, &made.coin, made.spent_here));
        self.append(base, commitment, made)?;
        let taken = rewind.taken().count() as u64;
        // `append` counted all new coins, those that the block spends again too.
        let live = commitment.live.checked_sub(taken);
        commitment.live = live.ok_or_else(|| {
            let what = "counts fewer live coins than a block spends";
            StoreError::wrong(ColumnFamily::UtxoMeta.name(), names::COMMITMENT, what)
        })?;
        if !keeps_undo {
            // No rollback reaches this block, so pruning will never see a delta of it to settle
            // these from.
            rewind.taken().for_each(|leaf| self.settle_leaf(leaf));
            return Ok(None);
        }
        self.settle_root(base, commitment, Some(delta.point))?;
        // What a rollback starts from: without it, a delta of another branch couldn't be told.
        rewind.after = commitment.root;
        Ok(Some(rewind))
    }

    /// Leaves for new coins, each counted as live.
    pub(crate) fn append<'a>(
        &mut self,
        base: TreeBase<'_>,
        commitment: &mut TreeCommitment,
        coins: impl Iterator<Item = (&'a Outpoint, &'a SharedCoin, bool)>,
    ) -> Result<(), StoreError> {
        self.base.get_or_insert(commitment.leaves);
        self.stale = true;
        let coins: Vec<_> = coins.collect();
        let parts = coins.iter().map(|(name, coin, _)| (&name.tx.0, name.index, coin.body()));
        self.fresh.extend(hash::outputs(commitment.leaves, &parts.collect::<Vec<_>>()));
        let mut stays = coins.iter().map(|(_, _, spent_here)| !spent_here).peekable();
        while stays.peek().is_some() {
            let first = commitment.leaves;
            let chunk = self.chunk_for_new(base, first)?;
            for (leaf, stays) in (first..chunk_end(first)).zip(stays.by_ref()) {
                if stays {
                    chunk.set_live(leaf, true);
                }
                commitment.leaves += 1;
                commitment.live += 1;
            }
        }
        Ok(())
    }

    /// Takes a block back out. `delta` must be that of the last block.
    pub(crate) fn undo(
        &mut self,
        base: TreeBase<'_>,
        commitment: &mut TreeCommitment,
        delta: &StoredDelta,
    ) -> Result<(), StoreError> {
        let absent = || corrupt(delta, "has no leaves");
        let rewind = delta.rewind.as_ref().ok_or_else(absent)?;
        // Inside a batch the root isn't hashed for each block: the deltas' own must chain.
        let reached = self.expected.unwrap_or(commitment.root);
        if rewind.after != reached {
            return Err(corrupt(delta, "names another root than the block after it"));
        }
        let first = rewind.first;
        if first + delta.created.len() as u64 != commitment.leaves {
            return Err(corrupt(delta, "does not end at the last leaf"));
        }
        // The first block undone was the last one applied: its end is that of the trees on disk.
        self.cut_from.get_or_insert(commitment.leaves);
        let back = || rewind.taken().filter(|leaf| *leaf < first);
        // The chunk that the block began inside of stays, without the block's leaves.
        let edge = (!first.is_multiple_of(CHUNK_BITS)).then_some(first);
        self.read_chunks(base, back().chain(edge))?;
        self.chunks.retain(|number, _| *number < chunk_count(first));
        self.touched.retain(|number| *number < chunk_count(first));
        if let Some(slot) = edge.and_then(|first| self.chunks.get_mut(&chunk_of(first))) {
            slot.now.cut(first);
            self.touched.insert(chunk_of(first));
        }
        back().for_each(|leaf| self.set_live(leaf, true));
        let taken = rewind.taken().count() as u64;
        let live = (commitment.live + taken).checked_sub(delta.created.len() as u64);
        commitment.live = live.ok_or_else(|| corrupt(delta, "created more than there is"))?;
        commitment.leaves = first;
        self.expected = Some(rewind.before);
        self.stale = true;
        Ok(())
    }

    /// After the last block undone: the root must be the one stored for the block that is now last.
    pub(crate) fn rewound(
        &mut self,
        base: TreeBase<'_>,
        commitment: &mut TreeCommitment,
        tip: Option<Point>,
    ) -> Result<(), StoreError> {
        self.settle_root(base, commitment, tip)?;
        let hex = |hash: &Hash| hash.iter().map(|byte| format!("{byte:02x}")).collect();
        match self.expected {
            Some(expected) if expected != commitment.root => Err(StoreError::OtherRoot {
                height: tip.map_or(0, |tip| tip.height),
                stored: hex(&expected),
                found: hex(&commitment.root),
            }),
            _ => Ok(()),
        }
    }

    /// The chunk of a leaf that is about to be appended.
    fn chunk_for_new(&mut self, base: TreeBase<'_>, leaf: u64) -> Result<&mut Bits, StoreError> {
        let number = chunk_of(leaf);
        self.touched.insert(number);
        // The first leaf of a chunk makes it; before any other one it has been written.
        if !leaf.is_multiple_of(CHUNK_BITS) {
            self.read_chunks(base, [leaf].into_iter())?;
        }
        let new = ChunkSlot { settled_before: [0; 128], now: Bits::NONE };
        Ok(&mut self.chunks.entry(number).or_insert(new).now)
    }

    /// Reads the chunks of leaves that are about to change into memory.
    fn read_chunks(
        &mut self,
        base: TreeBase<'_>,
        leaves: impl Iterator<Item = u64>,
    ) -> Result<(), StoreError> {
        let mut numbers: Vec<u64> = leaves.map(chunk_of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.touched.extend(&numbers);
        numbers.retain(|number| !self.chunks.contains_key(number));
        let mut on_disk = Vec::new();
        for number in numbers {
            let frozen = base.frozen.and_then(|frozen| frozen.chunks.get(&number));
            match frozen.map(|slot| slot.now) {
                Some(now) => self.insert_chunk(number, now),
                None => on_disk.push(number),
            }
        }
        for (number, bits) in read_bits(base.db, &on_disk)? {
            self.insert_chunk(number, bits);
        }
        Ok(())
    }

    fn insert_chunk(&mut self, number: u64, now: Bits) {
        self.chunks.insert(number, ChunkSlot { settled_before: now.settled, now });
    }

    /// Of a leaf whose chunk has been read.
    fn set_live(&mut self, leaf: u64, to: bool) {
        if let Some(slot) = self.chunks.get_mut(&chunk_of(leaf)) {
            slot.now.set_live(leaf, to);
        }
    }

    fn settle_leaf(&mut self, leaf: u64) {
        if let Some(slot) = self.chunks.get_mut(&chunk_of(leaf)) {
            slot.now.settle(leaf);
        }
    }

    /// A chunk as the batch leaves it.
    pub(super) fn chunk(&self, number: u64) -> Option<&Bits> {
        self.chunks.get(&number).map(|slot| &slot.now)
    }

    /// A node as far as the batch made or changed it.
    pub(super) fn node(&self, tree: TreeKind, (height, index): Node) -> Option<Hash> {
        if tree == TreeKind::Live {
            return self.live.get(&(height, index)).copied();
        }
        let within = index.checked_sub(self.base? >> height)?;
        self.levels.get(usize::from(height))?.get(usize::try_from(within).ok()?).copied()
    }

    /// Notes a node; those of the outputs come in order.
    pub(super) fn put(&mut self, tree: TreeKind, (height, index): Node, hash: Hash) {
        if tree == TreeKind::Live {
            self.live.insert((height, index), hash);
            return;
        }
        let height = usize::from(height);
        if self.levels.len() <= height {
            self.levels.resize(height + 1, Vec::new());
        }
        if let Some(level) = self.levels.get_mut(height) {
            level.push(hash);
        }
    }

    /// Leaves under nodes so far.
    pub(super) fn built(&self, leaves: u64) -> u64 {
        leaves - self.fresh.len() as u64
    }

    /// Adds everything to the batch of the blocks.
    pub(crate) fn write(&self, batch: &mut Batch<'_>, leaves: u64) -> Result<(), StoreError> {
        self.write_outputs(batch)?;
        for ((height, index), hash) in &self.live {
            batch.put(ColumnFamily::MmrNodes, &key(TreeKind::Live, *height, *index), hash)?;
        }
        for (number, ChunkSlot { settled_before, now }) in &self.chunks {
            batch.put(ColumnFamily::MmrNodes, &key(TreeKind::Bits, 0, *number), &now.encode())?;
            for (height, index) in superfluous(*number, settled_before, &now.settled) {
                // What is new isn't written in the first place.
                if self.base.is_none_or(|base| index < base >> height) {
                    batch.delete(ColumnFamily::MmrNodes, &key(TreeKind::Outputs, height, index))?;
                }
            }
        }
        match self.cut_from {
            Some(from) => cut(batch, leaves..from),
            None => Ok(()),
        }
    }

    fn write_outputs(&self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let base = self.base.unwrap_or_default();
        for (height, level) in (0_u8..).zip(&self.levels) {
            let mut full: Option<(u64, FullNodes)> = None;
            for (index, hash) in (base >> height..).zip(level) {
                if height < CHUNK_HEIGHT && self.is_superfluous(height, index, &mut full) {
                    continue;
                }
                batch.put(ColumnFamily::MmrNodes, &key(TreeKind::Outputs, height, index), hash)?;
            }
        }
        Ok(())
    }

    /// All leaves below the node's parent are settled. `full` is the chunk looked at last.
    fn is_superfluous(&self, height: u8, index: u64, full: &mut Option<(u64, FullNodes)>) -> bool {
        let number = index >> (CHUNK_HEIGHT - height);
        if full.as_ref().is_none_or(|(known, _)| *known != number) {
            let settled = self.chunks.get(&number).map_or([0; 128], |slot| slot.now.settled);
            *full = Some((number, FullNodes::of(&settled)));
        }
        let parent = index >> 1;
        let first = number << (CHUNK_HEIGHT - height - 1);
        full.as_ref().is_some_and(|(_, full)| full.has(height + 1, parent - first))
    }
}

/// The leaf of a coin in the set.
fn leaf(outpoint: &Outpoint, coin: &SharedCoin) -> Result<u64, StoreError> {
    let absent = || {
        StoreError::value(ColumnFamily::Unspent.name(), &OutpointKey(*outpoint).encode())(
            CodecError::Malformed { what: "the coin has no leaf", at: 0 },
        )
    };
    coin.leaf().ok_or_else(absent)
}

/// Reads chunks by sorted numbers; all must be there.
pub(super) fn read_bits(db: &Db, numbers: &[u64]) -> Result<Vec<(u64, Bits)>, StoreError> {
    let keys: Vec<_> = numbers.iter().map(|number| key(TreeKind::Bits, 0, *number)).collect();
    let values = db.multi_get(ColumnFamily::MmrNodes, &keys)?;
    let mut found = Vec::with_capacity(numbers.len());
    for ((number, key), value) in numbers.iter().zip(&keys).zip(values) {
        let value = value.ok_or_else(|| StoreError::absent(ColumnFamily::MmrNodes.name(), key))?;
        found.push((*number, Bits::decode(key, &value)?));
    }
    Ok(found)
}

pub(super) fn key(tree: TreeKind, height: u8, index: u64) -> [u8; NodeKey::LEN] {
    NodeKey { tree, height, index }.encode()
}

/// Deletes what these leaves had, the last ones.
fn cut(batch: &mut Batch<'_>, leaves: Range<u64>) -> Result<(), StoreError> {
    let Range { start: to, end: from } = leaves;
    let chunks = (chunk_count(from), chunk_count(to));
    for number in chunks.1..chunks.0 {
        batch.delete(ColumnFamily::MmrNodes, &key(TreeKind::Bits, 0, number))?;
    }
    for (tree, (from, to)) in [(TreeKind::Outputs, (from, to)), (TreeKind::Live, chunks)] {
        // A key leads with its height, so no single range covers the cut; high up there is nothing.
        for height in 0..64_u8 {
            for index in to >> height..from >> height {
                batch.delete(ColumnFamily::MmrNodes, &key(tree, height, index))?;
            }
        }
    }
    Ok(())
}

fn corrupt(delta: &StoredDelta, what: &str) -> StoreError {
    let place = format!("{}, block {}", ColumnFamily::Delta.name(), delta.point.height);
    StoreError::Corrupt { place, what: format!("the delta {what}") }
}
