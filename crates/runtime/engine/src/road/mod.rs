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
//! | `follower` | a room's side of it |
//! | `follow` | how fast rooms follow, and what they share |
//! | `trouble` | why a trip can't go on |
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
mod follow;
mod follower;
mod place;
mod trip;
mod trouble;
pub(crate) mod worker;

pub use self::{
    ahead::prepare,
    block::SharedBlock,
    follow::Follow,
    follower::{Follower, Start},
    trip::{End, Ended, Trip, Watch},
    trouble::{Cause, Trouble},
};
