//! What happened, numbered, so that a listener can go on where it left.
//!
//! | module | keeps |
//! |---|---|
//! | `event` | an event as it is read |
//! | [`kind`] | the words |
//! | `log` | the numbered rows and those who wait for them |
//! | `error` | why neither could be done |
//! | `writer` | the thread that has the rooms write theirs |
//!
//! Invariant: ids grow by one, and an event of a room is written in the same transaction as the
//! mark of how far that room has come. So a crash neither loses an event nor doubles one.
//! Events of the engine itself (a source lost, a job done) are written once, when they happen.

mod error;
mod event;
pub mod kind;
mod log;
mod writer;

pub(crate) use self::writer::EventWriter;
pub use self::{
    error::LogError,
    event::{Event, EventPage},
    log::{EventFilter, EventLog, MAX_EVENTS, NewEvent},
};
pub use crate::room::kinds;
