//! `/tokens`: who holds which token, a new one, and one less. For administrators.

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use unspent_engine::{clock, tenant::TenantName};
use unspent_model::Micros;
use utoipa::ToSchema;

use super::{
    Auth, Scope,
    tokens::{NewToken, Token, TokenFile},
};
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{Admin, ApiJson, ApiPath, May},
        state::App,
    },
    error::CliError,
    json::Time,
};

/// A token as it may be shown: everything but itself.
#[derive(Serialize, ToSchema)]
pub struct TokenInfoJson {
    pub(super) name: String,
    pub(super) scope: Scope,
    /// The only wallet that it may see; null for all, and where it sees another room's tenant
    pub(super) wallet: Option<String>,
    /// The room of the only tenant that it may see; null for all
    pub(super) room: Option<String>,
    /// The only tenant that it may see: a wallet, an account of ecash; null for all
    pub(super) tenant: Option<String>,
    created_at: Time,
    /// When it expires; null for never
    pub(super) expires_at: Option<Time>,
    expired: bool,
}

impl TokenInfoJson {
    pub(super) fn new(token: &Token, now: Micros) -> Self {
        Self {
            name: token.name.clone(),
            scope: token.scope,
            wallet: token.tenant.as_ref().and_then(TenantName::as_wallet).map(str::to_owned),
            room: token.tenant.as_ref().map(|tenant| tenant.room.clone()),
            tenant: token.tenant.as_ref().map(|tenant| tenant.name.clone()),
            created_at: Time(token.created_at),
            expires_at: token.expires_at.map(Time),
            expired: !token.counts(now),
        }
    }
}

/// All tokens.
#[derive(Serialize, ToSchema)]
pub struct TokensJson {
    tokens: Vec<TokenInfoJson>,
}

impl TokensJson {
    pub(super) fn of(file: &TokenFile, now: Micros) -> Self {
        Self { tokens: file.list().iter().map(|token| TokenInfoJson::new(token, now)).collect() }
    }
}

/// A new token: the only time that it is shown.
#[derive(Serialize, ToSchema)]
pub struct MadeTokenJson {
    /// What to send as `Authorization: Bearer`
    pub(super) token: String,
    #[serde(flatten)]
    pub(super) about: TokenInfoJson,
}

impl MadeTokenJson {
    /// Makes a token in a file.
    pub(super) fn make(file: &mut TokenFile, new: &NewToken, now: Micros) -> anyhow::Result<Self> {
        let (token, kept) = file.add(new, now)?;
        Ok(Self { token, about: TokenInfoJson::new(&kept, now) })
    }
}

impl Auth {
    /// Works on the tokens as the file has them now, on a thread that may block.
    fn with_tokens<T>(
        &self,
        work: impl FnOnce(&mut TokenFile) -> anyhow::Result<T>,
    ) -> Result<T, ApiError> {
        let tokens = self.tokens.lock();
        let mut tokens = tokens.map_err(|_| ApiError::bug(&"the tokens' lock is poisoned"))?;
        work(&mut tokens).map_err(|error| match error.downcast_ref::<CliError>() {
            Some(known) => ApiError::from(known),
            None => ApiError::unavailable(format!("{error:#}")),
        })
    }
}

/// All tokens, without their secrets
#[utoipa::path(get, path = "/tokens", operation_id = "list_tokens", tag = "daemon",
    responses((status = 200, body = TokensJson), Failures))]
pub(crate) async fn list(
    _: May<Admin>,
    State(app): State<App>,
) -> Result<Json<TokensJson>, ApiError> {
    let asked = app.clone();
    let found = app.pool.run(move || {
        asked.auth.with_tokens(|tokens| {
            tokens.reload()?;
            Ok(TokensJson::of(tokens, clock::now()))
        })
    });
    Ok(Json(found.await?))
}

/// Create a token and show it, once only
#[utoipa::path(post, path = "/tokens", operation_id = "add_token",
    tag = "daemon", request_body = NewToken,
    responses((status = 201, body = MadeTokenJson), Failures))]
pub(crate) async fn add(
    _: May<Admin>,
    State(app): State<App>,
    ApiJson(new): ApiJson<NewToken>,
) -> Result<(StatusCode, Json<MadeTokenJson>), ApiError> {
    let asked = app.clone();
    let made = app.pool.run(move || {
        asked.auth.with_tokens(|tokens| MadeTokenJson::make(tokens, &new, clock::now()))
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Revoke a token; its sessions and streams end with it
#[utoipa::path(delete, path = "/tokens/{name}", operation_id = "revoke_token", tag = "daemon",
    params(("name" = String, Path, description = "Name of the token")),
    responses((status = 204), Failures))]
pub(crate) async fn revoke(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let asked = app.clone();
    let done = app.pool.run(move || {
        asked.auth.with_tokens(|tokens| {
            tokens.reload()?;
            let is_there = tokens.list().iter().any(|token| token.name == name);
            if is_there {
                tokens.revoke(&name)?;
            }
            Ok(is_there)
        })
    });
    if done.await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::not_found("no token has this name"))
}
