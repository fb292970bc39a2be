//! How handlers ask the room, and where it lives.

use std::path::Path;

use unspent_chain::Reader;
use unspent_server::api::{error::ApiError, state::App};

use crate::{FOLDER, reader};

/// The room's name in the engine, in events and in metrics.
pub(super) const NAME: &str = "chain";

/// Where the room lives in a data folder.
pub(crate) fn folder(data_dir: &Path) -> std::path::PathBuf {
    data_dir.join(FOLDER)
}

/// What handlers ask of the chain room.
pub(super) trait ChainQueries {
    /// Asks the chain room, on a thread that may block.
    async fn chain<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError>;
}

impl ChainQueries for App {
    async fn chain<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        let work = move || match reader(&engine) {
            Some(reader) => ask(&reader),
            None => Err(ApiError::room_off(NAME)),
        };
        self.pool.run(work).await
    }
}
