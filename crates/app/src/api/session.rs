//! `/session`: how a browser logs in.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header::SET_COOKIE},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::ApiJson,
    guard::{Peer, check_token},
    state::App,
};
use crate::auth::{Identity, Scope, Session};

/// The session cookie's name.
pub(crate) const COOKIE: &str = "unspent_session";

/// Who is asking; null for nobody.
#[derive(Serialize, ToSchema)]
pub(crate) struct WhoJson {
    name: Option<String>,
    scope: Option<Scope>,
}

/// A token, or what stands in the cookie file.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    #[schema(min_length = 1, max_length = 200)]
    token: String,
}

/// The value of the session cookie that a request carries.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(axum::http::header::COOKIE).iter();
    let pairs = all.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// A header that sets the cookie, for `seconds`.
pub(crate) fn set_cookie(app: &App, secret: &str, seconds: u64) -> Result<HeaderValue, ApiError> {
    let secure = if app.settings.is_tls { "; Secure" } else { "" };
    let text =
        format!("{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(|error| ApiError::bug(&error))
}

/// Who am I
#[utoipa::path(get, path = "/session", tag = "session", security(()),
    responses((status = 200, body = WhoJson), Failures))]
pub(crate) async fn who(identity: Option<axum::Extension<Identity>>) -> Json<WhoJson> {
    let identity = identity.map(|axum::Extension(identity)| identity);
    let (name, scope) = identity.map(|who| (who.name, who.scope)).unzip();
    Json(WhoJson { name, scope })
}

/// Log in: a session cookie for a token; never more than `wallet`
#[utoipa::path(post, path = "/session", tag = "session", security(()), request_body = LogIn,
    responses((status = 200, body = WhoJson), Failures))]
pub(crate) async fn log_in(
    State(app): State<App>,
    peer: Peer,
    ApiJson(body): ApiJson<LogIn>,
) -> Result<Response, ApiError> {
    let identity = check_token(&app, peer, body.token.trim()).await?;
    let scope = identity.scope.min(Scope::Wallet);
    let session = Session { name: identity.name.clone(), scope, is_guest: false };
    let secret = app.auth.open_session(session).map_err(|error| ApiError::bug(&error))?;
    let who = WhoJson { name: Some(identity.name), scope: Some(scope) };
    let mut response = Json(who).into_response();
    let cookie = set_cookie(&app, &secret, app.settings.session.as_secs())?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// Log out
#[utoipa::path(delete, path = "/session", tag = "session", security(()),
    responses((status = 204), Failures))]
pub(crate) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(secret) = cookie(&headers) {
        app.auth.close_session(secret);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(SET_COOKIE, set_cookie(&app, "", 0)?);
    Ok(response)
}
