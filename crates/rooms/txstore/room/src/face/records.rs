//! A record, its outputs, and why it is still there.

use axum::{Json, extract::State};
use clap::Args;
use serde::Deserialize;
use unspent_model::{Network, TxId};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, PageQuery, Read},
        state::App,
    },
    error::{CliError, Outcome},
    output::{Output, facts, table},
    request::{bad_cursor, cursor_number},
    text,
};
use unspent_txstore::{StoredTx, TxStore};
use utoipa::IntoParams;

use super::{
    TxStoreQueries,
    json::{BlockerJson, StoredOutputsJson, StoredTxJson, WhyJson},
};

const UNKNOWN: &str =
    "this transaction was never seen, or was deleted because nobody can need it any more";

/// A transaction as people of the network write it.
pub(super) fn parse_txid(network: Network, name: &str) -> Result<TxId, CliError> {
    network.parse_hash(name).map(TxId).ok_or_else(|| {
        CliError::usage(format!("`{name}` is not a txid")).hint("write 64 hex digits")
    })
}

// ---- REST

/// A transaction named in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code)]
pub(crate) struct StoredTxPath {
    /// The transaction, as 64 hex digits
    #[param(pattern = "^[0-9a-fA-F]{64}$")]
    txid: String,
}

/// Whether the bytes are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RawQuery {
    /// Include the transaction's bytes in hex
    #[serde(default)]
    raw: bool,
}

fn path_txid(network: Network, name: &str) -> Result<TxId, ApiError> {
    let wrong = || ApiError::malformed("a transaction is named by 64 hex digits");
    network.parse_hash(name).map(TxId).ok_or_else(wrong)
}

fn stored(store: &TxStore, txid: TxId) -> Result<StoredTx, ApiError> {
    store.get(txid)?.ok_or_else(|| ApiError::not_found(UNKNOWN))
}

/// A stored transaction: where it is mined, what keeps it, when it may be deleted
#[utoipa::path(get, path = "/transactions/{txid}", operation_id = "get_transaction",
    tag = "txstore", params(StoredTxPath, RawQuery),
    responses((status = 200, body = StoredTxJson), Failures))]
pub(super) async fn record(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
    ApiQuery(query): ApiQuery<RawQuery>,
) -> Result<Json<StoredTxJson>, ApiError> {
    let network = app.network();
    let txid = path_txid(network, &name)?;
    let found = app.transactions(move |store| {
        Ok(StoredTxJson::new(network, &stored(store, txid)?, query.raw))
    });
    Ok(Json(found.await?))
}

/// The outputs of a stored transaction, each with its spender
#[utoipa::path(get, path = "/transactions/{txid}/outputs", operation_id = "list_transaction_outputs",
    tag = "txstore",
    params(StoredTxPath, PageQuery),
    responses((status = 200, body = StoredOutputsJson), Failures))]
pub(super) async fn outputs(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
    ApiQuery(page): ApiQuery<PageQuery>,
) -> Result<Json<StoredOutputsJson>, ApiError> {
    let network = app.network();
    let txid = path_txid(network, &name)?;
    let (first, limit) = (cursor_number(page.after()?)?, page.limit()?);
    let first = u32::try_from(first).map_err(|_| bad_cursor())?;
    // No output has a higher number, so what lies beyond is not missed.
    let vouts = first..first.saturating_add(limit);
    let found = app.transactions(move |store| {
        Ok(StoredOutputsJson::new(network, &stored(store, txid)?, vouts)?)
    });
    Ok(Json(found.await?))
}

/// Why a stored transaction is still there, and from which height it could be deleted
#[utoipa::path(get, path = "/transactions/{txid}/why", operation_id = "explain_transaction",
    tag = "txstore", params(StoredTxPath),
    responses((status = 200, body = WhyJson), Failures))]
pub(super) async fn why(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<Json<WhyJson>, ApiError> {
    let network = app.network();
    let txid = path_txid(network, &name)?;
    let found = app.transactions(move |store| {
        let why = store.why(txid)?.ok_or_else(|| ApiError::not_found(UNKNOWN))?;
        Ok(WhyJson::new(network, &why))
    });
    Ok(Json(found.await?))
}

// ---- command line

/// Which transaction.
#[derive(Args)]
pub(crate) struct TxidArgs {
    /// The transaction, as 64 hex digits
    #[arg(value_name = "TXID")]
    txid: String,
}

impl TxidArgs {
    pub(super) fn read(&self, store: &TxStore) -> Result<TxId, CliError> {
        parse_txid(store.network(), &self.txid)
    }
}

/// Which transaction, and how much of it.
#[derive(Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    txid: TxidArgs,
    /// Also show its bytes in hex
    #[arg(long)]
    raw: bool,
    /// Also show all its outputs and their spenders
    #[arg(long)]
    outputs: bool,
}

