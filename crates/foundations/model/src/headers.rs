//! A tree of block headers that knows which branch carries the most work.
//!
//! Folders of block files hold stale blocks and hold them in any order. Feed every header in, then
//! ask for the best branch. A header whose ancestors are unknown waits until they arrive.
//!
//! A main network has a million headers, which must fit beside everything else: a header takes 40
//! bytes and its place in the index by hash about 8. Parents are kept as numbers; a parent that has
//! been named but not seen has a number already. The work of a header changes every two weeks, so
//! it is kept once.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use crate::{BlockHash, chain::Work};

/// A header's place in the tree, in the order in which headers came or were named as parents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HeaderId(u32);

impl HeaderId {
    /// The place as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One header, or one that has only been named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Node {
    hash: BlockHash,
    /// Number of the parent; means nothing while the header is absent.
    parent: u32,
    /// Number of its work, or [`ABSENT`].
    work: u32,
}

/// The work of a header that has been named as a parent and not been seen.
const ABSENT: u32 = u32::MAX;
/// An empty place of the index.
const EMPTY: u32 = u32::MAX;
/// Places of the smallest index; a power of two.
const SMALLEST_INDEX: usize = 16;

/// Nodes of one page.
const PAGE: usize = 1 << 14;

/// Nodes by number, in pages that never move: one list would be in memory twice whenever it grows.
#[derive(Clone, Debug, Default)]
struct Nodes {
    /// All full but the last.
    pages: Vec<Vec<Node>>,
}

impl Nodes {
    fn len(&self) -> usize {
        let last = self.pages.last().map_or(PAGE, Vec::len);
        self.pages.len() * PAGE + last - PAGE
    }

    fn get(&self, at: usize) -> Option<&Node> {
        self.pages.get(at / PAGE)?.get(at % PAGE)
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut Node> {
        self.pages.get_mut(at / PAGE)?.get_mut(at % PAGE)
    }

    fn push(&mut self, node: Node) {
        match self.pages.last_mut().filter(|page| page.len() < PAGE) {
            Some(page) => page.push(node),
            None => {
                let mut page = Vec::with_capacity(PAGE);
                page.push(node);
                self.pages.push(page);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Node> {
        self.pages.iter().flatten()
    }
}

/// Headers by hash.
#[derive(Clone, Debug, Default)]
pub struct HeaderTree {
    nodes: Nodes,
    /// Numbers of nodes by their hashes, with open addressing; a power of two.
    index: Vec<u32>,
    hasher: RandomState,
    works: Vec<Work>,
    work_numbers: HashMap<Work, u32>,
    present: usize,
}

/// The branch with the most work, oldest block first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    /// The block below the first: the root the branch was asked for, or an unknown parent.
    pub base: BlockHash,
    /// From the first block above `base` to the tip.
    pub blocks: Vec<HeaderId>,
    /// Work of those blocks together.
    pub work: Work,
}

/// A stretch of headers without a fork between them.
#[derive(Clone, Copy)]
struct Stretch {
    /// What stands below: another stretch's head, or an absent header.
    below: u32,
    work: Work,
}

impl HeaderTree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header; a repeat changes nothing. `None` when there is no room for 2^32 of them.
    pub fn insert(&mut self, hash: BlockHash, parent: BlockHash, work: Work) -> Option<HeaderId> {
        let number = self.number(hash)?;
        if self.node(number).is_some_and(|node| node.work != ABSENT) {
            return Some(HeaderId(number));
        }
        let parent = self.number(parent)?;
        let next = u32::try_from(self.works.len()).ok().filter(|next| *next < ABSENT)?;
        let work = *self.work_numbers.entry(work).or_insert_with(|| {
            self.works.push(work);
            next
        });
        let node = self.nodes.get_mut(number as usize)?;
        (node.parent, node.work) = (parent, work);
        self.present += 1;
        Some(HeaderId(number))
    }

    /// How many headers are known.
    pub fn len(&self) -> usize {
        self.present
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The header with this hash.
    pub fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        let number = self.lookup(hash).ok()?;
        self.node(number).filter(|node| node.work != ABSENT).map(|_| HeaderId(number))
    }

    /// The hash of a header of this tree.
    pub fn hash(&self, id: HeaderId) -> Option<BlockHash> {
        self.node(id.0).map(|node| node.hash)
    }

    /// The hash of a header's parent.
    pub fn parent(&self, id: HeaderId) -> Option<BlockHash> {
        let parent = self.node(id.0).filter(|node| node.work != ABSENT)?.parent;
        self.node(parent).map(|node| node.hash)
    }

    /// The work of a header alone.
    pub fn work(&self, id: HeaderId) -> Option<Work> {
        self.node(id.0).and_then(|node| self.works.get(node.work as usize)).copied()
    }

    /// Every header.
    pub fn ids(&self) -> impl Iterator<Item = HeaderId> {
        let present = (0_u32..).zip(self.nodes.iter()).filter(|(_, node)| node.work != ABSENT);
        present.map(|(number, _)| HeaderId(number))
    }

    /// Every base a branch starts from (a parent that is not in the tree itself) with the best
    /// branch on it, in the order in which their first tips arrived. Among equals the tip that
    /// arrived first wins.
    pub fn best_branches(&self) -> Vec<Branch> {
        let children = self.count_children();
        let stretches = self.stretches(&children);
        let mut totals = HashMap::new();
        let mut best: Vec<(u32, u32, Work)> = Vec::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        for (number, count) in (0_u32..).zip(&children) {
            if *count > 0 || !stretches.contains_key(&number) {
                continue;
            }
            let (base, total) = total(number, &stretches, &mut totals);
            let at = *places.entry(base).or_insert(best.len());
            match best.get_mut(at) {
                Some(entry) if total > entry.2 => *entry = (base, number, total),
                Some(_) => {}
                None => best.push((base, number, total)),
            }
        }
        best.into_iter().filter_map(|(base, tip, work)| self.branch(base, tip, work)).collect()
    }

    fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number as usize)
    }

