//! Why the txstore room did not do what was asked: as REST says it, and as the command line does.

use std::error::Error;

use unspent_server::room::Classified;
use unspent_txstore::TxStoreError;

/// What an error of this room means to the command line.
pub(super) fn classify(cause: &(dyn Error + 'static)) -> Option<Classified> {
    cause.downcast_ref::<TxStoreError>().map(|error| Classified::Kind(error.kind()))
}
