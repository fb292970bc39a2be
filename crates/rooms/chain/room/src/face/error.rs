//! Why the chain room did not do what was asked: as REST says it, and as the command line does.

use std::error::Error;

use unspent_chain::{ApplyError, OpenError, OptionsError, QueryError, RollbackError, StoreError};
use unspent_model::Kind;
use unspent_server::room::Classified;

/// What an error of this room means to the command line.
pub(super) fn classify(cause: &(dyn Error + 'static)) -> Option<Classified> {
    if cause.is::<OptionsError>() || is_wrong_question(cause) {
        return Some(Classified::Usage);
    }
    kind(cause).map(Classified::Kind)
}

/// Questions that are wrong in themselves, whatever the folder holds.
fn is_wrong_question(cause: &(dyn Error + 'static)) -> bool {
    match cause.downcast_ref::<QueryError>() {
        Some(
            QueryError::Cursor
            | QueryError::Limit { .. }
            | QueryError::NoCredentials(_)
            | QueryError::NoMuHash(_)
            | QueryError::ProofSize { .. },
        ) => true,
        Some(
            QueryError::IndexDisabled(_)
            | QueryError::Disabled
            | QueryError::NoDelta { .. }
            | QueryError::NoRoots
            | QueryError::NoRoot { .. }
            | QueryError::NoProof { .. }
            | QueryError::Store(_),
        )
        | None => false,
    }
}

fn kind(cause: &(dyn Error + 'static)) -> Option<Kind> {
    cause
        .downcast_ref::<StoreError>()
        .map(StoreError::kind)
        .or_else(|| cause.downcast_ref::<OpenError>().map(OpenError::kind))
        .or_else(|| cause.downcast_ref::<QueryError>().map(QueryError::kind))
        .or_else(|| cause.downcast_ref::<ApplyError>().map(ApplyError::kind))
        .or_else(|| cause.downcast_ref::<RollbackError>().map(RollbackError::kind))
}
