//! What its errors mean to whoever asked over REST.

use axum::http::StatusCode;
use unspent_server::api::{error::ApiError, keyed::key_reused};

use crate::{mint::NoResult, spark::SparkFault, work::EcashWorkError};

impl From<EcashWorkError> for ApiError {
    fn from(error: EcashWorkError) -> Self {
        use EcashWorkError as E;
        // A no is a no; only a missing answer may come later.
        let is_no = matches!(error, E::Mint { reason: NoResult::Code { .. }, .. });
        let is_silence = matches!(error, E::Mint { .. } | E::Spark(SparkFault::Unknown(_)));
        if matches!(error, E::KeyReused) {
            return key_reused();
        }
        let text = error.to_string();
        if let E::Store(error) = error {
            return error.into();
        }
        if matches!(error, E::Crowded { .. }) {
            return Self::busy(text);
        }
        if is_silence && !is_no {
            return Self::new(StatusCode::BAD_GATEWAY, "no_answer", text);
        }
        Self::invalid(text)
    }
}
