//! What handlers take in: paths, queries and bodies whose errors look like all others, pages with
//! bounds, and the right to call at all.

use std::marker::PhantomData;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, header::CONTENT_TYPE, request::Parts},
};
use clap::Args;
use serde::{Deserialize, de::DeserializeOwned};
use unspent_model::{Network, Outpoint};
use utoipa::IntoParams;

use super::{
    error::ApiError,
    narrow::{self, NarrowPass},
};
use crate::{
    auth::{Identity, Scope},
    request::{BadRequest, page_limit, short},
};

/// How JSON writes a zero character.
const ZERO: &[u8] = b"\\u0000";

/// Values of the path.
pub struct ApiPath<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        read.map(|Path(value)| Self(value)).map_err(|rejection| ApiError::path(&rejection))
    }
}

/// Values of the query.
pub struct ApiQuery<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(value)| Self(value)).map_err(|rejection| ApiError::query(&rejection))
    }
}

/// A JSON body. Its size is limited by the router, its depth by the parser.
pub struct ApiJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = json_bytes(request, state).await?;
        Ok(Self(parse_json(&bytes)?))
    }
}

/// The bytes of a body that says it is JSON.
pub async fn json_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    // A form of another site can't send this kind, and its script has to be allowed to first.
    if !kind.eq_ignore_ascii_case("application/json") {
        let message = "send the body as application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message));
    }
    body_bytes(request, state).await
}

/// The bytes of a body of any kind.
pub async fn body_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state).await.map_err(|rejection| ApiError::bytes(&rejection))
}

/// Reads JSON; what is wrong is said without repeating what was sent.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // No text of ours holds a zero character, and PostgreSQL can't store one.
    if bytes.windows(ZERO.len()).any(|part| part == ZERO) {
        return Err(ApiError::invalid("the body contains a NUL character"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("the body can't be read: {error}");
        if error.is_data() { ApiError::invalid(message) } else { ApiError::malformed(message) }
    })
}

/// A page of a list.
#[derive(Args, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Rows per page, 1 to 500
    #[arg(long, default_value = "100")]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// Continue after the `next` of the previous page
    #[arg(long)]
    #[param(max_length = 1000)]
    after: Option<String>,
}

impl PageQuery {
    /// Rows on a page.
    pub fn limit(&self) -> Result<u32, BadRequest> {
        page_limit(self.limit)
    }

    /// Where the page before ended.
    pub fn after(&self) -> Result<Option<&str>, BadRequest> {
        short(self.after.as_deref())
    }
}

/// A coin named in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code)]
pub struct OutpointPath {
    /// The coin, as TXID:VOUT
    #[param(pattern = "^[0-9a-fA-F]{64}[:#][0-9]{1,10}$")]
    outpoint: String,
}

/// A coin as people of the network write it.
pub fn outpoint(network: Network, text: &str) -> Result<Outpoint, ApiError> {
    let wrong = "a coin is named TXID:VOUT: 64 hex digits, then the number of the output";
    crate::json::parse_outpoint(network, text).ok_or_else(|| ApiError::malformed(wrong))
}

/// What a route asks of its caller.
pub trait Demand {
    /// The least that it must be allowed.
    const SCOPE: Scope;
}

/// Looking.
pub struct Read;
/// Changing wallets.
pub struct Wallet;
/// Running the daemon.
pub struct Admin;

impl Demand for Read {
    const SCOPE: Scope = Scope::Read;
}
impl Demand for Wallet {
    const SCOPE: Scope = Scope::Wallet;
}
impl Demand for Admin {
    const SCOPE: Scope = Scope::Admin;
}

/// Proof that the caller may: a handler that takes this can't be reached otherwise.
pub struct May<D: Demand>(PhantomData<D>);

impl<D: Demand, S: Send + Sync> FromRequestParts<S> for May<D> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.extensions.get::<Identity>() {
            None => Err(unauthorized("credentials are needed")),
            // Before the scope: a fresh login wouldn't open the route to whoever sees one tenant
            // only.
            Some(identity) if is_shut(identity, parts) => Err(narrow::shut()),
            Some(identity) if is_stale(identity, D::SCOPE) => Err(fresh_login()),
            Some(identity) if identity.scope < D::SCOPE => {
                Err(forbidden(&format!("this needs the scope `{}`", D::SCOPE)))
            }
            Some(_) => Ok(Self(PhantomData)),
        }
    }
}

/// Somebody who sees one tenant only, on a route that isn't open to such.
fn is_shut(identity: &Identity, parts: &Parts) -> bool {
    identity.tenant.is_some() && parts.extensions.get::<NarrowPass>().is_none()
}

/// Somebody who logged in to look and to pay, and now wants to run the daemon.
fn is_stale(identity: &Identity, wanted: Scope) -> bool {
    identity.by_session && !identity.is_guest && identity.scope < wanted && wanted == Scope::Admin
}

fn fresh_login() -> ApiError {
    let message = "this needs the scope `admin`, and a recent login for it";
    let hint = "log in again with a token of that scope and `\"admin\": true`";
    ApiError::new(StatusCode::FORBIDDEN, "fresh_login", message).hint(hint)
}

/// Who is asking, for handlers that show more to some than to others.
pub struct Caller(pub Identity);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let known = parts.extensions.get::<Identity>().cloned();
        known.map(Self).ok_or_else(|| unauthorized("credentials are needed"))
    }
}

/// Somebody we know, but not for this.
pub fn forbidden(message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
}

/// Nobody we know.
pub fn unauthorized(message: &str) -> ApiError {
    let hint = "send Authorization: Bearer TOKEN (see `unspent token add`, or the cookie file)";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message).hint(hint)
}
