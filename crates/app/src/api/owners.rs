//! `/addresses/{address}` and `/credentials/{credential}`: whose coins.

use axum::{Json, extract::State};
use serde::Deserialize;
use unspent_chain::{Order, Owner, PageCursor};
use unspent_model::Network;
use unspent_networks::address::{Query, parse_query};
use utoipa::IntoParams;

use super::{
    error::{ApiError, Failures},
    extract::{ApiPath, ApiQuery, May, Read, page_limit, short},
    state::App,
};
use crate::chain::json::{BalanceJson, PageJson};

/// Which page of whose coins.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CoinsQuery {
    /// Coins on the page
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// The `next` of the page before
    #[param(max_length = 1000)]
    after: Option<String>,
    /// Oldest or newest first
    #[param(inline)]
    order: Option<OrderQuery>,
}

/// In which order.
#[derive(Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OrderQuery {
    Asc,
    Desc,
}

fn address(network: Network, text: &str) -> Result<Owner, ApiError> {
    match parse_query(network, text)? {
        Query::Address(raw) => Ok(Owner::address(&raw)),
        Query::Credential(_) => {
            Err(ApiError::malformed("this is a payment credential; ask under /credentials"))
        }
    }
}

fn credential(network: Network, text: &str) -> Result<Owner, ApiError> {
    match parse_query(network, text)? {
        Query::Credential(credential) => Ok(Owner::Credential(credential)),
        Query::Address(_) => Err(ApiError::malformed("this is an address; ask under /addresses")),
    }
}

async fn page(app: App, owner: Owner, query: CoinsQuery) -> Result<Json<PageJson>, ApiError> {
    let limit = usize::try_from(page_limit(query.limit)?).unwrap_or(1);
    let after = short(query.after.as_deref())?.map(str::parse::<PageCursor>).transpose()?;
    let order = match query.order {
        Some(OrderQuery::Desc) => Order::Descending,
        Some(OrderQuery::Asc) | None => Order::Ascending,
    };
    let found = app.chain(move |reader| {
        let page = reader.page(owner, order, limit, after.as_ref())?;
        Ok(PageJson::new(reader.network(), &page))
    });
    Ok(Json(found.await?))
}

async fn sum(app: App, owner: Owner) -> Result<Json<BalanceJson>, ApiError> {
    let found =
        app.chain(move |reader| Ok(BalanceJson::new(reader.network(), &reader.balance(owner)?)));
    Ok(Json(found.await?))
}

/// Unspent coins of an address, in chain order
#[utoipa::path(get, path = "/addresses/{address}/utxos", tag = "chain",
    params(("address" = String, Path, description = "Address, or hex of a script"), CoinsQuery),
    responses((status = 200, body = PageJson), Failures))]
pub(crate) async fn address_utxos(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
    ApiQuery(query): ApiQuery<CoinsQuery>,
) -> Result<Json<PageJson>, ApiError> {
    let owner = address(app.network(), &text)?;
    page(app, owner, query).await
}

/// What an address has
#[utoipa::path(get, path = "/addresses/{address}/balance", tag = "chain",
    params(("address" = String, Path, description = "Address, or hex of a script")),
    responses((status = 200, body = BalanceJson), Failures))]
pub(crate) async fn address_balance(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BalanceJson>, ApiError> {
    let owner = address(app.network(), &text)?;
    sum(app, owner).await
}

/// Unspent coins of a payment credential, in chain order (Cardano)
#[utoipa::path(get, path = "/credentials/{credential}/utxos", tag = "chain",
    params(("credential" = String, Path, description = "Bech32 or 56 hex digits"), CoinsQuery),
    responses((status = 200, body = PageJson), Failures))]
pub(crate) async fn credential_utxos(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
    ApiQuery(query): ApiQuery<CoinsQuery>,
) -> Result<Json<PageJson>, ApiError> {
    let owner = credential(app.network(), &text)?;
    page(app, owner, query).await
}

/// What a payment credential has (Cardano)
#[utoipa::path(get, path = "/credentials/{credential}/balance", tag = "chain",
    params(("credential" = String, Path, description = "Bech32 or 56 hex digits")),
    responses((status = 200, body = BalanceJson), Failures))]
pub(crate) async fn credential_balance(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BalanceJson>, ApiError> {
    let owner = credential(app.network(), &text)?;
    sum(app, owner).await
}
