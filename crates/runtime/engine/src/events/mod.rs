//! What happened, numbered, so that a listener can go on where it left.
//!
//! | module | keeps |
//! |---|---|
//! | [`kind`] | the words |
//! | `log` | the numbered rows and those who wait for them |
//! | `writer` | the thread that has the rooms write theirs |
//!
//! Invariant: ids grow by one, and an event of a room is written in the same transaction as the
//! mark of how far that room has come. So a crash neither loses an event nor doubles one.
//! Events of the engine itself (a source lost, a job done) are written once, when they happen.

pub mod kind;
mod log;
mod writer;

use serde::Serialize;
use unspent_model::Kind;
use unspent_sql::{Failure, OpenError, SqlError};
use utoipa::ToSchema;

use self::kind::KindShape;
use crate::{
    clock::Time,
    road::Cause,
    room::{RoomName, RoomShape},
};

pub use log::{EventFilter, EventLog, MAX_EVENTS, NewEvent};
pub(crate) use writer::EventWriter;

/// Every kind of event that can be written: the engine's own, and those of rooms.
pub fn kinds(rooms: &[&'static RoomShape]) -> impl Iterator<Item = KindShape> {
    let rooms = rooms.iter().flat_map(|shape| shape.events);
    kind::KINDS.iter().chain(rooms).copied()
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// Its number: dense and growing.
    pub id: u64,
    /// When it was written down.
    pub at: Time,
    /// The room that it happened in, or `engine`.
    pub room: String,
    /// One word for what happened: one of [`kind`], or of the room itself.
    pub kind: String,
    /// The wallet's name when it happened, where it is about one.
    pub wallet: Option<String>,
    /// The wallet's number, which a new name doesn't change.
    #[serde(skip)]
    pub wallet_id: Option<i64>,
    /// A transaction, coin or block, as people read it.
    pub subject: Option<String>,
    /// The rest.
    #[schema(value_type = Object)]
    pub body: serde_json::Value,
}

/// Some events.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EventPage {
    /// In order.
    pub events: Vec<Event>,
    /// The oldest that is still kept; 0 when there is none.
    pub first_kept: u64,
    /// The newest there is; 0 when there is none.
    pub last: u64,
}

/// The event log or the request log failed. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The database said no.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A room could not be read.
    #[error("the {room} room can't be read: {source}")]
    Room {
        /// Which.
        room: RoomName,
        /// What it said.
        source: Cause,
    },
    /// A key that can't be used.
    #[error("{0}; nothing was changed")]
    Argument(&'static str),
}

impl LogError {
    /// A room could not be read.
    pub fn room(room: RoomName, source: impl Into<Cause>) -> Self {
        Self::Room { room, source: source.into() }
    }

    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Sql(error) => error.kind(),
            Self::Open(error) => error.kind(),
            Self::Room { .. } => Kind::Unavailable,
            Self::Argument(_) => Kind::Refused,
        }
    }
}

impl Failure for LogError {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Sql(error) = self { Some(error) } else { None }
    }
}
