//! What pruning takes from the trees.
//!
//! A leaf whose spend is below the floor can't come back, and nobody can prove anything of it: its
//! record is gone. It is settled. Where all leaves below a node are settled, the node itself is
//! still needed by its neighbours, but what is below it is not.

use std::collections::BTreeMap;

use super::{
    bits::{chunk_of, superfluous},
    changes::{key, read_bits},
};
use crate::{
    db::{Batch, Db},
    error::StoreError,
    schema::{ColumnFamily, TreeKind},
};

/// Settles leaves and deletes the nodes that nobody needs any more; returns how many that are.
pub(crate) fn settle(
    db: &Db,
    batch: &mut Batch<'_>,
    mut leaves: Vec<u64>,
) -> Result<usize, StoreError> {
    leaves.sort_unstable();
    let mut numbers: Vec<u64> = leaves.iter().map(|leaf| chunk_of(*leaf)).collect();
    numbers.dedup();
    let before: BTreeMap<_, _> = read_bits(db, &numbers)?.into_iter().collect();
    let mut after = before.clone();
    for leaf in leaves {
        if let Some(bits) = after.get_mut(&chunk_of(leaf)) {
            bits.settle(leaf);
        }
    }
    let mut deleted = 0;
    for ((number, before), after) in before.iter().zip(after.values()) {
        batch.put(ColumnFamily::MmrNodes, &key(TreeKind::Bits, 0, *number), &after.encode())?;
        for (height, index) in superfluous(*number, &before.settled, &after.settled) {
            batch.delete(ColumnFamily::MmrNodes, &key(TreeKind::Outputs, height, index))?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
