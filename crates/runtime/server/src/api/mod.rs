//! The REST interface under `/api/v1`.
//!
//! | module | routes or business |
//! |---|---|
//! | `timeline`, `search` | what happened to a coin in all rooms; what a text may name |
//! | `transaction` | `/txs`: a transaction as all rooms know it |
//! | `status`, `history`, `figures` | `/status`, `/rooms`, `/jobs`, `/history` |
//! | `events` | `/events`, pages and live |
//! | `session` | `/session`: how a browser logs in |
//! | `sim` | `/sim`: what can be done to the simulated network |
//! | `streams` | places for live streams |
//! | `narrow` | what a token that sees one tenant may ask for: an attribute of a route |
//! | `webhooks` | `/webhooks`: URLs that are told of a tenant's events |
//! | `document`, `flatten` | the description, completed for validators and generators |
//! | `guard`, `extract`, `error`, `keyed`, `pool` | what all routes share |
//!
//! What belongs to one room stands in its crate, and is merged in here.
//!
//! Invariant: the description of the interface is generated from the routes, so it can't leave one
//! out; every route takes a `May<…>` unless it is open on purpose; no handler blocks.
//!
//! Deliberately absent: rules about coins. A handler reads values, asks a room, shows the answer.

mod document;
pub mod error;
mod events;
pub mod extract;
pub mod figures;
mod flatten;
mod guard;
pub mod history;
pub mod keyed;
pub mod narrow;
pub mod pool;
pub mod search;
pub mod session;
mod sim;
pub mod state;
mod status;
pub mod streams;
pub mod timeline;
pub mod transaction;
pub mod webhooks;

use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    http::{HeaderValue, StatusCode, header::CACHE_CONTROL},
    middleware,
    response::Response,
};
use serde_json::Value;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::error::ErrorBody;
pub use self::{
    error::{ApiError, Failures},
    extract::{Admin, ApiJson, May, Read},
    state::App,
};

use crate::{auth::routes as token_routes, room::Rooms};

const BASE: &str = "/api/v1";

/// What the description says besides the routes.
#[derive(OpenApi)]
#[openapi(
    info(title = "Unspent", description = "Keeps every coin in its right state."),
    components(schemas(ErrorBody)),
    modifiers(&Credentials),
    security(("bearer" = []), ("session" = []))
)]
struct Description;

/// How callers show who they are.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_with(Default::default);
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        // The name of the standard port; another one has its own number.
        let cookie = ApiKey::Cookie(ApiKeyValue::new("unspent_session_8480"));
        components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    }
}

/// Every route under `/api/v1`.
fn routes(rooms: Rooms) -> OpenApiRouter<App> {
    let shared = OpenApiRouter::new()
        .routes(routes!(timeline::timeline))
        .routes(routes!(search::search))
        .routes(routes!(transaction::transaction))
        .routes(routes!(events::list))
        .routes(routes!(events::stream));
    let common = OpenApiRouter::new()
        .routes(routes!(status::status))
        .routes(routes!(status::history))
        .routes(routes!(status::rooms))
        .routes(routes!(status::resume))
        .routes(routes!(status::jobs))
        .routes(routes!(status::run_job))
        .routes(routes!(token_routes::list, token_routes::add))
        .routes(routes!(token_routes::revoke))
        .routes(routes!(webhooks::list))
        .routes(routes!(webhooks::remove))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::resume))
        .routes(routes!(session::who, session::log_in, session::log_out));
    rooms.iter().fold(narrow::shared(shared).merge(common), |all, room| all.merge(room.routes()))
}

/// The routes and their description; `more` are the program's own.
pub fn description(
    rooms: Rooms,
    more: OpenApiRouter<App>,
    is_simulated: bool,
) -> (Router<App>, Value) {
    let mut all = routes(rooms).merge(more);
    if is_simulated {
        all = all.merge(sim::routes());
    }
    let described = OpenApiRouter::with_openapi(Description::openapi()).nest(BASE, all);
    let (router, document) = described.split_for_parts();
    (router, document::completed(rooms, document))
}

/// The whole interface, with its description at `/api/v1/openapi.json`. The program adds routes of
/// its own under `/api/v1`, and routes `beside` it.
pub fn router(app: &App, more: OpenApiRouter<App>, beside: Router<App>) -> Router {
    let is_simulated = app.engine.simulated().is_some();
    let (router, document) = description(app.config.rooms(), more, is_simulated);
    let document = Json(document);
    let open = axum::routing::get(move || async move { document.clone() });
    router
        .route(&format!("{BASE}/openapi.json"), open)
        .layer(middleware::map_response(not_kept))
        .merge(beside)
        // Set before the layers, so that what leads nowhere is checked and counted like all else.
        .fallback(|| async { ApiError::not_found("there is no such route") })
        .method_not_allowed_fallback(|| async {
            let message = "the route doesn't support this method";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
        })
        .layer(DefaultBodyLimit::max(app.settings.body_bytes))
        .layer(middleware::from_fn_with_state(app.clone(), guard::identify))
        .layer(middleware::from_fn_with_state(app.clone(), guard::watch))
        .with_state(app.clone())
}

/// Answers are about balances and coins: no browser or proxy keeps a copy.
async fn not_kept(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
