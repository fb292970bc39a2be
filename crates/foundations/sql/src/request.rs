//! A caller's closure on its way to a thread, and its answer on the way back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;

use crate::{
    connection::Tx,
    error::{Failure, SqlError},
};

/// What a closure returned, or its panic.
pub(crate) type ClosureOutcome<T, E> = std::thread::Result<Result<T, E>>;

/// How a run of a closure went.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    Done,
    /// With an error that another run wouldn't change.
    Refused,
    /// The database asks for another run.
    Again(SqlError),
    Panicked,
}

/// A closure and its outcome, whatever their types.
pub(crate) trait Request: Send {
    /// Runs the closure and keeps the outcome in place of an earlier one.
    fn run(&mut self, tx: &mut Tx<'_>) -> RunOutcome;
    /// What it did is undone; this is why.
    fn fail(&mut self, error: SqlError);
    /// Tells the caller.
    fn answer(self: Box<Self>);
}

pub(crate) struct ClosureRequest<T, E, F> {
    work: F,
    outcome: Option<ClosureOutcome<T, E>>,
    tell: Sender<ClosureOutcome<T, E>>,
}

impl<T, E, F> Request for ClosureRequest<T, E, F>
where
    T: Send,
    E: Failure,
    F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> RunOutcome {
        // A panic belongs to the caller; the thread goes on.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)));
        let ran = match &outcome {
            Ok(Ok(_)) => RunOutcome::Done,
            Ok(Err(error)) => match error.sql().filter(|said| said.is_retryable()) {
                Some(said) => RunOutcome::Again(said.clone()),
                None => RunOutcome::Refused,
            },
            Err(_) => RunOutcome::Panicked,
        };
        self.outcome = Some(outcome);
        ran
    }

    fn fail(&mut self, error: SqlError) {
        self.outcome = Some(Ok(Err(error.into())));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            let _ = self.tell.send(outcome);
        }
    }
}

/// A request and what its runs have shown so far.
pub(crate) struct QueuedRequest {
    pub(crate) request: Box<dyn Request>,
    /// Runs that the database wanted repeated.
    pub(crate) attempts: u32,
    /// A commit of it may have happened.
    pub(crate) unclear: bool,
    /// It shares no transaction: in company the commit was refused.
    pub(crate) alone: bool,
    /// It panicked and is not run again.
    pub(crate) over: bool,
    /// Until when it waits for its turn.
    pub(crate) until: Instant,
}

impl QueuedRequest {
    pub(crate) fn new<T, E, F>(work: F, tell: Sender<ClosureOutcome<T, E>>, turn: Duration) -> Self
    where
        T: Send + 'static,
        E: Failure,
        F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let request = Box::new(ClosureRequest { work, outcome: None, tell });
        let until = Instant::now() + turn;
        Self { request, attempts: 0, unclear: false, alone: false, over: false, until }
    }
}
