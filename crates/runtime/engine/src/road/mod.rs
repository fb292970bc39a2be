//! The one road of a block: from a source, read ahead and decoded once, into a room.
//!
//! `serve` follows a node for ever, `chain import` takes a folder of files to its end, a scan stops
//! at a height. All of them need the same: find where the room's chain and the source's part,
//! have the room roll back to there, read ahead while much is to come, go block by block near the
//! tip, stop at a block boundary. So they are one [`Trip`]: a source, a room, an [`End`], and
//! somebody who is told ([`Watch`]).
//!
//! | module | keeps |
//! |---|---|
//! | `trip` | the loop: forward, backward, waiting, the end |
//! | `place` | where the room's chain and the source's part |
//! | `ahead` | reading and decoding ahead while many blocks are to come |
//! | `block` | a block that all rooms share, decoded and checked once |
//! | `cache` | the blocks that one room has read and another hasn't |
//! | `worker` | a trip without end on a thread of its own: waiting, stopping, resuming |
//!
//! Invariant: a room is told nothing after its error until somebody resumes it. No room waits for
//! another. Whatever a room is given derives from the bytes of blocks.

mod ahead;
mod block;
pub(crate) mod cache;
mod place;
mod trip;
pub(crate) mod worker;

use std::{error::Error, fmt, sync::Arc};

use unspent_model::{Network, Point};
use unspent_source::{Source, SourceError};

use crate::room::RoomName;

pub use self::ahead::prepare;
pub use self::{
    block::SharedBlock,
    trip::{End, Ended, Trip, Watch},
};

/// What a room or a source said when it could not go on.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a trip can't go on. What was applied before it stays.
#[derive(Debug)]
pub enum Trouble {
    /// The source failed.
    Source(SourceError),
    /// The room's database is away or busy; nothing was changed.
    Busy(Cause),
    /// The disk is full or fails, and the room has to be opened again once it doesn't.
    Disk(Cause),
    /// The room's blocks and those of the source don't fit; the place has to be found anew.
    Lost(Cause),
    /// Only a person can help.
    Stop {
        /// What is wrong.
        cause: Cause,
        /// What to do before the room is resumed.
        remedy: String,
    },
}

impl Trouble {
    /// Only a person can help.
    pub fn stop(cause: impl Into<Cause>, remedy: impl Into<String>) -> Self {
        Self::Stop { cause: cause.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Busy(cause)
            | Self::Disk(cause)
            | Self::Lost(cause)
            | Self::Stop { cause, .. } => cause.fmt(f),
        }
    }
}

impl Error for Trouble {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Source(error) => Some(error),
            Self::Busy(cause)
            | Self::Disk(cause)
            | Self::Lost(cause)
            | Self::Stop { cause, .. } => Some(&**cause),
        }
    }
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Whether an empty room can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The source is set before the first block that the room wants.
    Ready,
    /// There is nothing to follow for.
    Nothing,
}

/// A room's side of the road: what is special about how it takes blocks.
///
/// Only `tip`, `stored_at`, `prepare`, `apply` and `roll_back` have to be there; the rest is for
/// rooms that can do more than take one block after the other.
pub trait Follower: Send {
    /// A block in the form that the room takes.
    type Ready: Send;

    /// Which room it is.
    fn room(&self) -> RoomName;

    /// Where it stands on disk.
    ///
    /// # Errors
    ///
    /// [`Trouble`] when the room can't be asked.
    fn tip(&self) -> Result<Option<Point>, Trouble>;

    /// The highest stored block at or below a height.
    ///
    /// # Errors
    ///
    /// [`Trouble`] when the room can't be asked.
    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble>;

    /// Sets the source for a room that has no block yet. By default it wants all of them.
    ///
    /// # Errors
    ///
    /// [`Trouble`] when source or room can't be asked.
    fn start(&mut self, source: &mut dyn Source) -> Result<Start, Trouble> {
        source.intersect(&[])?;
        Ok(Start::Ready)
    }

    /// Makes a block ready, on whatever thread reads ahead. Pure.
    ///
    /// # Errors
    ///
    /// Says why the block can't be read; the source is to blame.
    fn prepare(network: Network, block: &Arc<SharedBlock>) -> Result<Self::Ready, String>;

    /// Takes one block in, together with the room's cursor, in one step.
    ///
    /// # Errors
    ///
    /// [`Trouble`]; the room is then as it was before the block.
    fn apply(&mut self, block: Self::Ready) -> Result<(), Trouble>;

    /// Takes many blocks in, as long as they come; `coming` more are known to be. `moved` is told
    /// how many went in.
    ///
    /// # Errors
    ///
    /// [`Trouble`]; the room then stands at a block boundary.
    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<Self::Ready>>,
        _coming: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        for batch in blocks {
            let count = batch.len() as u64;
            batch.into_iter().try_for_each(|block| self.apply(block))?;
            moved(self.tip()?, count);
        }
        Ok(())
    }

    /// Undoes every block above `to`; `None` is the origin.
    ///
    /// # Errors
    ///
    /// [`Trouble`]; a room that can't go back so far refuses before it has undone anything.
    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble>;

    /// Looks after itself between two steps; says whether there is more to do at once.
    ///
    /// # Errors
    ///
    /// [`Trouble`], as from a block.
    fn upkeep(&mut self) -> Result<bool, Trouble> {
        Ok(false)
    }

    /// Gets ready to go on after a stop.
    ///
    /// # Errors
    ///
    /// [`Trouble`] when it still can't.
    fn reopen(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    /// Answers whoever waits for its thread while it is stopped.
    fn refuse_orders(&mut self, _reason: &str) {}
}
