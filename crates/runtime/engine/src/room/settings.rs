//! A room before it is opened.

use std::{any::Any, fmt, sync::Arc};

use unspent_model::Network;

use super::{OpenRoom, Plug, RoomShape};
use crate::error::StartError;

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
