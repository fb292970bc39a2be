//! The loop that all rooms share: look for the place, go forward and backward, wait, stop.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use metrics::histogram;
use serde_json::json;
use unspent_model::Point;

use super::{
    Follower, Start, Trouble,
    ahead::{self, Ahead, End},
    place,
};
use crate::{
    config::Follow,
    events::kind,
    shared::Shared,
    source::{RawBlock, Source, SourceError, Step},
    status::RoomState,
};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Attempts without progress after which a source that gives nonsense, or a room that refuses its
/// blocks, is left to a person.
const ATTEMPTS: u32 = 5;
/// The last blocks of a bulk run, taken one by one.
const LAST_BLOCKS: u64 = 6;

/// One room's thread.
pub(crate) struct Worker<F> {
    follower: F,
    shared: Arc<Shared>,
    follow: Follow,
    resume: Arc<AtomicBool>,
    /// Attempts since the last progress.
    failures: u32,
    /// The room was far behind and hasn't been told to be at the tip since.
    was_behind: bool,
}

impl<F: Follower> Worker<F> {
    pub(crate) fn new(
        follower: F,
        shared: Arc<Shared>,
        follow: Follow,
        resume: Arc<AtomicBool>,
    ) -> Self {
        Self { follower, shared, follow, resume, failures: 0, was_behind: false }
    }

    /// Follows until the engine ends.
    pub(crate) fn run(mut self) {
        while !self.shared.is_stopping() {
            // A panic in a room must not take the others with it, nor pass unnoticed.
            let session = catch_unwind(AssertUnwindSafe(|| self.session()));
            let trouble = match session {
                Ok(Ok(())) => continue,
                Ok(Err(trouble)) => trouble,
                Err(_) => Trouble::Stop {
                    reason: "a fault in the program ended the room's thread".into(),
                    remedy: "report it with the log; resume the room to try again".into(),
                },
            };
            if !self.shared.is_stopping() {
                self.settle(trouble);
            }
        }
        self.follower.refuse_orders("the engine is stopping");
    }

    /// Waits or stops, as the trouble asks.
    fn settle(&mut self, trouble: Trouble) {
        self.failures = self.failures.saturating_add(1);
        match trouble {
            Trouble::Source(error) => self.settle_source(error),
            Trouble::Busy(reason) => self.wait(reason),
            Trouble::Lost(reason) if self.failures > ATTEMPTS => self.stop(
                format!("the room refuses the source's blocks: {reason}"),
                "see whether another program changed the room; resume it when that is over".into(),
            ),
            Trouble::Lost(reason) => {
                tracing::warn!(room = self.name(), reason, "looking for the place anew");
                self.shared.pulse.pause(self.follow.retry);
            }
            Trouble::Stop { reason, remedy } => self.stop(reason, remedy),
        }
    }

    fn settle_source(&mut self, error: SourceError) {
        let reason = error.to_string();
        let is_here = matches!(error, SourceError::Missing { .. });
        if !is_here && self.shared.board.source_is_away(self.follower.room(), reason.clone()) {
            self.shared.tell(kind::SOURCE_LOST, None, json!({ "reason": reason }));
        }
        match error {
            SourceError::Missing { height, .. } => self.stop(
                reason,
                format!("point the daemon at a node that still has block {height}, then resume"),
            ),
            SourceError::WrongNetwork { .. } => {
                self.stop(reason, "point the daemon at a node of the right network".into());
            }
            SourceError::Malformed { .. } if self.failures > ATTEMPTS => self.stop(
                reason,
                "look at the source: it keeps giving what can't be right; then resume".into(),
            ),
            SourceError::Malformed { .. }
            | SourceError::Unreachable { .. }
            | SourceError::Denied { .. } => self.wait(reason),
        }
    }

    fn wait(&self, reason: String) {
        tracing::warn!(room = self.name(), reason, "waiting");
        self.shared.board.set_state(self.follower.room(), RoomState::Waiting { reason });
        let doubled =
            self.follow.retry.saturating_mul(1 << self.failures.min(10).saturating_sub(1));
        // Somebody who has mended things may wake us.
        self.shared.pulse.wait(self.shared.pulse.count(), doubled.min(LONGEST_PAUSE));
    }

