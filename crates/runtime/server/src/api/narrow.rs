//! What somebody who sees one tenant only may ask for: an attribute of each route.
//!
//! A route gets it where it is declared: [`shared`], [`of_tenant`], [`of_room`]. One without it is
//! shut to such callers, since every handler takes a [`May`](super::May), which lets them pass by
//! that attribute alone. So a route that comes later is shut until somebody has thought about it.

use std::convert::Infallible;

use axum::{
    extract::{RawPathParams, Request},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use unspent_engine::tenant::TenantName;
use utoipa_axum::router::OpenApiRouter;

use super::{error::ApiError, extract::forbidden};
use crate::auth::Identity;

/// The request came by a route that is open to its sender, however little that one sees.
#[derive(Clone, Copy)]
pub(super) struct NarrowPass(());

/// How the paths of a room name its tenants.
#[derive(Clone, Copy)]
pub struct TenantPath {
    /// The room.
    pub room: &'static str,
    /// The parameter that names the tenant.
    pub parameter: &'static str,
    /// What is said of a tenant that isn't there: of another's, too.
    pub unknown: fn(&str) -> ApiError,
}

/// Routes about what everybody can see, such as the chain, and routes that show each caller what he
/// may see.
pub fn shared<S: Clone + Send + Sync + 'static>(routes: OpenApiRouter<S>) -> OpenApiRouter<S> {
    routes.route_layer(middleware::from_fn(|request, next| pass(request, next, true)))
}

/// Routes that show whoever sees one tenant of this room what he may see; they are shut to those
/// who see one of another room.
pub fn of_room<S: Clone + Send + Sync + 'static>(
    room: &'static str,
    routes: OpenApiRouter<S>,
) -> OpenApiRouter<S> {
    let check = move |request: Request, next: Next| async move {
        let is_open = only(&request).is_none_or(|only| only.room == room);
        pass(request, next, is_open).await
    };
    routes.route_layer(middleware::from_fn(check))
}

/// Routes about the tenant in their path: another's is as if it weren't there.
pub fn of_tenant<S: Clone + Send + Sync + 'static>(
    path: TenantPath,
    routes: OpenApiRouter<S>,
) -> OpenApiRouter<S> {
    tenants(path, true, routes)
}

/// The same of what nobody may do to his own tenant who sees it alone.
pub fn shut_of_tenant<S: Clone + Send + Sync + 'static>(
    path: TenantPath,
    routes: OpenApiRouter<S>,
) -> OpenApiRouter<S> {
    tenants(path, false, routes)
}

fn tenants<S: Clone + Send + Sync + 'static>(
    path: TenantPath,
    is_open: bool,
    routes: OpenApiRouter<S>,
) -> OpenApiRouter<S> {
    let check = move |parameters: RawPathParams, request: Request, next: Next| async move {
        let mut named = parameters.iter().filter(|(name, _)| *name == path.parameter);
        // A path that names no tenant isn't about anybody's own.
        let Some((_, asked)) = named.next() else { return pass(request, next, false).await };
        let own = TenantName::new(path.room, asked);
        if only(&request).is_some_and(|only| *only != own) {
            // The answer for a name that isn't there: another one would tell which tenants there
            // are.
            return Ok((path.unknown)(asked).into_response());
        }
        pass(request, next, is_open).await
    };
    routes.route_layer(middleware::from_fn(check))
}

fn only(request: &Request) -> Option<&TenantName> {
    request.extensions().get::<Identity>()?.tenant.as_ref()
}

async fn pass(mut request: Request, next: Next, is_open: bool) -> Result<Response, Infallible> {
    if is_open {
        request.extensions_mut().insert(NarrowPass(()));
    }
    Ok(next.run(request).await)
}

/// What is said where a route is shut.
pub(super) fn shut() -> ApiError {
    forbidden("this token sees only one tenant, such as a wallet, and the chain")
}
