//! What can go wrong, and what to do about it.

use unspent_model::ecash::{
    EntityRefusal, NotEnough, ProofRefusal, TransactionRefusal, UnknownName,
};
use unspent_sql::{Failure, OpenError, SqlError, Url};

pub use unspent_model::Kind;

/// Why the store did not do what was asked. Nothing was changed in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EcashError {
    /// The database said no.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The machine has no line for it.
    #[error(transparent)]
    Refused(#[from] EntityRefusal),
    /// Too little money at hand.
    #[error(transparent)]
    NotEnough(#[from] NotEnough),
    /// An argument out of its range.
    #[error("{0}; nothing was changed")]
    Argument(String),
    /// Nothing of that name.
    #[error("there is no {what} `{name}`; nothing was changed")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Somebody else took the proofs first.
    #[error("{taken} of the proofs are not free any more; nothing was changed, choose others")]
    ProofsTaken {
        /// How many.
        taken: usize,
    },
    /// A quote, token or payment is used once.
    #[error("the {what} is in use by {entity}, which is {state}; nothing was changed")]
    InUse {
        /// A quote, a token or an invoice. Which one is not said: an error may be shown to anybody.
        what: &'static str,
        /// Who uses it.
        entity: String,
        /// Where that stands.
        state: String,
    },
    /// An account that can't be removed.
    #[error("the account {account} has {rest}; nothing was changed")]
    AccountInUse {
        /// Its name.
        account: String,
        /// What keeps it, in words.
        rest: String,
    },
    /// Nothing was ever kept there.
    #[error("there is no ecash in {0}; nothing was made")]
    Absent(Url),
    /// The passphrase or key file is another one.
    #[error("the passphrase or key file doesn't open this database; nothing was changed")]
    WrongKey,
    /// The randomness of the system failed.
    #[error("the system gives no random bytes; nothing was changed")]
    NoRandomness,
    /// Stored data isn't what it must be.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// We broke our own rule.
    #[error("{0}; nothing was changed, please report it")]
    Bug(String),
}

impl EcashError {
    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Sql(error) => error.kind(),
            Self::Open(error) => error.kind(),
            Self::Corrupt(_) => Kind::Corrupt,
            Self::ProofsTaken { .. } => Kind::Busy,
            Self::NoRandomness => Kind::Unavailable,
            Self::Bug(_) => Kind::Bug,
            Self::Refused(_)
            | Self::NotEnough(_)
            | Self::Argument(_)
            | Self::NotFound { .. }
            | Self::InUse { .. }
            | Self::AccountInUse { .. }
            | Self::Absent(_)
            | Self::WrongKey => Kind::Refused,
        }
    }

    pub(crate) fn argument(what: impl Into<String>) -> Self {
        Self::Argument(what.into())
    }
}

impl Failure for EcashError {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Sql(error) = self { Some(error) } else { None }
    }
}

impl From<UnknownName> for EcashError {
    fn from(error: UnknownName) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<TransactionRefusal> for EcashError {
    fn from(error: TransactionRefusal) -> Self {
        Self::Bug(format!("an entity and its transaction disagree: {error}"))
    }
}

impl From<ProofRefusal> for EcashError {
    fn from(error: ProofRefusal) -> Self {
        Self::Bug(error.to_string())
    }
}
