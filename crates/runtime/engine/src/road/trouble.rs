//! Why a trip can't go on.

use std::{error::Error, fmt};

use unspent_source::SourceError;

/// What a room or a source said when it could not go on.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a trip can't go on. What was applied before it stays.
#[derive(Debug)]
pub enum Trouble {
    /// The source failed.
    Source(SourceError),
    /// The room's database is away or busy; nothing was changed.
    Busy(Cause),
    /// The disk is full or fails, and the room has to be opened again once it doesn't.
    Disk(Cause),
    /// The room's blocks and those of the source don't fit; the place has to be found anew.
    Lost(Cause),
    /// Only a person can help.
    Stop {
        /// What is wrong.
        cause: Cause,
        /// What to do before the room is resumed.
        remedy: String,
    },
}

impl Trouble {
    /// Only a person can help.
    pub fn stop(cause: impl Into<Cause>, remedy: impl Into<String>) -> Self {
        Self::Stop { cause: cause.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Busy(cause)
            | Self::Disk(cause)
            | Self::Lost(cause)
            | Self::Stop { cause, .. } => cause.fmt(f),
        }
    }
}

impl Error for Trouble {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Source(error) => Some(error),
            Self::Busy(cause)
            | Self::Disk(cause)
            | Self::Lost(cause)
            | Self::Stop { cause, .. } => Some(&**cause),
        }
    }
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}
