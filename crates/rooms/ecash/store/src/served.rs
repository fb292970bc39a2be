//! What its errors mean to whoever asked.

use unspent_model::{Kind, RefusalKind, ServedError};
use unspent_sql::Failure;

use crate::error::EcashError;

impl ServedError for EcashError {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn refusal(&self) -> Option<RefusalKind> {
        use EcashError as E;
        if matches!(self, E::NotFound { .. }) {
            return Some(RefusalKind::Missing);
        }
        if matches!(self, E::Refused(_) | E::InUse { .. } | E::AccountInUse { .. }) {
            return Some(RefusalKind::Conflict);
        }
        matches!(self, E::ProofsTaken { .. }).then_some(RefusalKind::Busy)
    }

    fn is_disk(&self) -> bool {
        Failure::is_disk(self)
    }
}
