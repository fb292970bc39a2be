//! What a thread does with its connection: transactions, one after the other, and repeats.
//!
//! A writer of SQLite takes what waits in its queue into one transaction, each request in a
//! savepoint of its own: a commit waits for the disk, and so the wait is shared. All of them are
//! answered after the commit, those that were refused too, since what refused them may have been
//! written by their neighbours.
//!
//! Invariant: a request that fails or panics is undone alone. When the transaction is lost with it,
//! the others are run again; when the rows break a rule that only COMMIT looks at, each is run
//! again alone, so that the error finds the one it belongs to.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use crossbeam_channel::Receiver;

use crate::{
    connection::{Connection, Tx},
    error::{OpenError, SqlError},
    migrate,
    options::Options,
    request::{QueuedRequest, RunOutcome},
    schema::Schema,
    url::{Backend, Url},
};

/// Requests in one transaction.
const GROUP_REQUESTS: usize = 64;
/// After so long no further request joins a transaction: those in it wait for their answer, and
/// other processes for their turn.
const GROUP_TIME: Duration = Duration::from_millis(20);

/// A closure that swallows such an error believes in what isn't there.
const PASSED_OVER: &str = "an error that the closure ignored ended the transaction";

/// What a thread is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkerRole {
    Reads,
    Writes,
}

/// One thread's connection, reopened when it breaks.
pub(crate) struct Worker {
    pub(crate) url: Url,
    pub(crate) schema: Schema,
    pub(crate) options: Options,
    pub(crate) role: WorkerRole,
    pub(crate) statements: Arc<AtomicU64>,
    pub(crate) connection: Option<Connection>,
}

/// The requests of one transaction.
#[derive(Default)]
struct SharedTransaction {
    /// They stand, or were undone alone; to be answered once the transaction is committed.
    jobs: Vec<QueuedRequest>,
    /// Undone alone, to be run again.
    again: Vec<(QueuedRequest, SqlError)>,
    /// With this one the transaction ended.
    last: Option<(QueuedRequest, RunOutcome)>,
}

impl Worker {
    /// Opens the connection.
    pub(crate) fn open(&mut self) -> Result<(), OpenError> {
        let opened = self.connect();
        opened.map_err(|source| OpenError::Connect { url: self.url.clone(), source })
    }

    /// Opens the connection and brings the schema up to date.
    pub(crate) fn open_and_migrate(&mut self) -> Result<(), OpenError> {
        self.open()?;
        let Some(connection) = &mut self.connection else { return Ok(()) };
        migrate::migrate(connection, &self.url, &self.schema, self.options.turn)
    }

    /// Serves callers until the door closes.
    pub(crate) fn serve(mut self, jobs: &Receiver<QueuedRequest>) {
        let mut waiting = VecDeque::new();
        // Those to be run again were asked for before anything that is still in the channel.
        while let Some(job) = waiting.pop_front().or_else(|| jobs.recv().ok()) {
            self.transaction(job, &mut waiting, jobs);
        }
    }

    fn connect(&mut self) -> Result<(), SqlError> {
        if self.connection.is_none() {
            let made = Connection::open(&self.url, &self.schema, self.options)?;
            self.connection = Some(made);
        }
        Ok(())
    }

    fn begin(&mut self, until: Instant) -> Result<(), SqlError> {
        self.connect()?;
        let connection = self.connection.as_mut().ok_or(SqlError::Closed)?;
        match self.role {
            WorkerRole::Reads => connection.begin_read(),
            WorkerRole::Writes => connection.begin_write(until),
        }
    }

    /// One transaction for as many as may share it.
    fn transaction(
        &mut self,
        mut first: QueuedRequest,
        waiting: &mut VecDeque<QueuedRequest>,
        more: &Receiver<QueuedRequest>,
    ) {
        if let Err(error) = self.begin(first.until) {
            first.request.fail(error.clone());
            return self.repeat(vec![(first, error)], waiting);
        }
        let since = Instant::now();
        let mut room = if first.alone { 1 } else { self.group_requests() };
        let (mut group, mut next) = (SharedTransaction::default(), Some(first));
        while let Some(job) = next {
            if self.step(job, &mut group).is_break() {
                return self.abandon(group, waiting);
            }
            room -= 1;
            let is_open = room > 0 && since.elapsed() < GROUP_TIME;
            next = if is_open { joining(waiting, more) } else { None };
        }
        self.commit(group, waiting);
    }

    fn group_requests(&self) -> usize {
        match (self.role, self.url.backend()) {
            (WorkerRole::Writes, Backend::Sqlite) => GROUP_REQUESTS,
            (WorkerRole::Reads, _) | (_, Backend::Postgres) => 1,
        }
    }

    /// Runs one request; breaks when the transaction is lost with it. The first one needs no
    /// savepoint: there is nothing yet that must stay.
    fn step(&mut self, mut job: QueuedRequest, group: &mut SharedTransaction) -> ControlFlow<()> {
        let is_inner = !group.jobs.is_empty();
        let ran = self.run(&mut job, is_inner);
        let goes_on = match ran {
            RunOutcome::Done => self.keep(is_inner),
            RunOutcome::Refused | RunOutcome::Again(_) | RunOutcome::Panicked => {
                is_inner && self.undo()
            }
        };
        if !goes_on {
            group.last = Some((job, ran));
            return ControlFlow::Break(());
        }
        match ran {
            RunOutcome::Again(error) => group.again.push((job, error)),
            RunOutcome::Done | RunOutcome::Refused | RunOutcome::Panicked => {
                job.over = matches!(ran, RunOutcome::Panicked);
                group.jobs.push(job);
            }
        }
        ControlFlow::Continue(())
    }

