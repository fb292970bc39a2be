//! What can go wrong with the engine's database.

use unspent_model::{Kind, ServedError};
use unspent_sql::{Failure, OpenError, SqlError};

use crate::{names::RoomName, road::Cause};

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

impl ServedError for LogError {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn is_disk(&self) -> bool {
        Failure::is_disk(self)
    }
}

impl Failure for LogError {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Sql(error) = self { Some(error) } else { None }
    }
}
