//! Coins by owner, and one coin.

use axum::{Json, extract::State};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use unspent_chain::{CoinState, Owner, OwnerBalance, PageCursor, PageOrder, QueryError, Reader};
use unspent_model::{Network, Point, chain::Record};
use unspent_networks::address::{Query, parse_query, show_address};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, OutpointPath, Read, outpoint},
        state::App,
    },
    error::Outcome,
    json::PointJson,
    output::{Output, facts, table},
    request::PAGE_DEFAULT,
    text,
};
use utoipa::{IntoParams, ToSchema};

use super::{
    ChainQueries,
    json::{BalanceJson, CoinJson, PageJson},
    parse,
};

/// A page of an owner's coins.
#[derive(Args, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CoinsPage {
    /// Oldest or newest coins first
    #[arg(long, env = "UNSPENT_ORDER", value_enum, default_value = "asc")]
    #[param(inline)]
    order: OrderName,
    /// Coins per page, 1 to 500
    #[arg(long, env = "UNSPENT_LIMIT", default_value_t = PAGE_DEFAULT, value_name = "N")]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: u32,
    /// Continue after the `next` of the previous page
    #[arg(long, value_name = "CURSOR")]
    #[param(max_length = 1000)]
    after: Option<String>,
}

impl Default for CoinsPage {
    fn default() -> Self {
        Self { order: OrderName::default(), limit: PAGE_DEFAULT, after: None }
    }
}

/// The order of a list.
#[derive(Clone, Copy, Default, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OrderName {
    /// Oldest first
    #[default]
    Asc,
    /// Newest first
    Desc,
}

impl From<OrderName> for PageOrder {
    fn from(order: OrderName) -> Self {
        match order {
            OrderName::Asc => Self::Ascending,
            OrderName::Desc => Self::Descending,
        }
    }
}

impl CoinsPage {
    fn run(&self, reader: &Reader, owner: Owner) -> Result<unspent_chain::CoinPage, QueryError> {
        let after = self.after.as_deref().map(str::parse::<PageCursor>).transpose()?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        reader.page(owner, self.order.into(), limit, after.as_ref())
    }
}

// ---- REST

pub(super) fn address(network: Network, text: &str) -> Result<Owner, ApiError> {
    match parse_query(network, text)? {
        Query::Address(raw) => Ok(Owner::address(network.family(), &raw)),
        Query::ScriptHash(hash) => Ok(Owner::script_hash(&hash)),
        Query::Credential(_) => {
            Err(ApiError::malformed("this is a payment credential; use /credentials"))
        }
    }
}

fn credential(network: Network, text: &str) -> Result<Owner, ApiError> {
    match parse_query(network, text)? {
        Query::Credential(credential) => Ok(Owner::Credential(credential)),
        Query::Address(_) | Query::ScriptHash(_) => {
            Err(ApiError::malformed("this is an address; use /addresses"))
        }
    }
}

async fn page(app: App, owner: Owner, query: CoinsPage) -> Result<Json<PageJson>, ApiError> {
    let found =
        app.chain(move |reader| Ok(PageJson::new(reader.network(), &query.run(reader, owner)?)));
    Ok(Json(found.await?))
}

async fn sum(app: App, owner: Owner) -> Result<Json<BalanceJson>, ApiError> {
    let found =
        app.chain(move |reader| Ok(BalanceJson::new(reader.network(), &reader.balance(owner)?)));
    Ok(Json(found.await?))
}

/// Unspent coins of an address, in chain order
#[utoipa::path(get, path = "/addresses/{address}/utxos", operation_id = "list_address_utxos",
    tag = "chain",
    params(("address" = String, Path, description = "Address, hex of a script, or scripthash:SHA256"), CoinsPage),
    responses((status = 200, body = PageJson), Failures))]
pub(super) async fn address_utxos(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
    ApiQuery(query): ApiQuery<CoinsPage>,
) -> Result<Json<PageJson>, ApiError> {
    let owner = address(app.network(), &text)?;
    page(app, owner, query).await
}

/// The balance of an address
#[utoipa::path(get, path = "/addresses/{address}/balance", operation_id = "get_address_balance",
    tag = "chain",
    params(("address" = String, Path, description = "Address, hex of a script, or scripthash:SHA256")),
    responses((status = 200, body = BalanceJson), Failures))]
pub(super) async fn address_balance(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BalanceJson>, ApiError> {
    let owner = address(app.network(), &text)?;
    sum(app, owner).await
}

/// Unspent coins of a payment credential, in chain order (Cardano)
#[utoipa::path(get, path = "/credentials/{credential}/utxos", operation_id = "list_credential_utxos",
    tag = "chain",
    params(("credential" = String, Path, description = "Bech32 or 56 hex digits"), CoinsPage),
    responses((status = 200, body = PageJson), Failures))]
pub(super) async fn credential_utxos(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
    ApiQuery(query): ApiQuery<CoinsPage>,
) -> Result<Json<PageJson>, ApiError> {
    let owner = credential(app.network(), &text)?;
    page(app, owner, query).await
}

/// The balance of a payment credential (Cardano)
#[utoipa::path(get, path = "/credentials/{credential}/balance", operation_id = "get_credential_balance",
    tag = "chain",
    params(("credential" = String, Path, description = "Bech32 or 56 hex digits")),
    responses((status = 200, body = BalanceJson), Failures))]
pub(super) async fn credential_balance(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BalanceJson>, ApiError> {
    let owner = credential(app.network(), &text)?;
    sum(app, owner).await
}

/// One coin: unspent, or spent inside the window
#[utoipa::path(get, path = "/utxos/{outpoint}", operation_id = "get_utxo",
    tag = "chain", params(OutpointPath),
    responses((status = 200, body = CoinJson), Failures))]
