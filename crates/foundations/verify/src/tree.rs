//! A Merkle mountain range: perfect trees over 2^h leaves each, the largest first.
//!
//! A node is named by its height (leaves: 0) and its index at that height, so it never moves. It
//! exists once both its children do: at height h there are `leaves >> h` nodes. The peaks are those
//! that have no parent, one for each bit of the number of leaves.
//!
//! ```text
//! height 2        0
//!              /     \
//! height 1    0       1       2          7 leaves: 4 + 2 + 1
//!            / \     / \     / \         peaks: (2, 0), (1, 2), (0, 6)
//! leaves    0   1   2   3   4   5   6
//! ```

use alloc::{collections::BTreeMap, vec::Vec};

use crate::hash::{Domain, Hash};

/// A node's height and its index at that height.
pub type Node = (u8, u64);

/// The peaks over so many leaves, the highest first.
pub fn peaks(leaves: u64) -> impl Iterator<Item = Node> {
    let heights = (0..64_u8).rev().filter(move |height| leaves >> height & 1 == 1);
    // Everything above a peak's own bit lies to its left.
    heights.map(move |height| (height, (leaves >> height) - 1))
}

fn is_peak(leaves: u64, (height, index): Node) -> bool {
    leaves >> height & 1 == 1 && index + 1 == leaves >> height
}

/// Whether a node is there over so many leaves.
pub fn exists(leaves: u64, (height, index): Node) -> bool {
    height < 64 && index < leaves >> height
}

/// Changes leaves and every node above them. `touched` holds leaves in ascending order, new ones
/// and changed ones; nodes that are needed and not touched come from `get`, changed ones go to
/// `put`, the leaves too. Returns the root.
///
/// # Errors
///
/// Whatever `get` says.
pub fn update<E>(
    domain: Domain,
    leaves: u64,
    touched: Vec<(u64, Hash)>,
    mut get: impl FnMut(Node) -> Result<Hash, E>,
    mut put: impl FnMut(Node, Hash),
) -> Result<Hash, E> {
    let mut tops = BTreeMap::new();
    let mut level = touched;
    for height in 0..64_u8 {
        for (index, hash) in &level {
            put((height, *index), *hash);
            // Only peaks are asked for again: one for each height at most.
            if is_peak(leaves, (height, *index)) {
                tops.insert((height, *index), *hash);
            }
        }
        let parents = leaves.checked_shr(u32::from(height) + 1).unwrap_or(0);
        level = domain.nodes(height + 1, &above(height, parents, &level, &mut get)?);
        if level.is_empty() && parents == 0 {
            break;
        }
    }
    let peaks = peaks(leaves).map(|peak| tops.get(&peak).map_or_else(|| get(peak), |top| Ok(*top)));
    Ok(domain.bag(leaves, &peaks.collect::<Result<Vec<_>, E>>()?))
}

/// The parents of changed nodes, as far as they exist, with both their children.
fn above<E>(
    height: u8,
    parents: u64,
    level: &[(u64, Hash)],
    get: &mut impl FnMut(Node) -> Result<Hash, E>,
) -> Result<Vec<(u64, [Hash; 2])>, E> {
    let mut made = Vec::with_capacity(level.len() / 2 + 1);
    let mut rest = level;
    while let Some(((index, hash), after)) = rest.split_first() {
        rest = after;
        let parent = index >> 1;
        if parent >= parents {
            break;
        }
        let both = match (index & 1, after.first()) {
            (0, Some((next, right))) if *next == index + 1 => {
                rest = after.get(1..).unwrap_or_default();
                [*hash, *right]
            }
            (0, _) => [*hash, get((height, index + 1))?],
            _ => [get((height, index - 1))?, *hash],
        };
        made.push((parent, both));
    }
    Ok(made)
}

/// Nodes that lead from some leaves to all peaks, in the order in which [`climb`] takes them.
/// `known` is in ascending order, without repeats.
pub fn needed(leaves: u64, known: &[u64]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for peak in peaks(leaves) {
        down(peak, known, &mut |node| nodes.push(node));
    }
    nodes
}

fn down(node: Node, known: &[u64], need: &mut impl FnMut(Node)) {
    let (height, index) = node;
    let below = within(node, known, |leaf| *leaf);
    if below.is_empty() {
        need(node);
    } else if let Some(lower) = height.checked_sub(1) {
        down((lower, 2 * index), below, need);
        down((lower, 2 * index + 1), below, need);
    }
}

/// The leaves below a node, out of those in ascending order.
fn within<T>((height, index): Node, known: &[T], place: impl Fn(&T) -> u64) -> &[T] {
    let first = known.partition_point(|leaf| place(leaf) >> height < index);
    let end = known.partition_point(|leaf| place(leaf) >> height <= index);
    known.get(first..end).unwrap_or_default()
}

/// The root that known leaves and given nodes lead to; `None` when there are too few nodes, or too
/// many. `known` is in ascending order, without repeats, and below `leaves`.
pub fn climb(domain: Domain, leaves: u64, known: &[(u64, Hash)], given: &[Hash]) -> Option<Hash> {
    let mut given = given.iter();
    let up = |peak| reach(domain, peak, known, &mut given);
    let peaks = peaks(leaves).map(up).collect::<Option<Vec<_>>>()?;
    given.next().is_none().then(|| domain.bag(leaves, &peaks))
}

fn reach<'a>(
    domain: Domain,
    node: Node,
    known: &[(u64, Hash)],
    given: &mut impl Iterator<Item = &'a Hash>,
) -> Option<Hash> {
    let (height, index) = node;
    let below = within(node, known, |(leaf, _)| *leaf);
    let Some((_, hash)) = below.first() else { return given.next().copied() };
    let Some(lower) = height.checked_sub(1) else { return Some(*hash) };
    let left = reach(domain, (lower, 2 * index), below, given)?;
    let right = reach(domain, (lower, 2 * index + 1), below, given)?;
    Some(domain.node(height, index, &left, &right))
}

/// A whole tree in memory: for tests, and for those who keep small sets.
#[derive(Clone, Debug)]
pub struct Forest {
    leaves: u64,
    nodes: BTreeMap<Node, Hash>,
    root: Hash,
}

impl Forest {
    /// The tree of outputs, by the hashes of its leaves.
    pub fn outputs(leaves: &[Hash]) -> Self {
        Self::new(Domain::OUTPUTS, leaves)
    }

    /// The tree of live bits, by the hashes of its chunks.
    pub fn live(chunks: &[Hash]) -> Self {
        Self::new(Domain::LIVE, chunks)
    }

    fn new(domain: Domain, leaves: &[Hash]) -> Self {
        let mut nodes = BTreeMap::new();
        let count = leaves.len() as u64;
        let touched = (0..count).zip(leaves.iter().copied()).collect();
        // Every leaf is touched, so nothing is ever asked for.
        let nothing = |_| Ok::<_, core::convert::Infallible>([0; 32]);
        let built = update(domain, count, touched, nothing, |node, hash| {
            nodes.insert(node, hash);
        });
        let root = match built {
            Ok(root) => root,
            Err(never) => match never {},
        };
        Self { leaves: count, nodes, root }
    }

    /// The root over all peaks.
    pub fn root(&self) -> Hash {
        self.root
    }

    /// What a proof of some leaves needs; `known` is in ascending order, without repeats.
    pub fn nodes_for(&self, known: &[u64]) -> Vec<Hash> {
        let needed = needed(self.leaves, known).into_iter();
        needed.filter_map(|node| self.nodes.get(&node).copied()).collect()
    }
}
