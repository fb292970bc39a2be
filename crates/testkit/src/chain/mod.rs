//! The chain room's reference model and random histories.
//!
//! [`Reference`] is the index as one would write it with nothing to lose: maps in memory, a full
//! copy per block. It shares no code with the rules in `unspent_model`, only the types. [`World`]
//! turns random [`Event`]s into blocks and calls, so that any store can be driven beside the
//! reference.

mod blocks;
mod history;
mod reference;

pub use blocks::{Recipe, coin_of, header_after, make_block, payment};
pub use history::{Event, Step, World, histories};
pub use reference::{Answer, Known, Objection, Reference, Remembered, Rules};
