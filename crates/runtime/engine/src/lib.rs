//! What runs and when: block sources, following, events, jobs, recovery.
//!
//! | module | keeps |
//! |---|---|
//! | [`files`] | files of blocks: finding, cataloguing, reading |
//! | [`source`] | the port behind which nodes, files and the simulated network stand |
//! | [`config`] | what an engine is told at its start |
//! | [`engine`] | the running engine and its handle |
//! | [`status`] | what it says of itself |
//! | [`events`] | what happened, numbered |
//! | [`requests`] | requests that move value, by the caller's key |
//! | [`rooms`] | the rooms, one module each, listed in one table |
//! | [`road`] | how a block comes from a source into a room: forward, backward, the end |
//! | [`jobs`] | what is done from time to time |
//! | [`series`] | the figures that Prometheus reads |
//! | [`scenario`] | a random but seeded course of events, for demonstrations and tests |
//! | [`error`] | why it didn't start, or a room didn't resume |
//! | [`roots`] | who may vouch for the other end of a TLS connection |
//! | `outgoing` | which addresses may be called when somebody else named them |
//! | `store` | the engine's own database |
//!
//! Invariants: each room has its own source, place and thread, and a room that fails stops alone.
//! What a room is given derives from block bytes. Nothing that a crash destroys is needed again:
//! rooms find their place from their own records, and events from comparing what was written with
//! where the rooms stand.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use unspent_engine::{Config, Engine, source::sim::SimNetwork};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let network = SimNetwork::in_memory(7);
//! network.mine(5)?;
//!
//! let engine = Engine::start(Config::new(folder.path().into(), Arc::new(network.clone())))?;
//! let told = |kind: &str| -> Result<bool, Box<dyn std::error::Error>> {
//!     let page = engine.events().after(0, 100)?;
//!     Ok(page.events.iter().any(|event| event.kind == kind))
//! };
//! while !told("block_applied")? {
//!     engine.events().wait(engine.events().last_id(), Duration::from_secs(1));
//! }
//! network.fork(2)?; // two blocks go, three come
//! while !told("reorganisation")? {
//!     engine.events().wait(engine.events().last_id(), Duration::from_secs(1));
//! }
//! engine.shutdown();
//! # Ok(()) }
//! ```
//!
//! Deliberately absent: an HTTP server, a terminal, rules about coins.

pub mod clock;
pub mod config;
pub mod context;
pub mod engine;
pub mod error;
pub mod events;
pub mod files;
pub mod jobs;
pub mod lock;
mod outgoing;
pub mod requests;
pub mod road;
pub mod rooms;
pub mod roots;
pub mod scenario;
pub mod series;
pub mod source;
pub mod status;
mod status_board;
pub mod store;
mod wakeup;
pub mod webhooks;

pub use config::Config;
pub use context::Context;
pub use engine::Engine;
pub use error::{JobError, ResumeError, StartError};
pub use events::{Event, EventLog, EventPage, LogError};
pub use jobs::JobName;
pub use requests::{Begun, RequestLog};
pub use rooms::RoomName;
pub use status::{JobStatus, ReorgView, RoomState, RoomStatus, SourceStatus, Status, TipView};
