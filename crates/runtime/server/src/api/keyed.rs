//! Requests that move value: each carries a key, and a repeat gets the first answer.
//!
//! A key belongs to whoever sends it. What was refused, and so changed nothing, leaves the key as
//! it was; any answer after something may have changed stays with it for a day. When a request was
//! under way while the process died, or failed so that nobody knows what it did, its repeat first
//! has the room give back what that one held, and runs again.

use axum::{
    body::Bytes,
    extract::{FromRequest, OriginalUri, Request},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use unspent_engine::{
    Engine, clock,
    requests::{Begun, CallerName, OpenRequest, RequestName},
    tenant::TenantName,
};
use unspent_model::Micros;
use utoipa::IntoParams;

use super::{
    error::ApiError,
    extract::{json_bytes, parse_json, unauthorized},
    pool::BlockingPool,
    state::App,
};
use crate::auth::{Identity, OWNER};

/// The longest key.
const MAX_KEY: usize = 128;
const HEADER: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";
/// What is said of a key that can't be one.
pub const BAD_KEY: &str = "the idempotency key can't be used";
/// What a key looks like.
pub const KEY_HINT: &str = "a key has 1 to 128 visible ASCII characters";
/// What is said of a key that is taken.
const REUSED: &str = "this idempotency key was used for another request; nothing was done";

/// The header, for the description of the interface.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub struct KeyHeader {
    /// Identifies the request among those of its caller: the same key again gives the same answer
    /// and does nothing
    #[param(rename = "Idempotency-Key", pattern = "^[!-~]{1,128}$")]
    idempotency_key: String,
}

/// A request with its name and its body.
pub struct Keyed<T> {
    name: RequestName,
    digest: [u8; 32],
    body: T,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Keyed<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let name = name(&request)?;
        // The path belongs to what is compared: the same key on another route is a mistake to be
        // told.
        let path = request.extensions().get::<OriginalUri>().map(|uri| uri.path().to_owned());
        let path = path.unwrap_or_else(|| request.uri().path().to_owned());
        let request_tenant =
            request.extensions().get::<Identity>().and_then(|who| who.tenant.clone());
        let bytes: Bytes = json_bytes(request, state).await?;
        let mut hasher = Sha256::new();
        hasher.update(path.as_bytes());
        hasher.update([0]);
        hasher.update(&bytes);
        // A token that was revoked may come again under its name for another tenant, whom neither
        // path nor body need name: what was answered then isn't his. Wallets stand in the path.
        if let Some(own) = own_tenant(request_tenant.as_ref()) {
            hasher.update([0]);
            hasher.update(own.as_bytes());
        }
        Ok(Self { name, digest: hasher.finalize().into(), body: parse_json(&bytes)? })
    }
}

/// Whom a narrow sender sees, as far as the path doesn't say it. Of wallets it does, and digests of
/// their requests are as older versions made them.
fn own_tenant(tenant: Option<&TenantName>) -> Option<String> {
    let tenant = tenant.filter(|tenant| tenant.as_wallet().is_none())?;
    Some(format!("{}\0{}", tenant.room, tenant.name))
}

fn name(request: &Request) -> Result<RequestName, ApiError> {
    let sender = request.extensions().get::<Identity>();
    let sender = sender.ok_or_else(|| unauthorized("credentials are needed"))?;
    Ok(RequestName::new(CallerName(&sender.caller()), &key(request)?)?)
}

fn key(request: &Request) -> Result<String, ApiError> {
    let wrong = |message: &str| {
        ApiError::malformed(message).hint("send a header Idempotency-Key: 1 to 128 characters")
    };
    let value = request.headers().get(HEADER);
    let value = value.ok_or_else(|| wrong("this request needs an idempotency key"))?;
    let text = value.to_str().map_err(|_| wrong("the idempotency key can't be read"))?;
    if is_key(text) { Ok(text.to_owned()) } else { Err(wrong(BAD_KEY)) }
}

