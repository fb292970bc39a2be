//! One room's thread: a trip without end, and what happens when it ends all the same.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use unspent_model::Point;
use unspent_source::SourceError;

use super::{Cause, End, Follow, Follower, Trip, Trouble, Watch};
use crate::{
    context::Context,
    events::kind::{self, CaughtUpBody, EmptyBody, ReasonBody, RoomBody, RoomStoppedBody},
    names::RoomName,
    status::RoomState,
};

/// The longest pause between two attempts: a node that is back is found again soon, and asking one
/// that is away costs next to nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Attempts without progress after which a source that gives nonsense, or a room that refuses its
/// blocks, is left to a person.
const ATTEMPTS: u32 = 5;

/// Why a room stops, and what a person can do about it.
struct StopNotice {
    reason: String,
    remedy: String,
}

/// One room's thread.
pub(crate) struct Worker<F> {
    follower: F,
    progress: Progress,
    follow: Follow,
    resume: Arc<AtomicBool>,
}

/// How the room fares, for everybody to see.
struct Progress {
    room: RoomName,
    context: Arc<Context>,
    /// Attempts since the last progress.
    failures: AtomicU32,
    /// The room was far behind and hasn't been told to be at the tip since.
    was_behind: AtomicBool,
}

impl Progress {
    fn settled(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    fn set_state(&self, state: RoomState) -> RoomState {
        self.context.board.set_state(self.room, state)
    }
}

impl Watch for Progress {
    fn is_stopping(&self) -> bool {
        self.context.is_stopping()
    }

    fn source_is_here(&self, tip: Option<Point>) {
        if self.context.board.source_is_here(self.room, tip) {
            self.context.write_event(kind::SOURCE_FOUND, &EmptyBody {});
        }
        if matches!(self.context.board.state(self.room), RoomState::Waiting { .. }) {
            self.set_state(RoomState::Starting);
        }
    }

    fn catching_up(&self, coming: u64) {
        if self.set_state(RoomState::CatchingUp) != RoomState::CatchingUp {
            tracing::info!(room = self.room.name(), coming, "catching up");
        }
        self.was_behind.store(true, Ordering::Relaxed);
    }

    fn moved(&self, tip: Option<Point>, blocks: u64) {
        if self.context.board.moved(self.room, tip, blocks) {
            self.settled();
        }
        self.context.news.wake();
    }

    fn rolled_back(&self, from: Point, to: Option<Point>, depth: u64) {
        self.settled();
        self.context.board.rolled_back(self.room, from, to, depth);
    }

    fn arrived(&self) {
        self.settled();
        // Jobs such as the reading of the mempool wait for the tip, and need not wait for their
        // time too.
        if self.set_state(RoomState::Following) != RoomState::Following {
            self.context.wakeup.wake();
        }
        if self.was_behind.swap(false, Ordering::Relaxed) {
            let tip = self.context.board.tip(self.room);
            let body = CaughtUpBody { room: self.room.name(), height: tip.map(|tip| tip.height) };
            self.context.write_event(kind::CAUGHT_UP, &body);
        }
    }

    fn pause(&self, patience: Duration) {
        self.context.wakeup.wait(self.context.wakeup.count(), patience);
    }
}

impl<F: Follower> Worker<F> {
    pub(crate) fn new(
        follower: F,
        context: Arc<Context>,
        follow: Follow,
        resume: Arc<AtomicBool>,
    ) -> Self {
        let (failures, was_behind) = (AtomicU32::new(0), AtomicBool::new(false));
        let progress = Progress { room: follower.room(), context, failures, was_behind };
        Self { follower, progress, follow, resume }
    }

    /// Follows until the engine ends.
    pub(crate) fn run(mut self) {
        while !self.progress.is_stopping() {
            let mut met = self.guarded(Self::session);
            // Settling opens the room anew, which may panic as well: the thread would be gone, and
            // the room shown as starting for ever.
            while let Some(trouble) = met.err().filter(|_| !self.progress.is_stopping()) {
                met = self.guarded(|worker| {
                    worker.settle(trouble);
                    Ok(())
                });
            }
        }
        self.follower.refuse_orders("the engine is stopping");
    }

