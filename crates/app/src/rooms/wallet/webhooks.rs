//! Webhooks: a URL that is told of a wallet's events.
//!
//! Whoever may add one decides where this machine sends data to, so all of it needs the scope
//! `admin`.

use axum::{Json, extract::State, http::StatusCode};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use unspent_engine::{
    Engine, clock,
    store::STORE_FILE,
    webhooks::{Webhook, WebhookError, Webhooks},
};
use utoipa::ToSchema;

use super::context::RoomContext;
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{Admin, ApiJson, ApiPath, May},
        state::App,
    },
    config::{Config, GivenFlag, SettingFlags, WebhooksSection},
    error::{CliError, Outcome},
    output::{Output, facts, table},
    random,
    serve::build::webhook_options,
};

/// A hook to make.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWebhook {
    /// Where events are posted: https://…; other schemes and private addresses must be allowed
    #[schema(min_length = 1, max_length = 2000)]
    url: String,
}

/// A hook that was made.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedWebhookJson {
    webhook: Webhook,
    /// What messages are signed with; it is not shown again
    secret: String,
}

/// Hooks and how they are doing.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhooksJson {
    webhooks: Vec<Webhook>,
}

fn add(hooks: &Webhooks, wallet: (i64, &str), url: &str) -> anyhow::Result<CreatedWebhookJson> {
    let (webhook, secret) = hooks.add(wallet, url, random::bytes()?, clock::now())?;
    Ok(CreatedWebhookJson { webhook, secret })
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        if matches!(error, WebhookError::Refused(_)) {
            return Self::invalid(error.to_string());
        }
        if matches!(error, WebhookError::Unknown(_)) {
            return Self::not_found(error.to_string());
        }
        if matches!(error, WebhookError::Failed(_)) {
            return Self::refused(error.to_string());
        }
        Self::bug(&error)
    }
}

// ---- REST

impl App {
    /// Asks about webhooks, on a thread that may block.
    pub(super) async fn hooks<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Engine) -> Result<T, WebhookError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        self.pool.run(move || Ok(ask(&engine)?)).await
    }
}

/// Webhooks of all wallets, and how each is doing
#[utoipa::path(get, path = "/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, body = WebhooksJson), Failures))]
pub(super) async fn list(
    _: May<Admin>,
    State(app): State<App>,
) -> Result<Json<WebhooksJson>, ApiError> {
    let webhooks = app.hooks(|engine| engine.webhooks().list()).await?;
    Ok(Json(WebhooksJson { webhooks }))
}

/// Post a wallet's events to a URL from now on
#[utoipa::path(post, path = "/wallets/{wallet}/webhooks", operation_id = "add_webhook",
    tag = "webhooks",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = CreateWebhook,
    responses((status = 201, body = CreatedWebhookJson), Failures))]
pub(super) async fn create(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<CreateWebhook>,
) -> Result<(StatusCode, Json<CreatedWebhookJson>), ApiError> {
    let name = wallet.clone();
    let number = app.wallet(wallet, |context| Ok(context.wallet.0)).await?;
    let secret = random::bytes().map_err(|error| ApiError::bug(&error))?;
    let made = app.hooks(move |engine| {
        engine.webhooks().add((number, &name), &request.url, secret, clock::now())
    });
    let (webhook, secret) = made.await?;
    Ok((StatusCode::CREATED, Json(CreatedWebhookJson { webhook, secret })))
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
    app.hooks(move |engine| engine.webhooks().remove(webhook)).await?;
    Ok(StatusCode::NO_CONTENT)
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
    app.hooks(move |engine| engine.webhooks().test(webhook, clock::now())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Try a webhook again now, also one that was paused
#[utoipa::path(post, path = "/webhooks/{webhook}/resume", operation_id = "resume_webhook",
    tag = "webhooks",
    params(("webhook" = u64, Path, description = "Its number", maximum = 9007199254740991u64)),
    responses((status = 204), Failures))]
pub(super) async fn resume(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(webhook): ApiPath<u64>,
) -> Result<StatusCode, ApiError> {
    app.hooks(move |engine| engine.webhooks().resume(webhook)).await?;
    app.engine.wake();
    Ok(StatusCode::NO_CONTENT)
}

// ---- command line

