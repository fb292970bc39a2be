//! Why the ecash room did not do what was asked: as REST says it, and as the command line does.

use std::error::Error;

use unspent_ecash::EcashError;
use unspent_model::Kind;
use unspent_server::room::Classified;

use crate::work::EcashWorkError;

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
    if matches!(error, EcashWorkError::Crowded { .. }) {
        return Some(Classified::Kind(Kind::Busy));
    }
    Some(Classified::Kind(if is_away { Kind::Unavailable } else { Kind::Refused }))
}
