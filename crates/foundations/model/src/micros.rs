//! Moments as every room keeps them.

use core::fmt;

/// Microseconds since 1970, UTC. Who decides by time is given one: nothing in here asks a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Micros(pub i64);

impl Micros {
    /// The number alone, as it is stored.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
