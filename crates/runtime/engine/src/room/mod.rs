//! The port behind which a room stands: what it keeps, how it follows, its jobs and its events.
//!
//! A room is a [`Room`] before it is opened, and an [`OpenRoom`] from then on. The engine is given
//! the rooms that it runs, and knows none by name.
//!
//! | module | keeps |
//! |---|---|
//! | `shape` | what is known of a room without opening it |
//! | `settings` | a room before it is opened |
//! | `open` | an open room, as other threads see it |
//! | [`plug`] | what a room is given when it is opened |
//! | [`handle`] | what a room's jobs and other threads share with its own thread |

pub mod handle;
mod open;
pub mod plug;
mod settings;
mod shape;

pub use self::{
    open::{OpenRoom, Pace},
    plug::Plug,
    settings::Room,
    shape::{OnDisk, RoomShape, kinds},
};
pub use crate::names::RoomName;
