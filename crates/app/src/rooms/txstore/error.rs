//! Why the txstore room did not do what was asked: as REST says it, and as the command line does.

use std::error::Error;

use unspent_model::Kind;
use unspent_txstore::TxStoreError;

use crate::{api::error::ApiError, rooms::Classified};

impl From<TxStoreError> for ApiError {
    fn from(error: TxStoreError) -> Self {
        use TxStoreError as E;
        let kind = error.kind();
        if kind != Kind::Refused {
            return Self::of_failure(kind, &error);
        }
        let text = error.to_string();
        if matches!(error, E::Missing(_)) {
            return Self::not_found(text);
        }
        let is_wrong = matches!(error, E::Argument(_) | E::NotATransaction(_));
        if is_wrong { Self::invalid(text) } else { Self::refused(text) }
    }
}

/// What an error of this room means to the command line.
pub(super) fn classify(cause: &(dyn Error + 'static)) -> Option<Classified> {
    cause.downcast_ref::<TxStoreError>().map(|error| Classified::Kind(error.kind()))
}
