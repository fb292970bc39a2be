//! What a wallet holds and what happened to it.

use axum::{Json, extract::State};
use bitcoin::Txid;
use clap::Args;
use serde::Deserialize;
use unspent_model::{
    Micros,
    wallet::{COIN_STATES, CoinState},
};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, Read},
        state::App,
    },
    request::{
        BadRequest, PAGE_DEFAULT, bad_cursor, cursor_number, cursor_pair, cut, page_limit, short,
    },
};
use unspent_wallet::{
    coins::{CoinCursor, CoinFilter},
    descriptor::parse_address,
    history::{ChainCursor, TxListing},
};
use utoipa::IntoParams;

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    input::{BaseUnits, Coin, TxName},
    json::{
        AccountBalanceJson, AccountBalancesJson, AnyBalanceJson, CoinsJson, JournalJson, LineJson,
        PastBalanceJson, TxDetailJson, TxJson, TxsJson, WalletBalanceJson, WalletCoinJson,
    },
};

/// Which balance is asked for.
#[derive(Args, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BalanceQuery {
    /// Confirmations that a coin needs to count as confirmed
    #[arg(long, default_value = "1")]
    #[param(minimum = 0, maximum = 4294967295u32, default = 1)]
    minconf: Option<u32>,
    /// Instead, what was confirmed and unspent after the block at this height
    #[arg(long, visible_alias = "at", value_name = "HEIGHT")]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    as_of: Option<u64>,
    /// Instead, the balance of each account; reads every unspent coin
    #[arg(long)]
    #[serde(default)]
    by_account: bool,
}

impl BalanceQuery {
    pub(super) fn run(&self, context: &WalletContext) -> Result<AnyBalanceJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        if self.as_of.is_some() && self.by_account {
            return Err(BadRequest::invalid("`as_of` and `by_account` can't be combined").into());
        }
        if self.by_account {
            let found = room.balance_by_account(*wallet, self.minconf.unwrap_or(1), *now)?;
            let accounts = found.iter().map(AccountBalanceJson::new).collect();
            return Ok(AnyBalanceJson::ByAccount(AccountBalancesJson { accounts }));
        }
        if let Some(height) = self.as_of {
            let sum = room.balance_as_of(*wallet, height)?;
            let (value, coins) = (sum.sats.to_string(), sum.coins);
            return Ok(AnyBalanceJson::Past(PastBalanceJson { height, value, coins }));
        }
        let balance = room.balance(*wallet, self.minconf.unwrap_or(1), *now)?;
        Ok(AnyBalanceJson::Now(Box::new(WalletBalanceJson::new(&balance))))
    }
}

/// A page of coins, and what filters them.
#[derive(Args, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CoinsQuery {
    /// Coins per page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT)]
    #[serde(default = "page_default")]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: u32,
    /// Continue after the `next` of the previous page
    #[arg(long)]
    #[param(max_length = 1000)]
    after: Option<String>,
    /// Include spent and dead coins, in the order they were found
    #[arg(long)]
    #[serde(default)]
    all: bool,
    /// Only coins that pay this address
    #[arg(long)]
    #[param(max_length = 1000)]
    address: Option<String>,
    /// Only coins of this account
    #[arg(long)]
    #[param(max_length = 1000)]
    account: Option<String>,
    /// Only coins of at least this value
    #[arg(long, value_name = "VALUE")]
    #[param(inline)]
    min: Option<BaseUnits>,
    /// Only coins of at most this value
    #[arg(long, value_name = "VALUE")]
    #[param(inline)]
    max: Option<BaseUnits>,
    /// Only coins whose label, or address label, contains this text
    #[arg(long)]
    #[param(max_length = 1000)]
    label: Option<String>,
    /// Only coins in this state, such as `confirmed`, `frozen` or `dropped`
    #[arg(long)]
    #[param(max_length = 100)]
    state: Option<String>,
}

pub(super) fn page_default() -> u32 {
    PAGE_DEFAULT
}

impl CoinsQuery {
    fn filter(&self, network: bitcoin::Network) -> Result<CoinFilter, RequestError> {
        let address = self.address.as_deref();
        Ok(CoinFilter {
            script: address.map(|text| parse_address(text, network)).transpose()?,
            account: self.account.clone(),
            min: self.min.map(|value| value.0),
            max: self.max.map(|value| value.0),
            label: self.label.clone(),
            state: self.state.as_deref().map(state).transpose()?,
        })
    }

