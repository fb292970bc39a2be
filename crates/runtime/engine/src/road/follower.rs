//! A room's side of the road.

use std::sync::Arc;

use unspent_model::{Network, Point};
use unspent_source::Source;

use super::{SharedBlock, Trouble};
use crate::names::RoomName;

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
