//! The trees of the MMR store against coins, deltas and themselves.
//!
//! | told by | and by |
//! |---|---|
//! | coins: leaf, outpoint and record | leaves whose bit is 1 |
//! | deltas: leaves taken, outpoint and record | leaves that are neither live nor settled |
//! | each node | its two children, unless all leaves below are settled |
//! | bits | the second tree, rebuilt |
//! | both trees | the root; each delta's roots, the next delta's |

use unspent_verify::{
    Hash,
    hash::{self, Domain},
    tree,
};

use super::{Check, SetSum, VerifyReport};
use crate::{
    codec::{StoredDelta, TreeCommitment, decode_delta, encode_record},
    db::{Get as _, ScanRange, View},
    error::StoreError,
    mmr::{
        bits::{Bits, CHUNK_HEIGHT, FullNodes, chunk_count},
        root::{head, read_root},
    },
    schema::{ColumnFamily, NodeKey, TreeKind, decode_ordinal},
};

const FAMILY: ColumnFamily = ColumnFamily::MmrNodes;
const CHUNK_LEAVES: u64 = 1 << CHUNK_HEIGHT;

/// What the bits add up to.
#[derive(Default)]
struct LeafSums {
    live: u64,
    /// Leaves that are live, with their hashes.
    held: SetSum,
    /// Leaves that are neither live nor settled.
    taken: SetSum,
    /// Roots of whole chunks in the first tree.
    tops: Vec<Hash>,
    /// Leaves of the second tree.
    chunks: Vec<(u64, Hash)>,
}

/// A leaf that left the set inside the window.
fn taken(sum: &mut SetSum, leaf: u64) {
    sum.add(&[&leaf.to_be_bytes()]);
}

pub(super) fn held(sum: &mut SetSum, leaf: u64, hash: &Hash) {
    sum.add(&[&leaf.to_be_bytes(), hash]);
}

