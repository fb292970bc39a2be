//! The threads that own the connections: one that writes, a few that read.
//!
//! A caller's closure travels to such a thread and its answer travels back, so no database client
//! is ever created, used or dropped on an async thread. The queues are bounded; a caller who can't
//! get in before the deadline is told that the database is busy and that nothing was changed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    connection::{Connection, Tx},
    error::{Failure, OpenError, SqlError},
    explain::PlanHook,
    schema::{self, Schema},
    url::{Backend, Url},
};

/// How a door behaves under load.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that read.
    pub readers: usize,
    /// Closures that may wait for a thread.
    pub queue: usize,
    /// How long a closure may wait for a place in the queue.
    pub deadline: Duration,
    /// How long a statement waits for another writer before the closure is run again.
    pub busy: Duration,
    /// How often a closure is run before its last error is handed out.
    pub attempts: u32,
    /// Who is told how each statement is going to be run: for tests, since it costs as much again.
    pub on_plan: Option<PlanHook>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            readers: 2,
            queue: 64,
            deadline: Duration::from_secs(30),
            busy: Duration::from_secs(5),
            attempts: 12,
            on_plan: None,
        }
    }
}

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// An open database. Dropping it waits for the closures under way and closes the connections.
pub struct Door {
    write: Option<Sender<Job>>,
    read: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    options: Options,
    backend: Backend,
}

impl Door {
    /// Opens the database, brings its schema up to date and starts the threads.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with nothing changed.
    pub fn open(url: &Url, schema: &Schema, options: Options) -> Result<Self, OpenError> {
        let (write, jobs) = bounded(options.queue);
        let mut door = Self {
            write: Some(write),
            read: None,
            threads: Vec::new(),
            options,
            backend: url.backend(),
        };
        door.start(url, schema, jobs, true)?;
        let (read, jobs) = bounded(options.queue);
        door.read = Some(read);
        for _ in 0..options.readers.max(1) {
            door.start(url, schema, jobs.clone(), false)?;
        }
        Ok(door)
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    fn start(
        &mut self,
        url: &Url,
        schema: &Schema,
        jobs: Receiver<Job>,
        migrates: bool,
    ) -> Result<(), OpenError> {
        let (tell, opened) = bounded(1);
        let (url, schema, options) = (url.clone(), *schema, self.options);
        let failed = url.clone();
        let thread =
            std::thread::Builder::new().name("unspent-sql".into()).spawn(
                move || match Worker::open(url, schema, options, migrates) {
                    Ok(mut worker) => {
                        let _ = tell.send(Ok(()));
                        jobs.iter().for_each(|job| job(&mut worker));
                    }
                    Err(error) => {
                        let _ = tell.send(Err(error));
                    }
                },
            );
        let closed = || OpenError::Connect { url: failed.clone(), source: SqlError::Closed };
        self.threads.push(thread.map_err(|_| closed())?);
        opened.recv().unwrap_or_else(|_| Err(closed()))
    }

    /// Runs `work` in a write transaction: committed when it returns `Ok`, undone otherwise, and
    /// run again when the database asks for it.
    ///
    /// # Errors
    ///
    /// What `work` returns, or what the database says after the last attempt.
    pub fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.send(self.write.as_ref(), work, true)
    }

    /// Runs `work` over one consistent snapshot. Nothing it does is kept.
    ///
    /// # Errors
    ///
    /// As for [`Door::write`].
    pub fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.send(self.read.as_ref(), work, false)
    }

    fn send<T, E, F>(&self, to: Option<&Sender<Job>>, mut work: F, writes: bool) -> Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let (tell, answer) = bounded(1);
        let job: Job = Box::new(move |worker| {
            // A panic belongs to the caller; the thread and its connection go on.
            let result = catch_unwind(AssertUnwindSafe(|| worker.run(&mut work, writes)));
            if result.is_err() {
                worker.forget_connection();
            }
            let _ = tell.send(result);
        });
        let Some(queue) = to else { return Err(SqlError::Closed.into()) };
        if queue.send_timeout(job, self.options.deadline).is_err() {
            return Err(SqlError::Busy("the queue is full".into()).into());
        }
        match answer.recv() {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(SqlError::Closed.into()),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.write = None;
        self.read = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One thread's connection, reopened when it breaks.
struct Worker {
    url: Url,
    schema: Schema,
    options: Options,
    connection: Option<Connection>,
}

impl Worker {
    fn open(url: Url, schema: Schema, options: Options, migrates: bool) -> Result<Self, OpenError> {
        let mut worker = Self { url, schema, options, connection: None };
        let made = Connection::open(&worker.url, schema.postgres_enter, options.busy);
        let mut connection =
            made.map_err(|source| OpenError::Connect { url: worker.url.clone(), source })?;
        if migrates {
            schema::migrate(&mut connection, &worker.url, &schema)?;
        }
        worker.connection = Some(connection);
        Ok(worker)
    }

    fn forget_connection(&mut self) {
        self.connection = None;
    }

    fn connected(&mut self) -> Result<&mut Connection, SqlError> {
        if self.connection.is_none() {
            let made = Connection::open(&self.url, self.schema.postgres_enter, self.options.busy)?;
            self.connection = Some(made);
        }
        self.connection.as_mut().ok_or(SqlError::Closed)
    }

    fn run<T, E: Failure>(
        &mut self,
        work: &mut impl FnMut(&mut Tx<'_>) -> Result<T, E>,
        writes: bool,
    ) -> Result<T, E> {
        let mut unclear = false;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.attempt(work, writes, unclear) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(said) = error.sql() else { return Err(error) };
            if said.is_broken() {
                self.forget_connection();
            }
            unclear |= matches!(said, SqlError::UnclearCommit(_));
            if !said.is_retryable() || attempt >= self.options.attempts {
                return Err(error);
            }
            tracing::debug!(attempt, %said, "running the transaction again");
            std::thread::sleep(pause(attempt));
        }
    }

    fn attempt<T, E: Failure>(
        &mut self,
        work: &mut impl FnMut(&mut Tx<'_>) -> Result<T, E>,
        writes: bool,
        unclear: bool,
    ) -> Result<T, E> {
        let on_plan = self.options.on_plan;
        let connection = self.connected()?;
        if writes {
            connection.begin_write()?
        } else {
            connection.begin_read()?
        }
        let result = work(&mut Tx::new(connection, unclear).explained_to(on_plan));
        match (result, writes) {
            (Ok(value), true) => match connection.commit() {
                Ok(()) => Ok(value),
                Err(error) => {
                    let _ = connection.rollback();
                    Err(error.into())
                }
            },
            (result, _) => {
                if connection.rollback().is_err() {
                    self.forget_connection();
                }
                result
            }
        }
    }
}

/// 1, 2, 4, … milliseconds, at most 128.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(1 << attempt.saturating_sub(1).min(7))
}
