//! Labels: pages, one at a time, and BIP-329 out and in.

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use bitcoin::{OutPoint, Txid};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, ApiQuery, Caller, May, PageQuery, Read, Wallet, body_bytes},
        state::App,
    },
    error::Outcome,
    output::Output,
    request::{BadRequest, bad_cursor, cut},
};
use unspent_wallet::{descriptor::parse_address, labels::Label};
use utoipa::ToSchema;

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    input::{self, Coin},
    json::{ImportedJson, LabelsJson},
};

/// What labels are exported as.
const LINES: &str = "application/jsonl";
/// Labels of extended keys, which name the key itself. No other type comes after it.
const XPUB: &str = "xpub";

/// A label, in the words of BIP-329.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelJson {
    /// `tx`, `addr`, `output` …; told from `ref` where that is a transaction, coin or address
    #[arg(skip)]
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Transaction, TXID:VOUT or address
    #[arg(value_name = "TXID|TXID:VOUT|ADDRESS")]
    #[serde(rename = "ref")]
    reference: String,
    /// The label, at most 500 characters
    #[serde(default)]
    #[schema(max_length = 500)]
    label: String,
}

impl LabelJson {
    fn set(&self, context: &WalletContext) -> Result<Label, RequestError> {
        let Self { kind, reference, label } = self;
        let (kind, reference) = match kind {
            Some(kind) => (kind.clone(), reference.clone()),
            None => told_from(reference, context.room.bitcoin_network())?,
        };
        let label = Label { kind, reference, label: label.clone() };
        context.room.set_label(context.wallet, &label)?;
        Ok(label)
    }
}

/// The type of what a text names, and its name as BIP-329 writes it.
fn told_from(text: &str, network: bitcoin::Network) -> Result<(String, String), RequestError> {
    if text.parse::<Txid>().is_ok() {
        return Ok(("tx".into(), text.into()));
    }
    if let Ok(Coin(coin)) = text.parse::<Coin>() {
        return Ok(("output".into(), OutPoint::to_string(&coin)));
    }
    parse_address(text, network)?;
    Ok(("addr".into(), text.into()))
}

fn cursor(text: &str) -> Result<Label, BadRequest> {
    let (kind, reference) = text.split_once('|').ok_or_else(bad_cursor)?;
    let (kind, reference) = (kind.to_owned(), reference.to_owned());
    if kind.contains('\0') || reference.contains('\0') {
        return Err(bad_cursor());
    }
    Ok(Label { kind, reference, label: String::new() })
}

fn page(context: &WalletContext, query: &PageQuery) -> Result<LabelsJson, RequestError> {
    let limit = query.limit()?;
    let after = query.after()?.map(cursor).transpose()?;
    let mut page = context.room.labels(context.wallet, after.as_ref())?;
    let next = cut(&mut page, limit).map(|last| format!("{}|{}", last.kind, last.reference));
    Ok(LabelsJson { labels: page, next })
}

// ---- REST

/// Labels of transactions, addresses and coins
#[utoipa::path(get, path = "/wallets/{wallet}/labels", operation_id = "list_labels",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), PageQuery),
    responses((status = 200, body = LabelsJson), Failures))]
pub(super) async fn list(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<LabelsJson>, ApiError> {
    let mut found = app.wallet(wallet, move |context| page(context, &query)).await?;
    if !who.may_see_descriptors() {
        found.labels.retain(|label| label.kind != XPUB);
        // They come last: a page that would begin among them has nothing left to show.
        found.next = found.next.filter(|next| !next.starts_with(XPUB));
    }
    Ok(Json(found))
}

/// Label a transaction, an address or a coin; an empty label clears
#[utoipa::path(put, path = "/wallets/{wallet}/labels", operation_id = "set_label", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = LabelJson,
    responses((status = 200, body = LabelJson), Failures))]
pub(super) async fn set(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<LabelJson>,
) -> Result<Json<Label>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| request.set(context)).await?))
}

/// All labels as BIP-329 lines
#[utoipa::path(get, path = "/wallets/{wallet}/labels/export", operation_id = "export_labels",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = String, content_type = "application/jsonl"), Failures))]
pub(super) async fn export(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Response, ApiError> {
    let lines = app.wallet(wallet, |context| Ok(context.room.export_labels(context.wallet)?));
    let mut lines = lines.await?;
    if !who.may_see_descriptors() {
        let is_xpub =
            |line: &&str| serde_json::from_str::<Label>(line).is_ok_and(|label| label.kind == XPUB);
        lines =
            lines.lines().filter(|line| !is_xpub(line)).map(|line| format!("{line}\n")).collect();
    }
    Ok(([(CONTENT_TYPE, LINES)], lines).into_response())
}

/// Import BIP-329 lines; a bad line is skipped and reported by its number
#[utoipa::path(post, path = "/wallets/{wallet}/labels/import", operation_id = "import_labels",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body(content = String, content_type = "text/plain",
        description = "One JSON object per line; `application/jsonl` works too"),
    responses((status = 200, body = ImportedJson), Failures))]
pub(super) async fn import(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Request,
) -> Result<Json<ImportedJson>, ApiError> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if ![LINES, "text/plain"].iter().any(|known| kind.eq_ignore_ascii_case(known)) {
        let message = "send the lines as application/jsonl or text/plain";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message));
    }
    let bytes = body_bytes(request, &app).await?;
    let text = String::from_utf8(bytes.into());
    let text = text.map_err(|_| ApiError::malformed("the lines are not valid UTF-8"))?;
    let done = app.wallet(wallet, move |context| {
        let done = context.room.import_labels(context.wallet, &text, context.now)?;
        Ok(ImportedJson::new(&done))
    });
    Ok(Json(done.await?))
}

// ---- command line

#[derive(Args)]
pub(crate) struct LabelsArgs {
    /// Import BIP-329 lines: @FILE, or - for standard input
    #[arg(long, value_name = "LINES")]
    pub(super) import: Option<String>,
}

pub(super) fn print_set(
    context: &WalletContext,
    request: &LabelJson,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    output.answer(&request.set(context)?, || "labelled".to_owned())?;
    Ok(Outcome::Done)
}

pub(super) fn print_labels(
    context: &WalletContext,
    args: &LabelsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let WalletContext { room, wallet, now, .. } = context;
    if let Some(lines) = &args.import {
        let done = room.import_labels(*wallet, &input::text_of(lines)?, *now)?;
        let done = ImportedJson::new(&done);
        output.answer(&done, || imported(&done))?;
        return Ok(Outcome::Done);
    }
    let lines = room.export_labels(*wallet)?;
    let document: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    output.answer(&document, || lines.trim_end().to_owned())?;
    Ok(Outcome::Done)
}

fn imported(done: &ImportedJson) -> String {
    let mut text = format!("{} labels imported", done.imported);
    if done.left_out > 0 {
        text += &format!("; {} lines skipped:", done.left_out);
    }
    for bad in &done.bad {
        text += &format!("\n  line {}: {}", bad.line, bad.reason);
    }
    text
}
