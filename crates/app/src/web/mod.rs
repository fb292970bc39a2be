//! The dashboard: static files in the binary, served at `/` and `/assets/…`.
//!
//! No build step and no framework: what stands in this folder is what a browser gets. The files
//! hold no data and need no credentials; all they show comes from `/api/v1`. What a room shows, its
//! panels, pages, acts and words, stands in its crate, is served under `rooms/NAME/`, and one value
//! brings it all (`registry.js` says what it may hold); a line in `rooms.js` plugs it in. No other
//! file knows a room.

#[cfg(test)]
mod tests;

use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest as _, Sha256};
use unspent_server::{
    Rooms,
    asset::{Asset, HTML, PICTURE, STYLE},
    scripts,
};

/// What a browser may load, and from where: this server alone, and nothing inline.
pub(crate) const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; object-src 'none'";

const INDEX: Asset = ("index.html", HTML, include_str!("index.html"));

/// What all rooms share, scripts apart.
const PLAIN: &[Asset] = &[
    ("base.css", STYLE, include_str!("base.css")),
    ("mark.svg", PICTURE, include_str!("mark.svg")),
    ("parts.css", STYLE, include_str!("parts.css")),
];

/// Scripts that know no room, and `rooms.js`, which lists them.
const SHARED: &[Asset] = scripts! { "" in "":
    "acts.js",
    "api.js",
    "daemon.js",
    "dom.js",
    "fields.js",
    "format.js",
    "http.js",
    "live.js",
    "main.js",
    "pages/coin.js",
    "pages/lookup.js",
    "pages/overview.js",
    "pages/rooms.js",
    "pages/transaction.js",
    "panels/events.js",
    "panels/rooms.js",
    "panels/storage.js",
    "parts/chart.js",
    "parts/dialog.js",
    "parts/event.js",
    "parts/facts.js",
    "parts/list.js",
    "parts/notes.js",
    "parts/plot.js",
    "parts/qr.js",
    "parts/state.js",
    "parts/timeline.js",
    "registry.js",
    "rooms.js",
    "routes.js",
    "session.js",
    "theme.js",
    "timeline.js",
};

/// Every file but the first page.
fn assets(rooms: Rooms) -> impl Iterator<Item = &'static Asset> {
    PLAIN.iter().chain(SHARED).chain(rooms.iter().flat_map(|room| room.assets()))
}

/// Routes of the dashboard, for any state.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(rooms: Rooms) -> Router<S> {
    let file =
        async move |Path(name): Path<String>, headers: HeaderMap| asset(rooms, &name, &headers);
    Router::new()
        .route("/", get(async |headers: HeaderMap| answer(INDEX, &headers)))
        .route("/assets/{*name}", get(file))
}

fn asset(rooms: Rooms, name: &str, headers: &HeaderMap) -> Response {
    match assets(rooms).find(|(known, ..)| *known == name) {
        Some(found) => answer(*found, headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A file, or only the word that the browser's copy is still good.
fn answer((_, kind, text): Asset, asked: &HeaderMap) -> Response {
    let tag = tag_of(text);
    let known = asked.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known == tag);
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::ETAG, tag),
        // A copy may be kept, but is asked about each time: an upgrade shows at once.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, text).into_response()
}

fn tag_of(text: &str) -> String {
    let hash = hex::encode(Sha256::digest(text.as_bytes()));
    format!("\"{}\"", hash.get(..32).unwrap_or(&hash))
}
