//! The chain room, running: it follows a chain into the index, and answers.
//!
//! | module | keeps |
//! |---|---|
//! | `room` | the room as the engine opens it, and what it is asked |
//! | `follower` | how it takes blocks, in bulk and one by one, and rolls back |
//! | [`events`] | its blocks as events |
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use unspent_chain_room::ChainRoom;
//! use unspent_engine::{Config, Engine};
//! use unspent_source::sim::SimNetwork;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let network = SimNetwork::in_memory(7);
//! network.mine(5)?;
//!
//! let config = Config::new(folder.path().into(), Arc::new(network.clone()));
//! let room = ChainRoom::new(folder.path(), config.network);
//! let engine = Engine::start(config.with(room))?;
//! let told = |kind: &str| -> Result<bool, Box<dyn std::error::Error>> {
//!     let page = engine.events().after(0, 1_000)?;
//!     Ok(page.events.iter().any(|event| event.kind == kind))
//! };
//! while !told("block_applied")? {
//!     engine.events().wait(engine.events().last_id(), Duration::from_secs(1));
//! }
//! // Two blocks go, three come: seen by a room that has followed as far as they reached.
//! while !told("reorganisation")? {
//!     network.fork(2)?;
//!     engine.events().wait(engine.events().last_id(), Duration::from_secs(1));
//! }
//! engine.shutdown();
//! # Ok(()) }
//! ```
//!

pub mod events;
mod face;
mod follower;
mod import;
mod room;
mod series;

pub use face::{ChainFace, UtxoSection};
pub use room::*;
