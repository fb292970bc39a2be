//! `/webhooks`: URLs that are told of a tenant's events.
//!
//! Each room has a route that adds one for a tenant of its own; the rest is the same for all.
//! Whoever may add one decides where this machine sends data to, so all of it needs the scope
//! `admin`.

use axum::{Json, extract::State, http::StatusCode};
use clap::Args;
use serde::{Deserialize, Serialize};
use unspent_engine::{
    Engine, clock,
    tenant::Tenant,
    webhooks::{Webhook, WebhookError},
};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{Admin, ApiPath, May},
    state::App,
};
use crate::random;

/// A hook to make.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhook {
    /// URL that events are posted to: https://…; http and private addresses must be allowed
    #[schema(min_length = 1, max_length = 2000)]
    pub url: String,
}

/// A hook that was made.
#[derive(Serialize, ToSchema)]
pub struct CreatedWebhookJson {
    /// As it is listed.
    pub webhook: Webhook,
    /// What messages are signed with; it is not shown again
    pub secret: String,
}

/// Hooks and how they are doing.
#[derive(Serialize, ToSchema)]
pub struct WebhooksJson {
    /// In the order in which they were made.
    pub webhooks: Vec<Webhook>,
}

impl App {
    /// Asks about webhooks, on a thread that may block.
    pub async fn hooks<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Engine) -> Result<T, WebhookError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        self.pool.run(move || Ok(ask(&engine)?)).await
    }

    /// Does something with a hook that says nothing more.
    async fn hook(
        &self,
        act: impl FnOnce(&Engine) -> Result<(), WebhookError> + Send + 'static,
    ) -> Result<StatusCode, ApiError> {
        self.hooks(act).await?;
        Ok(StatusCode::NO_CONTENT)
    }

    /// Makes a hook for a tenant, as a room's route for it answers.
    pub async fn add_hook(
        &self,
        whose: Tenant,
        request: CreateWebhook,
    ) -> Result<(StatusCode, Json<CreatedWebhookJson>), ApiError> {
        let secret = random::bytes().map_err(|error| ApiError::bug(&error))?;
        let made = self
            .hooks(move |engine| engine.webhooks().add(&whose, &request.url, secret, clock::now()));
        let (webhook, secret) = made.await?;
        Ok((StatusCode::CREATED, Json(CreatedWebhookJson { webhook, secret })))
    }
}

/// Webhooks of all tenants, and their state
#[utoipa::path(get, path = "/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, body = WebhooksJson), Failures))]
pub(super) async fn list(
    _: May<Admin>,
    State(app): State<App>,
) -> Result<Json<WebhooksJson>, ApiError> {
    let webhooks = app.hooks(|engine| engine.webhooks().list()).await?;
    Ok(Json(WebhooksJson { webhooks }))
}

/// Remove a webhook
#[utoipa::path(delete, path = "/webhooks/{webhook}", operation_id = "remove_webhook",
    tag = "webhooks",
    params(("webhook" = u64, Path, description = "Its number", maximum = 9007199254740991u64)),
    responses((status = 204), Failures))]
pub(super) async fn remove(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(webhook): ApiPath<u64>,
) -> Result<StatusCode, ApiError> {
    app.hook(move |engine| engine.webhooks().remove(webhook)).await
}

/// Send a test message now
#[utoipa::path(post, path = "/webhooks/{webhook}/test", operation_id = "test_webhook",
    tag = "webhooks",
    params(("webhook" = u64, Path, description = "Its number", maximum = 9007199254740991u64)),
    responses((status = 204), Failures))]
pub(super) async fn test(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(webhook): ApiPath<u64>,
) -> Result<StatusCode, ApiError> {
    app.hook(move |engine| engine.webhooks().test(webhook, clock::now())).await
}

/// Retry a webhook now, even if paused
#[utoipa::path(post, path = "/webhooks/{webhook}/resume", operation_id = "resume_webhook",
    tag = "webhooks",
    params(("webhook" = u64, Path, description = "Its number", maximum = 9007199254740991u64)),
    responses((status = 204), Failures))]
pub(super) async fn resume(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(webhook): ApiPath<u64>,
) -> Result<StatusCode, ApiError> {
    let resume = move |engine: &Engine| {
        engine.webhooks().resume(webhook)?;
        engine.wake();
        Ok(())
    };
    app.hook(resume).await
}
