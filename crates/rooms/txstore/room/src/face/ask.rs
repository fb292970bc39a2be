//! How handlers ask the room.

use unspent_server::api::{error::ApiError, state::App};
use unspent_txstore::TxStore;

use crate::store;

/// The room's name in the engine, in events and in metrics.
pub(super) const NAME: &str = "txstore";

/// What handlers ask of the txstore room.
pub(super) trait TxStoreQueries {
    /// Asks the txstore room, on a thread that may block.
    async fn transactions<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&TxStore) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError>;
}

impl TxStoreQueries for App {
    async fn transactions<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&TxStore) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        let work = move || match store(&engine) {
            Some(store) => ask(&store),
            None => Err(ApiError::room_off(NAME)),
        };
        self.pool.run(work).await
    }
}