    /// A panic in a room must not take the others with it, nor pass unnoticed.
    fn guarded(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            Err(Trouble::stop(
                "a bug ended the room's thread",
                "report it with the log; resume the room to try again",
            ))
        })
    }

    /// One stay at the source: from finding the place to the first trouble.
    fn session(&mut self) -> Result<(), Trouble> {
        let context = self.progress.context.clone();
        // A reader that failed may stand anywhere, with half an answer on its way: no session
        // inherits one.
        let mut source = context.origin.open()?;
        Trip::new(&mut self.follower, &mut *source, context.network, self.follow, &self.progress)
            .named(context.origin.name())
            .sharing(&context.cache)
            .run(End::Never)?;
        Ok(())
    }

    /// Waits or stops, as the trouble asks.
    fn settle(&mut self, trouble: Trouble) {
        let failures = self.progress.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        match trouble {
            Trouble::Source(error) => self.settle_source(error),
            Trouble::Busy(cause) => self.wait(cause.to_string()),
            Trouble::Disk(cause) => self.wait_for_disk(cause),
            Trouble::Lost(cause) if failures > ATTEMPTS => self.stop(StopNotice {
                reason: format!("the room refuses the source's blocks: {cause}"),
                remedy: "check whether another program changed the room; resume it when that has stopped"
                    .into(),
            }),
            Trouble::Lost(cause) => {
                // Attempts are counted, so news must not wake this pause: they would be used up in
                // a moment.
                tracing::warn!(
                    room = self.name(),
                    %cause,
                    "looking for the room's place on the source's chain again"
                );
                self.progress.context.wakeup.pause(self.follow.retry);
            }
            Trouble::Stop { cause, remedy } => {
                self.stop(StopNotice { reason: cause.to_string(), remedy });
            }
        }
    }

    fn settle_source(&mut self, error: SourceError) {
        let reason = error.to_string();
        let context = &self.progress.context;
        // A source that says which block it lacks has answered: it isn't lost.
        let is_here = matches!(error, SourceError::Missing { .. });
        if !is_here && context.board.source_is_away(self.progress.room, reason.clone()) {
            context.write_event(kind::SOURCE_LOST, &ReasonBody { reason: reason.clone() });
        }
        let remedy = match error {
            // A pruned block doesn't come back by itself, so waiting would hide the trouble.
            SourceError::Missing { height, .. } => {
                format!("point the daemon at a node that still has block {height}, then resume")
            }
            SourceError::WrongNetwork { .. } => {
                "point the daemon at a node of the right network".into()
            }
            SourceError::Malformed { .. } if self.progress.failures() > ATTEMPTS => {
                "check the source, which keeps giving invalid data; then resume".into()
            }
            // Access that is denied is waited for as well: a node that starts writes another
            // cookie.
            SourceError::Malformed { .. }
            | SourceError::Unreachable { .. }
            | SourceError::Denied { .. } => return self.wait(reason),
        };
        self.stop(StopNotice { reason, remedy });
    }

    fn wait(&self, reason: String) {
        let waiting = RoomState::Waiting { reason: reason.clone() };
        // Said once, not at every attempt of a long absence.
        if self.progress.set_state(waiting.clone()) == waiting {
            tracing::debug!(room = self.name(), reason, "still waiting");
        } else {
            tracing::warn!(room = self.name(), reason, "waiting");
        }
        // Somebody who has mended things may wake us.
        self.progress.pause(pause_after(self.follow.retry, self.progress.failures()));
    }

    /// Waits until the disk has space again, and opens the room anew.
    fn wait_for_disk(&mut self, mut cause: Cause) {
        loop {
            self.wait(cause.to_string());
            if self.progress.is_stopping() {
                return;
            }
            // A store that failed to write takes nothing until it is opened again, whatever space
            // there is.
            match self.follower.reopen() {
                Ok(()) => return,
                Err(Trouble::Disk(again)) => cause = again,
                Err(other) => return self.settle(other),
            }
        }
    }

    fn stop(&mut self, StopNotice { reason, remedy }: StopNotice) {
        tracing::error!(room = self.name(), reason, remedy, "the room is stopped");
        let context = self.progress.context.clone();
        let body =
            RoomStoppedBody { room: self.name(), reason: reason.clone(), remedy: remedy.clone() };
        self.follower.refuse_orders(&reason);
        self.progress.set_state(RoomState::Stopped { reason: reason.clone(), remedy });
        context.write_event(kind::ROOM_STOPPED, &body);
        context.news.wake();
        while !context.is_stopping() && !self.resume.swap(false, Ordering::AcqRel) {
            // Counted before the flag is read: a resume in between changes the count and so ends
            // the wait.
            let known = context.wakeup.count();
            if !self.resume.load(Ordering::Acquire) {
                context.wakeup.wait(known, self.follow.poll);
            }
            // Orders may have come meanwhile, and nobody but this thread can answer them.
            self.follower.refuse_orders(&reason);
        }
        if context.is_stopping() {
            return;
        }
        self.progress.settled();
        self.progress.set_state(RoomState::Starting);
        context.write_event(kind::ROOM_RESUMED, &RoomBody { room: self.name() });
        if let Err(trouble) = self.follower.reopen() {
            self.settle(trouble);
        }
    }

    fn name(&self) -> &'static str {
        self.progress.room.name()
    }
}

/// The pause after so many failures in a row: twice as long each time, up to a limit.
fn pause_after(retry: Duration, failures: u32) -> Duration {
    let doublings = failures.min(10).saturating_sub(1);
    retry.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_long_absence_a_node_is_found_within_five_seconds() {
        let pauses: Vec<Duration> =
            (1..200).map(|failures| pause_after(Follow::default().retry, failures)).collect();
        assert!(pauses.is_sorted() && pauses.iter().all(|pause| !pause.is_zero()));
        assert_eq!(pauses.last(), Some(&Duration::from_secs(5)), "never longer, however long");
        assert_eq!(pause_after(Duration::from_millis(200), 3), Duration::from_millis(800));
        assert_eq!(pause_after(Duration::from_secs(60), 1), LONGEST_PAUSE, "whatever is set");
        assert_eq!(pause_after(Duration::from_secs(1), u32::MAX), LONGEST_PAUSE);
    }
}