    fn run(&mut self, job: &mut QueuedRequest, is_inner: bool) -> RunOutcome {
        let Some(connection) = &mut self.connection else {
            job.request.fail(SqlError::Closed);
            return RunOutcome::Refused;
        };
        if is_inner && let Err(error) = connection.savepoint() {
            job.request.fail(error);
            return RunOutcome::Refused;
        }
        let tx = Tx::new(connection, &self.statements, job.unclear);
        job.request.run(&mut tx.explained_to(self.options.on_plan))
    }

    /// Whether what a request did is part of a transaction that is still there.
    fn keep(&mut self, is_inner: bool) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        (!is_inner || connection.release().is_ok()) && connection.is_in_transaction()
    }

    /// Whether what a request did is gone, and the transaction still there.
    fn undo(&mut self) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        connection.undo().is_ok() && connection.is_in_transaction()
    }

    /// Ends the transaction and answers those in it.
    fn commit(&mut self, group: SharedTransaction, waiting: &mut VecDeque<QueuedRequest>) {
        let SharedTransaction { jobs, mut again, .. } = group;
        let is_shared = jobs.len() > 1;
        let refused = self.end();
        // Backwards, as each goes to the front: those who asked first are served first again.
        for mut job in jobs.into_iter().rev() {
            match &refused {
                Err(SqlError::Constraint(_)) if is_shared && !job.over => {
                    job.alone = true;
                    waiting.push_front(job);
                }
                Err(error) if !job.over => {
                    job.request.fail(error.clone());
                    again.push((job, error.clone()));
                }
                Ok(()) | Err(_) => job.request.answer(),
            }
        }
        self.repeat(again, waiting);
    }

    fn end(&mut self) -> Result<(), SqlError> {
        let Some(connection) = &mut self.connection else { return Err(SqlError::Closed) };
        let ended = match self.role {
            // Nothing to commit, and a rollback, below, ends the snapshot without waiting for a
            // disk.
            WorkerRole::Reads => Ok(()),
            WorkerRole::Writes => connection.commit(),
        };
        // What can't be rolled back may hold its locks for ever; closing it gives them up.
        if (self.role == WorkerRole::Reads || ended.is_err()) && connection.rollback().is_err() {
            self.connection = None;
        }
        ended
    }

    /// The transaction is undone: whoever was in it before the last one is run again.
    fn abandon(&mut self, group: SharedTransaction, waiting: &mut VecDeque<QueuedRequest>) {
        let SharedTransaction { jobs, mut again, last } = group;
        // A panic may have struck in the middle of an answer: such a connection isn't spoken to
        // again.
        let has_panicked = matches!(last, Some((_, RunOutcome::Panicked)));
        let undone =
            self.connection.as_mut().is_some_and(|c| !has_panicked && c.rollback().is_ok());
        if !undone {
            self.connection = None;
        }
        for job in jobs.into_iter().rev() {
            if job.over {
                job.request.answer();
            } else {
                waiting.push_front(job);
            }
        }
        match last {
            Some((job, RunOutcome::Again(error))) => again.push((job, error)),
            Some((mut job, RunOutcome::Done)) => {
                job.request.fail(SqlError::Other(PASSED_OVER.into()));
                job.request.answer();
            }
            Some((job, RunOutcome::Refused | RunOutcome::Panicked)) => job.request.answer(),
            None => {}
        }
        self.repeat(again, waiting);
    }

    /// Lets requests run again, after a pause, or answers those that had their attempts.
    fn repeat(
        &mut self,
        again: Vec<(QueuedRequest, SqlError)>,
        waiting: &mut VecDeque<QueuedRequest>,
    ) {
        let mut most = 0;
        for (mut job, said) in again {
            if said.is_broken() {
                self.connection = None;
            }
            job.unclear |= matches!(said, SqlError::UnclearCommit(_));
            job.attempts += 1;
            if !said.is_retryable() || job.attempts >= self.options.attempts {
                job.request.answer();
                continue;
            }
            most = most.max(job.attempts);
            tracing::debug!(attempt = job.attempts, %said, "running the transaction again");
            waiting.push_front(job);
        }
        if most > 0 {
            // One pause for all of them: what they met is most likely still there.
            std::thread::sleep(pause(most));
        }
    }
}

/// Who may join a transaction, without waiting for anybody.
fn joining(
    waiting: &mut VecDeque<QueuedRequest>,
    more: &Receiver<QueuedRequest>,
) -> Option<QueuedRequest> {
    match waiting.front() {
        Some(job) if job.alone => None,
        Some(_) => waiting.pop_front(),
        None => more.try_recv().ok(),
    }
}

/// 1, 2, 4, … milliseconds, at most 128.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(1 << attempt.saturating_sub(1).min(7))
}