const EXAMPLE: &str = "While a daemon runs, use its REST interface instead; `list` works beside it.
Messages follow the Standard Webhooks specification: the headers webhook-id, webhook-timestamp and
webhook-signature, HMAC-SHA256 over `id.timestamp.body`.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    settings: SettingFlags<WebhooksSection>,
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(Subcommand)]
enum WebhookCommand {
    /// Post a wallet's events to a URL from now on; shows the secret, this once
    Add {
        /// Name of the wallet
        wallet: String,
        #[command(flatten)]
        request: CreateWebhook,
    },
    /// Webhooks of all wallets, and how each is doing
    List,
    /// Remove a webhook
    Remove {
        /// Its number
        webhook: u64,
    },
    /// Send a test message now
    Test {
        /// Its number
        webhook: u64,
    },
    /// Try a webhook again, also one that was paused
    Resume {
        /// Its number
        webhook: u64,
    },
}

impl WebhookArgs {
    /// The settings among them.
    pub(super) fn given(&self) -> Vec<GivenFlag> {
        self.settings.given()
    }

    /// Whether it changes anything.
    pub(super) fn writes(&self) -> bool {
        !matches!(self.command, WebhookCommand::List | WebhookCommand::Test { .. })
    }
}

pub(super) fn print(
    config: &Config,
    context: &RoomContext,
    args: &WebhookArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = |output: &mut Output<'_>, word: &str, webhook: u64| {
        output.answer(&json!({ word: webhook }), || format!("{word}: {webhook}"))
    };
    match &args.command {
        WebhookCommand::Add { wallet, request } => {
            let number = context.wallet(wallet)?.wallet.0;
            let hooks = Webhooks::open(&config.data_dir, webhook_options(config)?)?;
            let made = add(&hooks, (number, wallet), &request.url).map_err(refused)?;
            output.answer(&made, || {
                let id = made.webhook.id.to_string();
                let rows = [("webhook", id), ("secret", made.secret.clone())];
                format!("{}\nKeep the secret: it can't be shown again.", facts(&rows))
            })?;
        }
        WebhookCommand::List => {
            // Whoever only looks makes no database of events.
            let hooks = existing(config)?;
            let webhooks = hooks.map(|hooks| hooks.list()).transpose()?.unwrap_or_default();
            let found = WebhooksJson { webhooks };
            output.answer(&found, || shown(&found.webhooks))?;
        }
        WebhookCommand::Remove { webhook } => {
            known(config, *webhook)?.remove(*webhook).map_err(|error| refused(error.into()))?;
            done(output, "removed", *webhook)?;
        }
        WebhookCommand::Test { webhook } => {
            let sent = known(config, *webhook)?.test(*webhook, clock::now());
            sent.map_err(|error| refused(error.into()))?;
            done(output, "taken", *webhook)?;
        }
        WebhookCommand::Resume { webhook } => {
            known(config, *webhook)?.resume(*webhook).map_err(|error| refused(error.into()))?;
            done(output, "resumed", *webhook)?;
        }
    }
    Ok(Outcome::Done)
}

/// The hooks, where there ever were any.
fn existing(config: &Config) -> anyhow::Result<Option<Webhooks>> {
    if !config.data_dir.join(STORE_FILE).exists() {
        return Ok(None);
    }
    Ok(Some(Webhooks::open(&config.data_dir, webhook_options(config)?)?))
}

fn known(config: &Config, webhook: u64) -> anyhow::Result<Webhooks> {
    existing(config)?.ok_or_else(|| refused(WebhookError::Unknown(webhook).into()))
}

fn refused(error: anyhow::Error) -> anyhow::Error {
    CliError::refused(error.to_string()).into()
}

fn shown(hooks: &[Webhook]) -> String {
    let rows = hooks.iter().map(|hook| {
        let state = match (&hook.paused_at, &hook.last_error) {
            (Some(at), _) => format!("paused since {}", at.text()),
            (None, Some(error)) => format!("failed {} times: {error}", hook.attempts),
            (None, None) => "fine".to_owned(),
        };
        let (id, delivered) = (hook.id.to_string(), hook.delivered.to_string());
        [id, hook.wallet.clone(), hook.url.clone(), delivered, state]
    });
    table(["webhook", "wallet", "url", "delivered", "state"], rows).to_string()
}
