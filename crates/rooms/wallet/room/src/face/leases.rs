//! Leases: holding coins and giving them back.

use axum::{Json, extract::State, http::StatusCode, response::Response};
use bitcoin::OutPoint;
use clap::Args;
use serde::Deserialize;
use unspent_engine::clock;
use unspent_model::wallet::LockId;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Read, Wallet},
        keyed::{KeyHeader, Keyed},
        state::App,
    },
    error::Outcome,
    input::Seconds,
    json::Time,
    output::{Output, table},
    request::{MAX_ITEMS, bounded},
};
use unspent_wallet::lease::LeaseTerms;
use utoipa::ToSchema;

use super::{
    context::{KeyedOnWallet, WalletContext, WalletQueries, new_lock},
    error::RequestError,
    input::{Coin, Lock},
    json::{HeldJson, LeaseJson, LeasesJson, ReleasedJson},
};

/// How coins are held.
#[derive(Clone, Default, Args, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Lease {
    /// Lock that holds the coins: 64 hex digits. By default a new one; over REST, one derived from
    /// the idempotency key
    #[arg(long)]
    pub(super) lock: Option<Lock>,
    /// How long: 90s, 10m, 2h, 1d; in JSON, seconds. Default: ten minutes, or as configured
    #[arg(long = "for", value_name = "TIME")]
    seconds: Option<Seconds>,
    /// After a coin is spent, keep its lease until the spend has this many confirmations
    #[arg(long = "hold", value_name = "CONFIRMATIONS")]
    hold_confirmations: Option<u32>,
}

impl Lease {
    /// What the room is asked for; `fresh` is the holder unless one is named.
    pub(super) fn terms(&self, context: &WalletContext, fresh: LockId) -> LeaseTerms {
        let asked = self.seconds.map(|seconds| i64::from(seconds.0) * 1_000_000);
        LeaseTerms {
            lock: self.lock.map_or(fresh, |lock| lock.0),
            duration: asked.unwrap_or(context.lease),
            hold_confirmations: self.hold_confirmations,
        }
    }
}

/// Coins to lease.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseCoins {
    /// Coins, as TXID:VOUT
    #[arg(required = true, value_name = "OUTPOINT")]
    #[schema(min_items = 1, max_items = 1000)]
    outpoints: Vec<Coin>,
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
}

impl LeaseCoins {
    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<HeldJson, RequestError> {
        let coins = coins(&self.outpoints)?;
        let terms = self.lease.terms(context, fresh);
        let expires_at = context.room.lease(context.wallet, &coins, terms, context.now)?;
        let (lock, expires_at) = (terms.lock.to_string(), Time(expires_at.0));
        Ok(HeldJson { lock, expires_at, outpoints: names(&coins) })
    }
}

/// Coins to release.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseCoins {
    /// Coins, as TXID:VOUT
    #[arg(required = true, value_name = "OUTPOINT")]
    #[schema(min_items = 1, max_items = 1000)]
    outpoints: Vec<Coin>,
    /// The lock that holds them, 64 hex digits
    #[arg(long)]
    lock: Lock,
}

impl ReleaseCoins {
    fn run(&self, context: &WalletContext) -> Result<ReleasedJson, RequestError> {
        let coins = coins(&self.outpoints)?;
        context.room.release(context.wallet, &coins, self.lock.0, context.now)?;
        Ok(ReleasedJson { released: names(&coins) })
    }
}

fn coins(asked: &[Coin]) -> Result<Vec<OutPoint>, RequestError> {
    bounded(asked.len(), 1)?;
    Ok(asked.iter().map(|coin| coin.0).collect())
}

fn names(coins: &[OutPoint]) -> Vec<String> {
    coins.iter().map(ToString::to_string).collect()
}

fn leases(context: &WalletContext) -> Result<LeasesJson, RequestError> {
    let network = context.room.bitcoin_network();
    let leases = context.room.leases(context.wallet, context.now)?;
    let leases = leases.iter().take(MAX_ITEMS).map(|lease| LeaseJson::new(lease, network));
    Ok(LeasesJson { leases: leases.collect() })
}

// ---- REST

/// Active leases with value and script, soonest to end first
#[utoipa::path(get, path = "/wallets/{wallet}/leases", operation_id = "list_leases",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = LeasesJson), Failures))]
pub(super) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<LeasesJson>, ApiError> {
    Ok(Json(app.wallet(wallet, leases).await?))
}

/// Lease coins for a time, all or none
#[utoipa::path(post, path = "/wallets/{wallet}/leases", operation_id = "lease_coins",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = LeaseCoins,
    responses((status = 201, body = HeldJson), Failures))]
pub(super) async fn create(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<LeaseCoins>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: LeaseCoins, lock: LockId| {
        Ok(request.run(context, lock)?)
    };
    request.on_wallet(&app, wallet, StatusCode::CREATED, work).await
}

/// Release leased coins early
#[utoipa::path(post, path = "/wallets/{wallet}/leases/release", operation_id = "release_coins",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = ReleaseCoins,
    responses((status = 200, body = ReleasedJson), Failures))]
pub(super) async fn release(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<ReleaseCoins>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: ReleaseCoins, _| Ok(request.run(context)?);
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

// ---- command line

pub(super) fn print_lease(
    context: &WalletContext,
    request: &LeaseCoins,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let held = request.run(context, new_lock()?)?;
    output.answer(&held, || {
        let HeldJson { outpoints, lock, .. } = &held;
        format!(
            "leased {} coins; release them, or pay with them, using\n--lock {lock}",
            outpoints.len()
        )
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_release(
    context: &WalletContext,
    request: &ReleaseCoins,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    output.answer(&request.run(context)?, || "released".to_owned())?;
    Ok(Outcome::Done)
}

pub(super) fn print_leases(
    context: &WalletContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = leases(context)?;
    output.answer(&found, || {
        let rows = found.leases.iter().map(|lease| {
            let left = (lease.expires_at.0 - clock::now().0) / 1_000_000;
            [
                lease.outpoint.outpoint.clone(),
                lease.value.clone(),
                lease.address.clone(),
                format!("{left} s"),
                lease.lock.clone(),
            ]
        });
        table(["outpoint", "value (sat)", "address", "left", "lock"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}
