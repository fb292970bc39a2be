//! Requests that move value: each carries a key, and a repeat gets the first answer.
//!
//! When a request was under way while the process died, its repeat first has the room give back
//! what that one held, and runs again.

use axum::{
    body::Bytes,
    extract::{FromRequest, OriginalUri, Request},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use unspent_engine::{Engine, clock, requests::Begun};
use utoipa::IntoParams;

use super::{
    error::ApiError,
    extract::{json_bytes, parse_json},
    pool::BlockingPool,
    state::App,
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
    body: T,
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

/// What a keyed request works on, found before its key is looked at.
pub(crate) trait KeyedTarget {
    /// Gives back what an interrupted run of the request with this key holds.
    fn give_back(&self, key: &str) -> Result<(), ApiError>;
}

impl<T: Send + 'static> Keyed<T> {
    /// Runs the request once for its key.
    pub(crate) async fn run<C: KeyedTarget, A: Serialize + 'static>(
        self,
        app: &App,
        status: StatusCode,
        open: impl FnOnce(&Engine) -> Result<C, ApiError> + Send + 'static,
        work: impl FnOnce(&C, T, &str) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        self.run_in(&app.pool, app, status, open, work).await
    }

    /// The same, in a pool of its own.
    pub(crate) async fn run_in<C: KeyedTarget, A: Serialize + 'static>(
        self,
        pool: &BlockingPool,
        app: &App,
        status: StatusCode,
        open: impl FnOnce(&Engine) -> Result<C, ApiError> + Send + 'static,
        work: impl FnOnce(&C, T, &str) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let engine = app.engine.clone();
        let Self { key, digest, body } = self;
        let done = pool.run(move || {
            let target = open(&engine)?;
            let requests = engine.requests();
            let begun = requests.begin(&key, digest, clock::now());
            match begun? {
                Begun::New => {}
                Begun::Unfinished => target.give_back(&key)?,
                Begun::Repeat { status, body } => return Ok((status, body, true)),
                Begun::InProgress => return Err(in_progress()),
                Begun::Differs => return Err(reused()),
            }
            let answer = work(&target, body, &key);
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
