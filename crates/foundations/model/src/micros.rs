//! Moments as every room keeps them.

use core::{fmt, time::Duration};

/// Microseconds since 1970, UTC. Who decides by time is given one: nothing in here asks a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Micros(pub i64);

impl Micros {
    /// The number alone, as it is stored.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Seconds since 1970, as protocols have them.
    pub fn of_seconds(seconds: u64) -> Self {
        // No money is counted: what is beyond the end of time is its end.
        Self(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000))
    }

    /// So much later.
    pub fn later(self, by: Duration) -> Self {
        // What is beyond the end of time is its end.
        Self(self.0.saturating_add(micros(by)))
    }

    /// So much earlier.
    pub fn earlier(self, by: Duration) -> Self {
        // What is before the beginning of time is its beginning.
        Self(self.0.saturating_sub(micros(by)))
    }

    /// The span since an earlier moment; none if that one is later.
    pub fn since(self, earlier: Self) -> Duration {
        // Nothing lasts longer than time.
        let span = u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0);
        Duration::from_micros(span)
    }

    /// So many microseconds later; nothing where no such moment can be written.
    pub const fn checked_add(self, duration: i64) -> Option<Self> {
        match self.0.checked_add(duration) {
            Some(moment) => Some(Self(moment)),
            None => None,
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
