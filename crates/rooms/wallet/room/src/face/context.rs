//! What a request to the wallet room works on, whichever way it came.

use std::sync::Arc;

use anyhow::Context as _;
use axum::{http::StatusCode, response::Response};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use unspent_engine::{Engine, clock};
use unspent_model::{Micros, wallet::LockId};
use unspent_server::{
    api::{
        error::ApiError,
        keyed::{Keyed, KeyedTarget},
        state::App,
    },
    random,
};
use unspent_wallet::{WalletId, WalletStore};

use super::{NAME, WalletSection, error::RequestError};
use crate::height_of;

/// Block times may be hours off, and people don't say which time zone they count in.
const DAY: u64 = 86_400;

/// An open room and the time at which it is asked.
pub(crate) struct RoomContext {
    pub(crate) room: Arc<WalletStore>,
    /// In a daemon: what knows the chain.
    pub(crate) engine: Option<Engine>,
    pub(crate) now: Micros,
    /// How long coins are leased unless a request says otherwise, in microseconds.
    pub(crate) lease: i64,
}

impl RoomContext {
    /// The room of a running daemon.
    fn of(engine: &Engine, lease: i64) -> Result<Self, ApiError> {
        let room = crate::wallets(engine).ok_or_else(|| ApiError::room_off(NAME))?;
        Ok(Self { room, engine: Some(engine.clone()), now: clock::now(), lease })
    }

    /// Height of the best chain's tip, as far as anybody here knows.
    pub(crate) fn chain_tip(&self) -> Result<Option<u64>, RequestError> {
        let stored = self.room.tip()?.map(|tip| tip.height);
        let source = self.engine.as_ref().and_then(|engine| engine.status().source.tip);
        // The source may not have seen its node yet, and the room may lag behind its source.
        Ok(stored.max(source.map(|tip| tip.height)))
    }

    /// A height below which no block is of that time or later: as the source says, or else as far
    /// as the stored blocks tell.
    pub(crate) fn height_of(&self, seconds: u64) -> Result<u64, RequestError> {
        let asked = self.engine.as_ref().map(|engine| height_of(engine, seconds));
        match asked {
            Some(Ok(Some(height))) => return Ok(height),
            Some(Err(error)) => tracing::warn!(
                %error,
                "can't ask the source for the block of a date"
            ),
            Some(Ok(None)) | None => {}
        }
        // The first day of 1970 has no day before it, and no chain either.
        Ok(self.room.height_before(seconds.saturating_sub(DAY))?)
    }

    pub(crate) fn wallet(&self, name: &str) -> Result<WalletContext, RequestError> {
        let wallet = self.room.wallet(name)?;
        Ok(self.with(wallet, name))
    }

    /// A wallet whose row is known.
    pub(crate) fn with(&self, wallet: WalletId, name: &str) -> WalletContext {
        let (room, name) = (self.room.clone(), name.to_owned());
        let engine = self.engine.clone();
        WalletContext { room, engine, wallet, name, now: self.now, lease: self.lease }
    }
}

/// A wallet, the room it lives in, and the time at which it is asked.
pub(crate) struct WalletContext {
    pub(crate) room: Arc<WalletStore>,
    engine: Option<Engine>,
    pub(crate) wallet: WalletId,
    pub(crate) name: String,
    pub(crate) now: Micros,
    /// How long coins are leased unless a request says otherwise, in microseconds.
    pub(crate) lease: i64,
}

impl WalletContext {
    /// The room that it lives in.
    pub(crate) fn in_room(&self) -> RoomContext {
        let (room, engine) = (self.room.clone(), self.engine.clone());
        RoomContext { room, engine, now: self.now, lease: self.lease }
    }

    /// The lock id under which a keyed request holds coins. It derives from wallet and key, so that
    /// the repeat of a request that was cut short finds what that one held.
    fn lock_of(&self, key: &str) -> Result<LockId, ApiError> {
        let mut hasher = Sha256::new();
        // Each after its length: no two pairs of wallet and key run together to the same bytes.
        for part in ["unspent lease", &self.name, key] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        LockId::new(&hasher.finalize()).map_err(|error| ApiError::bug(&error))
    }
}

/// A holder that nobody else knows.
pub(crate) fn new_lock() -> anyhow::Result<LockId> {
    LockId::new(&random::bytes()?).context("can't make a lock id")
}

impl KeyedTarget for WalletContext {
    /// Releases what an interrupted run of the same request holds.
    fn give_back(&self, key: &str) -> Result<(), ApiError> {
        let lock = self.lock_of(key)?;
        let held = self.room.leases(self.wallet, self.now)?;
        // A coin that is spent already is out of reach; its lease only waits for the spend's depth.
        let ours = held.iter().filter(|lease| lease.lock == lock && !lease.is_spent);
        let coins: Vec<_> = ours.map(|lease| lease.coin).collect();
        if !coins.is_empty() {
            self.room.release(self.wallet, &coins, lock, self.now)?;
        }
        Ok(())
    }
}

/// A wallet of a running daemon.
fn find(engine: &Engine, lease: i64, name: &str) -> Result<WalletContext, ApiError> {
    // No wallet is named so, and PostgreSQL takes no NUL in a text: that would look like our fault.
    if name.chars().any(char::is_control) {
        return Err(ApiError::not_found("no wallet has this name"));
    }
    Ok(RoomContext::of(engine, lease)?.wallet(name)?)
}

/// How long coins are leased unless a request says otherwise, in microseconds.
fn lease(app: &App) -> Result<i64, ApiError> {
    let section = app.config.room::<WalletSection>();
    Ok(section.map_err(|error| ApiError::bug(&error))?.lease_micros())
}

/// What handlers ask of the wallet room.
pub(crate) trait WalletQueries {
    /// Asks the wallet room, on a thread that may block.
    async fn wallets<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&RoomContext) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError>;

    /// Asks about one wallet.
    async fn wallet<T: Send + 'static>(
        &self,
        name: String,
        ask: impl FnOnce(&WalletContext) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, ApiError>;
}

impl WalletQueries for App {
    async fn wallets<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&RoomContext) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (engine, lease) = (self.engine.clone(), lease(self)?);
        self.pool.run(move || ask(&RoomContext::of(&engine, lease)?)).await
    }

    async fn wallet<T: Send + 'static>(
        &self,
        name: String,
        ask: impl FnOnce(&WalletContext) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (engine, lease) = (self.engine.clone(), lease(self)?);
        self.pool.run(move || Ok(ask(&find(&engine, lease, &name)?)?)).await
    }
}

/// A request that is run on a wallet.
pub(crate) trait KeyedOnWallet<T> {
    /// Runs the request on a wallet, once for its key. The work is given the lock to lease under.
    async fn on_wallet<A: Serialize + 'static>(
        self,
        app: &App,
        name: String,
        status: StatusCode,
        work: impl FnOnce(&WalletContext, T, LockId) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError>;
}

impl<T: Send + 'static> KeyedOnWallet<T> for Keyed<T> {
    async fn on_wallet<A: Serialize + 'static>(
        self,
        app: &App,
        name: String,
        status: StatusCode,
        work: impl FnOnce(&WalletContext, T, LockId) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let lease = lease(app)?;
        let open = move |engine: &Engine| find(engine, lease, &name);
        let run = move |context: &WalletContext, body: T, key: &str| {
            work(context, body, context.lock_of(key)?)
        };
        self.run(app, status, open, run).await
    }
}
