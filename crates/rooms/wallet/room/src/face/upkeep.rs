//! What is recorded, taken back, rewound, pruned or checked by hand.

use axum::{Json, extract::State, http::StatusCode, response::Response};
use bitcoin::{Transaction, Txid, consensus::encode};
use clap::Args;
use serde::Deserialize;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Read, Wallet},
        keyed::{KeyHeader, Keyed},
        state::App,
    },
    error::{CliError, Outcome},
    output::Output,
    request::{BadRequest, bounded},
};
use unspent_wallet::{
    TxBatch, TxSource,
    prune::{DEFAULT_DEPTH, PruneRequest},
};
use utoipa::ToSchema;

use super::{
    context::{KeyedOnWallet, WalletContext, WalletQueries},
    error::RequestError,
    input::{self, TxName},
    json::{AuditJson, PrunedTxsJson, RewoundJson, TxStatusJson},
};

/// Something to record: a transaction that was seen, or that a known one was sent or evicted.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "how", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum RecordTx {
    /// A node's mempool holds it
    Mempool {
        /// The transaction, in hex
        raw: String,
    },
    /// It was relayed, with no node to vouch for it
    Relayed {
        /// The transaction, in hex
        raw: String,
    },
    /// It was made here and is not sent yet
    Created {
        /// The transaction, in hex
        raw: String,
    },
    /// A pending transaction was sent
    Sent { txid: TxName },
    /// The mempool no longer holds it
    Evicted { txid: TxName },
}

impl RecordTx {
    fn run(&self, context: &WalletContext) -> Result<TxStatusJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        let txid = match self {
            Self::Mempool { raw } => seen(context, raw, TxSource::Mempool)?,
            Self::Relayed { raw } => seen(context, raw, TxSource::Relayed)?,
            Self::Created { raw } => {
                seen(context, raw, TxSource::Created { lock: None, force: false })?
            }
            Self::Sent { txid } => {
                // An event about a transaction that nobody knows would be no event.
                room.tx(*wallet, txid.0)?;
                room.mark_broadcast(*wallet, txid.0, *now)?;
                txid.0
            }
            Self::Evicted { txid } => {
                room.tx(*wallet, txid.0)?;
                room.mark_evicted(*wallet, txid.0, *now)?;
                txid.0
            }
        };
        status_of(context, txid)
    }
}

fn seen(context: &WalletContext, raw: &str, how: TxSource) -> Result<Txid, RequestError> {
    let tx = raw_tx(raw)?;
    let txid = tx.compute_txid();
    context.room.record_for(context.wallet, &TxBatch::one(tx, how), context.now)?;
    Ok(txid)
}

fn raw_tx(text: &str) -> Result<Transaction, BadRequest> {
    let wrong = |message: String| BadRequest::Unreadable(message);
    let bytes = hex::decode(text.trim()).map_err(|_| wrong("this is not hex".into()))?;
    encode::deserialize(&bytes)
        .map_err(|error| wrong(format!("this is not a transaction: {error}")))
}

fn status_of(context: &WalletContext, txid: Txid) -> Result<TxStatusJson, RequestError> {
    let status = context.room.tx(context.wallet, txid)?.summary.status.name();
    Ok(TxStatusJson { txid: txid.to_string(), status })
}

/// A transaction of the wallet.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TxRequest {
    /// The transaction
    pub(super) txid: TxName,
}

impl TxRequest {
    fn invalidate(&self, context: &WalletContext) -> Result<TxStatusJson, RequestError> {
        context.room.tx(context.wallet, self.txid.0)?;
        context.room.invalidate(context.wallet, self.txid.0, context.now)?;
        status_of(context, self.txid.0)
    }
}

/// Where to take the wallet back to.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rewind {
    /// The last block to keep
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    height: u64,
}

impl Rewind {
    fn run(&self, context: &WalletContext) -> Result<RewoundJson, RequestError> {
        let done = context.room.rewind(context.wallet, Some(self.height), context.now)?;
        Ok(RewoundJson { txs: done.txs, steps: done.steps })
    }
}

/// What to prune: exactly these transactions, or whatever can be pruned up to a height.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prune {
    /// Exactly this transaction; may be repeated
    #[arg(long = "txid", visible_alias = "tx", value_name = "TXID")]
    #[serde(default)]
    #[schema(max_items = 1000)]
    txids: Vec<TxName>,
    /// Everything prunable that was confirmed up to this height
    #[arg(long, value_name = "HEIGHT")]
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    up_to: Option<u64>,
    /// Confirmations that history needs before it is pruned
    #[arg(long, default_value_t = DEFAULT_DEPTH)]
    #[serde(default = "default_depth")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    depth: u64,
}

fn default_depth() -> u64 {
    DEFAULT_DEPTH
}

impl Prune {
    fn run(&self, context: &WalletContext) -> Result<PrunedTxsJson, RequestError> {
        bounded(self.txids.len(), 0)?;
        let what = match (self.up_to, self.txids.is_empty()) {
            (Some(height), true) => PruneRequest::UpTo(height),
            (None, false) => PruneRequest::Exactly(self.txids.iter().map(|tx| tx.0).collect()),
            (Some(_), false) | (None, true) => {
                return Err(BadRequest::invalid("give either `txids` or `up_to`").into());
            }
        };
        let gone = context.room.prune(context.wallet, &what, self.depth, context.now)?;
        Ok(PrunedTxsJson { pruned: gone.iter().map(ToString::to_string).collect() })
    }
}

