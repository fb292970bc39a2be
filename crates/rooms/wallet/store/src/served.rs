//! What its errors mean to whoever asked.

use unspent_model::{Kind, Micros, RefusalKind, ServedError};
use unspent_sql::Failure;

use crate::error::WalletError;

impl ServedError for WalletError {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn refusal(&self) -> Option<RefusalKind> {
        use WalletError as E;
        if self.kind() != Kind::Refused {
            return None;
        }
        if matches!(self, E::NoWallet(_) | E::CoinNotFound(_) | E::NoTransaction(_)) {
            return Some(RefusalKind::Missing);
        }
        let is_conflict = matches!(
            self,
            E::AlreadyLeased { .. }
                | E::Refused(_)
                | E::WalletExists(_)
                | E::WalletStopped { .. }
                | E::ScriptExists
                | E::NotYourLease(_)
                | E::LabelDiffers(_)
                | E::BlockMismatch { .. }
                | E::Gap { .. }
                | E::WrongParent { .. }
                | E::Prune(_)
        );
        Some(if is_conflict { RefusalKind::Conflict } else { RefusalKind::Invalid })
    }

    fn is_disk(&self) -> bool {
        Failure::is_disk(self)
    }

    fn ends_at(&self) -> Option<Micros> {
        if let Self::AlreadyLeased { expires_at, .. } = self { Some(*expires_at) } else { None }
    }
}
