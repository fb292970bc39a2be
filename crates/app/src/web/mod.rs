//! The dashboard: static files in the binary, served at `/` and `/assets/…`.
//!
//! No build step and no framework: what stands in this folder is what a browser gets. The files
//! hold no data and need no credentials; all they show comes from `/api/v1`. A new panel is a
//! module under `panels/`, a line in `panels.js` and a line in [`ASSETS`].

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

/// What a browser may load, and from where: this server alone, and nothing inline.
pub(crate) const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; object-src 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// A file: its name under `/assets/`, its type, and what it holds.
type Asset = (&'static str, &'static str, &'static str);

const INDEX: Asset = ("index.html", HTML, include_str!("index.html"));

macro_rules! asset {
    ($kind:expr, $name:literal) => {
        ($name, $kind, include_str!($name))
    };
}

/// Every file but the first page.
const ASSETS: &[Asset] = &[
    asset!(SCRIPT, "acts.js"),
    asset!(SCRIPT, "api.js"),
    asset!(STYLE, "base.css"),
    asset!(SCRIPT, "dom.js"),
    asset!(SCRIPT, "format.js"),
    asset!(SCRIPT, "http.js"),
    asset!(SCRIPT, "links.js"),
    asset!(SCRIPT, "live.js"),
    asset!(SCRIPT, "main.js"),
    asset!(PICTURE, "mark.svg"),
    asset!(SCRIPT, "pages.js"),
    asset!(SCRIPT, "pages/address.js"),
    asset!(SCRIPT, "pages/block.js"),
    asset!(SCRIPT, "pages/coin.js"),
    asset!(SCRIPT, "pages/ecash.js"),
    asset!(SCRIPT, "pages/lookup.js"),
    asset!(SCRIPT, "pages/mempool.js"),
    asset!(SCRIPT, "pages/overview.js"),
    asset!(SCRIPT, "pages/payment.js"),
    asset!(SCRIPT, "pages/proof.js"),
    asset!(SCRIPT, "pages/rooms.js"),
    asset!(SCRIPT, "pages/transaction.js"),
    asset!(SCRIPT, "pages/wallet.js"),
    asset!(SCRIPT, "pages/wallets.js"),
    asset!(SCRIPT, "panels.js"),
    asset!(SCRIPT, "panels/chain.js"),
    asset!(SCRIPT, "panels/ecash.js"),
    asset!(SCRIPT, "panels/events.js"),
    asset!(SCRIPT, "panels/rooms.js"),
    asset!(SCRIPT, "panels/storage.js"),
    asset!(SCRIPT, "panels/tip.js"),
    asset!(SCRIPT, "panels/transactions.js"),
    asset!(SCRIPT, "panels/wallet.js"),
    asset!(STYLE, "parts.css"),
    asset!(SCRIPT, "parts/balance.js"),
    asset!(SCRIPT, "parts/chart.js"),
    asset!(SCRIPT, "parts/dialog.js"),
    asset!(SCRIPT, "parts/event.js"),
    asset!(SCRIPT, "parts/facts.js"),
    asset!(SCRIPT, "parts/list.js"),
    asset!(SCRIPT, "parts/notes.js"),
    asset!(SCRIPT, "parts/path.js"),
    asset!(SCRIPT, "parts/plot.js"),
    asset!(SCRIPT, "parts/qr.js"),
    asset!(SCRIPT, "parts/state.js"),
    asset!(SCRIPT, "parts/strip.js"),
    asset!(SCRIPT, "parts/timeline.js"),
    asset!(SCRIPT, "session.js"),
    asset!(SCRIPT, "theme.js"),
    asset!(SCRIPT, "timeline.js"),
];

/// Routes of the dashboard, for any state.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(async |headers: HeaderMap| answer(INDEX, &headers)))
        .route("/assets/{*name}", get(asset))
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some(found) => answer(*found, &headers),
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
