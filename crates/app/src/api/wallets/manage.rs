//! Wallets: list, create, show, and what is added to one.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use unspent_wallet::{NewAccount, NewWallet, WalletId, wallets::DEFAULT_GAP_LIMIT};
use utoipa::ToSchema;

use super::bounded;
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, ApiQuery, May, PageQuery, Read, Wallet, cursor_number, cut},
        state::{App, WalletDesk},
    },
    wallet::{
        json::{WalletDetailJson, WalletJson},
        manage::script,
    },
};

/// A page of wallets.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletsJson {
    network: &'static str,
    wallets: Vec<WalletJson>,
    next: Option<String>,
}

/// A wallet to make. It watches what its descriptor and `watch` say.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWallet {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Output descriptor; `<0;1>` names receive and change at once
    descriptor: Option<String>,
    /// Descriptor for change, when the first one has a single path
    change: Option<String>,
    /// Name of the account, `main` by default
    account: Option<String>,
    /// Single addresses or scripts (hex) to watch
    #[serde(default)]
    #[schema(max_items = 1000)]
    watch: Vec<String>,
    /// The first block that could concern the wallet
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    birthday: u64,
    /// Addresses watched beyond the last used one
    #[schema(minimum = 1, maximum = 10000)]
    gap_limit: Option<u32>,
}

/// An account to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateAccount {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    descriptor: String,
    change: Option<String>,
}

/// A script to watch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchScript {
    /// An address, or a script in hex
    script: String,
}

/// All wallets, and how far each has been scanned
#[utoipa::path(get, path = "/wallets", tag = "wallets", params(PageQuery),
    responses((status = 200, body = WalletsJson), Failures))]
pub(crate) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<WalletsJson>, ApiError> {
    let (limit, after) = (query.limit()?, cursor_number(query.after()?)?);
    let found = app.wallets(move |room, _| {
        let mut page = room.wallets(Some(WalletId(after)))?;
        let next = cut(&mut page, limit).map(|last| last.id.0.to_string());
        let network = room.network();
        let wallets = page.iter().map(|info| WalletJson::new(info, network)).collect();
        Ok(WalletsJson { network: network.name(), wallets, next })
    });
    Ok(Json(found.await?))
}

fn detail(desk: &WalletDesk) -> Result<WalletDetailJson, ApiError> {
    let info = desk.room.wallet_info(desk.wallet)?;
    let chains = desk.room.keychains(desk.wallet)?;
    let balance = desk.room.balance(desk.wallet, 1, desk.now)?;
    Ok(WalletDetailJson::new(&info, desk.room.network(), &chains, &balance))
}

/// Make a watch-only wallet
#[utoipa::path(post, path = "/wallets", tag = "wallets", request_body = CreateWallet,
    responses((status = 201, body = WalletDetailJson), Failures))]
pub(crate) async fn create(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(body): ApiJson<CreateWallet>,
) -> Result<(StatusCode, Json<WalletDetailJson>), ApiError> {
    bounded(body.watch.len(), 0)?;
    if body.descriptor.is_none() && body.watch.is_empty() {
        return Err(ApiError::invalid("give a descriptor or something to watch"));
    }
    let made = app.wallets(move |room, now| {
        let network = room.bitcoin_network();
        let scripts = body.watch.iter().map(|text| script(text, network));
        let scripts = scripts.collect::<anyhow::Result<Vec<_>>>();
        let scripts = scripts.map_err(|error| ApiError::invalid(error.to_string()))?;
        let account = body.descriptor.map(|receive| NewAccount {
            name: body.account.unwrap_or_else(|| "main".into()),
            receive,
            change: body.change,
        });
        let new = NewWallet {
            name: body.name,
            accounts: account.into_iter().collect(),
            birthday: body.birthday,
            gap_limit: body.gap_limit.unwrap_or(DEFAULT_GAP_LIMIT),
        };
        let wallet = room.create_wallet(&new, now)?;
        for script in &scripts {
            room.import_script(wallet, script)?;
        }
        detail(&WalletDesk { room: room.clone(), wallet, now })
    });
    let made = made.await?;
    app.engine.wake();
    Ok((StatusCode::CREATED, Json(made)))
}

/// One wallet: its chains, its tip, its balance
#[utoipa::path(get, path = "/wallets/{wallet}", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = WalletDetailJson), Failures))]
pub(crate) async fn show(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<WalletDetailJson>, ApiError> {
    Ok(Json(app.wallet(wallet, detail).await?))
}

/// Add an account to a wallet
#[utoipa::path(post, path = "/wallets/{wallet}/accounts", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = CreateAccount,
    responses((status = 201, body = WalletDetailJson), Failures))]
pub(crate) async fn add_account(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(body): ApiJson<CreateAccount>,
) -> Result<(StatusCode, Json<WalletDetailJson>), ApiError> {
    let made = app.wallet(wallet, move |desk| {
        let CreateAccount { name, descriptor, change } = body;
        desk.room.add_account(desk.wallet, &NewAccount { name, receive: descriptor, change })?;
        detail(desk)
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Watch a single address or script
#[utoipa::path(post, path = "/wallets/{wallet}/scripts", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = WatchScript,
    responses((status = 201, body = WalletDetailJson), Failures))]
pub(crate) async fn add_script(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(body): ApiJson<WatchScript>,
) -> Result<(StatusCode, Json<WalletDetailJson>), ApiError> {
    let made = app.wallet(wallet, move |desk| {
        let script = script(&body.script, desk.room.bitcoin_network());
        let script = script.map_err(|error| ApiError::invalid(error.to_string()))?;
        desk.room.import_script(desk.wallet, &script)?;
        detail(desk)
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}
