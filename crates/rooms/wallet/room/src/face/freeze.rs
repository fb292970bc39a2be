//! Freezing coins, and thawing them.

use axum::{Json, extract::State};
use bitcoin::OutPoint;
use clap::Args;
use serde::Deserialize;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, May, Wallet},
        state::App,
    },
    error::Outcome,
    output::Output,
    request::bounded,
};
use utoipa::ToSchema;

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    input::Coin,
    json::FrozenJson,
};

/// Coins to freeze or unfreeze.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreezeCoins {
    /// Coins, as TXID:VOUT
    #[arg(required = true, value_name = "OUTPOINT")]
    #[schema(min_items = 1, max_items = 1000)]
    outpoints: Vec<Coin>,
}

impl FreezeCoins {
    fn coins(&self) -> Result<Vec<OutPoint>, RequestError> {
        bounded(self.outpoints.len(), 1)?;
        Ok(self.outpoints.iter().map(|coin| coin.0).collect())
    }

    fn freeze(&self, context: &WalletContext) -> Result<FrozenJson, RequestError> {
        let coins = self.coins()?;
        let changed = context.room.freeze(context.wallet, &coins, context.now)?;
        Ok(answer(&coins, changed))
    }

    fn thaw(&self, context: &WalletContext) -> Result<FrozenJson, RequestError> {
        let coins = self.coins()?;
        let changed = context.room.thaw(context.wallet, &coins)?;
        Ok(answer(&coins, changed))
    }
}

fn answer(coins: &[OutPoint], changed: u64) -> FrozenJson {
    FrozenJson { outpoints: coins.iter().map(ToString::to_string).collect(), changed }
}

// ---- REST

/// Freeze coins: none is selected until it is unfrozen
#[utoipa::path(post, path = "/wallets/{wallet}/freeze", operation_id = "freeze_coins",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = FreezeCoins,
    responses((status = 200, body = FrozenJson), Failures))]
pub(super) async fn freeze(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<FreezeCoins>,
) -> Result<Json<FrozenJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| request.freeze(context)).await?))
}

/// Make frozen coins spendable again
#[utoipa::path(post, path = "/wallets/{wallet}/unfreeze", operation_id = "unfreeze_coins",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = FreezeCoins,
    responses((status = 200, body = FrozenJson), Failures))]
pub(super) async fn unfreeze(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<FreezeCoins>,
) -> Result<Json<FrozenJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| request.thaw(context)).await?))
}

// ---- command line

pub(super) fn print_freeze(
    context: &WalletContext,
    request: &FreezeCoins,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = request.freeze(context)?;
    output.answer(&done, || format!("{} coins frozen", done.changed))?;
    Ok(Outcome::Done)
}

pub(super) fn print_unfreeze(
    context: &WalletContext,
    request: &FreezeCoins,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = request.thaw(context)?;
    output.answer(&done, || format!("{} coins spendable again", done.changed))?;
    Ok(Outcome::Done)
}