/// Whether a text can be a key.
pub fn is_key(text: &str) -> bool {
    (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Under which key a room keeps what a request begins, so that two callers' requests are two. The
/// owner's keys stand for themselves, as they do on the command line and in what older versions
/// wrote; no key holds a space, so none of a token's is one of them.
fn key_in_room(name: &RequestName) -> String {
    match name.caller() {
        None | Some(OWNER) => name.key().to_owned(),
        Some(caller) => format!("{caller} {}", name.key()),
    }
}

/// What a keyed request works on, found before its key is looked at.
pub trait KeyedTarget {
    /// Gives back what an interrupted run of the request with this key of the room holds.
    fn give_back(&self, key: &str) -> Result<(), ApiError>;

    /// An answer as it may lie in the log of requests for a day, by the caller's key. A room whose
    /// answers show what it keeps sealed seals them too.
    fn close_answer(&self, _key: &str, body: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        Ok(body)
    }

    /// The answer that was kept so.
    fn open_answer(&self, _key: &str, kept: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        Ok(kept)
    }
}

impl<T> Keyed<T> {
    /// What is asked for.
    pub fn body(&self) -> &T {
        &self.body
    }

    /// The same without its key, for what changes nothing.
    pub fn into_body(self) -> T {
        self.body
    }
}

impl<T: Send + 'static> Keyed<T> {
    /// Runs the request once for its key.
    pub async fn run<C: KeyedTarget, A: Serialize + 'static>(
        self,
        app: &App,
        status: StatusCode,
        open: impl FnOnce(&Engine) -> Result<C, ApiError> + Send + 'static,
        work: impl FnOnce(&C, T, &str) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        self.run_in(&app.pool, app, status, open, work).await
    }

    /// The same, in a pool of its own.
    pub async fn run_in<C: KeyedTarget, A: Serialize + 'static>(
        self,
        pool: &BlockingPool,
        app: &App,
        status: StatusCode,
        open: impl FnOnce(&Engine) -> Result<C, ApiError> + Send + 'static,
        work: impl FnOnce(&C, T, &str) -> Result<A, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let engine = app.engine.clone();
        let Self { name, digest, body } = self;
        let done = pool.run(move || {
            // Before the key is begun, so that a room that is off or an unknown name uses up none.
            let target = open(&engine)?;
            let now = clock::now();
            let (running, is_again) = match engine.requests().begin(&name, digest, now)? {
                Begun::New(running) => (running, false),
                Begun::Unfinished(running) => {
                    // When this fails the request stays without an end, and the next one tries it
                    // again.
                    target.give_back(&key_in_room(running.name()))?;
                    (running, true)
                }
                Begun::Repeat { status, body } => {
                    return Ok((status, target.open_answer(name.key(), body)?, true));
                }
                Begun::InProgress => return Err(in_progress()),
                Begun::Differs => return Err(key_reused()),
                Begun::Full { until } => return Err(too_many_keys(until, now)),
            };
            let answer = work(&target, body, &key_in_room(running.name()));
            // Whatever is refused now, the run before may have got further.
            let answer = if is_again { answer.map_err(ApiError::after_change) } else { answer };
            settle(running, &target, status, answer)
        });
        let (status, body, is_repeat) = done.await?;
        Ok(answered(status, body, is_repeat))
    }
}

/// Remembers the answer. A refusal is forgotten, so that the key can be used again; and of a
/// failure nobody knows what it did, so it stays a request without an end.
fn settle<A: Serialize>(
    running: OpenRequest<'_>,
    target: &impl KeyedTarget,
    status: StatusCode,
    answer: Result<A, ApiError>,
) -> Result<(u16, Vec<u8>, bool), ApiError> {
    let unwritten = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "can't store the result of a request");
    };
    let (status, body) = match answer {
        Ok(answer) => (status.as_u16(), serde_json::to_vec(&answer)),
        // Dropped without an end: what it changed isn't known, so neither may it be forgotten.
        Err(error) if error.is_passing() => return Err(error),
        Err(error) if error.is_after_change() => {
            (error.status.as_u16(), serde_json::to_vec(&error.body()))
        }
        Err(error) => {
            if let Err(error) = running.forget() {
                unwritten(&error);
            }
            return Err(error);
        }
    };
    let body = body.map_err(|error| ApiError::bug(&error))?;
    // The work is done: not remembering it must not turn it into a failure.
    match target.close_answer(running.name().key(), body.clone()) {
        Ok(kept) => {
            if let Err(error) = running.finish(status, &kept) {
                unwritten(&error);
            }
        }
        Err(error) => unwritten(&error.message()),
    }
    Ok((status, body, false))
}

