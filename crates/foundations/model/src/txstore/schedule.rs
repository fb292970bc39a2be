//! At which height a record may go.

use super::{deletion::RetentionBlocks, record::TxRecord};

/// The height from which a record may go, after an event at `height`; `None` while it may not.
///
/// The event's own height counts, never a tip that was remembered from somewhere. A date is raised
/// by later events and never lowered, except for a loser, whose first date stands. A retention of 0
/// means that nothing is ever deleted.
pub fn delete_at(record: &TxRecord, height: u64, retention: RetentionBlocks) -> Option<u64> {
    if retention.0 == 0 || record.preserve_until.is_some() || record.is_locked {
        return None;
    }
    // A height beyond all there can be: never due, so it is kept.
    let earliest = height.saturating_add(retention.0);
    if record.is_conflicting {
        return Some(record.delete_at.unwrap_or(earliest));
    }
    let is_finished = record.slots.open() == 0 && record.is_mined();
    // An output that changed hands stays as evidence of it.
    if !is_finished || !record.reassigned.is_empty() {
        return None;
    }
    Some(record.delete_at.map_or(earliest, |known| known.max(earliest)))
}
