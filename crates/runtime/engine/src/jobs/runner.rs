//! A thread that runs its jobs one after the other, when they are due or asked for.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use metrics::{counter, histogram};
use unspent_source::Node;

use super::{Job, Outcome};
use crate::{
    context::Context,
    events::kind::{self, JobDoneBody},
    names::JobName,
};

/// A job that couldn't run is tried again after this, unless its own pause is shorter.
const RETRY: Duration = Duration::from_millis(500);
/// The least pause between two runs of a job, however often somebody wakes the engine.
const WAKE_PAUSE: Duration = Duration::from_millis(500);
/// How often the thread looks whether all should end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Somebody wants a job to run now.
pub(crate) struct Ask {
    pub(crate) job: JobName,
    pub(crate) reply: Sender<Result<(), String>>,
}

struct Planned {
    job: Job,
    due: Instant,
    ended: Option<Instant>,
}

/// One thread's jobs.
pub(crate) struct Runner {
    jobs: Vec<Planned>,
    asks: Receiver<Ask>,
    context: Arc<Context>,
    /// Wake-ups, and news of the node, that have been answered.
    answered: (u64, u64),
    node: Option<Arc<dyn Node>>,
}

impl Runner {
    pub(crate) fn new(jobs: Vec<Job>, asks: Receiver<Ask>, context: Arc<Context>) -> Self {
        let due = Instant::now();
        let jobs = jobs.into_iter().map(|job| Planned { job, due, ended: None }).collect();
        let node = context.origin.node();
        Self { jobs, asks, context, answered: (0, 0), node }
    }

    pub(crate) fn run(mut self) {
        while !self.context.is_stopping() {
            self.answer_wakeup();
            let next = self.jobs.iter().map(|planned| planned.due).min();
            let rest = next.map_or(LOOK_EVERY, |due| due.saturating_duration_since(Instant::now()));
            match self.asks.recv_timeout(rest.min(LOOK_EVERY)) {
                Ok(ask) => self.asked(&ask),
                Err(RecvTimeoutError::Timeout) => self.due(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// News wake the jobs that wait for them.
    fn answer_wakeup(&mut self) {
        let news = self.node.as_ref().map_or(0, |node| node.news());
        let count = (self.context.wakeup.count(), news);
        if std::mem::replace(&mut self.answered, count) == count {
            return;
        }
        for planned in self.jobs.iter_mut().filter(|planned| planned.job.is_woken) {
            let soon = planned.ended.map_or_else(Instant::now, |ended| ended + WAKE_PAUSE);
            planned.due = planned.due.min(soon);
        }
    }

    fn asked(&mut self, ask: &Ask) {
        let Some(planned) = self.jobs.iter_mut().find(|p| p.job.name == ask.job) else { return };
        let outcome = planned.go(&self.context, true);
        let body = JobDoneBody {
            job: ask.job.name(),
            outcome: outcome.as_ref().ok().cloned(),
            failed: outcome.as_ref().err().cloned(),
        };
        self.context.write_event(kind::JOB_DONE, &body);
        // Whoever asked may have gone.
        let _ = ask.reply.send(outcome.map(|_| ()));
    }

    fn due(&mut self) {
        let now = Instant::now();
        for planned in &mut self.jobs {
            if planned.due <= now && !self.context.is_stopping() {
                // A failure is in the status and the log; the next run tries again.
                let _ = planned.go(&self.context, false);
            }
        }
    }
}

impl Planned {
    fn go(&mut self, context: &Context, is_asked_for: bool) -> Result<String, String> {
        let (name, started) = (self.job.name, Instant::now());
        context.board.job_starts(name);
        // A fault in one job must not end the others.
        let run = AssertUnwindSafe(|| (self.job.run)(is_asked_for));
        let outcome = catch_unwind(run).unwrap_or_else(|_| Err("a bug in the program".to_owned()));
        let (pause, said, result) = match outcome {
            Ok(Outcome::Done(said)) => (self.job.every, said.clone(), Ok(said)),
            // Due at once and not simply run on, so that other jobs and whoever asked come in
            // between.
            Ok(Outcome::More(said)) => (Duration::ZERO, said.clone(), Ok(said)),
            Ok(Outcome::Later(said)) => (RETRY.min(self.job.every), said.clone(), Err(said)),
            Err(reason) => {
                // What the end of the engine cuts short is no failure.
                if !context.is_stopping() {
                    tracing::warn!(job = name.name(), reason, "a job failed");
                }
                (self.job.every, format!("failed: {reason}"), Err(reason))
            }
        };
        context.board.job_ended(name, &said);
        counter!("unspent_engine_job_runs_total", "job" => name.name()).increment(1);
        histogram!("unspent_engine_job_seconds", "job" => name.name()).record(started.elapsed());
        self.ended = Some(Instant::now());
        self.due = Instant::now() + pause;
        result
    }
}
