//! What a wallet holds and what happened to it.

use axum::{Json, extract::State};
use bitcoin::OutPoint;
use serde::{Deserialize, Serialize};
use unspent_wallet::{coins::CoinCursor, history::Listing};
use utoipa::{IntoParams, ToSchema};

use super::txid;
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{
            ApiPath, ApiQuery, May, Read, cursor_number, cursor_pair, cut, index, page_limit, short,
        },
        state::App,
    },
    wallet::json::{
        AuditJson, LineJson, PastBalanceJson, TxDetailJson, TxJson, WalletBalanceJson,
        WalletCoinJson,
    },
};

/// Which balance.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BalanceQuery {
    /// Confirmations that a confirmed coin must have
    #[param(minimum = 0, maximum = 4294967295u32, default = 1)]
    minconf: Option<u32>,
    /// What was confirmed and unspent after the block at this height, instead
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    as_of: Option<u64>,
}

/// The balance now by class, or a past one.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AnyBalanceJson {
    Now(WalletBalanceJson),
    Past(PastBalanceJson),
}

/// What the wallet holds, by class
#[utoipa::path(get, path = "/wallets/{wallet}/balance", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), BalanceQuery),
    responses((status = 200, body = AnyBalanceJson), Failures))]
pub(crate) async fn balance(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<BalanceQuery>,
) -> Result<Json<AnyBalanceJson>, ApiError> {
    let found = app.wallet(wallet, move |desk| match query.as_of {
        Some(height) => {
            let sum = desk.room.balance_as_of(desk.wallet, height)?;
            let past = PastBalanceJson { height, sats: sum.sats, coins: sum.coins };
            Ok(AnyBalanceJson::Past(past))
        }
        None => {
            let now = desk.room.balance(desk.wallet, query.minconf.unwrap_or(1), desk.now)?;
            Ok(AnyBalanceJson::Now(WalletBalanceJson::new(&now)))
        }
    });
    Ok(Json(found.await?))
}

/// Which coins.
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
    /// Also spent and dead coins, in the order they were found
    all: Option<bool>,
}

/// A page of coins.
#[derive(Serialize, ToSchema)]
pub(crate) struct CoinsJson {
    coins: Vec<WalletCoinJson>,
    next: Option<String>,
}

/// Unspent coins, smallest first; or every coin there ever was
#[utoipa::path(get, path = "/wallets/{wallet}/coins", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), CoinsQuery),
    responses((status = 200, body = CoinsJson), Failures))]
pub(crate) async fn coins(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<CoinsQuery>,
) -> Result<Json<CoinsJson>, ApiError> {
    let limit = page_limit(query.limit)?;
    let after = short(query.after.as_deref())?;
    let all = query.all.unwrap_or(false);
    let row = if all { cursor_number(after)? } else { 0 };
    let pair = if all { None } else { cursor_pair(after)? };
    let cursor = pair.map(|(amount, id)| CoinCursor { amount: amount.unsigned_abs(), id });
    let found = app.wallet(wallet, move |desk| {
        let mut page = if all {
            desk.room.all_coins(desk.wallet, row, limit + 1, desk.now)?
        } else {
            desk.room.coins(desk.wallet, cursor, limit + 1, desk.now)?
        };
        let next = cut(&mut page, limit).map(|last| {
            if all { last.id.to_string() } else { format!("{}-{}", last.amount, last.id) }
        });
        let network = desk.room.bitcoin_network();
        let coins = page.iter().map(|coin| WalletCoinJson::new(coin, network)).collect();
        Ok(CoinsJson { coins, next })
    });
    Ok(Json(found.await?))
}

/// A coin of a wallet.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct WalletCoinPath {
    /// Name of the wallet
    wallet: String,
    /// Hash of the coin's transaction
    #[param(pattern = "^[0-9a-fA-F]{64}$")]
    tx_hash: String,
    /// Index of the output
    #[param(minimum = 0, maximum = 4294967295u32)]
    output_index: String,
}

/// One coin, spent, dead or alive
#[utoipa::path(get, path = "/wallets/{wallet}/coins/{tx_hash}/{output_index}", tag = "wallets",
    params(WalletCoinPath), responses((status = 200, body = WalletCoinJson), Failures))]
pub(crate) async fn coin(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(path): ApiPath<WalletCoinPath>,
) -> Result<Json<WalletCoinJson>, ApiError> {
    let outpoint = OutPoint::new(txid(&path.tx_hash)?, index(&path.output_index)?);
    let found = app.wallet(path.wallet, move |desk| {
        let coin = desk.room.coin(desk.wallet, outpoint, desk.now)?;
        Ok(WalletCoinJson::new(&coin, desk.room.bitcoin_network()))
    });
    Ok(Json(found.await?))
}