pub(super) fn print_get(
    store: &TxStore,
    args: &GetArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = store.network();
    let found = store.get(args.txid.read(store)?)?.ok_or_else(|| CliError::refused(UNKNOWN))?;
    let shown = StoredTxJson::new(network, &found, args.raw);
    if args.outputs {
        let outputs = StoredOutputsJson::new(network, &found, 0..u32::MAX)?;
        let document = serde_json::json!({ "transaction": shown, "outputs": outputs.outputs });
        output.answer(&document, || format!("{}\n{}", facts(&rows(&shown)), listed(&outputs)))?;
    } else {
        output.answer(&shown, || facts(&rows(&shown)))?;
    }
    Ok(Outcome::Done)
}

fn rows(shown: &StoredTxJson) -> Vec<(&'static str, String)> {
    let optional = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    let mut rows = vec![
        ("txid", shown.txid.clone()),
        ("state", shown.state.to_owned()),
        ("height", optional(shown.height)),
        ("unmined since", optional(shown.unmined_since)),
        ("size", text::grouped(u128::from(shown.size))),
        ("outputs", format!("{}, {} unspent", shown.outputs, shown.unspent)),
        ("may be deleted from height", optional(shown.delete_at)),
        ("checked next at height", optional(shown.due_at)),
    ];
    if let Some(until) = shown.preserve_until {
        rows.push(("preserved until", until.to_string()));
    }
    let flags = [(shown.coinbase, "coinbase"), (shown.locked, "locked")];
    rows.extend(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| ("is", (*flag).to_owned())));
    rows.extend(shown.blocks.iter().map(|block| ("in block", block.text())));
    rows.extend(shown.inputs.iter().map(|coin| ("spends", coin.clone())));
    rows.extend(shown.rivals.iter().map(|rival| ("rival", rival.clone())));
    rows.extend(shown.raw.iter().map(|raw| ("raw", raw.clone())));
    rows
}

fn listed(outputs: &StoredOutputsJson) -> String {
    let rows = outputs.outputs.iter().map(|found| {
        let by = found.spent_by.as_ref().zip(found.spent_vin);
        [
            found.outpoint.vout.to_string(),
            found.value.clone(),
            found.address.clone(),
            found.state.to_owned(),
            by.map_or(String::new(), |(txid, vin)| format!("{txid} input {vin}")),
        ]
    });
    table(["vout", "value (sat)", "address", "state", "spent by"], rows).to_string()
}

pub(super) fn print_why(
    store: &TxStore,
    args: &TxidArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let why = store.why(args.read(store)?)?.ok_or_else(|| CliError::refused(UNKNOWN))?;
    let shown = WhyJson::new(store.network(), &why);
    output.answer(&shown, || why_text(&shown))?;
    Ok(Outcome::Done)
}

fn why_text(shown: &WhyJson) -> String {
    let from = match (shown.verdict, shown.from_height) {
        ("delete", _) => "in the next pass of the cleaner".to_owned(),
        (_, Some(height)) => format!("from height {height} on, if nothing changes"),
        (_, None) => "unknown: it depends on what happens next".to_owned(),
    };
    let head = facts(&[
        ("txid", shown.txid.clone()),
        ("judged at height", shown.height.to_string()),
        ("verdict", shown.verdict.to_owned()),
        ("deletion", from),
    ]);
    if shown.blockers.is_empty() {
        return head;
    }
    let row = |found: &BlockerJson| {
        let child = found.child.clone().zip(found.vout);
        [
            found.reason.to_owned(),
            child.map_or(String::new(), |(child, vout)| format!("{child} (of output {vout})")),
            found.depth.map_or(String::new(), |depth| depth.to_string()),
            found.again_at.map_or(found.again.replace('_', " "), |at| format!("at height {at}")),
        ]
    };
    let blockers = table(["reason", "child", "depth", "again"], shown.blockers.iter().map(row));
    format!("{head}\n{blockers}")
}