fn in_progress() -> ApiError {
    let message = "a request with this idempotency key is in progress";
    ApiError::new(StatusCode::CONFLICT, "in_progress", message).after(1)
}

/// The key is another request's.
pub fn key_reused() -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "key_reused", REUSED)
}

/// The caller has as many keys as he may have, the oldest until a moment.
fn too_many_keys(until: Micros, now: Micros) -> ApiError {
    let left = until.0.saturating_sub(now.0).max(0).unsigned_abs().div_ceil(1_000_000).max(1);
    let message = "you have used too many idempotency keys; nothing was done";
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_keys", message)
        .hint("a key is kept for a day; http.keys_per_caller limits how many you may have")
        .after(left)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unspent_source::sim::SimNetwork;

    use super::*;

    struct PlainTarget;

    impl KeyedTarget for PlainTarget {
        fn give_back(&self, _: &str) -> Result<(), ApiError> {
            Ok(())
        }
    }

    /// What a second request with the key meets, after the first was answered so.
    fn second(engine: &Engine, key: &str, first: Result<&str, ApiError>) -> &'static str {
        let name = RequestName::new(CallerName(OWNER), key).unwrap();
        let begin = || engine.requests().begin(&name, [1; 32], Micros(7)).unwrap();
        let Begun::New(running) = begin() else { panic!("{key} is new") };
        let (wanted, answered) =
            (first.is_ok(), settle(running, &PlainTarget, StatusCode::OK, first));
        assert!(!wanted || answered.is_ok());
        match begin() {
            Begun::New(_) => "new",
            Begun::Unfinished(_) => "unfinished",
            Begun::Repeat { status: 200, .. } => "answered",
            Begun::Repeat { .. } => "refused",
            Begun::InProgress | Begun::Differs | Begun::Full { .. } => "something else",
        }
    }

    #[test]
    fn what_may_have_changed_something_stays_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let network = Arc::new(SimNetwork::in_memory(7));
        let config = unspent_engine::Config::new(folder.path().into(), network);
        let engine = Engine::start(config).unwrap();
        let large = "x".repeat(3 << 20);
        assert_eq!(second(&engine, "done", Ok("done")), "answered");
        assert_eq!(second(&engine, "large", Ok(&large)), "answered");
        assert_eq!(second(&engine, "no", Err(ApiError::refused("no"))), "new");
        assert_eq!(second(&engine, "none", Err(ApiError::not_found("none"))), "new");
        let recorded = ApiError::refused("recorded, and not sent").after_change();
        assert_eq!(second(&engine, "half", Err(recorded)), "refused");
        assert_eq!(second(&engine, "who-knows", Err(ApiError::unavailable("?"))), "unfinished");
        let lost = ApiError::unavailable("lost on the way").after_change();
        assert_eq!(second(&engine, "lost", Err(lost)), "unfinished");
        engine.shutdown();
    }

    #[test]
    fn a_room_tells_the_keys_of_callers_apart() {
        let of = |caller: &str| key_in_room(&RequestName::new(CallerName(caller), "k").unwrap());
        assert_eq!(of(OWNER), "k", "as on the command line");
        assert_eq!(of("token:owner"), "token:owner k");
        assert!(!is_key(&of("token:a")) && is_key("k") && !is_key("") && !is_key("é"));
    }

    #[test]
    fn whoever_has_too_many_keys_hears_in_whole_seconds_when_one_is_free() {
        for (left, seconds) in [(1, "1"), (1_000_000, "1"), (1_000_001, "2"), (0, "1"), (-5, "1")] {
            let response = too_many_keys(Micros(100 + left), Micros(100)).into_response();
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.headers()["retry-after"], seconds, "{left}");
        }
    }
}
