//! The page at `/`. On loopback a browser that opens it may read without a login.

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, header::SET_COOKIE},
    middleware::{self, Next},
    response::Response,
};
use unspent_server::{
    api::{
        session::{self, CookieKind},
        state::App,
    },
    auth::Identity,
};

use crate::web;

/// The dashboard's files.
pub(super) fn routes(app: &App) -> Router<App> {
    let files = web::routes(app.config.rooms());
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
    let set = |secret: String| session::set_cookie(&app, CookieKind::Guest, &secret, seconds).ok();
    let cookie = cookie.and_then(set);
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
