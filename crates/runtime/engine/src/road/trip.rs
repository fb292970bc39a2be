//! The loop that every way of following shares: forward, backward, waiting, the end.

use std::{sync::Arc, time::Duration};

use unspent_model::{Network, Point};
use unspent_source::{Source, SourceError};

use super::{
    Follow, Follower, Start, Trouble,
    ahead::{self, NextStep, Stopped},
    block::SharedBlock,
    cache::BlockCache,
    place,
};

/// The last blocks of a bulk run, taken one by one: the next reorganisation will be among them.
const LAST_BLOCKS: u64 = 6;

/// Where a trip ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It doesn't: the room follows the tip.
    Never,
    /// Where the source has no more blocks.
    Tip,
    /// With this block, or where the source has no more.
    Height(u64),
}

/// How a trip ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It came to its [`End`].
    Arrived,
    /// There was nothing to follow for.
    Nothing,
    /// Somebody asked it to stop; the room stands at a block boundary.
    Asked,
}

/// Who is told on the way.
pub trait Watch {
    /// The trip should end at the next block boundary. Asked on any thread.
    fn is_stopping(&self) -> bool;

    /// The source answered.
    fn source_is_here(&self, _tip: Option<Point>) {}

    /// Many blocks are to come.
    fn catching_up(&self, _coming: u64) {}

    /// The room stands here, after `blocks` more.
    fn moved(&self, _tip: Option<Point>, _blocks: u64) {}

    /// The room has left `from` for `to`, which is so many blocks below.
    fn rolled_back(&self, _from: Point, _to: Option<Point>, _depth: u64) {}

    /// The room stands at the source's tip.
    fn arrived(&self) {}

    /// There is nothing to do until there is news, or for this long.
    fn pause(&self, _patience: Duration) {}
}

/// One way from a source into a room.
pub struct Trip<'a, F> {
    room: &'a mut F,
    source: &'a mut dyn Source,
    network: Network,
    name: String,
    follow: Follow,
    cache: Option<&'a BlockCache>,
    watch: &'a (dyn Watch + Sync),
    /// Where the reader stands, once a block has told; `Some(None)` is the origin.
    place: Option<Option<Point>>,
}

impl<'a, F: Follower> Trip<'a, F> {
    /// A trip of a room that shares its blocks with nobody.
    pub fn new(
        room: &'a mut F,
        source: &'a mut dyn Source,
        network: Network,
        follow: Follow,
        watch: &'a (dyn Watch + Sync),
    ) -> Self {
        let name = "the source".to_owned();
        Self { room, source, network, name, follow, cache: None, watch, place: None }
    }

