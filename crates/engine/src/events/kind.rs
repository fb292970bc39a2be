//! The words of the event log. Those of the wallet room are the causes of its journal.

use unspent_model::wallet::CAUSES;

/// The engine itself, as a room of events.
pub const ENGINE: &str = "engine";
/// A block went into the chain room.
pub const BLOCK_APPLIED: &str = "block_applied";
/// Blocks went out of the chain room: `depth`, `from` and `to` in the body.
pub const REORGANISATION: &str = "reorganisation";
/// Many blocks went into the chain room at once.
pub const CATCHING_UP: &str = "catching_up";
/// A room has reached the tip.
pub const CAUGHT_UP: &str = "caught_up";
/// A room can't go on without a person.
pub const ROOM_STOPPED: &str = "room_stopped";
/// A room goes on again.
pub const ROOM_RESUMED: &str = "room_resumed";
/// The source is away.
pub const SOURCE_LOST: &str = "source_lost";
/// The source is back.
pub const SOURCE_FOUND: &str = "source_found";
/// The node took a transaction of ours.
pub const BROADCAST_ACCEPTED: &str = "broadcast_accepted";
/// The node refused a transaction of ours.
pub const BROADCAST_REJECTED: &str = "broadcast_rejected";
/// A job that somebody asked for has ended, or one failed.
pub const JOB_DONE: &str = "job_done";

/// Every word that isn't a cause of the wallet's journal.
pub const KINDS: [&str; 11] = [
    BLOCK_APPLIED,
    REORGANISATION,
    CATCHING_UP,
    CAUGHT_UP,
    ROOM_STOPPED,
    ROOM_RESUMED,
    SOURCE_LOST,
    SOURCE_FOUND,
    BROADCAST_ACCEPTED,
    BROADCAST_REJECTED,
    JOB_DONE,
];

/// What a word of a later release is read as.
pub const UNKNOWN: &str = "unknown";

/// The word as the program knows it.
pub(crate) fn known_kind(text: &str) -> &'static str {
    let causes = CAUSES.iter().map(|(_, name)| *name);
    KINDS.into_iter().chain(causes).find(|kind| *kind == text).unwrap_or(UNKNOWN)
}

/// The room as the program knows it.
pub(crate) fn known_room(text: &str) -> &'static str {
    let rooms = crate::status::ROOMS.map(crate::status::RoomName::name);
    rooms.into_iter().chain([ENGINE]).find(|room| *room == text).unwrap_or(UNKNOWN)
}
