//! What handlers take in: paths, queries and bodies whose errors look like all others, pages with
//! bounds, and the right to call at all.

use std::marker::PhantomData;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, header::CONTENT_TYPE, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};
use unspent_model::{Network, Outpoint, TxId};
use utoipa::IntoParams;

use super::error::ApiError;
use crate::auth::{Identity, Scope};

/// Most rows on one page.
pub(crate) const PAGE_LIMIT: u32 = 500;
/// Rows on a page unless asked otherwise.
const PAGE_DEFAULT: u32 = 100;
/// The longest cursor or name in a query.
const MAX_TEXT: usize = 1_000;

/// How JSON writes a zero character.
const ZERO: &[u8] = b"\\u0000";

/// Values of the path.
pub(crate) struct ApiPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(Path::<T>::from_request_parts(parts, state).await?.0))
    }
}

/// Values of the query.
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(Query::<T>::from_request_parts(parts, state).await?.0))
    }
}

/// A JSON body. Its size is limited by the router, its depth by the parser.
pub(crate) struct ApiJson<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = json_bytes(request, state).await?;
        Ok(Self(parse_json(&bytes)?))
    }
}

/// The bytes of a body that says it is JSON.
pub(crate) async fn json_bytes<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<Bytes, ApiError> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let message = "send the body as application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message));
    }
    Ok(Bytes::from_request(request, state).await?)
}

/// Reads JSON; what is wrong is said without repeating what was sent.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // No text of ours holds a zero character, and PostgreSQL can't store one.
    if bytes.windows(ZERO.len()).any(|part| part == ZERO) {
        return Err(ApiError::invalid("the body holds a zero character"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("the body can't be read: {error}");
        if error.is_data() { ApiError::invalid(message) } else { ApiError::malformed(message) }
    })
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Rows on the page
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// The `next` of the page before
    #[param(max_length = 1000)]
    after: Option<String>,
}

impl PageQuery {
    pub(crate) fn limit(&self) -> Result<u32, ApiError> {
        page_limit(self.limit)
    }

    pub(crate) fn after(&self) -> Result<Option<&str>, ApiError> {
        short(self.after.as_deref())
    }
}

/// A page size inside its bounds.
pub(crate) fn page_limit(asked: Option<u32>) -> Result<u32, ApiError> {
    let limit = asked.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_LIMIT).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::invalid(format!("limit must be 1 to {PAGE_LIMIT}")))
}

/// Text that isn't longer than makes sense.
pub(crate) fn short(text: Option<&str>) -> Result<Option<&str>, ApiError> {
    match text {
        Some(long) if long.len() > MAX_TEXT => Err(ApiError::malformed("a parameter is too long")),
        Some(_) | None => Ok(text),
    }
}

/// A cursor that isn't one of ours.
pub(crate) fn bad_cursor() -> ApiError {
    ApiError::malformed("`after` takes what the page before named as `next`")
}

/// A row number given back to us.
pub(crate) fn cursor_number(after: Option<&str>) -> Result<i64, ApiError> {
    let number = after.map_or(Ok(0), str::parse::<i64>);
    number.ok().filter(|number| *number >= 0).ok_or_else(bad_cursor)
}

/// Two numbers given back to us.
pub(crate) fn cursor_pair(after: Option<&str>) -> Result<Option<(i64, i64)>, ApiError> {
    let Some(text) = after else { return Ok(None) };
    let pair = text.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.filter(|(a, b): &(i64, i64)| *a >= 0 && *b >= 0).map(Some).ok_or_else(bad_cursor)
}

/// Cuts what was read for looking ahead; returns the last row when there is a next page.
pub(crate) fn cut<T>(rows: &mut Vec<T>, limit: u32) -> Option<&T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    if more { rows.last() } else { None }
}

/// A coin named in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct CoinPath {
    /// Hash of the coin's transaction
    #[param(pattern = "^[0-9a-fA-F]{64}$")]
    pub(crate) tx_hash: String,
    /// Index of the output
    #[param(minimum = 0, maximum = 4294967295u32)]
    pub(crate) output_index: String,
}

impl CoinPath {
    pub(crate) fn outpoint(&self, network: Network) -> Result<Outpoint, ApiError> {
        Ok(Outpoint::new(TxId(hash(network, &self.tx_hash)?), index(&self.output_index)?))
    }
}

/// The index of an output: digits alone.
pub(crate) fn index(text: &str) -> Result<u32, ApiError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| ApiError::malformed("an output index is a number of 32 bits"))
}

/// A hash as people of the network write it.
pub(crate) fn hash(network: Network, text: &str) -> Result<[u8; 32], ApiError> {
    network.parse_hash(text).ok_or_else(|| ApiError::malformed("a hash is 64 hex digits"))
}

/// What a route asks of its caller.
pub(crate) trait Demand {
    const SCOPE: Scope;
}

/// Looking.
pub(crate) struct Read;
/// Changing wallets.
pub(crate) struct Wallet;
/// Running the daemon.
pub(crate) struct Admin;

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
pub(crate) struct May<D: Demand>(PhantomData<D>);

impl<D: Demand, S: Send + Sync> FromRequestParts<S> for May<D> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.extensions.get::<Identity>() {
            None => Err(unauthorized("credentials are needed")),
            Some(identity) if identity.scope < D::SCOPE => {
                let message = format!("this needs the scope `{}`", D::SCOPE);
                Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message))
            }
            Some(_) => Ok(Self(PhantomData)),
        }
    }
}

/// Nobody we know.
pub(crate) fn unauthorized(message: &str) -> ApiError {
    let hint = "send Authorization: Bearer TOKEN (see `unspent token add`, or the cookie file)";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message).hint(hint)
}
