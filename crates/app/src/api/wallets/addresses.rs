//! Watched addresses, and the next one to hand out.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use unspent_wallet::wallets::Purpose;
use utoipa::ToSchema;

use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, ApiQuery, May, PageQuery, Read, Wallet, cursor_number, cut},
        state::App,
    },
    wallet::json::AddressJson,
};

/// A page of addresses.
#[derive(Serialize, ToSchema)]
pub(crate) struct AddressesJson {
    addresses: Vec<AddressJson>,
    next: Option<String>,
}

/// Which address to hand out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextAddress {
    /// The first account when not named
    account: Option<String>,
    purpose: Option<PurposeName>,
}

/// What an address is for.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PurposeName {
    Receive,
    Change,
}

/// Watched addresses
#[utoipa::path(get, path = "/wallets/{wallet}/addresses", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), PageQuery),
    responses((status = 200, body = AddressesJson), Failures))]
pub(crate) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<AddressesJson>, ApiError> {
    let (limit, after) = (query.limit()?, cursor_number(query.after()?)?);
    let found = app.wallet(wallet, move |desk| {
        let mut page = desk.room.addresses(desk.wallet, after, limit + 1)?;
        let next = cut(&mut page, limit).map(|last| last.id.to_string());
        let network = desk.room.bitcoin_network();
        let addresses = page.iter().map(|info| AddressJson::new(info, network)).collect();
        Ok(AddressesJson { addresses, next })
    });
    Ok(Json(found.await?))
}

/// Hand out the next address
#[utoipa::path(post, path = "/wallets/{wallet}/addresses", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = NextAddress,
    responses((status = 201, body = AddressJson), Failures))]
pub(crate) async fn next(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(body): ApiJson<NextAddress>,
) -> Result<(StatusCode, Json<AddressJson>), ApiError> {
    let purpose = match body.purpose {
        Some(PurposeName::Change) => Purpose::Change,
        Some(PurposeName::Receive) | None => Purpose::Receive,
    };
    let made = app.wallet(wallet, move |desk| {
        let found = desk.room.next_address(desk.wallet, body.account.as_deref(), purpose)?;
        Ok(AddressJson::new(&found, desk.room.bitcoin_network()))
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}
