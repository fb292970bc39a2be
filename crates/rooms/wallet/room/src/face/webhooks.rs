//! Webhooks: a URL that is told of a wallet's events.

use axum::{Json, extract::State, http::StatusCode};
use clap::{Args, Subcommand};
use serde_json::json;
use unspent_engine::{
    clock,
    store::STORE_FILE,
    tenant::Tenant,
    webhooks::{Webhook, WebhookError, Webhooks},
};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{Admin, ApiJson, ApiPath, May},
        state::App,
        webhooks::{CreateWebhook, CreatedWebhookJson, WebhooksJson},
    },
    config::{Config, GivenFlag, SettingFlags, WebhooksSection, webhook_options},
    error::{CliError, Outcome},
    output::{Output, facts, table},
    random,
};

use super::context::{RoomContext, WalletQueries as _};
use crate::events::tenant;

fn add(hooks: &Webhooks, whose: &Tenant, url: &str) -> anyhow::Result<CreatedWebhookJson> {
    let (webhook, secret) = hooks.add(whose, url, random::bytes()?, clock::now())?;
    Ok(CreatedWebhookJson { webhook, secret })
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
    let whose = app.wallet(wallet, move |context| Ok(tenant(context.wallet, &name))).await?;
    app.add_hook(whose, request).await
}

// ---- command line

const EXAMPLE: &str = "While a daemon runs, use its REST interface instead; `list` still works.
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
    /// Post a wallet's events to a URL from now on; shows the secret, once only
    Add {
        /// Name of the wallet
        wallet: String,
        #[command(flatten)]
        request: CreateWebhook,
    },
    /// List the webhooks of all wallets, with their state
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
    /// Retry a webhook now, even if paused
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
            let whose = tenant(context.wallet(wallet)?.wallet, wallet);
            let hooks = Webhooks::open(&config.data_dir, webhook_options(config)?)?;
            let made = add(&hooks, &whose, &request.url).map_err(refused)?;
            output.answer(&made, || {
                let id = made.webhook.id.to_string();
                let rows = [("webhook", id), ("secret", made.secret.clone())];
                format!("{}\nStore the secret now: it is not shown again.", facts(&rows))
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
        let tenant = || format!("{}/{}", hook.room, hook.tenant);
        let whose = hook.wallet.clone().unwrap_or_else(tenant);
        [id, whose, hook.url.clone(), delivered, state]
    });
    table(["webhook", "wallet", "url", "delivered", "state"], rows).to_string()
}
