//! The engine's own words of the event log, and those that rooms share. What else a room tells of,
//! it names itself; a wallet's are the causes of its journal.

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