/// Which transactions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TxsQuery {
    /// Transactions on the page
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// The `next` of the page before; not together with `from` or `to`
    #[param(max_length = 1000)]
    after: Option<String>,
    /// Only those in blocks from this height on, in the order of the chain
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    from: Option<u64>,
    /// Only those in blocks up to this height
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    to: Option<u64>,
    /// Only those in no block, live or dead
    unconfirmed: Option<bool>,
}

impl TxsQuery {
    fn listing(&self) -> Result<Listing, ApiError> {
        let after = short(self.after.as_deref())?;
        let by_height = self.from.is_some() || self.to.is_some();
        let unconfirmed = self.unconfirmed.unwrap_or(false);
        if by_height && (after.is_some() || unconfirmed) {
            let message = "`from` and `to` go with neither `after` nor `unconfirmed`";
            return Err(ApiError::invalid(message));
        }
        if unconfirmed {
            return Ok(Listing::Unconfirmed(cursor_number(after)?));
        }
        if by_height {
            let top = i64::MAX.unsigned_abs();
            return Ok(Listing::Blocks(self.from.unwrap_or(0), self.to.unwrap_or(top)));
        }
        Ok(Listing::Latest(cursor_pair(after)?))
    }
}

/// A page of transactions.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxsJson {
    txs: Vec<TxJson>,
    next: Option<String>,
}

/// Transactions, latest first
#[utoipa::path(get, path = "/wallets/{wallet}/txs", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), TxsQuery),
    responses((status = 200, body = TxsJson), Failures))]
pub(crate) async fn txs(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<TxsQuery>,
) -> Result<Json<TxsJson>, ApiError> {
    let (limit, listing) = (page_limit(query.limit)?, query.listing()?);
    let found = app.wallet(wallet, move |desk| {
        let mut page = desk.room.txs(desk.wallet, listing, limit + 1)?;
        let next = cut(&mut page, limit).and_then(|last| match listing {
            Listing::Unconfirmed(_) => Some(last.id.to_string()),
            Listing::Latest(_) => Some(format!("{}-{}", last.received, last.id)),
            Listing::Blocks(..) => None,
        });
        Ok(TxsJson { txs: page.iter().map(TxJson::new).collect(), next })
    });
    Ok(Json(found.await?))
}

/// A transaction of a wallet.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct WalletTxPath {
    /// Name of the wallet
    wallet: String,
    /// Hash of the transaction
    #[param(pattern = "^[0-9a-fA-F]{64}$")]
    txid: String,
}

/// One transaction: inputs, outputs, net, fee, what it replaced
#[utoipa::path(get, path = "/wallets/{wallet}/txs/{txid}", tag = "wallets",
    params(WalletTxPath), responses((status = 200, body = TxDetailJson), Failures))]
pub(crate) async fn tx(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(path): ApiPath<WalletTxPath>,
) -> Result<Json<TxDetailJson>, ApiError> {
    let txid = txid(&path.txid)?;
    let found = app.wallet(path.wallet, move |desk| {
        let found = desk.room.tx(desk.wallet, txid)?;
        Ok(TxDetailJson::new(&found, desk.room.bitcoin_network()))
    });
    Ok(Json(found.await?))
}

/// Which lines of the journal.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JournalQuery {
    /// Lines on the page
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// The `next` of the page before
    #[param(max_length = 1000)]
    after: Option<String>,
    /// Only lines about this transaction
    #[param(pattern = "^[0-9a-fA-F]{64}$")]
    tx: Option<String>,
}

/// A page of the journal.
#[derive(Serialize, ToSchema)]
pub(crate) struct JournalJson {
    lines: Vec<LineJson>,
    next: Option<String>,
}

/// Every change and its cause, oldest first
#[utoipa::path(get, path = "/wallets/{wallet}/journal", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), JournalQuery),
    responses((status = 200, body = JournalJson), Failures))]
pub(crate) async fn journal(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<JournalQuery>,
) -> Result<Json<JournalJson>, ApiError> {
    let limit = page_limit(query.limit)?;
    let after = cursor_number(short(query.after.as_deref())?)?;
    let of = query.tx.as_deref().map(txid).transpose()?;
    let found = app.wallet(wallet, move |desk| {
        let mut page = desk.room.journal(desk.wallet, of, after, limit + 1)?;
        let next = cut(&mut page, limit).map(|last| last.id.to_string());
        Ok(JournalJson { lines: page.iter().map(LineJson::new).collect(), next })
    });
    Ok(Json(found.await?))
}

/// Recompute everything from the facts and name differences
#[utoipa::path(get, path = "/wallets/{wallet}/audit", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = AuditJson), Failures))]
pub(crate) async fn audit(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<AuditJson>, ApiError> {
    let found =
        app.wallet(wallet, |desk| Ok(AuditJson { differences: desk.room.audit(desk.wallet)? }));
    Ok(Json(found.await?))
}
