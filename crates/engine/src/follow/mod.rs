//! Following: one worker per room, each with its own source and its own place.
//!
//! | module | keeps |
//! |---|---|
//! | `worker` | the loop that all rooms share: look for the place, go forward and backward, wait, stop |
//! | `place` | finding where the room's chain and the source's part |
//! | `ahead` | reading and decoding ahead while many blocks are to come |
//! | `cache` | a few blocks that the rooms share |
//! | `chain`, `wallet` | what is special about a room |
//! | `scan` | wallets that are behind the others |
//!
//! Invariant: a room is told nothing after its error until somebody resumes it. No room waits for
//! another.

mod ahead;
pub(crate) mod cache;
pub(crate) mod chain;
mod place;
mod scan;
pub(crate) mod wallet;
pub(crate) mod worker;

use unspent_model::{Network, Point};

use self::cache::SharedBlock;
use crate::{
    source::{Source, SourceError},
    status::RoomName,
};

/// Why a worker can't go on as it did.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The source failed.
    Source(SourceError),
    /// The room's database is away or busy; nothing was changed.
    Busy(String),
    /// The room's blocks and those of the source don't fit; the place has to be found anew.
    Lost(String),
    /// Only a person can help.
    Stop {
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Whether an empty room can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The source is set before the first block that the room wants.
    Ready,
    /// There is nothing to follow for.
    Nothing,
}

/// What is special about a room.
pub(crate) trait Follower: Send {
    /// A block in the form that the room takes.
    type Ready: Send;

    /// Which room it is.
    fn room(&self) -> RoomName;

    /// Where it stands on disk.
    fn tip(&self) -> Result<Option<Point>, Trouble>;

    /// The highest stored block at or below a height.
    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble>;

    /// Sets the source for a room that has no block yet.
    fn start(&mut self, source: &mut dyn Source) -> Result<Start, Trouble>;

    /// Makes a block ready. Pure: called on any thread.
    fn ready(network: Network, block: &SharedBlock) -> Result<Self::Ready, String>;

    /// Takes one block in.
    fn apply(&mut self, block: Self::Ready) -> Result<(), Trouble>;

    /// Takes many blocks in, as long as they come; `coming` more are known to be. `moved` is told
    /// how many went in.
    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<Self::Ready>>,
        coming: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble>;

    /// Undoes every block above `to`.
    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble>;

    /// Looks after itself between two steps; says whether there is more to do at once.
    fn upkeep(&mut self) -> Result<bool, Trouble>;

    /// Gets ready to go on after a stop.
    fn reopen(&mut self) -> Result<(), Trouble>;

    /// Answers whoever waits for it while it is stopped.
    fn refuse_orders(&mut self, reason: &str);
}
