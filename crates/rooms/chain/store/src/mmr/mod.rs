//! The MMR store: a root for every block, and proofs that lead to it.
//!
//! Beside coins and lists it keeps the two trees of `unspent_verify`, whose hashes and arithmetic
//! are used here and nowhere repeated. What happens to them:
//!
//! | event | outputs | live bits |
//! |---|---|---|
//! | a coin is created | a leaf more | its bit is 1 |
//! | a coin is spent, or overwritten | | its bit is 0 |
//! | created and spent in one block | a leaf more | its bit is 0 from the start |
//! | the block is undone | cut back to where it began | bits of older coins are 1 again |
//! | the spend falls below the window | nodes below a subtree without other coins go | |
//!
//! Leaves are in chain order: by block, transaction, output; the coins of genesis first, by
//! outpoint. A node never changes once both its children are there, so undoing needs no old nodes:
//! a delta names the leaves that its block took, and the roots before and after it.
//!
//! | module | does |
//! |---|---|
//! | [`bits`] | 1,024 leaves: which are live, which are settled, which nodes that makes superfluous |
//! | [`changes`] | what a batch changes, over the database: blocks applied and undone |
//! | [`root`] | builds levels and works the root out |
//! | [`sweep`] | what pruning takes from the trees |
//! | [`prove`] | roots and proofs for those who ask |
//! | [`convert`] | makes trees for a folder that had none |
//!
//! Invariant: everything goes into the batch of the block; bits beyond the last leaf are 0; a node
//! is there unless its parent's leaves are all settled: spent at or before the floor.

pub(crate) mod bits;
pub(crate) mod changes;
pub(crate) mod convert;
pub(crate) mod prove;
pub(crate) mod root;
pub(crate) mod sweep;

pub(crate) use changes::{BlockLeaves, TreeBase, TreeChanges};
