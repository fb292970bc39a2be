//! What its errors mean to whoever asked.

use unspent_model::{Kind, RefusalKind, ServedError};
use unspent_sql::Failure;

use crate::error::TxStoreError;

impl ServedError for TxStoreError {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn refusal(&self) -> Option<RefusalKind> {
        use TxStoreError as E;
        if self.kind() != Kind::Refused {
            return None;
        }
        if matches!(self, E::Missing(_)) {
            return Some(RefusalKind::Missing);
        }
        let is_wrong = matches!(self, E::Argument(_) | E::NotATransaction(_));
        Some(if is_wrong { RefusalKind::Invalid } else { RefusalKind::Conflict })
    }

    fn is_disk(&self) -> bool {
        Failure::is_disk(self)
    }
}
