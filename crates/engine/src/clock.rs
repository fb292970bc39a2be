//! The one place that asks what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, UTC. A clock before that counts as 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
