//! What happened, numbered, so that a listener can go on where it left.
//!
//! | module | keeps |
//! |---|---|
//! | [`kind`] | the words |
//! | `log` | the numbered rows and those who wait for them |
//! | `teller` | the thread that compares what was told with where the rooms stand |
//! | `chain`, `wallet` | that comparison, room by room |
//!
//! Invariant: ids grow by one, and an event of a room is written in the same transaction as the
//! mark of how far that room has been told. So a crash neither loses an event nor doubles one.
//! Events of the engine itself (a source lost, a job done) are told once, when they happen.

mod chain;
pub mod kind;
mod log;
mod teller;
mod wallet;

use serde::Serialize;
use unspent_sql::{Failure, OpenError, SqlError};

pub(crate) use log::NewEvent;
pub use log::{EventLog, MAX_EVENTS};
pub(crate) use teller::Teller;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its number: dense and growing.
    pub id: u64,
    /// When it was written down, in microseconds.
    pub at: i64,
    /// `chain`, `wallet` or `engine`.
    pub room: &'static str,
    /// One of the words of [`kind`].
    pub kind: &'static str,
    /// The wallet's name, where it is about one.
    pub wallet: Option<String>,
    /// A transaction, coin or block, as people read it.
    pub subject: Option<String>,
    /// The rest.
    pub body: serde_json::Value,
}

/// Some events.
#[derive(Debug, Clone, Serialize)]
pub struct EventPage {
    /// In order.
    pub events: Vec<Event>,
    /// The oldest that is still kept; 0 when there is none.
    pub first_kept: u64,
    /// The newest there is; 0 when there is none.
    pub last: u64,
}

/// The event log or the request log failed. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The database said no.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A room could not be read.
    #[error("the chain room can't be read: {0}")]
    Chain(#[from] unspent_chain::QueryError),
    /// A room could not be read.
    #[error("the wallet room can't be read: {0}")]
    Wallet(#[from] unspent_wallet::WalletError),
    /// A key that can't be used.
    #[error("{0}; nothing was changed")]
    Argument(&'static str),
}

impl Failure for LogError {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Sql(error) = self { Some(error) } else { None }
    }
}
