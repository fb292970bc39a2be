//! What to do about an error. Every room's errors have a [`Kind`], and it alone decides between
//! telling the caller, trying again, stopping and alarm.

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