    pub(super) fn run(&self, context: &WalletContext) -> Result<CoinsJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        let (limit, after) = (page_limit(Some(self.limit))?, self.after.as_deref());
        let network = room.bitcoin_network();
        let filter = self.filter(network)?;
        let mut page = if self.all {
            room.all_coins_where(*wallet, &filter, cursor_number(after)?, limit + 1, *now)?
        } else {
            let cursor = cursor_pair(after)?
                .map(|(amount, id)| CoinCursor { amount: amount.unsigned_abs(), id });
            room.coins_where(*wallet, &filter, cursor, limit + 1, *now)?
        };
        let is_short = page.coins.len() <= limit as usize;
        let cursor = |amount: u64, id: i64| match self.all {
            true => id.to_string(),
            false => format!("{amount}-{id}"),
        };
        // A filter may end a reading before its page is full:
        // then that reading's own end is the cursor.
        let further = page.next.filter(|_| is_short).map(|end| cursor(end.amount, end.id));
        let next = cut(&mut page.coins, limit).map(|last| cursor(last.amount, last.id));
        let coins = page.coins.iter().map(|coin| WalletCoinJson::new(coin, network)).collect();
        Ok(CoinsJson { coins, next: next.or(further) })
    }
}

fn state(text: &str) -> Result<CoinState, BadRequest> {
    let found = COIN_STATES.iter().find(|(_, name)| *name == text).map(|(state, _)| *state);
    found.ok_or_else(|| {
        let known = COIN_STATES.map(|(_, name)| name).join(", ");
        BadRequest::Invalid(format!("`{text}` is not a coin state; known: {known}"))
    })
}

/// One coin.
#[derive(Args)]
pub(crate) struct CoinRequest {
    /// The coin, as TXID:VOUT
    outpoint: Coin,
}

impl CoinRequest {
    pub(super) fn run(&self, context: &WalletContext) -> Result<WalletCoinJson, RequestError> {
        let coin = context.room.coin(context.wallet, self.outpoint.0, context.now)?;
        Ok(WalletCoinJson::new(&coin, context.room.bitcoin_network()))
    }
}

/// A page of transactions, and what filters them.
#[derive(Args, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TxsQuery {
    /// Transactions per page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT)]
    #[serde(default = "page_default")]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: u32,
    /// Continue after the `next` of the previous page
    #[arg(long)]
    #[param(max_length = 1000)]
    after: Option<String>,
    /// Only those in blocks from this height on, in chain order
    #[arg(long)]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    from: Option<u64>,
    /// Only those in blocks up to this height
    #[arg(long)]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    to: Option<u64>,
    /// Only those in no block, whether live or dead
    #[arg(long)]
    #[serde(default)]
    unconfirmed: bool,
}

impl TxsQuery {
    fn listing(&self) -> Result<TxListing, BadRequest> {
        let after = self.after.as_deref();
        let by_height = self.from.is_some() || self.to.is_some();
        if by_height && self.unconfirmed {
            return Err(BadRequest::invalid(
                "`from` and `to` can't be combined with `unconfirmed`",
            ));
        }
        if self.unconfirmed {
            return Ok(TxListing::Unconfirmed(cursor_number(after)?));
        }
        if by_height {
            let top = i64::MAX.unsigned_abs();
            let (from, to) = (self.from.unwrap_or(0), self.to.unwrap_or(top));
            // A cursor from below the range belongs to another
            // list: this one starts where it was told to.
            return Ok(match chain_cursor(after)?.filter(|cursor| cursor.height >= from) {
                Some(cursor) => TxListing::BlocksAfter(cursor, to),
                None => TxListing::Blocks(from, to),
            });
        }
        Ok(TxListing::Latest(cursor_pair(after)?.map(|(at, row)| (Micros(at), row))))
    }

    pub(super) fn run(&self, context: &WalletContext) -> Result<TxsJson, RequestError> {
        let (limit, listing) = (page_limit(Some(self.limit))?, self.listing()?);
        // One more than was asked for tells whether there is a next page.
        let mut page = context.room.txs(context.wallet, listing, limit + 1)?;
        let next = cut(&mut page, limit).and_then(|last| match listing {
            TxListing::Unconfirmed(_) => Some(last.id.to_string()),
            TxListing::Latest(_) => Some(format!("{}-{}", last.received, last.id)),
            TxListing::Blocks(..) | TxListing::BlocksAfter(..) => last.cursor().map(show_cursor),
        });
        Ok(TxsJson { txs: page.iter().map(TxJson::new).collect(), next })
    }
}

/// A place in the chain, given back to us.
pub(super) fn chain_cursor(after: Option<&str>) -> Result<Option<ChainCursor>, BadRequest> {
    let Some(text) = short(after)? else { return Ok(None) };
    let numbers: Vec<u64> = text.split('-').filter_map(|part| part.parse().ok()).collect();
    let &[height, position, id] = numbers.as_slice() else { return Err(bad_cursor()) };
    let top = i64::MAX.unsigned_abs();
    // No column holds more. Whoever made that cursor up is refused, not told of a fault of ours.
    if height > top || position > top {
        return Err(bad_cursor());
    }
    let id = i64::try_from(id).map_err(|_| bad_cursor())?;
    Ok(Some(ChainCursor { height, position, id }))
}

