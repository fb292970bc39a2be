//! When to look at a payment again.
//!
//! Looking is always a question to the mint, whose answer then moves the payment. This module only
//! says when: a mint that gives notice is listened to, and beside that everything is looked at from
//! time to time, since sockets die without a word and notices get lost.
//!
//! | module | keeps |
//! |---|---|
//! | [`pace`] | the pauses between two looks |
//! | [`listen`] | a thread that listens to one mint: connects, subscribes, comes back after a gap |
//! | `socket` | one WebSocket with the protocol's messages (NUT-17) |

pub mod listen;
pub mod pace;
mod socket;

use std::fmt;

pub use self::{
    listen::{ListenerOptions, MintListener},
    pace::{PaymentWake, WakeCause},
};

/// What a mint gives notice of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WatchKind {
    /// An invoice that somebody may pay.
    MintQuote,
    /// An invoice that the mint pays for us.
    MeltQuote,
    /// Proofs that somebody may spend.
    Proofs,
}

impl WatchKind {
    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MintQuote => "bolt11_mint_quote",
            Self::MeltQuote => "bolt11_melt_quote",
            Self::Proofs => "proof_state",
        }
    }
}

impl fmt::Display for WatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something to be told of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MintWatch {
    /// Whose matter it is: the payment that is looked at when there is news.
    pub subject: String,
    /// What kind of thing it is.
    pub kind: WatchKind,
    /// The quote's id, or the proofs' points in hex.
    pub filters: Vec<String>,
}
