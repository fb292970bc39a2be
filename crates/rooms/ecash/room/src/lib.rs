//! The ecash room, running: Cashu and Spark payments that survive a crash at any point.
//!
//! | module | keeps |
//! |---|---|
//! | `room` | the room as the engine opens it: store, worker, figures |
//! | [`events`] | what happened to payments, as events |
//! | [`mint`] | the client of a Cashu mint, and what its answers mean |
//! | [`spark`] | what the room needs of a Spark wallet |
//! | [`work`] | payments under way: what moves them, and when |
//! | [`watch`] | when to look at a payment again: notices of a mint, and pauses between looks |

pub mod events;
mod face;
pub mod mint;
mod room;
mod series;
mod served;
pub mod spark;
pub mod watch;
pub mod work;

pub use face::EcashFace;
pub use room::*;