    /// What errors call the source.
    #[must_use]
    pub fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    pub(super) fn sharing(mut self, cache: &'a BlockCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Finds the place and goes on to the end.
    ///
    /// # Errors
    ///
    /// [`Trouble`]; what was applied before it stays.
    pub fn run(mut self, end: End) -> Result<Ended, Trouble> {
        let mut is_placed = self.find_place(end)?;
        self.watch.source_is_here(self.source.tip());
        while !is_placed && !self.watch.is_stopping() {
            self.watch.arrived();
            let more = self.room.upkeep()?;
            match end {
                End::Never => self.watch.pause(self.follow.poll),
                End::Tip | End::Height(_) if more => continue,
                End::Tip | End::Height(_) => return Ok(Ended::Nothing),
            }
            is_placed = self.find_place(end)?;
            self.watch.source_is_here(self.source.tip());
        }
        self.go_on(end)
    }

    /// Goes on from where room and source stand.
    ///
    /// # Errors
    ///
    /// [`Trouble`]; what was applied before it stays.
    pub fn go_on(mut self, end: End) -> Result<Ended, Trouble> {
        // Not while it looks for its place: it takes no blocks then, and the others' would be kept
        // for it.
        let _sharing = self.cache.map(BlockCache::join);
        let mut held = None;
        while !self.watch.is_stopping() {
            let more = self.room.upkeep()?;
            if self.is_over(end)? {
                return Ok(Ended::Arrived);
            }
            // A step that is held followed the last block of the bulk run, so it has to be taken
            // first.
            if held.is_none() && self.is_far(end)? {
                held = self.catch_up(end)?;
                continue;
            }
            // A finite trip must not wait for news, and upkeep must not wait for the next block.
            let patience =
                if more || end != End::Never { Duration::ZERO } else { self.follow.poll };
            let step = match held.take() {
                Some(step) => step,
                None => self.next(patience)?,
            };
            self.watch.source_is_here(self.source.tip());
            match step {
                NextStep::Block(block) => self.forward(&block)?,
                NextStep::Backward(to) => self.backward(to)?,
                // A node may know of blocks that it doesn't have yet.
                NextStep::Nothing if end == End::Never && self.is_far(end)? => {}
                NextStep::Nothing if end == End::Never => self.watch.arrived(),
                // Upkeep that was begun belongs to the trip: nobody would go on with it after the
                // end.
                NextStep::Nothing if more => {}
                NextStep::Nothing => return Ok(Ended::Arrived),
            }
        }
        Ok(Ended::Asked)
    }

    fn next(&mut self, patience: Duration) -> Result<NextStep, SourceError> {
        ahead::next(self.source, self.cache, &mut self.place, patience)
    }

    fn is_over(&self, end: End) -> Result<bool, Trouble> {
        let End::Height(last) = end else { return Ok(false) };
        Ok(self.room.tip()?.is_some_and(|tip| tip.height >= last))
    }

    /// Sets the source where the room stands, undoing what the source's chain doesn't have.
    /// Says whether there is anything to follow for.
    fn find_place(&mut self, end: End) -> Result<bool, Trouble> {
        let tip = self.room.tip()?;
        self.watch.moved(tip, 0);
        let Some(tip) = tip else {
            return Ok(self.room.start(self.source)? == Start::Ready);
        };
        let place = place::fork_point(self.room, self.source, tip)?;
        self.place = Some(place);
        if place == Some(tip) {
            return Ok(true);
        }
        if end != End::Never {
            return self.leave_branch(place, tip);
        }
        let behind = place.map_or(tip.height, |place| tip.height.saturating_sub(place.height));
        if place.is_some() && place == self.source.tip() && behind > LAST_BLOCKS {
            // It has no other branch to offer: undoing blocks would only mean reading them again.
            self.watch.source_is_here(self.source.tip());
            let reason = format!("the source is {behind} blocks behind this room");
            return Err(Trouble::Busy(reason.into()));
        }
        self.backward(place)?;
        Ok(true)
    }

    /// A finite source replaces the room's branch only by a longer one.
    fn leave_branch(&mut self, place: Option<Point>, tip: Point) -> Result<bool, Trouble> {
        if self.source.tip().is_none_or(|last| last.height <= tip.height) {
            return Ok(false);
        }
        // Going back to the origin would drop the whole chain for the sake of some unrelated files.
        if place.is_none() {
            let reason = "these blocks don't connect to the room's own";
            return Err(Trouble::Lost(reason.into()));
        }
        self.backward(place)?;
        Ok(true)
    }

    fn forward(&mut self, block: &Arc<SharedBlock>) -> Result<(), Trouble> {
        let ready = ahead::prepare::<F>(self.network, &self.name, block).inspect_err(|_| {
            self.cache.inspect(|cache| cache.forget(block.point));
        })?;
        // Decoding isn't counted: whether it was done here depends on which room came first.
        let timed = std::time::Instant::now();
        self.room.apply(ready)?;
        let name = self.room.room().name();
        metrics::histogram!("unspent_engine_apply_seconds", "room" => name).record(timed.elapsed());
        self.watch.moved(self.room.tip()?, 1);
        // Blocks may come so fast that there is never nothing to do.
        if self.source.tip() == Some(block.point) {
            self.watch.arrived();
        }
        Ok(())
    }

    fn backward(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let Some(from) = self.room.tip()? else { return Ok(()) };
        if to == Some(from) {
            return Ok(());
        }
        let target = to.map_or(0, |point| point.height + 1);
        // A Cardano boundary block shares the height of the block below it.
        let depth = (from.height + 1).saturating_sub(target).max(1);
        self.room.roll_back(to)?;
        self.watch.rolled_back(from, to, depth);
        self.watch.moved(self.room.tip()?, 0);
        Ok(())
    }

    fn is_far(&self, end: End) -> Result<bool, Trouble> {
        let Some(coming) = self.coming(end)? else { return Ok(false) };
        Ok(coming > self.follow.bulk_threshold.max(LAST_BLOCKS))
    }

    /// Blocks that are certainly to come. Never too many: undo data is left out by this number.
    fn coming(&self, end: End) -> Result<Option<u64>, Trouble> {
        if let Some(known) = self.source.remaining() {
            return Ok(Some(known));
        }
        let Some(tip) = self.source.tip() else { return Ok(None) };
        let last = match end {
            End::Height(last) => last.min(tip.height),
            End::Never | End::Tip => tip.height,
        };
        let next = self.room.tip()?.map_or(0, |tip| tip.height + 1);
        Ok(Some((last + 1).saturating_sub(next)))
    }

    /// Takes blocks in bulk until near the end. Returns the step that came in between, if any.
    fn catch_up(&mut self, end: End) -> Result<Option<NextStep>, Trouble> {
        let Some(coming) = self.coming(end)? else { return Ok(None) };
        self.watch.catching_up(coming);
        let before = self.room.tip()?;
        let reading = ahead::Reading {
            source: self.source,
            cache: self.cache,
            place: &mut self.place,
            network: self.network,
            name: &self.name,
            most: coming.saturating_sub(LAST_BLOCKS),
            patience: self.follow.poll,
            watch: self.watch,
        };
        let (applied, stopped) = ahead::feed(self.room, reading, coming);
        applied?;
        let tip = self.room.tip()?;
        if tip != before {
            self.watch.moved(tip, 0);
        }
        match stopped {
            Stopped::FarEnough => Ok(None),
            Stopped::Step(step) => Ok(Some(step)),
            Stopped::Failed(error) => Err(error.into()),
            Stopped::Dropped => Err(Trouble::Lost("the read-ahead thread ended early".into())),
        }
    }
}