impl Check<'_> {
    /// Compares everything that the trees are told by; `coins` are the leaves of all coins.
    pub(super) fn trees(&mut self, coins: SetSum) -> Result<(), StoreError> {
        let Some(commitment) = self.commitment else { return Ok(()) };
        self.bounds(&commitment)?;
        let taken = self.rewinds(&commitment)?;
        let leaves = self.leaves(&commitment)?;
        let Self { view, report, .. } = self;
        if leaves.live != commitment.live || commitment.live != self.cursor.coins {
            let TreeCommitment { live, .. } = commitment;
            let what = format!("{} bits are 1, {live} leaves are noted as live", leaves.live);
            report.found(FAMILY, "live", what);
        }
        if leaves.held != coins {
            report.found(FAMILY, "leaves", "live leaves and coins are not the same");
        }
        if leaves.taken != taken {
            report.found(FAMILY, "leaves", "spent leaves and deltas are not the same");
        }
        upper(view, report, TreeKind::Outputs, CHUNK_HEIGHT, leaves.tops)?;
        let count = chunk_count(commitment.leaves);
        live_tree(view, report, count, leaves.chunks)?;
        let outputs = read_root(view, TreeKind::Outputs, commitment.leaves)?;
        let bits = read_root(view, TreeKind::Live, count)?;
        let point = self.cursor.point();
        let head = head(self.network, point, &commitment);
        if head.root(&outputs, &bits) != commitment.root {
            report.found(FAMILY, "root", "is not that of the trees");
        }
        Ok(())
    }

    /// Nothing lies beyond the last leaf.
    fn bounds(&mut self, commitment: &TreeCommitment) -> Result<(), StoreError> {
        let leaves = commitment.leaves;
        self.each(FAMILY, |_, report, key, _| {
            let node = NodeKey::decode(key).map_err(StoreError::key(FAMILY.name(), key))?;
            let count = match node.tree {
                TreeKind::Outputs => leaves,
                TreeKind::Live | TreeKind::Bits => chunk_count(leaves),
            };
            let is_there = node.tree != TreeKind::Bits || node.height == 0;
            if !is_there || !tree::exists(count, (node.height, node.index)) {
                report.found(FAMILY, node, "lies beyond the last leaf");
            }
            Ok(())
        })
    }

    /// Deltas follow each other; returns the leaves that they took.
    fn rewinds(&mut self, commitment: &TreeCommitment) -> Result<SetSum, StoreError> {
        let Self { view, report, horizon, .. } = self;
        let (mut sum, mut last) = (SetSum::default(), None);
        view.scan_all(ColumnFamily::Delta, |key, value| {
            let family = ColumnFamily::Delta;
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family.name(), key))?;
            let delta = decode_delta(value).map_err(StoreError::value(family.name(), key))?;
            let Some(rewind) = &delta.rewind else {
                report.found(family, ordinal, "has no leaves");
                return Ok(());
            };
            rewind.taken().for_each(|leaf| taken(&mut sum, leaf));
            if ordinal <= horizon.floor {
                return Ok(());
            }
            if last.is_some_and(|last| last != (rewind.first, rewind.before)) {
                report.found(family, ordinal, "does not start where the delta before it ends");
            }
            last = Some((rewind.first + delta.created.len() as u64, rewind.after));
            spent_leaves(view, report, &delta)
        })?;
        if last.is_some_and(|last| last != (commitment.leaves, commitment.root)) {
            report.found(ColumnFamily::Delta, "the last", "does not end at the root");
        }
        Ok(sum)
    }

    /// Goes through all chunks.
    fn leaves(&mut self, commitment: &TreeCommitment) -> Result<LeafSums, StoreError> {
        let Self { view, report, .. } = self;
        let mut leaves = LeafSums::default();
        for number in 0..chunk_count(commitment.leaves) {
            let key = NodeKey { tree: TreeKind::Bits, height: 0, index: number }.encode();
            let Some(value) = view.get(FAMILY, &key)? else {
                report.found(FAMILY, number, "the bits are missing");
                continue;
            };
            let bits = Bits::decode(&key, &value)?;
            let first = number * CHUNK_LEAVES;
            let count = (commitment.leaves - first).min(CHUNK_LEAVES);
            for leaf in 0..CHUNK_LEAVES {
                match (bits.is_live(leaf), bits.is_settled(leaf)) {
                    (true, true) => report.found(FAMILY, first + leaf, "is both live and settled"),
                    (true, _) | (_, true) if leaf >= count => {
                        report.found(FAMILY, first + leaf, "has a bit beyond the last leaf");
                    }
                    (false, false) if leaf < count => taken(&mut leaves.taken, first + leaf),
                    _ => {}
                }
            }
            leaves.live += bits.count_live();
            leaves.chunks.push((number, bits.hash(number)));
            ChunkCheck { view, report, number, count, bits: &bits }.check(&mut leaves)?;
        }
        Ok(leaves)
    }
}

/// The nodes above one chunk of leaves.
struct ChunkCheck<'a, 'v> {
    view: &'a View<'v>,
    report: &'a mut VerifyReport,
    number: u64,
    /// Leaves in it.
    count: u64,
    bits: &'a Bits,
}

impl ChunkCheck<'_, '_> {
    fn check(&mut self, leaves: &mut LeafSums) -> Result<(), StoreError> {
        let full = FullNodes::of(&self.bits.settled);
        let mut below: Vec<Option<Hash>> = Vec::new();
        for height in 0..=CHUNK_HEIGHT {
            let first = self.number << (CHUNK_HEIGHT - height);
            let nodes = self.nodes(height, first)?;
            for (within, node) in (0_u64..).zip(&nodes) {
                let pruned = height < CHUNK_HEIGHT && full.has(height + 1, within >> 1);
                if node.is_some() == pruned {
                    let what = if pruned { "should have been pruned" } else { "is missing" };
                    self.report.found(FAMILY, outputs_node(height, first + within), what);
                }
            }
            for (within, pair) in (0_u64..).zip(below.chunks_exact(2)) {
                if let ([Some(left), Some(right)], Some(Some(node))) =
                    (pair, nodes.get(usize::try_from(within).unwrap_or(0)))
                    && Domain::OUTPUTS.node(height, first + within, left, right) != *node
                {
                    let what = "is not made of its children";
                    self.report.found(FAMILY, outputs_node(height, first + within), what);
                }
            }
            if height == 0 {
                let live = (first..).zip(&nodes).filter(|(leaf, _)| self.bits.is_live(*leaf));
                live.for_each(|(leaf, node)| {
                    held(&mut leaves.held, leaf, &node.unwrap_or_default());
                });
            }
            below = nodes;
        }
        if self.count == CHUNK_LEAVES {
            leaves.tops.push(below.first().copied().flatten().unwrap_or_default());
        }
        Ok(())
    }

