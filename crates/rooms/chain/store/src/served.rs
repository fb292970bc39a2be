//! What its errors mean to whoever asked.

use unspent_model::{Kind, RefusalKind, ServedError};

use crate::error::QueryError;

impl ServedError for QueryError {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::Disabled | Self::IndexDisabled(_) | Self::NoRoots => {
                Some(RefusalKind::SwitchedOff)
            }
            Self::NoCredentials(_) | Self::NoMuHash(_) => Some(RefusalKind::Invalid),
            Self::Cursor | Self::Limit { .. } | Self::ProofSize { .. } => {
                Some(RefusalKind::Malformed)
            }
            Self::NoDelta { .. } | Self::NoRoot { .. } | Self::NoProof { .. } => {
                Some(RefusalKind::Missing)
            }
            Self::Store(_) => None,
        }
    }
}
