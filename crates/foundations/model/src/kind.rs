//! What to do about an error. Every room's errors have a [`Kind`], and it alone decides between
//! telling the caller, trying again, stopping and alarm.
//!
//! An error that may reach whoever asked says in which way it refuses ([`ServedError`]), so that
//! whatever serves the rooms needs to know none of them.

use std::error::Error;

use crate::Micros;

/// What a caller should do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The request can't be met as it stands; nothing was changed.
    Refused,
    /// Others are at work; try again.
    Busy,
    /// The disk or the database failed; nothing was acknowledged. Try again after mending it.
    Unavailable,
    /// Stored data isn't what it must be. Restore a backup or build the store anew.
    Corrupt,
    /// We broke our own rule. Please report it.
    Bug,
}

impl Kind {
    /// Its name, as programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Bug => "bug",
        }
    }
}

/// In which way a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalKind {
    /// It can't be read.
    Malformed,
    /// There is no such thing.
    Missing,
    /// What it asks for is switched off.
    SwitchedOff,
    /// It is understood, but it can't be met.
    Invalid,
    /// The state of things forbids it.
    Conflict,
    /// Others are at work; nothing was changed.
    Busy,
}

/// An error that may reach whoever asked, over whichever interface.
pub trait ServedError: Error {
    /// What to do about it.
    fn kind(&self) -> Kind;

    /// In which way it refuses; `None` when its [`Kind`] says all there is to say.
    fn refusal(&self) -> Option<RefusalKind> {
        None
    }

    /// Whether a full or failing disk caused it.
    fn is_disk(&self) -> bool {
        false
    }

    /// When the refusal ends, where that is known.
    fn ends_at(&self) -> Option<Micros> {
        None
    }
}