    /// The nodes of a height, as far as they should be there.
    fn nodes(&self, height: u8, first: u64) -> Result<Vec<Option<Hash>>, StoreError> {
        let count = self.count >> height;
        let mut nodes = vec![None; usize::try_from(count).unwrap_or(0)];
        let low = NodeKey { tree: TreeKind::Outputs, height, index: first }.encode();
        let high = NodeKey { tree: TreeKind::Outputs, height, index: first + count }.encode();
        self.view.scan(&ScanRange::sweep(FAMILY, &low, &high), |key, value| {
            let node = NodeKey::decode(key).map_err(StoreError::key(FAMILY.name(), key))?;
            let within = usize::try_from(node.index - first).unwrap_or(usize::MAX);
            if let Some(slot) = nodes.get_mut(within) {
                *slot = value.try_into().ok();
            }
            Ok(true)
        })?;
        Ok(nodes)
    }
}

/// Nodes above some, each made of two.
fn upper(
    view: &View<'_>,
    report: &mut VerifyReport,
    tree: TreeKind,
    height: u8,
    nodes: Vec<Hash>,
) -> Result<(), StoreError> {
    let (mut height, mut below) = (height, nodes);
    while below.len() > 1 {
        height += 1;
        let pairs = (0_u64..).zip(below.as_chunks::<2>().0);
        let made: Vec<Hash> = pairs
            .map(|(index, [left, right])| Domain::OUTPUTS.node(height, index, left, right))
            .collect();
        for (index, node) in (0_u64..).zip(&made) {
            stored(view, report, NodeKey { tree, height, index }, node)?;
        }
        below = made;
    }
    Ok(())
}

/// The second tree, rebuilt.
fn live_tree(
    view: &View<'_>,
    report: &mut VerifyReport,
    count: u64,
    chunks: Vec<(u64, Hash)>,
) -> Result<(), StoreError> {
    // A missing chunk has been reported; a tree with a gap would only blame every node.
    if chunks.len() as u64 != count {
        return Ok(());
    }
    let (mut made, tree) = (Vec::new(), TreeKind::Live);
    // Every leaf is given, so nothing is asked for.
    let nothing = |_| Err(StoreError::MissingFamily(FAMILY.name()));
    tree::update(Domain::LIVE, count, chunks, nothing, |node, hash| made.push((node, hash)))?;
    for ((height, index), hash) in made {
        stored(view, report, NodeKey { tree, height, index }, &hash)?;
    }
    Ok(())
}

fn outputs_node(height: u8, index: u64) -> NodeKey {
    NodeKey { tree: TreeKind::Outputs, height, index }
}

fn stored(
    view: &View<'_>,
    report: &mut VerifyReport,
    key: NodeKey,
    expected: &Hash,
) -> Result<(), StoreError> {
    match view.get(FAMILY, &key.encode())? {
        Some(found) if found == expected => {}
        Some(_) => report.found(FAMILY, key, "is not made of what is below it"),
        None => report.found(FAMILY, key, "is missing"),
    }
    Ok(())
}

/// The leaves that a block took are those of its coins.
fn spent_leaves(
    view: &View<'_>,
    report: &mut VerifyReport,
    delta: &StoredDelta,
) -> Result<(), StoreError> {
    let leaves = delta.rewind.iter().flat_map(|rewind| &rewind.spent);
    for (spent, leaf) in delta.spent.iter().zip(leaves) {
        let (outpoint, record) = (spent.outpoint, encode_record(&spent.record));
        let expected = hash::output(*leaf, &outpoint.tx.0, outpoint.index, &record);
        let key = NodeKey { tree: TreeKind::Outputs, height: 0, index: *leaf };
        stored(view, report, key, &expected)?;
    }
    Ok(())
}
