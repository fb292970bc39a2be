//! A tree of block headers that knows which branch carries the most work.
//!
//! Folders of block files hold stale blocks and hold them in any order. Feed every header in, then
//! ask for the best branch. A header whose ancestors are unknown waits until they arrive.

use std::collections::HashMap;

use crate::{BlockHash, chain::Work};

/// One header as the tree sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Node {
    parent: BlockHash,
    work: Work,
}

/// Headers by hash.
#[derive(Clone, Debug, Default)]
pub struct HeaderTree {
    nodes: HashMap<BlockHash, Node>,
    order: Vec<BlockHash>,
}

/// The branch with the most work, oldest block first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    /// The block below the first: the root the branch was asked for, or an unknown parent.
    pub base: BlockHash,
    /// Hashes from the first block above `base` to the tip.
    pub blocks: Vec<BlockHash>,
    /// Work of those blocks together.
    pub work: Work,
}

impl HeaderTree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header; a repeat changes nothing.
    pub fn insert(&mut self, hash: BlockHash, parent: BlockHash, work: Work) {
        if self.nodes.insert(hash, Node { parent, work }).is_none() {
            self.order.push(hash);
        }
    }

    /// How many headers are known.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Every base a branch starts from (a parent that is not in the tree itself) with the best
    /// branch on it, in order of first arrival. Among equals the tip that arrived first wins.
    pub fn best_branches(&self) -> Vec<Branch> {
        let totals = self.totals();
        let mut best: Vec<(BlockHash, BlockHash, Work)> = Vec::new();
        let mut place: HashMap<BlockHash, usize> = HashMap::new();
        for hash in &self.order {
            let Some(&(base, total)) = totals.get(hash) else { continue };
            let at = *place.entry(base).or_insert(best.len());
            match best.get_mut(at) {
                Some(entry) if total > entry.2 => *entry = (base, *hash, total),
                Some(_) => {}
                None => best.push((base, *hash, total)),
            }
        }
        best.into_iter().map(|(base, tip, work)| self.branch(base, tip, work)).collect()
    }

    /// Base and accumulated work of every header, computed without recursion.
    fn totals(&self) -> HashMap<BlockHash, (BlockHash, Work)> {
        let mut totals: HashMap<BlockHash, (BlockHash, Work)> = HashMap::new();
        for start in &self.order {
            let mut path = Vec::new();
            let mut at = *start;
            // A header can't name itself as an ancestor without breaking the hash; the length
            // check keeps a forged loop from running for ever.
            while let Some(node) = self.nodes.get(&at) {
                if totals.contains_key(&at) || path.len() > self.nodes.len() {
                    break;
                }
                path.push((at, node));
                at = node.parent;
            }
            let (base, mut sum) = totals.get(&at).copied().unwrap_or((at, Work::default()));
            for (hash, node) in path.into_iter().rev() {
                sum = sum.checked_add(node.work).unwrap_or(sum);
                totals.insert(hash, (base, sum));
            }
        }
        totals
    }

    fn branch(&self, base: BlockHash, tip: BlockHash, work: Work) -> Branch {
        let mut blocks = Vec::new();
        let mut at = tip;
        while let Some(node) = self.nodes.get(&at).filter(|_| blocks.len() < self.nodes.len()) {
            blocks.push(at);
            at = node.parent;
        }
        blocks.reverse();
        Branch { base, blocks, work }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u8) -> BlockHash {
        BlockHash([n; 32])
    }

    fn work(n: u8) -> Work {
        let mut bytes = [0; 32];
        bytes[31] = n;
        Work(bytes)
    }

    #[test]
    fn the_branch_with_most_work_wins_in_any_order() {
        // 1 - 2 - 3 (work 1 each) against 1 - 4 (work 5)
        let headers = [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 1, 5)];
        for rotation in 0..headers.len() {
            let mut tree = HeaderTree::new();
            for i in 0..headers.len() {
                let (block, parent, w) = headers[(i + rotation) % headers.len()];
                tree.insert(hash(block), hash(parent), work(w));
            }
            let branches = tree.best_branches();
            assert_eq!(branches.len(), 1);
            assert_eq!(branches[0].base, hash(0));
            assert_eq!(branches[0].blocks, [hash(1), hash(4)]);
            assert_eq!(branches[0].work, work(6));
        }
    }

    #[test]
    fn the_first_of_equals_stays() {
        let mut tree = HeaderTree::new();
        for (block, parent) in [(1, 0), (2, 1), (3, 1)] {
            tree.insert(hash(block), hash(parent), work(1));
        }
        assert_eq!(tree.best_branches()[0].blocks, [hash(1), hash(2)]);
    }

    #[test]
    fn branches_on_different_bases_stand_apart() {
        let mut tree = HeaderTree::new();
        tree.insert(hash(2), hash(1), work(1));
        tree.insert(hash(9), hash(8), work(1));
        let bases: Vec<_> = tree.best_branches().iter().map(|b| b.base).collect();
        assert_eq!(bases, [hash(1), hash(8)]);
    }

    #[test]
    fn a_forged_loop_ends() {
        let mut tree = HeaderTree::new();
        tree.insert(hash(1), hash(2), work(1));
        tree.insert(hash(2), hash(1), work(1));
        assert!(tree.best_branches().iter().all(|b| b.blocks.len() <= 2));
    }
}
