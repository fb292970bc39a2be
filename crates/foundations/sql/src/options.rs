//! How a door is opened and how it behaves.

use std::time::Duration;

use crate::explain::PlanHook;

/// How a door behaves under load.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that read.
    pub readers: usize,
    /// Threads that write, on PostgreSQL; a SQLite file has one.
    pub writers: usize,
    /// Closures that may wait for a thread.
    pub queue: usize,
    /// How long a closure may wait for a place in the queue.
    pub deadline: Duration,
    /// How long a statement waits for another writer before the closure is run again.
    pub busy: Duration,
    /// How often a closure is run before its last error is handed out.
    pub attempts: u32,
    /// How long a closure waits for its turn at a SQLite file that others write too. A machine
    /// under load takes minutes over what else takes seconds.
    pub turn: Duration,
    /// Who is told how each statement is going to be run: for tests, since it costs as much again.
    pub on_plan: Option<PlanHook>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            readers: 2,
            writers: 4,
            queue: 64,
            deadline: Duration::from_secs(30),
            busy: Duration::from_secs(5),
            attempts: 12,
            turn: Duration::from_secs(120),
            on_plan: None,
        }
    }
}
