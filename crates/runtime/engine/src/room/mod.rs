//! The port behind which a room stands: what it keeps, how it follows, its jobs and its events.
//!
//! A room is a [`Room`] before it is opened, and an [`OpenRoom`] from then on. The engine is given
//! the rooms that it runs, and knows none by name.
//!
//! | module | keeps |
//! |---|---|
//! | [`plug`] | what a room is given when it is opened |
//! | [`handle`] | what a room's jobs and other threads share with its own thread |

pub mod handle;
pub mod plug;

use std::{any::Any, fmt, path::Path, sync::Arc};

use serde::{Serialize, Serializer};
use unspent_model::{Network, Point};

pub use self::plug::Plug;
use crate::{
    error::StartError,
    events::{EventLog, LogError, kind::KindShape},
    series::Series,
};

/// A room's name in events, metrics, logs and answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomName(&'static str);

impl RoomName {
    /// A name: one lower-case word.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The word.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for RoomName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0)
    }
}

/// Something that a room leaves in the data folder, by its name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    /// An SQLite database.
    Database(&'static str),
    /// A folder of files.
    Folder(&'static str),
}

/// What is known of a room without opening it.
#[derive(Debug, Clone, Copy)]
pub struct RoomShape {
    /// Its name.
    pub name: RoomName,
    /// What it leaves in the data folder unless its settings say otherwise.
    pub keeps: &'static [OnDisk],
    /// The figures that it counts.
    pub series: &'static [Series],
    /// The kinds of events that it writes.
    pub events: &'static [KindShape],
}

/// A room before it is opened: its settings.
pub trait Room: Any + Send + Sync + fmt::Debug {
    /// What it is, whatever its settings.
    fn shape(&self) -> &'static RoomShape;

    /// Refuses a network that it can't serve.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    fn check(&self, _network: Network) -> Result<(), StartError> {
        Ok(())
    }

    /// Opens its store and plugs in its thread and its jobs.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing of it runs then.
    fn open(&self, plug: &mut Plug<'_>) -> Result<Arc<dyn OpenRoom>, StartError>;
}

/// How the writing of a room's events is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The room takes blocks in bulk.
    pub is_catching_up: bool,
    /// The engine ends; there is no later.
    pub is_last: bool,
}

/// An open room, as other threads see it. Closing is dropping what it holds.
pub trait OpenRoom: Any + Send + Sync {
    /// Writes what happened since the last time; says whether there may be more to write at once.
    ///
    /// # Errors
    ///
    /// [`LogError`]; it is tried again.
    fn write_events(&self, _log: &EventLog, _pace: Pace) -> Result<bool, LogError> {
        Ok(false)
    }

    /// Sets the gauges of its sizes.
    ///
    /// # Errors
    ///
    /// Says why it can't be measured.
    fn measure(&self) -> Result<(), String> {
        Ok(())
    }

    /// The block that it has at a height, for rooms whose source can't tell.
    fn point_at(&self, _height: u64) -> Option<Point> {
        None
    }

    /// Copies the folder that it keeps, as it stands at one moment, to where nothing is yet.
    /// `false` when its files can be copied one by one, since it keeps none or has them closed.
    ///
    /// # Errors
    ///
    /// Says why not; what was begun of the copy is of no use then.
    fn copy_folder(&self, _to: &Path) -> Result<bool, String> {
        Ok(false)
    }

    /// Lets go of the store: nobody is answered any more.
    fn close(&self) {}
}
