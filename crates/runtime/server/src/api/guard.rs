//! What every request passes: who sends it, from where, how long it may take.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Instant,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State},
    http::{
        HeaderMap, Method, StatusCode,
        header::{AUTHORIZATION, HOST, ORIGIN},
        request::Parts,
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use metrics::{counter, histogram};

use super::{
    error::ApiError,
    extract::{forbidden, unauthorized},
    session,
    state::App,
};
use crate::auth::Identity;

/// Seconds after which an address that sent too many wrong credentials may try again.
const LOCKED_OUT: u64 = 60;

/// The address a request comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    fn of(parts: &axum::http::Extensions) -> Self {
        let known = parts.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        Self(known.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

/// Finds out who presents a token. Wrong ones wait, and too many are turned away.
pub(super) async fn check_token(app: &App, peer: Peer, token: &str) -> Result<Identity, ApiError> {
    // A right token counts whatever was sent before: others behind the same address may be
    // guessing.
    if let Some(identity) = app.auth.by_token(token) {
        return Ok(identity);
    }
    counter!("unspent_http_wrong_credentials_total").increment(1);
    if !app.auth.attempts.failed(peer.0) {
        let message = "too many wrong credentials from this address";
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message);
        return Err(error.after(LOCKED_OUT));
    }
    // Costs whoever guesses time, and us no thread.
    tokio::time::sleep(crate::auth::DELAY).await;
    Err(unauthorized("wrong credentials"))
}

/// Turns away requests that a foreign site made a browser send, and names the sender of the others.
pub(super) async fn identify(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let peer = Peer::of(&parts.extensions);
    match sender(&app, peer, &parts).await {
        Ok(Some(identity)) => {
            parts.extensions.insert(identity);
        }
        Ok(None) => {}
        Err(error) => return error.into_response(),
    }
    next.run(Request::from_parts(parts, body)).await
}

async fn sender(app: &App, peer: Peer, request: &Parts) -> Result<Option<Identity>, ApiError> {
    let headers = &request.headers;
    // First of all: a page whose name was bent to our address is of our own origin to the browser.
    check_host(app, headers, request.uri.host())?;
    if let Some(value) = headers.get(AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let (scheme, token) = text.split_once(' ').unwrap_or(("", ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unauthorized("only `Authorization: Bearer TOKEN` is supported"));
        }
        // A wrong token isn't made up for by a cookie beside it: whoever sends one wants its
        // rights.
        return check_token(app, peer, token.trim()).await.map(Some);
    }
    let Some(identity) = session::by_cookie(app, headers) else { return Ok(None) };
    // A browser sends the cookie by itself, so what it asks for must come from our own page.
    // Browsers leave `Origin` out when a page of ours only reads, so there it may be missing.
    let changes = ![Method::GET, Method::HEAD].contains(&request.method);
    if is_foreign(headers) || (changes && !is_own_origin(headers)) {
        return Err(forbidden("this request was made by another site"));
    }
    Ok(Some(identity))
}

/// A browser says that another site's page sends this.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    is_cross_site(headers) || (headers.contains_key(ORIGIN) && !is_own_origin(headers))
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    // The same site isn't the same origin: on other ports of this host run other people's programs.
    matches!(site, Some("cross-site" | "same-site"))
}

/// The page that sends the request was served by the host that it is sent to.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text =
        |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    match (origin, text(HOST)) {
        (Some(origin), Some(host)) => origin.eq_ignore_ascii_case(host),
        (None, _) | (_, None) => false,
    }
}

/// The name in `Host` must be one of ours: a foreign name that was bent to our address is not.
fn check_host(app: &App, headers: &HeaderMap, in_uri: Option<&str>) -> Result<(), ApiError> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).or(in_uri);
    let host = host.ok_or_else(|| ApiError::malformed("the Host header is missing"))?;
    let name = without_port(host);
    if is_address(name) || name.eq_ignore_ascii_case("localhost") {
        return Ok(());
    }
    if app.settings.hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(forbidden("the server does not answer to this host name")
        .hint("add it to http.allowed_hosts"))
}

/// An address can't be bent: whoever names it has reached it.
fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse::<IpAddr>().is_ok()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') && !name.is_empty() => name,
        _ => host,
    }
}

/// Methods we know, so that nobody can make labels up.
fn method_name(method: &Method) -> &'static str {
    let known = [
        (Method::GET, "GET"),
        (Method::HEAD, "HEAD"),
        (Method::POST, "POST"),
        (Method::PUT, "PUT"),
        (Method::DELETE, "DELETE"),
    ];
    known.iter().find(|(known, _)| known == method).map_or("other", |(_, name)| name)
}

/// Ends what takes too long, and counts everything.
pub(super) async fn watch(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_name(request.method());
    // The pattern and not the path: a series for each coin or wallet would never end.
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or_else(|| "none".to_owned(), |route| route.as_str().to_owned());
    // Only the waiting ends here. Work on the pool goes on, so its outcome must be found by the
    // key.
    let done = tokio::time::timeout(app.settings.timeout, next.run(request)).await;
    let response = done.unwrap_or_else(|_| {
        let message = "it took too long; a request with an idempotency key can be repeated";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message).into_response()
    });
    let labels = [("route", route), ("method", method.to_owned())];
    let status = [("status", response.status().as_u16().to_string())];
    let all: Vec<(&str, String)> = labels.iter().cloned().chain(status).collect();
    counter!("unspent_http_requests_total", all.as_slice()).increment(1);
    histogram!("unspent_http_request_seconds", labels.as_slice()).record(started.elapsed());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_without_their_port() {
        for (host, name) in [
            ("localhost:8480", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]:8480", "[::1]"),
            ("[::1]", "[::1]"),
            ("evil.example:80", "evil.example"),
        ] {
            assert_eq!(without_port(host), name);
        }
        assert!(is_address("[::1]") && is_address("10.0.0.1") && !is_address("evil.example"));
    }

    #[test]
    fn only_our_own_page_is_our_origin() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1:8480".parse().unwrap());
        assert!(!is_own_origin(&headers));
        headers.insert(ORIGIN, "http://127.0.0.1:8480".parse().unwrap());
        assert!(is_own_origin(&headers));
        headers.insert(ORIGIN, "http://127.0.0.1:9999".parse().unwrap());
        assert!(!is_own_origin(&headers));
        headers.insert(ORIGIN, "null".parse().unwrap());
        assert!(!is_own_origin(&headers));
    }
}
