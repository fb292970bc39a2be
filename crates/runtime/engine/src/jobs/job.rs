//! One job: what it does, how often, and where.

use std::{fmt, time::Duration};

use crate::names::JobName;

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

/// Work that is repeated after a pause, or when somebody asks for it.
pub struct Job {
    /// As status, events and whoever asks for a run call it.
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