pub(super) fn show_cursor(place: ChainCursor) -> String {
    format!("{}-{}-{}", place.height, place.position, place.id)
}

/// One transaction in full.
pub(super) fn detail(context: &WalletContext, txid: Txid) -> Result<TxDetailJson, RequestError> {
    let found = context.room.tx(context.wallet, txid)?;
    Ok(TxDetailJson::new(&found, context.room.bitcoin_network()))
}

/// A page of the journal, and what filters it.
#[derive(Args, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JournalQuery {
    /// Lines per page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT)]
    #[serde(default = "page_default")]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: u32,
    /// Continue after the `next` of the previous page
    #[arg(long)]
    #[param(max_length = 1000)]
    after: Option<String>,
    /// Only lines about this transaction
    #[arg(long, visible_alias = "tx")]
    #[param(inline)]
    txid: Option<TxName>,
    /// Newest lines first
    #[arg(long)]
    #[serde(default)]
    newest_first: bool,
}

impl JournalQuery {
    pub(super) fn run(&self, context: &WalletContext) -> Result<JournalJson, RequestError> {
        let limit = page_limit(Some(self.limit))?;
        let WalletContext { room, wallet, .. } = context;
        let of = self.txid.map(|txid| txid.0);
        let after = self.after.as_deref();
        let mut page = if self.newest_first {
            let before = if after.is_some() { cursor_number(after)? } else { i64::MAX };
            room.newest_journal(*wallet, of, before, limit + 1)?
        } else {
            room.journal(*wallet, of, cursor_number(after)?, limit + 1)?
        };
        let next = cut(&mut page, limit).map(|last| last.id.to_string());
        Ok(JournalJson { lines: page.iter().map(LineJson::new).collect(), next })
    }
}

// ---- REST

/// What the wallet holds, by class
#[utoipa::path(get, path = "/wallets/{wallet}/balance", operation_id = "get_balance",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), BalanceQuery),
    responses((status = 200, body = AnyBalanceJson), Failures))]
pub(super) async fn balance(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<BalanceQuery>,
) -> Result<Json<AnyBalanceJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| query.run(context)).await?))
}

/// Unspent coins, smallest first
#[utoipa::path(get, path = "/wallets/{wallet}/coins", operation_id = "list_coins", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), CoinsQuery),
    responses((status = 200, body = CoinsJson), Failures))]
pub(super) async fn coins(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<CoinsQuery>,
) -> Result<Json<CoinsJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| query.run(context)).await?))
}

/// A coin of a wallet.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WalletCoinPath {
    /// Name of the wallet
    wallet: String,
    /// The coin, as TXID:VOUT
    #[param(inline)]
    outpoint: Coin,
}

/// One coin, whether spent, dead or alive
#[utoipa::path(get, path = "/wallets/{wallet}/coins/{outpoint}", operation_id = "get_coin",
    tag = "wallets",
    params(WalletCoinPath), responses((status = 200, body = WalletCoinJson), Failures))]
pub(super) async fn coin(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(path): ApiPath<WalletCoinPath>,
) -> Result<Json<WalletCoinJson>, ApiError> {
    let request = CoinRequest { outpoint: path.outpoint };
    Ok(Json(app.wallet(path.wallet, move |context| request.run(context)).await?))
}

/// Transactions, latest first
#[utoipa::path(get, path = "/wallets/{wallet}/txs", operation_id = "list_wallet_transactions",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), TxsQuery),
    responses((status = 200, body = TxsJson), Failures))]
pub(super) async fn txs(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<TxsQuery>,
) -> Result<Json<TxsJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| query.run(context)).await?))
}

/// A transaction of a wallet.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WalletTxPath {
    /// Name of the wallet
    wallet: String,
    /// The transaction
    #[param(inline)]
    txid: TxName,
}

/// One transaction: inputs, outputs, net, fee, what it replaced
#[utoipa::path(get, path = "/wallets/{wallet}/txs/{txid}", operation_id = "get_wallet_transaction",
    tag = "wallets",
    params(WalletTxPath), responses((status = 200, body = TxDetailJson), Failures))]
pub(super) async fn tx(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(path): ApiPath<WalletTxPath>,
) -> Result<Json<TxDetailJson>, ApiError> {
    Ok(Json(app.wallet(path.wallet, move |context| detail(context, path.txid.0)).await?))
}

/// Every change and its cause, oldest first unless asked otherwise
#[utoipa::path(get, path = "/wallets/{wallet}/journal", operation_id = "list_journal",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), JournalQuery),
    responses((status = 200, body = JournalJson), Failures))]
pub(super) async fn journal(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<JournalQuery>,
) -> Result<Json<JournalJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| query.run(context)).await?))
}
