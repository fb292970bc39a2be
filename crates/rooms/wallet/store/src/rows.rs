//! Columns that many answers share. A row is read by name, in a reader of its own that stands
//! beside the statements it belongs to.

use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    wallet::{LockId, TxStatus},
};
use unspent_sql::{Row, SqlError};

/// The transaction named in a column.
pub(crate) fn txid(row: &Row, column: &str) -> Result<TxId, SqlError> {
    Ok(TxId(row.hash(column)?))
}

/// The transaction named in a column, or none.
pub(crate) fn opt_txid(row: &Row, column: &str) -> Result<Option<TxId>, SqlError> {
    Ok(row.opt_hash(column)?.map(TxId))
}

/// One of our coins: `tx_hash` made it, as output `output_index`.
pub(crate) fn coin(row: &Row) -> Result<Outpoint, SqlError> {
    Ok(Outpoint::new(txid(row, "tx_hash")?, row.index("output_index")?))
}

/// The output that an input spends: `prev_tx_hash` and `prev_output_index`.
pub(crate) fn prevout(row: &Row) -> Result<Outpoint, SqlError> {
    Ok(Outpoint::new(txid(row, "prev_tx_hash")?, row.index("prev_output_index")?))
}

/// A stored block: `block_height` and `header_hash`.
pub(crate) fn block(row: &Row) -> Result<Point, SqlError> {
    Ok(Point::at_height(row.natural("block_height")?, BlockHash(row.hash("header_hash")?)))
}

/// How far a wallet was scanned: `scanned_height` and `scanned_hash`, both or neither.
pub(crate) fn scanned(row: &Row) -> Result<Option<Point>, SqlError> {
    let point = (row.opt_natural("scanned_height")?, row.opt_hash("scanned_hash")?);
    Ok(if let (Some(height), Some(hash)) = point {
        Some(Point::at_height(height, BlockHash(hash)))
    } else {
        None
    })
}

/// The transaction's status.
pub(crate) fn status(row: &Row) -> Result<TxStatus, SqlError> {
    known_status(&row.text("status")?)
}

/// A status by its name.
pub(crate) fn known_status(text: &str) -> Result<TxStatus, SqlError> {
    text.parse().map_err(|_| SqlError::Damaged { what: format!("unknown status `{text}`") })
}

/// Whoever holds a lease.
pub(crate) fn lock(row: &Row, column: &str) -> Result<LockId, SqlError> {
    let damaged = |_| SqlError::Damaged { what: "a stored lock id is invalid".into() };
    LockId::new(&row.blob(column)?).map_err(damaged)
}

/// Whoever holds a lease, or nobody.
pub(crate) fn opt_lock(row: &Row, column: &str) -> Result<Option<LockId>, SqlError> {
    row.opt_blob(column)?.map(|_| lock(row, column)).transpose()
}
