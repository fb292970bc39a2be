//! What is done from time to time, each with a budget.
//!
//! Rooms bring their jobs when they are opened. Jobs that speak to the node run on a thread of
//! their own, so that a slow node keeps no upkeep waiting.

mod runner;

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

pub(crate) use runner::{Ask, Runner};

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

/// Measures the rooms for the metrics: the engine's own job.
pub const MEASURE: JobName = JobName::new("measure");

/// What came of a run.
#[derive(Debug)]
pub enum Outcome {
    /// It is done, and this is what it did.
    Done(String),
    /// A part is done, and this is what it did; the rest comes at once.
    More(String),
    /// Something is missing; it is tried again soon.
    Later(String),
}

/// Which thread a job runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Jobs on our own data.
    Upkeep,
    /// Jobs that wait for the node.
    Node,
}

/// What a job does. It is told whether somebody asked for this very run.
pub type Run = Box<dyn FnMut(bool) -> Result<Outcome, String> + Send>;

/// One job.
pub struct Job {
    /// Its name.
    pub name: JobName,
    /// The pause between two runs.
    pub every: Duration,
    /// Where it runs.
    pub lane: Lane,
    /// News make it run at once: somebody wakes the engine, or the node tells of transactions.
    pub is_woken: bool,
    /// What it does.
    pub run: Run,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("every", &self.every).finish()
    }
}
