//! Events pushed to a URL, so that a shop needs no stream.
//!
//! A hook belongs to a tenant, by its id, and has a cursor in the log of events. Events of its
//! tenant after the cursor are posted one by one, in order; the cursor moves when the receiver has
//! said 2xx. So each is delivered at least once, and a receiver that was away finds them in order
//! when it is back. One that may have come twice carries the same `webhook-id`.
//!
//! | module | keeps |
//! |---|---|
//! | `store` | hooks, their cursors and troubles, in `engine.db` |
//! | `message` | what is sent: body, headers, signature |
//! | `post` | the sending: deadlines, and which addresses may be called |
//! | `deliver` | who is due, one thread for each, pauses that grow |
//!
//! Messages are those of the Standard Webhooks specification, for which most languages have a
//! library: HMAC-SHA256 over id, time and body, so that neither can be exchanged.
//!
//! Invariant: a hook is served by at most one thread, and no thread serves two. A slow or dead
//! receiver keeps neither rooms nor other hooks waiting.

mod deliver;
mod message;
mod post;
mod store;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;
use unspent_model::{Kind, RefusalKind, ServedError};
use unspent_source::roots::TrustedRoots;
use utoipa::ToSchema;

use crate::{clock::Time, events::LogError, names::JobName};

pub use deliver::Webhooks;
pub use message::SECRET_BYTES;

/// Starts the deliveries that are due.
pub const WEBHOOKS: JobName = JobName::new("webhooks");

/// Hooks at most, since each may have a thread.
pub const MAX_HOOKS: usize = 100;
/// Bytes of a URL at most.
pub const MAX_URL_BYTES: usize = 2_000;

/// How hooks are served.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Whether addresses of the machine and of private networks may be called, and without TLS.
    pub allow_private: bool,
    /// Who may vouch for a receiver; those that browsers know, unless said otherwise.
    pub roots: Option<TrustedRoots>,
    /// How long one call may take.
    pub timeout: Duration,
    /// Pause after the first failure; it doubles.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// A hook that failed for so long is paused until somebody resumes it.
    pub give_up_after: Duration,
    /// Pause between two looks for news.
    pub look_every: Duration,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            allow_private: false,
            roots: None,
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(3_600),
            give_up_after: Duration::from_secs(3 * 86_400),
            look_every: Duration::from_secs(1),
        }
    }
}

/// A hook as it is shown; its secret is shown once, when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Webhook {
    /// The number that it is removed by.
    pub id: u64,
    /// The wallet whose events are sent, where it is a wallet's.
    pub wallet: Option<String>,
    /// The room of the tenant whose events are sent.
    pub room: String,
    /// That tenant's name of now.
    pub tenant: String,
    /// Where events are posted.
    pub url: String,
    /// When it was made.
    pub created_at: Time,
    /// The last event that is settled: delivered, or of no interest.
    pub cursor: u64,
    /// Events delivered so far.
    pub delivered: u64,
    /// When the last one was delivered.
    pub delivered_at: Option<Time>,
    /// Attempts at the next event that failed.
    pub attempts: u32,
    /// Since when nothing has come through.
    pub failing_since: Option<Time>,
    /// When it is tried again.
    pub next_attempt_at: Option<Time>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Events that the log forgot before they could be delivered.
    pub missed: u64,
    /// Since when it is not tried any more; resuming it helps.
    pub paused_at: Option<Time>,
}

/// Why nothing was done with a hook.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The database said no.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something about it can't be.
    #[error("{0}; nothing was changed")]
    Refused(String),
    /// No such hook.
    #[error("there is no webhook {0}")]
    Unknown(u64),
    /// It did not come through.
    #[error("the receiver can't be reached: {0}")]
    Failed(String),
}

impl From<unspent_sql::SqlError> for WebhookError {
    fn from(error: unspent_sql::SqlError) -> Self {
        Self::Log(error.into())
    }
}

impl ServedError for WebhookError {
    fn kind(&self) -> Kind {
        if matches!(self, Self::Log(_)) { Kind::Bug } else { Kind::Refused }
    }

    fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::Log(_) => None,
            Self::Refused(_) => Some(RefusalKind::Invalid),
            Self::Unknown(_) => Some(RefusalKind::Missing),
            Self::Failed(_) => Some(RefusalKind::Conflict),
        }
    }
}

impl unspent_sql::Failure for WebhookError {
    fn sql(&self) -> Option<&unspent_sql::SqlError> {
        if let Self::Log(error) = self { error.sql() } else { None }
    }
}