pub(super) async fn utxo(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<Json<CoinJson>, ApiError> {
    let outpoint = outpoint(app.network(), &name)?;
    let found = app.chain(move |reader| match reader.coin(&outpoint)? {
        CoinState::Unknown => Err(ApiError::not_found(
            "this coin was never seen, or was spent so long ago that its record is pruned",
        )),
        state @ (CoinState::Unspent(_) | CoinState::Spent(_)) => {
            Ok(CoinJson::new(reader.network(), &outpoint, &state))
        }
    });
    Ok(Json(found.await?))
}

// ---- command line

/// The owner of coins.
#[derive(Args)]
pub(crate) struct OwnerArgs {
    /// Address (bech32, base58, hex of the raw address or script), `scripthash:SHA256` (Bitcoin) or
    /// payment credential
    #[arg(value_name = "ADDRESS|CREDENTIAL")]
    owner: String,
}

/// An owner, and a page of the coins.
#[derive(Args)]
pub(crate) struct UtxosArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    page: CoinsPage,
}

/// The coin to show.
#[derive(Args)]
pub(crate) struct UtxoArgs {
    /// The coin, as TXID:VOUT
    #[arg(value_name = "TXID:VOUT")]
    outpoint: String,
}

pub(super) fn print_utxos(
    reader: &Reader,
    args: &UtxosArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let page = args.page.run(reader, parse::owner(network, &args.owner.owner)?)?;
    output.answer(&PageJson::new(network, &page), || {
        let rows = page.coins.iter().map(|(outpoint, record)| {
            [
                text::outpoint(network, outpoint),
                text::value(network, u128::from(record.output.value)),
                record.output.assets.len().to_string(),
                record.born.block_number.to_string(),
            ]
        });
        let coins = table(["outpoint", "value", "assets", "height"], rows);
        let next = page.next.map_or(String::new(), |next| format!("\nnext page: --after {next}"));
        format!("{coins}\n{} coins as of {}{next}", page.coins.len(), as_of(network, page.at))
    })?;
    Ok(Outcome::Done)
}

/// The tip that an answer is from.
pub(super) fn as_of(network: Network, at: Option<Point>) -> String {
    at.map_or("the origin".to_owned(), |at| text::point(&PointJson::new(network, &at)))
}

pub(super) fn print_utxo(
    reader: &Reader,
    args: &UtxoArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let outpoint = parse::outpoint(network, &args.outpoint)?;
    let state = reader.coin(&outpoint)?;
    output.answer(&CoinJson::new(network, &outpoint, &state), || {
        let mut rows = vec![("outpoint", text::outpoint(network, &outpoint))];
        rows.extend(state_rows(network, &state));
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}

fn state_rows(network: Network, state: &CoinState) -> Vec<(&'static str, String)> {
    match state {
        CoinState::Unspent(record) => {
            let mut rows = vec![("state", "unspent".to_owned())];
            rows.extend(coin_rows(network, record));
            rows
        }
        CoinState::Spent(spent) => {
            let by = spent.by.map(|by| network.show_hash(&by.tx.0));
            let mut rows = vec![
                ("state", "spent".to_owned()),
                ("spent by", by.unwrap_or_else(|| "the rules of a new era".into())),
                ("spent at", text::point(&PointJson::new(network, &spent.at))),
            ];
            rows.extend(coin_rows(network, &spent.record));
            rows
        }
        CoinState::Unknown => {
            let known = "unknown: never seen, or spent so long ago that its record is pruned";
            vec![("state", known.to_owned())]
        }
    }
}

fn coin_rows(network: Network, record: &Record) -> Vec<(&'static str, String)> {
    let Record { output, born } = record;
    let born_at = Point { height: born.block_number, slot: born.slot, hash: born.block_hash };
    let mut rows = vec![
        ("address", show_address(network, &output.addr)),
        ("value", text::value(network, u128::from(output.value))),
        ("born at", text::point(&PointJson::new(network, &born_at))),
    ];
    for asset in &output.assets {
        let (policy, name) = (hex::encode(asset.policy), hex::encode(&asset.name));
        let quantity = text::grouped(u128::from(asset.quantity));
        rows.push(("asset", format!("{quantity} of {policy}.{name}")));
    }
    let flags = [
        (output.is_coinbase, "coinbase"),
        (output.is_collateral_return, "collateral return"),
        (output.inline_datum.is_some(), "inline datum"),
        (output.data_hash.is_some() && output.inline_datum.is_none(), "datum hash"),
        (output.script_ref.is_some(), "reference script"),
    ];
    let flags: Vec<_> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if !flags.is_empty() {
        rows.push(("carries", flags.join(", ")));
    }
    rows
}

pub(super) fn print_balance(
    reader: &Reader,
    args: &OwnerArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let balance = reader.balance(parse::owner(network, &args.owner)?)?;
    output.answer(&BalanceJson::new(network, &balance), || balance_text(network, &balance))?;
    Ok(Outcome::Done)
}

fn balance_text(network: Network, balance: &OwnerBalance) -> String {
    let mut rows = vec![
        ("value", text::value(network, balance.value)),
        ("coins", text::grouped(u128::from(balance.coins))),
    ];
    for ((policy, name), quantity) in &balance.assets {
        let (policy, name) = (hex::encode(policy), hex::encode(name));
        rows.push(("asset", format!("{} of {policy}.{name}", text::grouped(*quantity))));
    }
    rows.push(("as of", as_of(network, balance.at)));
    facts(&rows)
}
