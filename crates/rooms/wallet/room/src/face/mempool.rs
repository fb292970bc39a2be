//! What a wallet waits for: its unconfirmed transactions and what they pay to miners.

use axum::{Json, extract::State};
use unspent_engine::Engine;
use unspent_model::wallet::TxStatus;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, PageQuery, Read},
        state::App,
    },
    json::TxSizeJson,
    request::{cursor_number, cut},
};
use unspent_wallet::history::{TxDetail, TxListing};

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    json::{PoolTxJson, PoolTxsJson, TxJson},
};
use crate::with_ancestors;

/// Unknown fees that the node is asked for at most, for one page: each is a call.
const MAX_ASKED: usize = 50;

fn page(
    context: &WalletContext,
    engine: &Engine,
    query: &PageQuery,
) -> Result<PoolTxsJson, RequestError> {
    let WalletContext { room, wallet, .. } = context;
    let (limit, after) = (query.limit()?, cursor_number(query.after()?)?);
    let mut found = room.txs(*wallet, TxListing::Unconfirmed(after), limit + 1)?;
    let next = cut(&mut found, limit).map(|last| last.id.to_string());
    let live =
        found.iter().filter(|tx| matches!(tx.status, TxStatus::Pending | TxStatus::Published));
    let (mut txs, mut asked) = (Vec::new(), 0);
    for tx in live {
        // Sizes stand in the raw bytes, which no list reads.
        let detail = room.tx(*wallet, tx.txid)?;
        let mut fee = detail.summary.fee;
        // Of a pending one the node has not heard yet.
        if fee.is_none() && tx.status == TxStatus::Published && asked < MAX_ASKED {
            asked += 1;
            fee = fee_by_node(engine, &detail);
        }
        txs.push(shown(&detail, fee));
    }
    Ok(PoolTxsJson { txs, next })
}

/// Of a payment to us only the node knows what its sender paid. A node that can't tell is not an
/// error.
fn fee_by_node(engine: &Engine, tx: &TxDetail) -> Option<u64> {
    let txid = tx.summary.txid;
    let pool = with_ancestors(engine, txid);
    let pool = pool.inspect_err(|error| tracing::debug!(%error, "can't ask the node for a fee"));
    pool.ok()?.iter().find(|pooled| pooled.txid == txid).map(|pooled| pooled.fee)
}

fn shown(detail: &TxDetail, fee: Option<u64>) -> PoolTxJson {
    let size = TxSizeJson::new(&detail.tx);
    let fee_rate = fee.and_then(|fee| size.fee_rate(fee));
    let fee = fee.map(|fee| fee.to_string());
    PoolTxJson { tx: TxJson { fee, ..TxJson::new(&detail.summary) }, size, fee_rate }
}

/// Live unconfirmed transactions with their fee rates, oldest first
#[utoipa::path(get, path = "/wallets/{wallet}/mempool", operation_id = "list_wallet_mempool",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), PageQuery),
    responses((status = 200, body = PoolTxsJson), Failures))]
pub(super) async fn mempool(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<PoolTxsJson>, ApiError> {
    let engine = app.engine.clone();
    Ok(Json(app.wallet(wallet, move |context| page(context, &engine, &query)).await?))
}
