//! What is recorded, taken back, rewound or pruned by hand.

use axum::{extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use unspent_wallet::{Batch, TxSource, prune::PruneRequest};
use utoipa::ToSchema;

use super::{bounded, txid};
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Wallet},
        keyed::{KeyHeader, Keyed},
        state::{App, WalletDesk},
    },
    wallet::{
        json::{PrunedTxsJson, RewoundJson, TxStatusJson},
        spend::raw_tx,
    },
};

/// How a transaction came to be known.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordHow {
    /// A node's mempool holds it
    Mempool,
    /// It was heard of, with no node to vouch for it
    Relayed,
    /// It was made here and not sent yet
    Created,
    /// A pending transaction was sent
    Sent,
    /// The mempool no longer holds it
    Evicted,
}

/// Something to record: `raw` for a transaction seen, `txid` for one that was sent or evicted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    how: RecordHow,
    /// The transaction, in hex
    raw: Option<String>,
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    txid: Option<String>,
}

fn status_of(desk: &WalletDesk, txid: bitcoin::Txid) -> Result<TxStatusJson, ApiError> {
    let status = desk.room.tx(desk.wallet, txid)?.summary.status.name();
    Ok(TxStatusJson { txid: txid.to_string(), status })
}

/// Record a transaction seen somewhere, or that one was sent or evicted
#[utoipa::path(post, path = "/wallets/{wallet}/record", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Record,
    responses((status = 200, body = TxStatusJson), Failures))]
pub(crate) async fn record(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Record>,
) -> Result<Response, ApiError> {
    let work = request.run(&app, wallet, StatusCode::OK, |desk, body, _| {
        let seen = match body.how {
            RecordHow::Mempool => Some(TxSource::Mempool),
            RecordHow::Relayed => Some(TxSource::Relayed),
            RecordHow::Created => Some(TxSource::Created { lock: None, force: false }),
            RecordHow::Sent | RecordHow::Evicted => None,
        };
        let txid = match (seen, body.raw, body.txid) {
            (Some(how), Some(raw), None) => {
                let tx = raw_tx(&raw).map_err(|error| ApiError::invalid(error.to_string()))?;
                let txid = tx.compute_txid();
                desk.room.record_for(desk.wallet, &Batch::one(tx, how), desk.now)?;
                txid
            }
            (None, None, Some(text)) => {
                let txid = txid(&text)?;
                // An event about a transaction that nobody knows would be no event.
                desk.room.tx(desk.wallet, txid)?;
                if body.how == RecordHow::Sent {
                    desk.room.mark_broadcast(desk.wallet, txid, desk.now)?;
                } else {
                    desk.room.mark_evicted(desk.wallet, txid, desk.now)?;
                }
                txid
            }
            _ => {
                let message = "give `raw` for a transaction seen, `txid` for `sent` and `evicted`";
                return Err(ApiError::invalid(message));
            }
        };
        status_of(desk, txid)
    });
    work.await
}

/// A transaction to take back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Invalidate {
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    txid: String,
}

/// Take back a pending transaction that was never sent
#[utoipa::path(post, path = "/wallets/{wallet}/invalidate", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Invalidate,
    responses((status = 200, body = TxStatusJson), Failures))]
pub(crate) async fn invalidate(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Invalidate>,
) -> Result<Response, ApiError> {
    let txid = txid(&request.body.txid)?;
    let work = request.run(&app, wallet, StatusCode::OK, move |desk, _, _| {
        desk.room.tx(desk.wallet, txid)?;
        desk.room.invalidate(desk.wallet, txid, desk.now)?;
        status_of(desk, txid)
    });
    work.await
}

/// Where to take the wallet back to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rewind {
    /// The last block to keep
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    height: u64,
}

/// Take one wallet back to a height; the daemon scans it again
#[utoipa::path(post, path = "/wallets/{wallet}/rewind", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Rewind,
    responses((status = 200, body = RewoundJson), Failures))]
pub(crate) async fn rewind(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Rewind>,
) -> Result<Response, ApiError> {
    let height = request.body.height;
    let engine = app.engine.clone();
    let work = request.run(&app, wallet, StatusCode::OK, move |desk, _, _| {
        let done = desk.room.rewind(desk.wallet, Some(height), desk.now)?;
        engine.wake();
        Ok(RewoundJson { txs: done.txs, steps: done.steps })
    });
    work.await
}

/// What to prune: exactly these transactions, or as much as may go up to a height.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prune {
    #[serde(default)]
    #[schema(max_items = 1000)]
    txids: Vec<String>,
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    up_to: Option<u64>,
    /// Confirmations that history needs before it may go
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    depth: Option<u64>,
}

/// Remove finished history by hand; the journal keeps a line of each
#[utoipa::path(post, path = "/wallets/{wallet}/prune", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Prune,
    responses((status = 200, body = PrunedTxsJson), Failures))]
pub(crate) async fn prune(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Prune>,
) -> Result<Response, ApiError> {
    let body = &request.body;
    bounded(body.txids.len(), 0)?;
    let what = match (body.up_to, body.txids.is_empty()) {
        (Some(height), true) => PruneRequest::UpTo(height),
        (None, false) => {
            let txids = body.txids.iter().map(|text| txid(text));
            PruneRequest::Exactly(txids.collect::<Result<_, _>>()?)
        }
        _ => return Err(ApiError::invalid("give either `txids` or `up_to`")),
    };
    let depth = body.depth.unwrap_or(unspent_wallet::prune::DEFAULT_DEPTH);
    let work = request.run(&app, wallet, StatusCode::OK, move |desk, _, _| {
        let gone = desk.room.prune(desk.wallet, &what, depth, desk.now)?;
        Ok(PrunedTxsJson { pruned: gone.iter().map(ToString::to_string).collect() })
    });
    work.await
}
