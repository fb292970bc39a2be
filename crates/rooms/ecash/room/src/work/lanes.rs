//! Turns of payments on a few threads, so that a mint that doesn't answer holds up nobody else.
//!
//! A lane is whoever a payment depends on: a mint, the Spark wallet, or two of them for a token
//! that becomes money elsewhere.
//!
//! | a lane is | until | then |
//! |---|---|---|
//! | empty | a payment comes | ready |
//! | ready | a thread takes it, in the order in which lanes became ready | busy with one payment |
//! | busy | that payment's turn is over | ready again at the end of the line, or empty |
//!
//! Payments that ended are looked at after those that are open. At most [`MOST_THREADS`] turns
//! are under way; as many mints must be silent at once before others wait for them.

use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use cashu::mint_url::MintUrl;
use crossbeam_channel::Sender;
use unspent_ecash::{DueScan, EcashError};
use unspent_engine::room::plug::spawn;
use unspent_source::wakeup::lock;

use super::{
    EcashWorkError,
    executor::{PaymentExecutor, PaymentStanding},
};

/// Turns at a time.
pub(super) const MOST_THREADS: usize = 16;
/// So long the end waits for turns that are under way. What they would still do is done after the
/// next start.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A payment that is to have its turn.
#[derive(Clone, Debug)]
pub(super) struct PaymentTask {
    pub(super) id: String,
    pub(super) lane: String,
    /// The mints that the lane stands for.
    pub(super) mints: Vec<MintUrl>,
    /// It ended, and is looked at once more.
    pub(super) is_late: bool,
    /// It is no payment: a keyset is scanned.
    pub(super) scan: Option<DueScan>,
}

/// A turn that is over.
pub(super) struct TaskOutcome {
    pub(super) task: PaymentTask,
    pub(super) outcome: Result<PaymentStanding, EcashWorkError>,
    /// So long its mints want to be left alone.
    pub(super) quiet: Duration,
}

#[derive(Default)]
struct LaneQueue {
    open: VecDeque<PaymentTask>,
    late: VecDeque<PaymentTask>,
    is_busy: bool,
}

#[derive(Default)]
struct TaskQueues {
    lanes: BTreeMap<String, LaneQueue>,
    ready: VecDeque<String>,
    threads: usize,
    busy: usize,
    is_over: bool,
}

struct LanePool {
    executor: Arc<PaymentExecutor>,
    may_work: Box<dyn Fn() -> bool + Send + Sync>,
    queues: Mutex<TaskQueues>,
    changed: Condvar,
    turns: Sender<TaskOutcome>,
}

/// The lanes with their threads. Dropped, they end; a turn that takes longer ends by itself and
/// changes nothing any more.
pub(super) struct Lanes {
    pool: Arc<LanePool>,
}

impl Lanes {
    /// Lanes without threads: they come with the work. While `may_work` says no, turns end before
    /// their next step.
    pub(super) fn new(
        executor: Arc<PaymentExecutor>,
        may_work: impl Fn() -> bool + Send + Sync + 'static,
        turns: Sender<TaskOutcome>,
    ) -> Self {
        let (may_work, queues, changed) = (Box::new(may_work), Mutex::default(), Condvar::new());
        Self { pool: Arc::new(LanePool { executor, may_work, queues, changed, turns }) }
    }

    /// Puts a payment into its lane.
    pub(super) fn put(&self, task: PaymentTask) {
        let mut queues = lock(&self.pool.queues);
        queues.put(task);
        // By lanes that are ready and not by payments: a mint's payments wait for each other
        // anyway.
        let wants_thread = queues.busy + queues.ready.len() > queues.threads;
        if wants_thread && queues.threads < MOST_THREADS {
            let pool = self.pool.clone();
            match spawn("ecash-lane", move || pool.serve()) {
                Ok(_) => queues.threads += 1,
                Err(error) => tracing::warn!(%error, "no further thread for payments"),
            }
        }
        drop(queues);
        self.pool.changed.notify_all();
    }

