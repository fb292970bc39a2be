//! The threads that own the connections: some that write, some that read.
//!
//! A caller's closure travels to such a thread and its answer travels back, so no database client
//! is ever created, used or dropped on an async thread. The queues are bounded; a caller who can't
//! get in before the deadline is told that the database is busy and that nothing was changed.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    connection::Tx,
    error::{Failure, OpenError, SqlError},
    options::Options,
    request::QueuedRequest,
    schema::Schema,
    url::{Backend, Url},
    worker::{Worker, WorkerRole},
};

type Opening = fn(&mut Worker) -> Result<(), OpenError>;

/// An open database. Dropping it waits for the closures under way and closes the connections.
pub struct Door {
    /// One for each thread that writes.
    write: Vec<Sender<QueuedRequest>>,
    read: Option<Sender<QueuedRequest>>,
    threads: Vec<JoinHandle<()>>,
    options: Options,
    backend: Backend,
    statements: Arc<AtomicU64>,
}

impl Door {
    /// Opens the database, brings its schema up to date and starts the threads.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with nothing changed.
    pub fn open(url: &Url, schema: &Schema, options: Options) -> Result<Self, OpenError> {
        let mut door = Self {
            write: Vec::new(),
            read: None,
            threads: Vec::new(),
            options,
            backend: url.backend(),
            statements: Arc::default(),
        };
        let writer = door.worker(url, schema, WorkerRole::Writes);
        door.add_writer(writer, Worker::open_and_migrate)?;
        for _ in 1..door.writers() {
            // Connected when it is first needed.
            let writer = door.worker(url, schema, WorkerRole::Writes);
            door.add_writer(writer, |_| Ok(()))?;
        }
        let (read, jobs) = bounded(options.queue);
        door.read = Some(read);
        for _ in 0..options.readers.max(1) {
            let reader = door.worker(url, schema, WorkerRole::Reads);
            door.start(reader, jobs.clone(), Worker::open)?;
        }
        Ok(door)
    }

    /// A file has one writer at a time anyway.
    fn writers(&self) -> usize {
        match self.backend {
            Backend::Sqlite => 1,
            Backend::Postgres => self.options.writers.max(1),
        }
    }

    fn worker(&self, url: &Url, schema: &Schema, role: WorkerRole) -> Worker {
        let (url, schema, options) = (url.clone(), *schema, self.options);
        let statements = Arc::clone(&self.statements);
        Worker { url, schema, options, role, statements, connection: None }
    }

    fn add_writer(&mut self, worker: Worker, open: Opening) -> Result<(), OpenError> {
        let (write, jobs) = bounded(self.options.queue);
        self.write.push(write);
        self.start(worker, jobs, open)
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// How many statements closures have sent since the door was opened, failed and repeated ones
    /// too. A set is one statement, as it is one round trip on PostgreSQL, and an empty set none.
    /// Not counted: opening, migrating, BEGIN, COMMIT, ROLLBACK, savepoints, and the preparing of a
    /// statement when a connection first meets it. The same closure counts the same on both
    /// databases.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    fn start(
        &mut self,
        mut worker: Worker,
        jobs: Receiver<QueuedRequest>,
        open: Opening,
    ) -> Result<(), OpenError> {
        let (tell, opened) = bounded(1);
        let url = worker.url.clone();
        let closed = || OpenError::Connect { url: url.clone(), source: SqlError::Closed };
        let thread = std::thread::Builder::new().name("unspent-sql".into()).spawn(move || {
            let result = open(&mut worker);
            let is_open = result.is_ok();
            let _ = tell.send(result);
            if is_open {
                worker.serve(&jobs);
            }
        });
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
        self.send(self.write.first(), work)
    }

    /// As [`Door::write`], beside closures of other keys where the database allows it; those of one
    /// key run one after the other, in the order of asking. On SQLite it is [`Door::write`].
    ///
    /// # Errors
    ///
    /// As for [`Door::write`].
    pub fn write_for<T, E, F>(&self, key: i64, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let writers = self.write.len().max(1) as u64;
        let at = usize::try_from(key.cast_unsigned() % writers).unwrap_or_default();
        self.send(self.write.get(at), work)
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
        self.send(self.read.as_ref(), work)
    }

    fn send<T, E, F>(&self, to: Option<&Sender<QueuedRequest>>, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let (tell, answer) = bounded(1);
        let job = QueuedRequest::new(work, tell, self.options.turn);
        let Some(queue) = to else { return Err(SqlError::Closed.into()) };
        // Only getting in has a deadline: who gave up on a closure that runs would not know what it
        // did.
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
        // A thread ends when its queue has no sender left: waiting for it first would never end.
        self.write.clear();
        self.read = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