    /// How many headers stand on each: none, one, or more.
    fn count_children(&self) -> Vec<u8> {
        let mut children = vec![0_u8; self.nodes.len()];
        for node in self.nodes.iter().filter(|node| node.work != ABSENT) {
            if let Some(count) = children.get_mut(node.parent as usize) {
                // None, one and more are told apart, and no more than that.
                *count = count.saturating_add(1);
            }
        }
        children
    }

    /// The stretches by their heads: tips, and headers on which several others stand. There are as
    /// many of them as forks, which is why work is added up over stretches and not by header.
    fn stretches(&self, children: &[u8]) -> HashMap<u32, Stretch> {
        let is_head = |number: u32| children.get(number as usize).is_none_or(|count| *count != 1);
        let heads = self.ids().map(|id| id.0).filter(|number| is_head(*number));
        let stretches = heads.map(|head| {
            let (mut at, mut work) = (head, Work::default());
            // A header can't be its own ancestor without breaking the hash; the bound keeps a
            // forged loop from running for ever.
            for _ in 0..self.nodes.len() {
                let Some(alone) = self.work(HeaderId(at)) else { break };
                work = work.checked_add(alone).unwrap_or(work);
                at = self.node(at).map_or(at, |node| node.parent);
                if is_head(at) {
                    break;
                }
            }
            (head, Stretch { below: at, work })
        });
        stretches.collect()
    }

    fn branch(&self, base: u32, tip: u32, work: Work) -> Option<Branch> {
        let present = |at: u32| self.node(at).filter(|node| node.work != ABSENT);
        let down = || std::iter::successors(Some(tip), |at| present(*at).map(|node| node.parent));
        // Counted first: a list that grows is in memory twice. The bound is for forged loops.
        let length = down().take_while(|at| present(*at).is_some()).take(self.nodes.len() + 1);
        let length = Some(length.count()).filter(|length| *length <= self.nodes.len())?;
        let mut blocks = Vec::with_capacity(length);
        blocks.extend(down().take(length).map(HeaderId));
        blocks.reverse();
        Some(Branch { base: self.node(base)?.hash, blocks, work })
    }

    /// The number of a hash, given now if it had none.
    fn number(&mut self, hash: BlockHash) -> Option<u32> {
        // At most two thirds full.
        if self.nodes.len() * 3 >= self.index.len() * 2 {
            self.grow();
        }
        match self.lookup(&hash) {
            Ok(number) => Some(number),
            Err(place) => {
                let number = u32::try_from(self.nodes.len()).ok().filter(|n| *n != EMPTY)?;
                self.nodes.push(Node { hash, parent: number, work: ABSENT });
                *self.index.get_mut(place)? = number;
                Some(number)
            }
        }
    }

    /// The number of a hash, or the place where it would stand.
    fn lookup(&self, hash: &BlockHash) -> Result<u32, usize> {
        let mask = self.index.len().wrapping_sub(1);
        let mut place = self.spread(hash) & mask;
        // The index is never full.
        while let Some(number) = self.index.get(place).filter(|number| **number != EMPTY) {
            if self.node(*number).is_some_and(|node| node.hash == *hash) {
                return Ok(*number);
            }
            place = (place + 1) & mask;
        }
        Err(place)
    }

    /// Truncation is fine: a place is taken from the low bits.
    #[allow(clippy::cast_possible_truncation)]
    fn spread(&self, hash: &BlockHash) -> usize {
        self.hasher.hash_one(hash.0) as usize
    }

    fn grow(&mut self) {
        let size = (self.index.len() * 2).max(SMALLEST_INDEX);
        // The old one goes first: both together would be the most memory that headers ever take.
        self.index = Vec::new();
        self.index = vec![EMPTY; size];
        for (number, node) in (0_u32..).zip(self.nodes.iter()) {
            if let Err(place) = self.lookup(&node.hash)
                && let Some(slot) = self.index.get_mut(place)
            {
                *slot = number;
            }
        }
    }
}

