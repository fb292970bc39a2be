//! What rooms and jobs are called. A leaf: nearly everything names them.

use std::fmt;

use serde::{Serialize, Serializer};

/// A room's name in events, metrics, logs and answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomName(&'static str);

impl RoomName {
    /// A name: one lower-case word.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The word.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for RoomName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0)
    }
}

/// A job's name in events, metrics, logs and answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobName(&'static str);

impl JobName {
    /// A name: lower-case words with `_` between them.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The words.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for JobName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0)
    }
}
