//! Why the ecash room did not do what was asked: as REST says it, and as the command line does.

use std::error::Error;

use axum::http::StatusCode;
use unspent_ecash::EcashError;
use unspent_engine::rooms::ecash::{mint::NoResult, spark::SparkFault, work::EcashWorkError};
use unspent_model::Kind;

use crate::{api::error::ApiError, rooms::Classified};

impl From<EcashError> for ApiError {
    fn from(error: EcashError) -> Self {
        use EcashError as E;
        let kind = error.kind();
        let text = error.to_string();
        match error {
            E::NotFound { .. } => Self::not_found(text),
            E::Refused(_) | E::InUse { .. } => Self::refused(text),
            E::ProofsTaken { .. } => Self::busy(text),
            _ => Self::of_store(kind, &text),
        }
    }
}

impl From<EcashWorkError> for ApiError {
    fn from(error: EcashWorkError) -> Self {
        use EcashWorkError as E;
        match error {
            E::Store(error) => error.into(),
            // A no is a no; only a missing answer may come later.
            E::Mint { reason: NoResult::Code { .. }, .. } => Self::invalid(error.to_string()),
            E::Mint { .. } | E::Spark(SparkFault::Unknown(_)) => {
                Self::new(StatusCode::BAD_GATEWAY, "no_answer", error.to_string())
            }
            _ => Self::invalid(error.to_string()),
        }
    }
}

/// What an error of this room means to the command line.
pub(super) fn classify(cause: &(dyn Error + 'static)) -> Option<Classified> {
    if let Some(error) = cause.downcast_ref::<EcashError>() {
        return Some(Classified::Kind(error.kind()));
    }
    let error = cause.downcast_ref::<EcashWorkError>()?;
    Some(Classified::Kind(match error {
        EcashWorkError::Store(error) => error.kind(),
        EcashWorkError::Mint { .. } | EcashWorkError::Spark(_) => Kind::Unavailable,
        _ => Kind::Refused,
    }))
}
