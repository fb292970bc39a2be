//! The figures of the room.

use unspent_engine::series::{Series, each};
use unspent_model::txstore::KEEP_REASONS;

/// What is counted.
pub(super) const SERIES: [Series; 14] = [
    Series::gauge("unspent_txstore_records", "Transactions in the store"),
    Series::gauge("unspent_txstore_unmined", "Transactions in no block"),
    Series::gauge("unspent_txstore_due_backlog", "Transactions that may be deleted now"),
    Series::gauge(
        "unspent_txstore_oldest_due_blocks",
        "Blocks by which the oldest of them is overdue",
    ),
    Series::gauge("unspent_txstore_queued", "Transactions to be looked at later"),
    Series::gauge(
        "unspent_txstore_absent_inputs",
        "Inputs whose parent transaction isn't in the store",
    ),
    Series::gauge("unspent_txstore_deleted", "Transactions deleted so far"),
    Series::gauge(
        "unspent_txstore_losers_deleted",
        "Transactions deleted so far that had lost a conflict",
    ),
    Series::gauge("unspent_txstore_bytes", "Size of the database in bytes"),
    Series::gauge("unspent_txstore_waiting", "Transactions kept for a child, by reason")
        .by(|| each("reason", WAITING)),
    Series::histogram("unspent_txstore_clean_seconds", "Duration of a cleaner pass"),
    Series::counter("unspent_txstore_cleaned_total", "Transactions that the cleaner deleted"),
    Series::counter("unspent_txstore_looked_at_total", "Transactions that the cleaner looked at"),
    Series::counter("unspent_txstore_kept_total", "Transactions that the cleaner kept, by reason")
        .by(|| each("reason", KEEP_REASONS.map(|(_, name)| name))),
];

/// Why transactions wait for a child: it is in no block, or nobody knows it.
pub(super) const WAITING: [&str; 2] = ["child_unmined", "child_unknown"];
