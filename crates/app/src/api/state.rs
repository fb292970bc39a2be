//! What every handler has at hand.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Semaphore, watch};
use unspent_chain::Reader;
use unspent_engine::Engine;
use unspent_model::Network;
use unspent_wallet::{Room, WalletId};

use super::{desk::Desk, error::ApiError, figures::Figures, history::History};
use crate::auth::Auth;

/// The server's state. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

/// What the state is made of.
pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) auth: Auth,
    pub(crate) desk: Desk,
    pub(crate) history: History,
    pub(crate) figures: Figures,
    /// Live streams that may still be opened.
    pub(crate) streams: Arc<Semaphore>,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) settings: Settings,
}

/// What the configuration says about answers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long coins are held unless a request says otherwise.
    pub(crate) lease: Duration,
    pub(crate) timeout: Duration,
    pub(crate) body_bytes: usize,
    /// Names under which the server may be called; empty: loopback and its own address alone.
    pub(crate) hosts: Vec<String>,
    /// The dashboard may read without a login.
    pub(crate) dashboard_read: bool,
    pub(crate) is_loopback: bool,
    pub(crate) is_tls: bool,
    pub(crate) session: Duration,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// A wallet, the room it lives in, and the time at which it is asked.
pub(crate) struct WalletDesk {
    pub(crate) room: Arc<Room>,
    pub(crate) wallet: WalletId,
    pub(crate) now: i64,
}

impl App {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn network(&self) -> Network {
        self.engine.network()
    }

    /// Asks the chain room, on a thread that may block.
    pub(crate) async fn chain<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        let work = move || match engine.chain() {
            Some(reader) => ask(&reader),
            None => Err(ApiError::room_off("chain")),
        };
        self.desk.run(work).await
    }

    /// Asks the wallet room.
    pub(crate) async fn wallets<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Arc<Room>, i64) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        let work = move || match engine.wallets() {
            Some(room) => ask(&room, now()?),
            None => Err(ApiError::room_off("wallet")),
        };
        self.desk.run(work).await
    }

    /// Asks about one wallet.
    pub(crate) async fn wallet<T: Send + 'static>(
        &self,
        name: String,
        ask: impl FnOnce(&WalletDesk) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let find = move |room: &Arc<Room>, now| {
            if name.chars().any(char::is_control) {
                return Err(ApiError::not_found("no wallet has such a name"));
            }
            let wallet = room.wallet(&name)?;
            ask(&WalletDesk { room: room.clone(), wallet, now })
        };
        self.wallets(find).await
    }
}

/// Microseconds since 1970.
pub(crate) fn now() -> Result<i64, ApiError> {
    crate::wallet::now().map_err(|error| ApiError::bug(&error))
}
