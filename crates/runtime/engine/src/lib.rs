//! What runs and when: block sources, following, events, jobs, recovery.
//!
//! | module | keeps |
//! |---|---|
//! | [`config`] | what an engine is told at its start |
//! | [`engine`] | the running engine and its handle |
//! | [`status`] | what it says of itself |
//! | [`events`] | what happened, numbered |
//! | [`tenant`] | whose something is: a room and a name in it |
//! | [`requests`] | requests that move value, by the caller and his key |
//! | [`names`] | what rooms and jobs are called |
//! | [`room`] | the port behind which a room stands |
//! | [`road`] | how a block comes from a source into a room: forward, backward, the end |
//! | [`jobs`] | what is done from time to time |
//! | [`series`] | the figures that Prometheus reads |
//! | [`error`] | why it didn't start, or a room didn't resume |
//! | [`outgoing`] | which addresses may be called when somebody else named them |
//! | `store` | the engine's own database |
//!
//! Invariants: each room has its own source, place and thread, and a room that fails stops alone.
//! What a room is given derives from block bytes. Nothing that a crash destroys is needed again:
//! rooms find their place from their own records, and events from comparing what was written with
//! where the rooms stand.
//!
//! ```
//! use std::sync::Arc;
//!
//! use unspent_engine::{Config, Engine};
//! use unspent_source::sim::SimNetwork;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! // Rooms are added with `Config::with`; each has a crate of its own.
//! let config = Config::new(folder.path().into(), Arc::new(SimNetwork::in_memory(7)));
//! let engine = Engine::start(config)?;
//! assert!(engine.status().rooms.is_empty());
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
pub mod jobs;
pub mod lock;
pub mod names;
pub mod outgoing;
pub mod requests;
pub mod road;
pub mod room;
pub mod series;
pub mod status;
mod status_board;
pub mod store;
pub mod tenant;
pub mod webhooks;

pub use config::Config;
pub use context::Context;
pub use engine::Engine;
pub use error::{JobError, ResumeError, StartError};
pub use events::{Event, EventLog, EventPage, LogError};
pub use names::{JobName, RoomName};
pub use requests::{Begun, CallerName, RequestLog, RequestName};
pub use status::{JobStatus, ReorgView, RoomState, RoomStatus, SourceStatus, Status, TipView};
pub use tenant::{Tenant, TenantName};
