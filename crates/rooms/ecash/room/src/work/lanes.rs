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
use unspent_ecash::EcashError;
use unspent_engine::room::plug::spawn;
use unspent_source::wakeup::lock;

use super::{
    EcashWorkError,
    executor::{Executor, Standing},
};

/// Turns at a time.
pub(super) const MOST_THREADS: usize = 16;
/// So long the end waits for turns that are under way. What they would still do is done after the
/// next start.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A payment that is to have its turn.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) id: String,
    pub(super) lane: String,
    /// The mints that the lane stands for.
    pub(super) mints: Vec<MintUrl>,
    /// It ended, and is looked at once more.
    pub(super) is_late: bool,
}

/// A turn that is over.
pub(super) struct TurnOver {
    pub(super) errand: Errand,
    pub(super) outcome: Result<Standing, EcashWorkError>,
    /// So long its mints want to be left alone.
    pub(super) quiet: Duration,
}

#[derive(Default)]
struct LaneQueue {
    open: VecDeque<Errand>,
    late: VecDeque<Errand>,
    is_busy: bool,
}

#[derive(Default)]
struct Lines {
    lanes: BTreeMap<String, LaneQueue>,
    ready: VecDeque<String>,
    threads: usize,
    busy: usize,
    is_over: bool,
}

struct Yard {
    executor: Arc<Executor>,
    may_work: Box<dyn Fn() -> bool + Send + Sync>,
    lines: Mutex<Lines>,
    changed: Condvar,
    turns: Sender<TurnOver>,
}

/// The lanes with their threads. Dropped, they end; a turn that takes longer ends by itself and
/// changes nothing any more.
pub(super) struct Lanes {
    yard: Arc<Yard>,
}

impl Lanes {
    /// Lanes without threads: they come with the work. While `may_work` says no, turns end before
    /// their next step.
    pub(super) fn new(
        executor: Arc<Executor>,
        may_work: impl Fn() -> bool + Send + Sync + 'static,
        turns: Sender<TurnOver>,
    ) -> Self {
        let (may_work, lines, changed) = (Box::new(may_work), Mutex::default(), Condvar::new());
        Self { yard: Arc::new(Yard { executor, may_work, lines, changed, turns }) }
    }

    /// Puts a payment into its lane.
    pub(super) fn put(&self, errand: Errand) {
        let mut lines = lock(&self.yard.lines);
        lines.put(errand);
        let wants_thread = lines.busy + lines.ready.len() > lines.threads;
        if wants_thread && lines.threads < MOST_THREADS {
            let yard = self.yard.clone();
            match spawn("ecash-lane", move || yard.serve()) {
                Ok(_) => lines.threads += 1,
                Err(error) => tracing::warn!(%error, "no further thread for payments"),
            }
        }
        drop(lines);
        self.yard.changed.notify_all();
    }

    /// Forgets what has not begun.
    pub(super) fn clear(&self) {
        let mut lines = lock(&self.yard.lines);
        lines.ready.clear();
        lines.lanes.retain(|_, line| line.is_busy);
        for line in lines.lanes.values_mut() {
            line.open.clear();
            line.late.clear();
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.clear();
        let mut lines = lock(&self.yard.lines);
        lines.is_over = true;
        self.yard.changed.notify_all();
        let until = Instant::now() + LAST_PATIENCE;
        while lines.busy > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::info!(
                    turns = lines.busy,
                    "payments wait for answers; the next start asks"
                );
                return;
            }
            let waited = self.yard.changed.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Lines {
    fn put(&mut self, errand: Errand) {
        let name = errand.lane.clone();
        let line = self.lanes.entry(name.clone()).or_default();
        let is_new = line.open.is_empty() && line.late.is_empty() && !line.is_busy;
        let queue = if errand.is_late { &mut line.late } else { &mut line.open };
        queue.push_back(errand);
        if is_new {
            self.ready.push_back(name);
        }
    }

    fn take(&mut self) -> Option<Errand> {
        let line = self.lanes.get_mut(&self.ready.pop_front()?)?;
        let errand = line.open.pop_front().or_else(|| line.late.pop_front())?;
        line.is_busy = true;
        self.busy += 1;
        Some(errand)
    }

    fn finish(&mut self, lane: &str) {
        self.busy -= 1;
        let Some(line) = self.lanes.get_mut(lane) else { return };
        line.is_busy = false;
        if line.open.is_empty() && line.late.is_empty() {
            self.lanes.remove(lane);
        } else {
            self.ready.push_back(lane.to_owned());
        }
    }
}

impl Yard {
    fn serve(&self) {
        while let Some(errand) = self.next() {
            let over = self.turn(errand);
            let lane = over.errand.lane.clone();
            // Whoever wanted to know is gone; this ends soon.
            let _ = self.turns.send(over);
            lock(&self.lines).finish(&lane);
            self.changed.notify_all();
        }
    }

    /// Waits for work; `None` at the end.
    fn next(&self) -> Option<Errand> {
        let mut lines = lock(&self.lines);
        loop {
            if lines.is_over {
                return None;
            }
            if let Some(errand) = lines.take() {
                return Some(errand);
            }
            lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One payment's turn. Its trouble is its own: the others go on.
    fn turn(&self, errand: Errand) -> TurnOver {
        let may_work = || (self.may_work)() && !lock(&self.lines).is_over;
        let advance = || self.executor.advance_while(&errand.id, &may_work);
        let outcome = catch_unwind(AssertUnwindSafe(advance)).unwrap_or_else(|_| {
            Err(EcashError::Bug("a payment's turn ended in a fault of the program".into()).into())
        });
        let mints = &self.executor.counterparts.mints;
        let quiet = errand.mints.iter().map(|mint| mints.client(mint).quiet_for()).max();
        TurnOver { errand, outcome, quiet: quiet.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errand(id: &str, lane: &str, is_late: bool) -> Errand {
        Errand { id: id.into(), lane: lane.into(), mints: Vec::new(), is_late }
    }

    #[test]
    fn a_lane_has_one_turn_at_a_time_and_goes_to_the_end_of_the_line() {
        let mut lines = Lines::default();
        for (id, lane, is_late) in
            [("old", "a", true), ("a1", "a", false), ("a2", "a", false), ("b1", "b", false)]
        {
            lines.put(errand(id, lane, is_late));
        }
        let take = |lines: &mut Lines| lines.take().map(|errand| errand.id);
        assert_eq!(take(&mut lines).as_deref(), Some("a1"));
        assert_eq!(take(&mut lines).as_deref(), Some("b1"));
        assert_eq!(take(&mut lines), None, "both are busy");
        lines.put(errand("b2", "b", false));
        lines.finish("a");
        lines.finish("b");
        let rest: Vec<_> = std::iter::from_fn(|| {
            let taken = lines.take()?;
            lines.finish(&taken.lane);
            Some(taken.id)
        })
        .collect();
        assert_eq!(rest, ["a2", "b2", "old"]);
        assert!(lines.lanes.is_empty() && lines.busy == 0);
    }
}
