//! The figures of the room.

use unspent_engine::series::Series;

/// What is counted.
pub(super) const SERIES: [Series; 6] = [
    Series::gauge("unspent_engine_mempool_transactions", "Transactions in the node's mempool"),
    Series::gauge("unspent_wallet_active_leases", "Leases that hold coins"),
    Series::gauge("unspent_wallet_expired_leases", "Expired leases not yet removed"),
    Series::gauge("unspent_wallet_purge_latency_seconds", "Age of the oldest expired lease"),
    Series::gauge("unspent_wallet_table_rows", "Rows, by table").later(),
    Series::gauge("unspent_wallet_table_bytes", "Bytes, by table").later(),
];