    fn stop(&mut self, reason: String, remedy: String) {
        tracing::error!(room = self.name(), reason, remedy, "the room is stopped");
        let body = json!({ "room": self.name(), "reason": reason, "remedy": remedy });
        self.follower.refuse_orders(&reason);
        let stopped = RoomState::Stopped { reason: reason.clone(), remedy };
        self.shared.board.set_state(self.follower.room(), stopped);
        self.shared.tell(kind::ROOM_STOPPED, None, body);
        self.shared.news.wake();
        while !self.shared.is_stopping() && !self.resume.swap(false, Ordering::AcqRel) {
            let known = self.shared.pulse.count();
            if !self.resume.load(Ordering::Acquire) {
                self.shared.pulse.wait(known, self.follow.poll);
            }
            self.follower.refuse_orders(&reason);
        }
        if self.shared.is_stopping() {
            return;
        }
        self.failures = 0;
        self.shared.board.set_state(self.follower.room(), RoomState::Starting);
        self.shared.tell(kind::ROOM_RESUMED, None, json!({ "room": self.name() }));
        if let Err(trouble) = self.follower.reopen() {
            self.settle(trouble);
        }
    }

    fn name(&self) -> &'static str {
        self.follower.room().name()
    }

    /// One stay at the source: from finding the place to the first trouble.
    fn session(&mut self) -> Result<(), Trouble> {
        let mut source = self.shared.origin.open()?;
        let mut is_placed = self.find_place(&mut *source)?;
        self.source_is_here(&*source);
        let room = self.follower.room();
        if matches!(self.shared.board.state(room), RoomState::Waiting { .. }) {
            self.shared.board.set_state(room, RoomState::Starting);
        }
        while !is_placed && !self.shared.is_stopping() {
            self.arrived();
            self.follower.upkeep()?;
            self.shared.pulse.wait(self.shared.pulse.count(), self.follow.poll);
            is_placed = self.find_place(&mut *source)?;
            self.source_is_here(&*source);
        }
        let mut held = None;
        while !self.shared.is_stopping() {
            let more = self.follower.upkeep()?;
            if held.is_none() && self.is_far(&*source)? {
                held = self.catch_up(&mut *source)?;
                continue;
            }
            let patience = if more { Duration::ZERO } else { self.follow.poll };
            let step = match held.take() {
                Some(step) => step,
                None => source.next(patience)?,
            };
            self.source_is_here(&*source);
            match step {
                Step::Forward(raw) => {
                    let place = raw.point;
                    self.forward(raw)?;
                    // Blocks may come so fast that there is never nothing to do.
                    if source.tip() == Some(place) {
                        self.arrived();
                    }
                }
                Step::Backward(to) => self.backward(to)?,
                // A node may know of blocks that it doesn't have yet.
                Step::Nothing if self.is_far(&*source)? => {}
                Step::Nothing => self.arrived(),
            }
        }
        Ok(())
    }

    /// Sets the source where the room stands, undoing what the source's chain doesn't have.
    /// Says whether there is anything to follow for.
    fn find_place(&mut self, source: &mut dyn Source) -> Result<bool, Trouble> {
        let tip = self.follower.tip()?;
        self.shared.board.moved(self.follower.room(), tip, 0);
        let Some(tip) = tip else {
            return Ok(self.follower.start(source)? == Start::Ready);
        };
        let place = place::fork_point(&self.follower, source, tip)?;
        if place == Some(tip) {
            return Ok(true);
        }
        let behind = place.map_or(tip.height, |place| tip.height.saturating_sub(place.height));
        if place.is_some() && place == source.tip() && behind > LAST_BLOCKS {
            // It has no other branch to offer: undoing blocks would only mean reading them again.
            self.source_is_here(source);
            let reason = format!("the source is {behind} blocks behind this room");
            return Err(Trouble::Busy(reason));
        }
        self.backward(place)?;
        Ok(true)
    }

    fn forward(&mut self, raw: RawBlock) -> Result<(), Trouble> {
        let block = self.shared.cache.share(raw);
        let name = self.shared.origin.name();
        let ready = ahead::ready::<F>(self.shared.network, &name, &block)
            .inspect_err(|_| self.shared.cache.forget(block.point))?;
        let started = Instant::now();
        self.follower.apply(ready)?;
        histogram!("unspent_engine_apply_seconds", "room" => self.name()).record(started.elapsed());
        self.progressed(self.follower.tip()?, 1);
        Ok(())
    }

    fn backward(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let Some(from) = self.follower.tip()? else { return Ok(()) };
        if to == Some(from) {
            return Ok(());
        }
        let target = to.map_or(0, |point| point.height + 1);
        // A Cardano boundary block shares the height of the block below it.
        let depth = (from.height + 1).saturating_sub(target).max(1);
        self.follower.roll_back(to)?;
        self.shared.board.reorganised(self.follower.room(), from, to, depth);
        self.progressed(self.follower.tip()?, 0);
        Ok(())
    }

    fn is_far(&self, source: &dyn Source) -> Result<bool, Trouble> {
        let Some(tip) = source.tip() else { return Ok(false) };
        let behind = self.blocks_to(tip.height)?;
        Ok(behind > self.follow.bulk_threshold.max(LAST_BLOCKS))
    }

    /// Blocks from the room's tip up to a height.
    fn blocks_to(&self, height: u64) -> Result<u64, Trouble> {
        let next = self.follower.tip()?.map_or(0, |tip| tip.height + 1);
        Ok((height + 1).saturating_sub(next))
    }

    /// Takes blocks in bulk until near the tip. Returns the step that came in between, if any.
    fn catch_up(&mut self, source: &mut dyn Source) -> Result<Option<Step>, Trouble> {
        let room = self.follower.room();
        let Some(tip) = source.tip() else { return Ok(None) };
        let coming = self.blocks_to(tip.height)?;
        if self.shared.board.set_state(room, RoomState::CatchingUp) != RoomState::CatchingUp {
            tracing::info!(room = room.name(), coming, "catching up");
        }
        self.was_behind = true;
        let shared = self.shared.clone();
        let ahead = Ahead {
            source,
            network: shared.network,
            name: shared.origin.name(),
            until: tip.height.saturating_sub(LAST_BLOCKS),
            poll: self.follow.poll,
            pulse: &shared.pulse,
        };
        let mut moved = |tip, blocks| {
            shared.board.moved(room, tip, blocks);
            shared.news.wake();
        };
        let (applied, end) = ahead::feed(&mut self.follower, ahead, coming, &mut moved);
        applied?;
        if self.blocks_to(tip.height)? < coming {
            self.progressed(self.follower.tip()?, 0);
        }
        match end {
            End::Reached => Ok(None),
            End::Step(step) => Ok(Some(step)),
            End::Failed(error) => Err(error.into()),
            End::Dropped => Err(Trouble::Lost("the thread that reads ahead ended early".into())),
        }
    }

    fn source_is_here(&self, source: &dyn Source) {
        if self.shared.board.source_is_here(self.follower.room(), source.tip()) {
            self.shared.tell(kind::SOURCE_FOUND, None, json!({}));
        }
    }

    fn progressed(&mut self, tip: Option<Point>, blocks: u64) {
        self.failures = 0;
        self.shared.board.moved(self.follower.room(), tip, blocks);
        self.shared.news.wake();
    }

    /// The room is at the tip.
    fn arrived(&mut self) {
        self.failures = 0;
        let room = self.follower.room();
        let before = self.shared.board.set_state(room, RoomState::Following);
        if before != RoomState::Following {
            self.shared.pulse.wake();
        }
        if std::mem::take(&mut self.was_behind) {
            let tip = self.shared.board.tip(room);
            let body = json!({ "room": room.name(), "height": tip.map(|tip| tip.height) });
            self.shared.tell(kind::CAUGHT_UP, None, body);
        }
    }
}
