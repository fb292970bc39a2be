//! `/session`: how a browser logs in.

use std::time::Instant;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header::SET_COOKIE},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use unspent_engine::tenant::TenantName;
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{ApiJson, forbidden},
    guard::{Peer, check_token, is_foreign},
    state::{App, Settings},
};
use crate::auth::{Identity, Scope};

/// A cookie of ours, by what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CookieKind {
    /// Of somebody who logged in.
    Member,
    /// Of a browser that opened the page. It has a name of its own: another site's link brings no
    /// session along (`SameSite=Strict`), and the guest's cookie that answers it must not take the
    /// place of the session.
    Guest,
}

impl Settings {
    /// A cookie's name. Browsers keep cookies by host and not by port, so the port is part of it:
    /// two daemons of one machine don't end each other's sessions. With TLS the prefix has the
    /// browser refuse one that another host or an unsafe connection set.
    pub fn cookie_name(&self, kind: CookieKind) -> String {
        let what = match kind {
            CookieKind::Member => "session",
            CookieKind::Guest => "guest",
        };
        let prefix = if self.is_tls { "__Host-" } else { "" };
        format!("{prefix}unspent_{what}_{}", self.port)
    }
}

/// Who is asking; null for nobody.
#[derive(Serialize, ToSchema)]
pub struct WhoJson {
    name: Option<String>,
    scope: Option<Scope>,
    /// The only wallet that is seen; null for all, and where another room's tenant is
    wallet: Option<String>,
    /// The room of the only tenant that is seen; null for all
    room: Option<String>,
    /// The only tenant that is seen: a wallet, an account of ecash; null for all
    tenant: Option<String>,
    /// Nobody is logged in
    guest: bool,
    /// Seconds for which this session may still run jobs and resume rooms; null for one that was
    /// not opened for it
    admin_seconds: Option<u64>,
}

impl WhoJson {
    fn new(who: Option<Identity>) -> Self {
        let Some(Identity { name, scope, tenant, is_guest, admin_until, .. }) = who else {
            return Self {
                name: None,
                scope: None,
                wallet: None,
                room: None,
                tenant: None,
                guest: true,
                admin_seconds: None,
            };
        };
        let left = |until: Instant| until.saturating_duration_since(Instant::now()).as_secs();
        let (name, scope, admin_seconds) = (Some(name), Some(scope), admin_until.map(left));
        let wallet = tenant.as_ref().and_then(TenantName::as_wallet).map(str::to_owned);
        let (room, tenant) = tenant.map(|tenant| (tenant.room, tenant.name)).unzip();
        Self { name, scope, wallet, room, tenant, guest: is_guest, admin_seconds }
    }
}

/// A token, or what stands in the cookie file.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogIn {
    #[schema(min_length = 1, max_length = 200)]
    token: String,
    /// To run jobs and resume rooms, with a token that may: for five minutes, or as
    /// `auth.admin_seconds` says
    #[serde(default)]
    admin: bool,
}

/// The value of a cookie of ours that a request carries.
fn cookie<'a>(app: &App, headers: &'a HeaderMap, kind: CookieKind) -> Option<&'a str> {
    let wanted = app.settings.cookie_name(kind);
    let all = headers.get_all(axum::http::header::COOKIE).iter();
    let pairs = all.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Whose session a request carries: that of a login, or else a guest's.
pub(super) fn by_cookie(app: &App, headers: &HeaderMap) -> Option<Identity> {
    let kinds = [CookieKind::Member, CookieKind::Guest];
    kinds.into_iter().find_map(|kind| app.auth.by_session(cookie(app, headers, kind)?))
}

/// A header that sets the cookie, for `seconds`.
fn set_cookie(
    app: &App,
    kind: CookieKind,
    secret: &str,
    seconds: u64,
) -> Result<HeaderValue, ApiError> {
    let (name, settings) = (app.settings.cookie_name(kind), &app.settings);
    let secure = if settings.is_tls { "; Secure" } else { "" };
    let text =
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(|error| ApiError::bug(&error))
}

/// The dashboard's files. On loopback a browser that opens the first of them may read without a
/// login.
pub fn with_guests(app: &App, files: Router<App>) -> Router<App> {
    files.route_layer(middleware::from_fn_with_state(app.clone(), welcome))
}

/// Gives a browser that opens the first page a session that may read.
async fn welcome(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_first = request.uri().path() == "/" && *request.method() == Method::GET;
    let is_known = request.extensions().get::<Identity>().is_some();
    let mut response = next.run(request).await;
    // Only the first page: each file of it would else open a session of its own.
    if !is_first || is_known || !app.settings.dashboard_read {
        return response;
    }
    let seconds = app.settings.session.as_secs();
    let cookie = app.auth.open_guest().ok();
    let set = |secret: String| set_cookie(&app, CookieKind::Guest, &secret, seconds).ok();
    let cookie = cookie.and_then(set);
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Who am I
#[utoipa::path(get, path = "/session", operation_id = "get_session", tag = "session", security(()),
    responses((status = 200, body = WhoJson), Failures))]
pub(crate) async fn who(identity: Option<axum::Extension<Identity>>) -> Json<WhoJson> {
    Json(WhoJson::new(identity.map(|axum::Extension(identity)| identity)))
}

/// Log in: a session cookie for a token; never more than `wallet`, unless it is asked for
#[utoipa::path(post, path = "/session", operation_id = "log_in",
    tag = "session", security(()), request_body = LogIn,
    responses((status = 200, body = WhoJson), Failures))]
pub(crate) async fn log_in(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    ApiJson(body): ApiJson<LogIn>,
) -> Result<Response, ApiError> {
    // Another site could log its visitor in with a token of its own, and see what he then does.
    if is_foreign(&headers) {
        return Err(forbidden("this request was made by another site"));
    }
    let identity = check_token(&app, peer, body.token.trim()).await?;
    let opened = match body.admin {
        true => app.auth.open_admin_session(&identity),
        false => app.auth.open_session(&identity),
    };
    let secret = opened.map_err(|error| ApiError::bug(&error))?;
    // The browser forgets the session that it had; so do we.
    if let Some(before) = cookie(&app, &headers, CookieKind::Member) {
        app.auth.close_session(before);
    }
    // Looked up and not copied: a session may have less than the token that opened it.
    let mut response = Json(WhoJson::new(app.auth.by_session(&secret))).into_response();
    let seconds = app.settings.session.as_secs();
    let cookie = set_cookie(&app, CookieKind::Member, &secret, seconds)?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// Log out
#[utoipa::path(delete, path = "/session", operation_id = "log_out", tag = "session", security(()),
    responses((status = 204), Failures))]
pub(crate) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Ended here as well: a copy of the cookie would else go on until its time is over.
    if let Some(secret) = cookie(&app, &headers, CookieKind::Member) {
        app.auth.close_session(secret);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(SET_COOKIE, set_cookie(&app, CookieKind::Member, "", 0)?);
    Ok(response)
}
