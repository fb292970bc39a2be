//! What people change about a wallet: its name, whether it is followed, how far ahead it looks,
//! what it watches; and going on after it was stopped.

use crate::events::tenant;
use axum::{Json, extract::State};
use clap::Args;
use serde::Deserialize;
use unspent_engine::webhooks::{WebhookError, WebhookOptions, Webhooks};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, May, Wallet},
        state::App,
    },
    config::Config,
    error::Outcome,
    output::Output,
    request::BadRequest,
};
use unspent_wallet::WalletId;
use utoipa::ToSchema;

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    json::WalletDetailJson,
    wallets::{detail, print_show, script},
};

/// What to change about a wallet; what isn't named stays.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeWallet {
    /// Another name
    #[arg(long, value_name = "NAME")]
    #[schema(min_length = 1, max_length = 100)]
    name: Option<String>,
    /// Archive the wallet (true) or bring it back (false); an archived wallet keeps its data and
    /// follows no blocks
    #[arg(long, value_name = "YES")]
    archived: Option<bool>,
    /// Addresses to watch beyond the last used one (gap limit)
    #[arg(long, value_name = "ADDRESSES")]
    #[schema(minimum = 1, maximum = 10000)]
    gap_limit: Option<u32>,
}

impl ChangeWallet {
    fn run(&self, context: &WalletContext) -> Result<WalletDetailJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        if self.name.is_none() && self.archived.is_none() && self.gap_limit.is_none() {
            return Err(BadRequest::invalid("give at least one thing to change").into());
        }
        // A refusal of the first leaves the others undone.
        if let Some(name) = &self.name {
            room.rename_wallet(*wallet, name)?;
        }
        if let Some(gap_limit) = self.gap_limit {
            room.set_gap_limit(*wallet, gap_limit)?;
        }
        if let Some(is_archived) = self.archived {
            room.archive_wallet(*wallet, is_archived.then_some(*now))?;
        }
        detail(context)
    }
}

/// A script to stop watching.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unwatch {
    /// An address, or a script in hex
    script: String,
}

impl Unwatch {
    fn run(&self, context: &WalletContext) -> Result<WalletDetailJson, RequestError> {
        let script = script(&self.script, context.room.bitcoin_network())?;
        context.room.remove_script(context.wallet, &script)?;
        detail(context)
    }
}

fn resume_wallet(context: &WalletContext) -> Result<WalletDetailJson, RequestError> {
    context.room.resume_wallet(context.wallet)?;
    detail(context)
}

/// Hooks go with the wallet, by its number; only the name that they show is to be changed.
fn rename_hooks(
    hooks: &Webhooks,
    wallet: WalletId,
    request: &ChangeWallet,
) -> Result<(), WebhookError> {
    request.name.as_deref().map_or(Ok(()), |name| hooks.rename(&tenant(wallet, name)))
}

// ---- REST

/// Rename a wallet, archive it, or widen its gap limit
#[utoipa::path(patch, path = "/wallets/{wallet}", operation_id = "change_wallet", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = ChangeWallet,
    responses((status = 200, body = WalletDetailJson), Failures))]
pub(super) async fn change(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<ChangeWallet>,
) -> Result<Json<WalletDetailJson>, ApiError> {
    let change = move |context: &WalletContext| {
        let changed = request.run(context)?;
        Ok((changed, context.wallet, request))
    };
    let (changed, number, request) = app.wallet(wallet, change).await?;
    // After the wallet: a crash between the two leaves an old name on show, and nothing worse.
    app.hooks(move |engine| rename_hooks(engine.webhooks(), number, &request)).await?;
    app.engine.wake();
    Ok(Json(changed))
}

/// Let a stopped wallet continue from where it stands
#[utoipa::path(post, path = "/wallets/{wallet}/resume", operation_id = "resume_wallet",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = WalletDetailJson), Failures))]
pub(super) async fn resume(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<WalletDetailJson>, ApiError> {
    let resumed = app.wallet(wallet, resume_wallet).await?;
    app.engine.wake();
    Ok(Json(resumed))
}

/// Stop watching a script that was never paid
#[utoipa::path(delete, path = "/wallets/{wallet}/scripts/{script}", operation_id = "unwatch_script",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"),
        ("script" = String, Path, description = "An address, or a script in hex")),
    responses((status = 200, body = WalletDetailJson), Failures))]
pub(super) async fn unwatch(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath((wallet, script)): ApiPath<(String, String)>,
) -> Result<Json<WalletDetailJson>, ApiError> {
    let request = Unwatch { script };
    Ok(Json(app.wallet(wallet, move |context| request.run(context)).await?))
}

// ---- command line

pub(super) fn print_change(
    config: &Config,
    context: &WalletContext,
    request: &ChangeWallet,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    request.run(context)?;
    // Where no daemon ever ran there are no hooks, and a new name makes no database for them.
    if config.data_dir.join(unspent_engine::store::STORE_FILE).exists() {
        let hooks = Webhooks::open(&config.data_dir, WebhookOptions::default())?;
        rename_hooks(&hooks, context.wallet, request)?;
    }
    print_show(context, output)
}

pub(super) fn print_unwatch(
    context: &WalletContext,
    request: &Unwatch,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    request.run(context)?;
    print_show(context, output)
}

pub(super) fn print_resume(
    context: &WalletContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    resume_wallet(context)?;
    print_show(context, output)
}
