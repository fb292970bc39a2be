//! What can go wrong, and whether trying again may help.

use unspent_model::Kind;

use crate::url::Url;

/// A statement, a transaction or a connection failed. The transaction it belonged to is undone
/// unless the variant says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// Another writer holds the rows or the file; nothing was changed.
    #[error("the database is busy ({0}); nothing was changed, try again")]
    Busy(String),
    /// The server asked for the transaction to be run again (40001, 40P01).
    #[error("the transaction conflicted with another one ({0}); nothing was changed, try again")]
    Conflict(String),
    /// The connection broke before COMMIT was sent: nothing was changed.
    #[error("the database can't be reached ({0}); nothing was changed")]
    Unavailable(String),
    /// The connection broke while COMMIT was under way: it may have happened or not.
    #[error("the outcome of a commit is unknown ({0}); check what was written before repeating it")]
    UnclearCommit(String),
    /// The disk is full, or can't be written. Nothing helps but space, and then everything does.
    #[error("the disk is full or failing ({0}); nothing was changed")]
    Disk(String),
    /// A constraint of the schema refused the rows.
    #[error("the rows violate a constraint of the database: {0}")]
    Constraint(String),
    /// Stored data isn't what the schema promises.
    #[error("stored data is damaged: {what}")]
    Damaged {
        /// Where, and what stood there.
        what: String,
    },
    /// The columns of arguments for one statement serve different numbers of rows: a fault of the
    /// program, which would otherwise write shifted rows.
    #[error(
        "a bulk statement was given columns of {shortest} and of {longest} values; nothing was \
         changed. This is a bug: please report it"
    )]
    UnevenColumns {
        /// Values in the shortest column.
        shortest: usize,
        /// Values in the longest one.
        longest: usize,
    },
    /// Anything else the driver said: a fault in a statement, say.
    #[error("the database failed: {0}")]
    Other(String),
    /// The door is closing.
    #[error("the database door is closed; nothing was changed")]
    Closed,
}

impl SqlError {
    /// Whether running the same closure again may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy(_) | Self::Conflict(_) | Self::Unavailable(_) | Self::UnclearCommit(_) => {
                true
            }
            Self::Disk(_)
            | Self::Constraint(_)
            | Self::Damaged { .. }
            | Self::UnevenColumns { .. }
            | Self::Other(_)
            | Self::Closed => false,
        }
    }

    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Busy(_) | Self::Conflict(_) => Kind::Busy,
            Self::Damaged { .. } => Kind::Corrupt,
            Self::Constraint(_) | Self::UnevenColumns { .. } => Kind::Bug,
            Self::Unavailable(_)
            | Self::UnclearCommit(_)
            | Self::Disk(_)
            | Self::Closed
            | Self::Other(_) => Kind::Unavailable,
        }
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::UnclearCommit(_))
    }
}

/// An error of a room that can tell whether the database caused it.
pub trait Failure: From<SqlError> + Send + 'static {
    /// The database's part of it, if any: this alone decides about a retry.
    fn sql(&self) -> Option<&SqlError>;

    /// Whether a full or failing disk caused it.
    fn is_disk(&self) -> bool {
        matches!(self.sql(), Some(SqlError::Disk(_)))
    }
}

impl Failure for SqlError {
    fn sql(&self) -> Option<&SqlError> {
        Some(self)
    }
}

/// Why a database was not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or the server can't be reached.
    #[error("can't open {url}: {source}")]
    Connect {
        /// Which database.
        url: Url,
        /// What it said.
        source: SqlError,
    },
    /// A later release has been here.
    #[error(
        "the database is at schema version {found}, but this program knows only {known}; use the \
         newer program; nothing was changed"
    )]
    Newer {
        /// Version in the database.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
    /// What is written about a migration differs from what this program would have done.
    #[error(
        "migration {version} was not written by this program or is damaged ({why}); restore a \
         backup; nothing was changed"
    )]
    Damaged {
        /// Which migration.
        version: i64,
        /// What differs.
        why: &'static str,
    },
    /// A migration failed and was undone.
    #[error("migration {version} failed and was undone: {source}")]
    Migration {
        /// Which migration.
        version: i64,
        /// What the database said.
        source: SqlError,
    },
}

impl OpenError {
    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Connect { source, .. } | Self::Migration { source, .. } => source.kind(),
            Self::Newer { .. } | Self::Damaged { .. } => Kind::Corrupt,
        }
    }
}
