//! Whose coins a person asks for, and why a text names none.

use unspent_model::{Kind, Network, RefusalKind, ServedError};

/// Whose coins are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Coins of exactly this raw address; on Bitcoin, of this scriptPubKey.
    Address(Vec<u8>),
    /// Coins of every address with this payment credential.
    Credential([u8; 28]),
    /// Coins of the scriptPubKey whose SHA-256 this is (Bitcoin), in the order in which SHA-256 is
    /// written, as Esplora's interface has it; Electrum's protocol reverses it.
    ScriptHash([u8; 32]),
}

/// Text that names no coins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It isn't an address of any kind.
    #[error("not an address: {reason}; expected {expected}")]
    Malformed {
        /// What would have been right.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// It is an address, but of another network.
    #[error("the address is not one of {network}")]
    WrongNetwork {
        /// The network asked.
        network: Network,
    },
    /// A stake address holds no coins.
    #[error("a stake address holds no coins; ask for a payment address or a payment credential")]
    StakeAddress,
}

impl ServedError for AddressError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn refusal(&self) -> Option<RefusalKind> {
        Some(RefusalKind::Malformed)
    }
}

impl AddressError {
    pub(crate) fn malformed(expected: &'static str, reason: impl ToString) -> Self {
        Self::Malformed { expected, reason: reason.to_string() }
    }
}
