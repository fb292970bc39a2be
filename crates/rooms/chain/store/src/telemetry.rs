//! Counters, gauges, timers and log lines of the chain room, in one place.
//!
//! Through the `metrics` façade: whoever embeds the room installs a recorder, or none.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::{apply::CoinCounts, codec::IndexCursor, prune::Pruned};

/// Gauges that describe the set as it is.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn totals(cursor: &IndexCursor) {
    gauge!("unspent_chain_unspent_coins").set(cursor.coins as f64);
    gauge!("unspent_chain_tip_height").set(cursor.point().map_or(0, |p| p.height) as f64);
}

fn counted(counts: &CoinCounts) {
    counter!("unspent_chain_created_total").increment(counts.created as u64);
    counter!("unspent_chain_spent_total").increment(counts.spent as u64);
    counter!("unspent_chain_missing_inputs_total").increment(counts.missing as u64);
}

pub(crate) fn applied(cursor: &IndexCursor, counts: &CoinCounts, took: Duration) {
    counted(counts);
    totals(cursor);
    histogram!("unspent_chain_apply_seconds").record(took);
    if let Some(point) = cursor.point() {
        let CoinCounts { created, spent, missing, .. } = counts;
        tracing::debug!(slot = point.slot, block = point.height, created, spent, "block applied");
        if *missing > 0 {
            tracing::warn!(slot = point.slot, block = point.height, missing, "inputs not found");
        }
    }
}

pub(crate) fn flushed(cursor: &IndexCursor, blocks: usize, counts: &CoinCounts, took: Duration) {
    counted(counts);
    totals(cursor);
    histogram!("unspent_chain_flush_seconds").record(took);
    if let Some(point) = cursor.point() {
        let CoinCounts { created, spent, missing, .. } = counts;
        tracing::info!(
            slot = point.slot,
            block = point.height,
            blocks,
            created,
            spent,
            missing,
            "bulk batch flushed"
        );
    }
}

pub(crate) fn rolled_back(cursor: &IndexCursor, blocks: u64, reversals: usize, took: Duration) {
    if blocks == 0 {
        return;
    }
    counter!("unspent_chain_rollback_reversals_total").increment(reversals as u64);
    counter!("unspent_chain_rolled_back_blocks_total").increment(blocks);
    totals(cursor);
    histogram!("unspent_chain_rollback_seconds").record(took);
    let (slot, block) = cursor.point().map_or((0, 0), |point| (point.slot, point.height));
    tracing::info!(slot, block, blocks, reversals, "rolled back");
}

pub(crate) fn pruned(pruned: &Pruned, took: Duration) {
    if pruned.deltas + pruned.spends == 0 {
        return;
    }
    counter!("unspent_chain_pruned_total").increment((pruned.deltas + pruned.spends) as u64);
    histogram!("unspent_chain_prune_seconds").record(took);
    let Pruned { deltas, spends, behind } = pruned;
    tracing::debug!(deltas, spends, behind, "pruned");
}

/// How many coins an address turned out to have: one of those that each batch pays to, and whenever
/// all of an address's coins are read.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn coins_of_owner(coins: u64) {
    histogram!("unspent_chain_coins_per_address").record(coins as f64);
}
