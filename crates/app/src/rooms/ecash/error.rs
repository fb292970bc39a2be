//! Why the ecash room did not do what was asked: as REST says it, and as the command line does.

use std::error::Error;

use axum::http::StatusCode;
use unspent_ecash::EcashError;
use unspent_ecash_room::{mint::NoResult, spark::SparkFault, work::EcashWorkError};
use unspent_model::Kind;

use crate::{
    api::{error::ApiError, keyed::key_reused},
    rooms::Classified,
};

impl From<EcashError> for ApiError {
    fn from(error: EcashError) -> Self {
        let text = error.to_string();
        if matches!(error, EcashError::NotFound { .. }) {
            return Self::not_found(text);
        }
        if matches!(error, EcashError::Refused(_) | EcashError::InUse { .. }) {
            return Self::refused(text);
        }
        if matches!(error, EcashError::ProofsTaken { .. }) {
            return Self::busy(text);
        }
        Self::of_failure(error.kind(), &error)
    }
}

impl From<EcashWorkError> for ApiError {
    fn from(error: EcashWorkError) -> Self {
        // A no is a no; only a missing answer may come later.
        let is_no = matches!(error, EcashWorkError::Mint { reason: NoResult::Code { .. }, .. });
        let is_silence = matches!(
            error,
            EcashWorkError::Mint { .. } | EcashWorkError::Spark(SparkFault::Unknown(_))
        );
        if matches!(error, EcashWorkError::KeyReused) {
            return key_reused();
        }
        let text = error.to_string();
        if let EcashWorkError::Store(error) = error {
            return error.into();
        }
        if is_silence && !is_no {
            return Self::new(StatusCode::BAD_GATEWAY, "no_answer", text);
        }
        Self::invalid(text)
    }
}

/// What an error of this room means to the command line.
pub(super) fn classify(cause: &(dyn Error + 'static)) -> Option<Classified> {
    if let Some(error) = cause.downcast_ref::<EcashError>() {
        return Some(Classified::Kind(error.kind()));
    }
    let error = cause.downcast_ref::<EcashWorkError>()?;
    if let EcashWorkError::Store(error) = error {
        return Some(Classified::Kind(error.kind()));
    }
    let is_away = matches!(error, EcashWorkError::Mint { .. } | EcashWorkError::Spark(_));
    Some(Classified::Kind(if is_away { Kind::Unavailable } else { Kind::Refused }))
}
