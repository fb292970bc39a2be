//! From leaves and bits to the root of a block.
//!
//! Levels are built one after the other, over all leaves that came since the last time: one block
//! near the tip, a whole batch in bulk. Of what is on disk this needs the peaks and, for the bits,
//! the siblings along the changed paths; those are read in one sorted sweep.

use std::collections::HashMap;

use unspent_model::{Network, Point};
use unspent_verify::{
    Hash, Head,
    hash::Domain,
    tree::{self, Node, peaks},
};

use super::{
    bits::chunk_count,
    changes::{TreeBase, TreeChanges, key},
};
use crate::{
    codec::TreeCommitment, db::Get, error::StoreError, schema::ColumnFamily, schema::TreeKind,
};

/// What the root of a block is made over. Before the first block there is none: height and hash are
/// 0 then.
pub(crate) fn head(network: Network, point: Option<Point>, trees: &TreeCommitment) -> Head {
    Head {
        network: network.name().to_owned(),
        height: point.map_or(0, |point| point.height),
        block_hash: point.map_or([0; 32], |point| point.hash.0),
        leaves: trees.leaves,
        live: trees.live,
    }
}

/// A node on disk.
pub(crate) fn read_node(
    db: &impl Get,
    tree: TreeKind,
    (height, index): Node,
) -> Result<Hash, StoreError> {
    let key = key(tree, height, index);
    let absent = || StoreError::absent(ColumnFamily::MmrNodes.name(), &key);
    let value = db.get(ColumnFamily::MmrNodes, &key)?.ok_or_else(absent)?;
    value.try_into().map_err(|_| absent())
}

/// The root of one tree on disk.
pub(crate) fn read_root(db: &impl Get, tree: TreeKind, leaves: u64) -> Result<Hash, StoreError> {
    let domain = if tree == TreeKind::Live { Domain::LIVE } else { Domain::OUTPUTS };
    tree::update(domain, leaves, Vec::new(), |node| read_node(db, tree, node), |_, _| {})
}

impl TreeChanges {
    /// Brings the trees and the root up to the last block taken in, which is `point`.
    pub(crate) fn settle_root(
        &mut self,
        base: TreeBase<'_>,
        commitment: &mut TreeCommitment,
        point: Option<Point>,
    ) -> Result<(), StoreError> {
        if !self.stale {
            return Ok(());
        }
        let leaves = commitment.leaves;
        let outputs = self.build_outputs(base, leaves)?;
        let bits = self.build_live(base, leaves)?;
        commitment.root = head(base.network, point, commitment).root(&outputs, &bits);
        self.stale = false;
        Ok(())
    }

    fn build_outputs(&mut self, base: TreeBase<'_>, leaves: u64) -> Result<Hash, StoreError> {
        let first = self.built(leaves);
        let fresh = (first..).zip(std::mem::take(&mut self.fresh)).collect();
        let mut made = Vec::new();
        let get = |node| self.find(base, TreeKind::Outputs, node);
        let root =
            tree::update(Domain::OUTPUTS, leaves, fresh, get, |node, hash| made.push((node, hash)));
        let root = root?;
        made.into_iter().for_each(|(node, hash)| self.put(TreeKind::Outputs, node, hash));
        Ok(root)
    }

    fn build_live(&mut self, base: TreeBase<'_>, leaves: u64) -> Result<Hash, StoreError> {
        let touched: Vec<u64> = std::mem::take(&mut self.touched).into_iter().collect();
        let count = chunk_count(leaves);
        let known = self.siblings(base, count, &touched)?;
        let hashes = touched
            .iter()
            .filter_map(|number| self.chunk(*number).map(|bits| (*number, bits.hash(*number))));
        let hashes = hashes.collect();
        let mut made = Vec::new();
        let get = |node: Node| match known.get(&node) {
            Some(hash) => Ok(*hash),
            None => self.find(base, TreeKind::Live, node),
        };
        let root =
            tree::update(Domain::LIVE, count, hashes, get, |node, hash| made.push((node, hash)));
        let root = root?;
        made.into_iter().for_each(|(node, hash)| self.put(TreeKind::Live, node, hash));
        Ok(root)
    }

    /// Nodes beside the paths from changed chunks, as far as they are on disk alone.
    fn siblings(
        &self,
        base: TreeBase<'_>,
        count: u64,
        touched: &[u64],
    ) -> Result<HashMap<Node, Hash>, StoreError> {
        let mut wanted = beside(count, touched);
        // A node changed in memory has an older hash on disk, which would lead to a wrong root.
        wanted.retain(|node| self.ahead(base, TreeKind::Live, *node).is_none());
        let keys: Vec<_> =
            wanted.iter().map(|(height, index)| key(TreeKind::Live, *height, *index)).collect();
        let values = base.db.multi_get(ColumnFamily::MmrNodes, &keys)?;
        let found = wanted.into_iter().zip(values).filter_map(|(node, value)| {
            let hash: Hash = value?.as_ref().try_into().ok()?;
            Some((node, hash))
        });
        Ok(found.collect())
    }

    fn ahead(&self, base: TreeBase<'_>, tree: TreeKind, node: Node) -> Option<Hash> {
        let own = self.node(tree, node);
        own.or_else(|| base.frozen.and_then(|frozen| frozen.node(tree, node)))
    }

    fn find(&self, base: TreeBase<'_>, tree: TreeKind, node: Node) -> Result<Hash, StoreError> {
        let ahead = self.ahead(base, tree, node);
        ahead.map_or_else(|| read_node(base.db, tree, node), Ok)
    }
}

/// The nodes that changing some leaves needs, in key order.
fn beside(count: u64, touched: &[u64]) -> Vec<Node> {
    let mut wanted: Vec<Node> = peaks(count).collect();
    let mut level = touched.to_vec();
    for height in 0..63_u8 {
        let parents = count >> (height + 1);
        level.retain(|index| index >> 1 < parents);
        if level.is_empty() {
            break;
        }
        let siblings = level.iter().map(|index| index ^ 1);
        let missing = siblings.filter(|index| level.binary_search(index).is_err());
        wanted.extend(missing.map(|index| (height, index)));
        level.iter_mut().for_each(|index| *index >>= 1);
        level.dedup();
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}