    /// Forgets what has not begun.
    pub(super) fn clear(&self) {
        let mut queues = lock(&self.pool.queues);
        queues.ready.clear();
        queues.lanes.retain(|_, lane| lane.is_busy);
        for lane in queues.lanes.values_mut() {
            lane.open.clear();
            lane.late.clear();
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.clear();
        let mut queues = lock(&self.pool.queues);
        queues.is_over = true;
        self.pool.changed.notify_all();
        let until = Instant::now() + LAST_PATIENCE;
        while queues.busy > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::info!(
                    turns = queues.busy,
                    "payments wait for answers; the next start asks"
                );
                return;
            }
            let waited = self.pool.changed.wait_timeout(queues, left);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl TaskQueues {
    fn put(&mut self, task: PaymentTask) {
        let name = task.lane.clone();
        let lane = self.lanes.entry(name.clone()).or_default();
        let is_new = lane.open.is_empty() && lane.late.is_empty() && !lane.is_busy;
        let queue = if task.is_late { &mut lane.late } else { &mut lane.open };
        queue.push_back(task);
        if is_new {
            self.ready.push_back(name);
        }
    }

    fn take(&mut self) -> Option<PaymentTask> {
        let lane = self.lanes.get_mut(&self.ready.pop_front()?)?;
        let task = lane.open.pop_front().or_else(|| lane.late.pop_front())?;
        lane.is_busy = true;
        self.busy += 1;
        Some(task)
    }

    fn finish(&mut self, lane: &str) {
        self.busy -= 1;
        let Some(queue) = self.lanes.get_mut(lane) else { return };
        queue.is_busy = false;
        if queue.open.is_empty() && queue.late.is_empty() {
            self.lanes.remove(lane);
        } else {
            self.ready.push_back(lane.to_owned());
        }
    }
}

impl LanePool {
    fn serve(&self) {
        while let Some(task) = self.next() {
            let over = self.turn(task);
            let lane = over.task.lane.clone();
            // Whoever wanted to know is gone; this ends soon.
            let _ = self.turns.send(over);
            lock(&self.queues).finish(&lane);
            self.changed.notify_all();
        }
    }

    /// Waits for work; `None` at the end.
    fn next(&self) -> Option<PaymentTask> {
        let mut queues = lock(&self.queues);
        loop {
            if queues.is_over {
                return None;
            }
            if let Some(task) = queues.take() {
                return Some(task);
            }
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One payment's turn. Its trouble is its own: the others go on.
    fn turn(&self, task: PaymentTask) -> TaskOutcome {
        let may_work = || (self.may_work)() && !lock(&self.queues).is_over;
        let advance = || match &task.scan {
            Some(due) => self.executor.scan(due, &may_work),
            None => self.executor.advance_while(&task.id, &may_work),
        };
        // Otherwise a fault over one payment would end the thread, and leave its lane busy for
        // good.
        let outcome = catch_unwind(AssertUnwindSafe(advance)).unwrap_or_else(|_| {
            Err(EcashError::Bug("a payment's turn ended in a fault of the program".into()).into())
        });
        let mints = &self.executor.backends.mints;
        let quiet = task.mints.iter().map(|mint| mints.client(mint).quiet_for()).max();
        TaskOutcome { task, outcome, quiet: quiet.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, lane: &str, is_late: bool) -> PaymentTask {
        let (id, lane) = (id.into(), lane.into());
        PaymentTask { id, lane, mints: Vec::new(), is_late, scan: None }
    }

    #[test]
    fn a_lane_has_one_turn_at_a_time_and_goes_to_the_end_of_the_line() {
        let mut queues = TaskQueues::default();
        for (id, lane, is_late) in
            [("old", "a", true), ("a1", "a", false), ("a2", "a", false), ("b1", "b", false)]
        {
            queues.put(task(id, lane, is_late));
        }
        let take = |queues: &mut TaskQueues| queues.take().map(|task| task.id);
        assert_eq!(take(&mut queues).as_deref(), Some("a1"));
        assert_eq!(take(&mut queues).as_deref(), Some("b1"));
        assert_eq!(take(&mut queues), None, "both are busy");
        queues.put(task("b2", "b", false));
        queues.finish("a");
        queues.finish("b");
        let rest: Vec<_> = std::iter::from_fn(|| {
            let taken = queues.take()?;
            queues.finish(&taken.lane);
            Some(taken.id)
        })
        .collect();
        assert_eq!(rest, ["a2", "b2", "old"]);
        assert!(queues.lanes.is_empty() && queues.busy == 0);
    }
}
