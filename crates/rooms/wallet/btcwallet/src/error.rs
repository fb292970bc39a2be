//! Why a file could not be read.

use unspent_model::Kind;

/// Why a file could not be read. Reading changes nothing, so nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is no bbolt file, or one of another program.
    #[error("this is not a wallet.db of btcwallet or lnd: {0}")]
    NotAWallet(String),
    /// Its bytes contradict themselves.
    #[error("the file is damaged: {0}; take a copy while no program has it open, and try again")]
    Damaged(String),
    /// A version that is unknown here.
    #[error("{0}")]
    Version(String),
    /// The public passphrase is another one.
    #[error(
        "the public passphrase does not open this file; pass the right one with --public-passphrase"
    )]
    WrongPassphrase,
    /// The seal asks for more work than is reasonable.
    #[error("the public passphrase is sealed with unreasonable scrypt parameters: {0}")]
    Unreasonable(String),
}

impl ReadError {
    /// What sort of trouble it is.
    pub fn kind(&self) -> Kind {
        if matches!(self, Self::Damaged(_)) { Kind::Corrupt } else { Kind::Refused }
    }

    pub(crate) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged(why.into())
    }
}
