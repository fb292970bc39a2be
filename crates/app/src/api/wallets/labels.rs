//! Labels: pages, one at a time, and BIP-329 out and in.

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest as _, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use unspent_wallet::labels::Label;
use utoipa::ToSchema;

use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, ApiQuery, May, PageQuery, Read, Wallet, bad_cursor, cut},
        state::App,
    },
    wallet::json::ImportedJson,
};

/// What labels are exported as.
const LINES: &str = "application/jsonl";

/// A label, in the words of BIP-329.
#[derive(Serialize, Deserialize, ToSchema, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelJson {
    /// `tx`, `addr`, `output` …
    #[serde(rename = "type")]
    kind: String,
    /// Which one
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    #[schema(max_length = 500)]
    label: String,
}

/// A page of labels.
#[derive(Serialize, ToSchema)]
pub(crate) struct LabelsJson {
    labels: Vec<LabelJson>,
    next: Option<String>,
}

impl From<Label> for LabelJson {
    fn from(label: Label) -> Self {
        Self { kind: label.kind, reference: label.reference, label: label.label }
    }
}

fn cursor(text: &str) -> Result<Label, ApiError> {
    let (kind, reference) = text.split_once('|').ok_or_else(bad_cursor)?;
    let (kind, reference) = (kind.to_owned(), reference.to_owned());
    if kind.contains('\0') || reference.contains('\0') {
        return Err(bad_cursor());
    }
    Ok(Label { kind, reference, label: String::new() })
}

/// Labels of transactions, addresses and coins
#[utoipa::path(get, path = "/wallets/{wallet}/labels", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), PageQuery),
    responses((status = 200, body = LabelsJson), Failures))]
pub(crate) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<LabelsJson>, ApiError> {
    let limit = query.limit()?;
    let after = query.after()?.map(cursor).transpose()?;
    let found = app.wallet(wallet, move |desk| {
        let mut page = desk.room.labels(desk.wallet, after.as_ref())?;
        let next = cut(&mut page, limit).map(|last| format!("{}|{}", last.kind, last.reference));
        Ok(LabelsJson { labels: page.into_iter().map(LabelJson::from).collect(), next })
    });
    Ok(Json(found.await?))
}

/// Label a transaction, an address or a coin; an empty label clears
#[utoipa::path(put, path = "/wallets/{wallet}/labels", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = LabelJson,
    responses((status = 200, body = LabelJson), Failures))]
pub(crate) async fn set(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(body): ApiJson<LabelJson>,
) -> Result<Json<LabelJson>, ApiError> {
    let done = app.wallet(wallet, move |desk| {
        let LabelJson { kind, reference, label } = body.clone();
        desk.room.set_label(desk.wallet, &Label { kind, reference, label })?;
        Ok(body)
    });
    Ok(Json(done.await?))
}

/// All labels as BIP-329 lines
#[utoipa::path(get, path = "/wallets/{wallet}/labels/export", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = String, content_type = "application/jsonl"), Failures))]
pub(crate) async fn export(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Response, ApiError> {
    let lines = app.wallet(wallet, |desk| Ok(desk.room.export_labels(desk.wallet)?)).await?;
    Ok(([(CONTENT_TYPE, LINES)], lines).into_response())
}

/// Take in BIP-329 lines
#[utoipa::path(post, path = "/wallets/{wallet}/labels/import", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body(content = String, content_type = "text/plain",
        description = "One JSON object on each line; `application/jsonl` is taken too"),
    responses((status = 200, body = ImportedJson), Failures))]
pub(crate) async fn import(
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
    let bytes = Bytes::from_request(request, &app).await?;
    let text = String::from_utf8(bytes.into());
    let text = text.map_err(|_| ApiError::malformed("the lines are no UTF-8"))?;
    if text.contains("\\u0000") || text.contains('\0') {
        return Err(ApiError::malformed("the lines hold a zero character"));
    }
    let done = app.wallet(wallet, move |desk| {
        Ok(ImportedJson { imported: desk.room.import_labels(desk.wallet, &text)? })
    });
    Ok(Json(done.await?))
}