/// Base and accumulated work of a stretch's head, without recursion.
fn total(
    head: u32,
    stretches: &HashMap<u32, Stretch>,
    totals: &mut HashMap<u32, (u32, Work)>,
) -> (u32, Work) {
    let mut path = Vec::new();
    let mut at = head;
    while let Some(stretch) = stretches.get(&at) {
        if totals.contains_key(&at) || path.len() > stretches.len() {
            break;
        }
        path.push((at, stretch));
        at = stretch.below;
    }
    let (base, mut sum) = totals.get(&at).copied().unwrap_or((at, Work::default()));
    for (head, stretch) in path.into_iter().rev() {
        sum = sum.checked_add(stretch.work).unwrap_or(sum);
        totals.insert(head, (base, sum));
    }
    (base, sum)
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

    fn hashes(tree: &HeaderTree, branch: &Branch) -> Vec<BlockHash> {
        branch.blocks.iter().map(|id| tree.hash(*id).unwrap()).collect()
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
            assert_eq!(hashes(&tree, &branches[0]), [hash(1), hash(4)]);
            assert_eq!(branches[0].work, work(6));
        }
    }

    #[test]
    fn the_first_of_equals_stays() {
        let mut tree = HeaderTree::new();
        for (block, parent) in [(1, 0), (2, 1), (3, 1)] {
            tree.insert(hash(block), hash(parent), work(1));
        }
        assert_eq!(hashes(&tree, &tree.best_branches()[0]), [hash(1), hash(2)]);
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
        for (block, parent) in [(1, 2), (2, 1), (3, 1), (4, 4), (5, 4)] {
            tree.insert(hash(block), hash(parent), work(1));
        }
        assert!(tree.best_branches().iter().all(|b| b.blocks.len() <= 5));
    }

    #[test]
    fn a_header_that_was_only_named_is_not_there() {
        let mut tree = HeaderTree::new();
        let first = tree.insert(hash(2), hash(1), work(3)).unwrap();
        assert_eq!(tree.insert(hash(2), hash(7), work(9)), Some(first), "a repeat");
        assert_eq!((tree.len(), tree.find(&hash(1)), tree.find(&hash(2))), (1, None, Some(first)));
        assert_eq!((tree.parent(first), tree.work(first)), (Some(hash(1)), Some(work(3))));
        assert_eq!(tree.ids().collect::<Vec<_>>(), [first]);
        tree.insert(hash(1), hash(0), work(3));
        assert!(tree.find(&hash(1)).is_some());
        assert_eq!(hashes(&tree, &tree.best_branches()[0]), [hash(1), hash(2)]);
    }

    /// Forks upon forks, against the sum of each tip's ancestors.
    #[test]
    fn work_adds_up_over_forks() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let name = |n: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            BlockHash(bytes)
        };
        let mut headers = Vec::new();
        for n in 1..2_000_u64 {
            let parent = if next(10) == 0 { next(n) } else { n - 1 };
            headers.push((n, parent, u8::try_from(1 + next(3)).unwrap()));
        }
        let mut sums = vec![0_u64];
        for (_, parent, w) in &headers {
            sums.push(sums[usize::try_from(*parent).unwrap()] + u64::from(*w));
        }
        for at in (1..headers.len()).rev() {
            headers.swap(at, usize::try_from(next(at as u64 + 1)).unwrap());
        }
        let mut tree = HeaderTree::new();
        for (n, parent, w) in headers {
            tree.insert(name(n), name(parent), work(w));
        }
        let branches = tree.best_branches();
        assert_eq!((branches.len(), branches[0].base), (1, name(0)));
        let found = u64::from_be_bytes(branches[0].work.0[24..].try_into().unwrap());
        assert_eq!(found, *sums.iter().max().unwrap());
        let mut below = name(0);
        for id in &branches[0].blocks {
            assert_eq!(tree.parent(*id), Some(below));
            below = tree.hash(*id).unwrap();
        }
    }

    #[test]
    fn a_chain_of_several_pages_is_found_whole() {
        let name = |n: usize| {
            let mut bytes = [1; 32];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            BlockHash(bytes)
        };
        let (count, mut tree) = (2 * PAGE + 2, HeaderTree::new());
        for n in 1..=count {
            assert!(tree.insert(name(n), name(n - 1), work(1)).is_some());
        }
        assert_eq!(tree.len(), count);
        let branch = tree.best_branches().remove(0);
        assert_eq!((branch.base, branch.blocks.len()), (name(0), count));
        for (n, id) in (1..).zip(branch.blocks) {
            assert_eq!((tree.hash(id), tree.find(&name(n))), (Some(name(n)), Some(id)));
        }
    }
}
