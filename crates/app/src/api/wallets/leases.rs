//! Leases: holding coins and giving them back.

use axum::{Json, extract::State, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use unspent_model::wallet::LockId;
use unspent_wallet::lease::LeaseTerms;
use utoipa::ToSchema;

use super::{MAX_ITEMS, coins, parse};
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Read, Wallet},
        keyed::{KeyHeader, Keyed},
        state::App,
    },
    wallet::json::{HeldJson, LeaseJson, ReleasedJson},
};

/// The longest lease: a year.
const MAX_SECONDS: u32 = 31_536_000;

/// Active leases.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasesJson {
    leases: Vec<LeaseJson>,
}

/// Coins to hold.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldCoins {
    /// Coins, as TXID:VOUT
    #[schema(min_items = 1, max_items = 1000)]
    coins: Vec<String>,
    /// How long; the configured time by default
    #[schema(minimum = 1, maximum = 31536000)]
    seconds: Option<u32>,
    /// Keep holding a coin after its spend until that has so many confirmations
    hold_confirmations: Option<u32>,
    /// The holder, 64 hex digits; by default it derives from the idempotency key
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    lock: Option<String>,
}

/// Coins to give back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseCoins {
    /// Coins, as TXID:VOUT
    #[schema(min_items = 1, max_items = 1000)]
    coins: Vec<String>,
    /// The holder, 64 hex digits
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    lock: String,
}

/// How long coins are held, as a request says it.
pub(super) fn terms(
    app: &App,
    seconds: Option<u32>,
    hold_confirmations: Option<u32>,
) -> Result<impl Fn(LockId) -> LeaseTerms + Send + 'static, ApiError> {
    let default = u32::try_from(app.settings.lease.as_secs()).unwrap_or(MAX_SECONDS);
    let seconds = seconds.unwrap_or(default);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid(format!("seconds must be 1 to {MAX_SECONDS}")));
    }
    let duration = i64::from(seconds) * 1_000_000;
    Ok(move |lock| LeaseTerms { lock, duration, hold_confirmations })
}

/// Active leases with value and script, soonest to end first
#[utoipa::path(get, path = "/wallets/{wallet}/leases", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = LeasesJson), Failures))]
pub(crate) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<LeasesJson>, ApiError> {
    let found = app.wallet(wallet, |desk| {
        let network = desk.room.bitcoin_network();
        let leases = desk.room.leases(desk.wallet, desk.now)?;
        let leases = leases.iter().take(MAX_ITEMS).map(|lease| LeaseJson::new(lease, network));
        Ok(LeasesJson { leases: leases.collect() })
    });
    Ok(Json(found.await?))
}

/// Hold coins for a time, all or none
#[utoipa::path(post, path = "/wallets/{wallet}/leases", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = HoldCoins,
    responses((status = 201, body = HeldJson), Failures))]
pub(crate) async fn create(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<HoldCoins>,
) -> Result<Response, ApiError> {
    let body = &request.body;
    let terms = terms(&app, body.seconds, body.hold_confirmations)?;
    let asked: Option<LockId> =
        body.lock.as_deref().map(|lock| parse(lock, "lock id (64 hex digits)")).transpose()?;
    let wanted = coins(&body.coins, 1)?;
    let work = request.run(&app, wallet, StatusCode::CREATED, move |desk, _, lock| {
        let terms = terms(asked.unwrap_or(lock));
        let expires_at = desk.room.lease(desk.wallet, &wanted, terms, desk.now)?;
        let coins = wanted.iter().map(ToString::to_string).collect();
        Ok(HeldJson { lock: terms.lock.to_string(), expires_at, coins })
    });
    work.await
}

/// Give coins back before their time
#[utoipa::path(post, path = "/wallets/{wallet}/leases/release", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = ReleaseCoins,
    responses((status = 200, body = ReleasedJson), Failures))]
pub(crate) async fn release(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<ReleaseCoins>,
) -> Result<Response, ApiError> {
    let holder: LockId = parse(&request.body.lock, "lock id (64 hex digits)")?;
    let wanted = coins(&request.body.coins, 1)?;
    let work = request.run(&app, wallet, StatusCode::OK, move |desk, _, _| {
        desk.room.release(desk.wallet, &wanted, holder, desk.now)?;
        Ok(ReleasedJson { released: wanted.iter().map(ToString::to_string).collect() })
    });
    work.await
}
