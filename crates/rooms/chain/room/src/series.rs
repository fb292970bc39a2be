//! The figures of the room.

use unspent_engine::series::Series;

/// What is counted; `unspent_chain` does the counting.
pub(super) const SERIES: [Series; 14] = [
    Series::gauge("unspent_chain_tip_height", "Height of the tip"),
    Series::gauge("unspent_chain_unspent_coins", "Unspent coins"),
    Series::counter("unspent_chain_created_total", "Coins created"),
    Series::counter("unspent_chain_spent_total", "Coins spent"),
    Series::counter("unspent_chain_missing_inputs_total", "Inputs whose coin was not found"),
    Series::histogram("unspent_chain_apply_seconds", "Time to apply a block at the tip"),
    Series::histogram("unspent_chain_flush_seconds", "Time to write a batch of many blocks"),
    Series::counter("unspent_chain_rolled_back_blocks_total", "Blocks undone"),
    Series::counter("unspent_chain_rollback_reversals_total", "Coin changes undone"),
    Series::histogram("unspent_chain_rollback_seconds", "Duration of a rollback"),
    Series::counter(
        "unspent_chain_pruned_total",
        "Entries pruned because no rollback can need them",
    ),
    Series::histogram("unspent_chain_prune_seconds", "Duration of a pruning pass"),
    Series::histogram("unspent_chain_coins_per_address", "Coins found for a queried address"),
    Series::gauge("unspent_chain_disk_bytes", "Bytes on disk, by column family").later(),
];
