//! The wallet room, running: it follows a chain into the wallets, reads the mempool, and answers.
//! Bitcoin only.
//!
//! | module | keeps |
//! |---|---|
//! | `room` | the room as the engine opens it, and what it is asked |
//! | `follower` | how it takes blocks and rolls back |
//! | `scan` | wallets that are behind the others |
//! | `mempool` | the node's mempool in the wallets, own payments in the mempool |
//! | `broadcast` | handing a transaction to the node |
//! | [`events`] | the wallets' journals as events |
//! | [`scenario`] | a random but seeded course of events, for demonstrations and tests |

mod broadcast;
pub mod events;
mod follower;
mod mempool;
mod room;
mod scan;
pub mod scenario;
mod series;

pub use room::*;
