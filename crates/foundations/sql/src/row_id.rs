//! The number by which one table names a row of another.

use std::fmt;

/// A row's number inside the database. It never leaves it: what users see has ids of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowId(pub i64);

impl RowId {
    /// The number alone, as it is stored.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
