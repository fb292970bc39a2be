//! An open room, as other threads see it.

use std::{any::Any, path::Path};

use unspent_model::Point;

use crate::events::{EventLog, LogError};

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
