//! Requests that move value: each carries a key, and a repeat gets the first answer.
//!
//! Coins are held under a lock id that derives from wallet and key. So when a request was under way
//! while the process died, its repeat finds what that one held, gives it back and runs again.

use axum::{
    body::Bytes,
    extract::{FromRequest, OriginalUri, Request},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use unspent_engine::requests::Begun;
use unspent_model::wallet::LockId;
use utoipa::IntoParams;

use super::{
    error::ApiError,
    extract::{json_bytes, parse_json},
    state::{App, WalletDesk, now},
};

/// The longest key.
const MAX_KEY: usize = 128;
const HEADER: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

/// The header, for the description of the interface.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(crate) struct KeyHeader {
    /// Names the request: the same key again gives the same answer and does nothing
    #[param(rename = "Idempotency-Key", pattern = "^[!-~]{1,128}$")]
    idempotency_key: String,
}

/// A request with its key and its body.
pub(crate) struct Keyed<T> {
    key: String,
    digest: [u8; 32],
    pub(crate) body: T,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Keyed<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let key = key(&request)?;
        let path = request.extensions().get::<OriginalUri>().map(|uri| uri.path().to_owned());
        let path = path.unwrap_or_else(|| request.uri().path().to_owned());
        let bytes: Bytes = json_bytes(request, state).await?;
        let mut hasher = Sha256::new();
        hasher.update(path.as_bytes());
        hasher.update([0]);
        hasher.update(&bytes);
        Ok(Self { key, digest: hasher.finalize().into(), body: parse_json(&bytes)? })
    }
}

fn key(request: &Request) -> Result<String, ApiError> {
    let wrong = |message: &str| {
        ApiError::malformed(message).hint("send a header Idempotency-Key: 1 to 128 characters")
    };
    let value = request.headers().get(HEADER);
    let value = value.ok_or_else(|| wrong("this request needs an idempotency key"))?;
    let text = value.to_str().map_err(|_| wrong("the idempotency key can't be read"))?;
    let fine = (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if fine { Ok(text.to_owned()) } else { Err(wrong("the idempotency key can't be used")) }
}

/// The lock id under which a keyed request holds coins.
pub(crate) fn lock_of(wallet: &str, key: &str) -> Result<LockId, ApiError> {
    let mut hasher = Sha256::new();
    for part in ["unspent lease", wallet, key] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    LockId::new(&hasher.finalize()).map_err(|error| ApiError::bug(&error))
}

impl<T: Send + 'static> Keyed<T> {
    /// Runs the request once for its key.
    pub(crate) async fn run<A: Serialize + 'static>(
        self,
        app: &App,
        wallet: String,
        status: StatusCode,
        work: impl FnOnce(&WalletDesk, T, LockId) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let engine = app.engine.clone();
        let Self { key, digest, body } = self;
        let done = app.desk.run(move || {
            let room = engine.wallets().ok_or_else(|| ApiError::room_off("wallet"))?;
            let now = now()?;
            if wallet.chars().any(char::is_control) {
                return Err(ApiError::not_found("no wallet has such a name"));
            }
            let id = room.wallet(&wallet)?;
            let desk = WalletDesk { room, wallet: id, now };
            let lock = lock_of(&wallet, &key)?;
            let requests = engine.requests();
            match requests.begin(&key, digest, now).map_err(|error| ApiError::bug(&error))? {
                Begun::New => {}
                Begun::Unfinished => give_back(&desk, lock)?,
                Begun::Repeat { status, body } => return Ok((status, body, true)),
                Begun::InProgress => return Err(in_progress()),
                Begun::Differs => return Err(reused()),
            }
            let answer = work(&desk, body, lock);
            settle(requests, &key, status, answer)
        });
        let (status, body, is_repeat) = done.await?;
        Ok(answered(status, body, is_repeat))
    }
}

/// Remembers the answer; what may go better later is forgotten instead.
fn settle<A: Serialize>(
    requests: &unspent_engine::requests::RequestLog,
    key: &str,
    status: StatusCode,
    answer: Result<A, ApiError>,
) -> Result<(u16, Vec<u8>, bool), ApiError> {
    let unwritten = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "an answer could not be remembered");
    };
    let (status, body) = match answer {
        Ok(answer) => (status.as_u16(), serde_json::to_vec(&answer)),
        Err(error) if error.is_passing() => {
            if let Err(error) = requests.forget(key) {
                unwritten(&error);
            }
            return Err(error);
        }
        Err(error) => (error.status.as_u16(), serde_json::to_vec(&error.body())),
    };
    let body = body.map_err(|error| ApiError::bug(&error))?;
    // The work is done: not remembering it must not turn it into a failure.
    if let Err(error) = requests.finish(key, status, &body) {
        unwritten(&error);
    }
    Ok((status, body, false))
}

/// Releases what an interrupted run of the same request holds.
fn give_back(desk: &WalletDesk, lock: LockId) -> Result<(), ApiError> {
    let held = desk.room.leases(desk.wallet, desk.now)?;
    let ours = held.iter().filter(|lease| lease.lock == lock && !lease.is_spent);
    let coins: Vec<_> = ours.map(|lease| lease.coin).collect();
    if !coins.is_empty() {
        desk.room.release(desk.wallet, &coins, lock, desk.now)?;
    }
    Ok(())
}

fn in_progress() -> ApiError {
    let message = "a request with this idempotency key is under way";
    ApiError::new(StatusCode::CONFLICT, "in_progress", message).after(1)
}

fn reused() -> ApiError {
    let message = "this idempotency key was used for another request; nothing was done";
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "key_reused", message)
}

fn answered(status: u16, body: Vec<u8>, is_repeat: bool) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if is_repeat {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
