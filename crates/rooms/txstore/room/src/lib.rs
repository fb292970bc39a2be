//! The txstore room in the engine: a node's transactions with their spenders, on SQLite or
//! PostgreSQL. Bitcoin only.
//!
//! | module | keeps |
//! |---|---|
//! | `follower` | how it takes blocks and rolls back |
//! | `unmined` | the node's mempool in the store |
//! | `cleaner` | the job that deletes what nobody can need any more |
//! | `events` | what happened to blocks and records, as events |
//!
//! It is off unless somebody switches it on: it keeps whole transactions, which takes disk.

mod cleaner;
pub mod events;
mod face;
mod follower;
mod name;
mod room;
mod series;
mod unmined;

pub use face::TxStoreFace;
pub use room::*;
