//! Why the wallet room did not do what was asked: as REST says it, and as the command line does.

use std::{error::Error, fmt};

use unspent_model::Kind;
use unspent_server::{api::error::ApiError, request::BadRequest};
use unspent_wallet::WalletError;

/// Why a request was not met.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// It makes no sense.
    Bad(BadRequest),
    /// The room said no.
    Wallet(WalletError),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(error) => error.fmt(f),
            Self::Wallet(error) => error.fmt(f),
        }
    }
}

impl Error for RequestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Bad(error) => Some(error),
            Self::Wallet(error) => Some(error),
        }
    }
}

impl From<BadRequest> for RequestError {
    fn from(error: BadRequest) -> Self {
        Self::Bad(error)
    }
}

impl From<WalletError> for RequestError {
    fn from(error: WalletError) -> Self {
        Self::Wallet(error)
    }
}

/// What is said of a wallet that isn't there, or that the one who asks may not see.
pub(super) fn no_wallet(name: &str) -> ApiError {
    WalletError::NoWallet(name.to_owned()).into()
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Bad(error) => error.into(),
            RequestError::Wallet(error) => error.into(),
        }
    }
}

/// What sort of trouble an error of this room is.
pub(super) fn kind(cause: &(dyn Error + 'static)) -> Option<Kind> {
    cause.downcast_ref::<WalletError>().map(WalletError::kind)
}
