//! Why the ecash room did not do what was asked, as the command line says it.

use std::error::Error;

use unspent_ecash::EcashError;
use unspent_engine::rooms::ecash::work::EcashWorkError;
use unspent_model::Kind;

use crate::rooms::Classified;

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