fn differences(context: &WalletContext) -> Result<AuditJson, RequestError> {
    Ok(AuditJson { differences: context.room.audit(context.wallet)? })
}

// ---- REST

/// Record a transaction that was seen, or that a known one was sent or evicted
#[utoipa::path(post, path = "/wallets/{wallet}/record", operation_id = "record_transaction",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = RecordTx,
    responses((status = 200, body = TxStatusJson), Failures))]
pub(super) async fn record(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<RecordTx>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: RecordTx, _| Ok(request.run(context)?);
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

/// Invalidate a pending transaction that was never sent; its coins are free again
#[utoipa::path(post, path = "/wallets/{wallet}/invalidate", operation_id = "invalidate_transaction",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = TxRequest,
    responses((status = 200, body = TxStatusJson), Failures))]
pub(super) async fn invalidate(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<TxRequest>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: TxRequest, _| Ok(request.invalidate(context)?);
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

/// Take one wallet back to a height; the daemon scans it again
#[utoipa::path(post, path = "/wallets/{wallet}/rewind", operation_id = "rewind_wallet",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Rewind,
    responses((status = 200, body = RewoundJson), Failures))]
pub(super) async fn rewind(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Rewind>,
) -> Result<Response, ApiError> {
    let engine = app.engine.clone();
    let work = move |context: &WalletContext, request: Rewind, _| {
        let done = request.run(context)?;
        engine.wake();
        Ok(done)
    };
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

/// Prune finished history by hand; the journal keeps a line for each transaction
#[utoipa::path(post, path = "/wallets/{wallet}/prune", operation_id = "prune_wallet",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Prune,
    responses((status = 200, body = PrunedTxsJson), Failures))]
pub(super) async fn prune(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Prune>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: Prune, _| Ok(request.run(context)?);
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

/// Recompute everything from stored facts and list differences
#[utoipa::path(get, path = "/wallets/{wallet}/audit", operation_id = "audit_wallet",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = AuditJson), Failures))]
pub(super) async fn audit(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<AuditJson>, ApiError> {
    Ok(Json(app.wallet(wallet, differences).await?))
}

// ---- command line

/// The arguments of `record`: one of them.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RecordArgs {
    /// Raw transaction (hex) that a node's mempool holds; @FILE, or - for standard input
    #[arg(long, value_name = "RAW")]
    mempool: Option<String>,
    /// Raw transaction that was relayed, with no node to vouch for it
    #[arg(long, value_name = "RAW")]
    relayed: Option<String>,
    /// Raw transaction made here and not sent yet
    #[arg(long, value_name = "RAW")]
    created: Option<String>,
    /// A pending transaction was sent
    #[arg(long, value_name = "TXID")]
    sent: Option<TxName>,
    /// The mempool no longer holds this transaction
    #[arg(long, value_name = "TXID")]
    evicted: Option<TxName>,
}

impl RecordArgs {
    fn request(&self) -> anyhow::Result<RecordTx> {
        let Self { mempool, relayed, created, sent, evicted } = self;
        let raw = |argument: &Option<String>| argument.as_deref().map(input::text_of).transpose();
        let seen = raw(mempool)?.map(|raw| RecordTx::Mempool { raw });
        let seen = seen.or(raw(relayed)?.map(|raw| RecordTx::Relayed { raw }));
        let seen = seen.or(raw(created)?.map(|raw| RecordTx::Created { raw }));
        let known = sent.map(|txid| RecordTx::Sent { txid });
        let known = known.or(evicted.map(|txid| RecordTx::Evicted { txid }));
        seen.or(known).ok_or_else(|| CliError::usage("nothing to record").into())
    }
}

pub(super) fn print_record(
    context: &WalletContext,
    args: &RecordArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = args.request()?.run(context)?;
    output.answer(&done, || format!("{} is {}", done.txid, done.status))?;
    Ok(Outcome::Done)
}

pub(super) fn print_invalidate(
    context: &WalletContext,
    request: &TxRequest,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = request.invalidate(context)?;
    output.answer(&done, || format!("{} is invalidated; its coins are free again", done.txid))?;
    Ok(Outcome::Done)
}

pub(super) fn print_rewind(
    context: &WalletContext,
    request: &Rewind,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = request.run(context)?;
    output.answer(&done, || {
        format!("{} transactions are unconfirmed again; scan to confirm them", done.txs)
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_prune(
    context: &WalletContext,
    request: &Prune,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let done = request.run(context)?;
    output.answer(&done, || {
        format!("{} transactions pruned; the journal keeps a line for each", done.pruned.len())
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_audit(
    context: &WalletContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = differences(context)?;
    let is_clean = found.differences.is_empty();
    output.answer(&found, || {
        if is_clean { "no differences".to_owned() } else { found.differences.join("\n") }
    })?;
    Ok(if is_clean { Outcome::Done } else { Outcome::Differences })
}
