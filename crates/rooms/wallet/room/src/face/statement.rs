//! A wallet's history as an account statement: what each confirmed transaction changed, and what
//! was held after it, as pages or as CSV from beginning to end.

use std::io;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use clap::Args;
use serde::Deserialize;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, Read},
        state::App,
    },
    error::Outcome,
    output::{Output, table},
    request::{BadRequest, PAGE_DEFAULT, PAGE_LIMIT, bad_cursor, page_limit, short},
};
use unspent_wallet::statement::{StatementCursor, StatementHeights, StatementPage};
use utoipa::IntoParams;

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    json::{StatementJson, StatementLineJson},
    queries::{chain_cursor, page_default, show_cursor},
    tables,
};

/// Pages of CSV that may wait for a slow reader.
const WAITING_PAGES: usize = 2;
const HEADINGS: &str = "date,txid,label,amount,fee,balance\r\n";

/// A part of the history.
#[derive(Clone, Args, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatementQuery {
    /// Transactions per page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT)]
    #[serde(default = "page_default")]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: u32,
    /// Continue after the `next` of the previous page
    #[arg(long)]
    #[param(max_length = 1000)]
    after: Option<String>,
    /// From this height on; by default from the first height still known
    #[arg(long)]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    from: Option<u64>,
    /// Up to this height
    #[arg(long)]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    to: Option<u64>,
    /// The whole history as CSV, ignoring `limit` and `after`: amounts in satoshis, times in UTC
    #[arg(long)]
    #[serde(default)]
    csv: bool,
}

impl StatementQuery {
    fn page(
        &self,
        context: &WalletContext,
        after: Option<StatementCursor>,
        limit: u32,
    ) -> Result<StatementPage, RequestError> {
        let heights = StatementHeights { from: self.from, to: self.to };
        Ok(context.room.statement(context.wallet, heights, after, limit)?)
    }

    fn run(&self, context: &WalletContext) -> Result<StatementJson, RequestError> {
        let limit = page_limit(Some(self.limit))?;
        let page = self.page(context, cursor(self.after.as_deref())?, limit)?;
        Ok(StatementJson {
            lines: page.lines.iter().map(StatementLineJson::new).collect(),
            // The balance travels with the cursor, or each page would add up all those before it.
            next: page.next.map(|end| format!("{}/{}", show_cursor(end.place), end.balance)),
        })
    }
}

fn cursor(after: Option<&str>) -> Result<Option<StatementCursor>, BadRequest> {
    let Some(text) = short(after)? else { return Ok(None) };
    let (place, balance) = text.split_once('/').ok_or_else(bad_cursor)?;
    let place = chain_cursor(Some(place))?.ok_or_else(bad_cursor)?;
    let balance = balance.parse::<i64>().map_err(|_| bad_cursor())?;
    Ok(Some(StatementCursor { place, balance: balance.into() }))
}

/// One line of CSV as RFC 4180 has it.
fn csv_line(line: &StatementLineJson) -> String {
    let date = line.date.map(|date| date.to_string()).unwrap_or_default();
    let label = csv_text(line.label.as_deref().unwrap_or_default());
    let fee = line.fee.as_deref().unwrap_or_default();
    format!("{date},{},{label},{},{fee},{}\r\n", line.txid, line.value, line.balance)
}

/// Text that a person wrote. What a spreadsheet would take for a formula gets an apostrophe before
/// it, so that nobody's label runs on somebody's machine.
fn csv_text(text: &str) -> String {
    let runs = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let text = if runs { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

fn csv_lines(page: &StatementPage) -> String {
    page.lines.iter().map(|line| csv_line(&StatementLineJson::new(line))).collect()
}

// ---- REST

/// What each confirmed transaction changed, and the balance after it
#[utoipa::path(get, path = "/wallets/{wallet}/history", operation_id = "get_wallet_history",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), StatementQuery),
    responses((status = 200, content((StatementJson = "application/json"), (String = "text/csv"))),
        Failures))]
pub(super) async fn history(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<StatementQuery>,
) -> Result<Response, ApiError> {
    if !query.csv {
        let found = app.wallet(wallet, move |context| query.run(context)).await?;
        return Ok(Json(found).into_response());
    }
    // The first page is asked for before the answer starts, so that a refusal is one.
    let asked = query.clone();
    let read = move |context: &WalletContext| asked.page(context, None, PAGE_LIMIT);
    let first = app.wallet(wallet.clone(), read).await?;
    let (send, receive) = channel(WAITING_PAGES);
    tokio::spawn(send_csv(app, wallet, query, first, send));
    let body = Body::from_stream(ReceiverStream::new(receive));
    Ok(([(CONTENT_TYPE, "text/csv; charset=utf-8")], body).into_response())
}

/// Sends page after page; a page that can't be read breaks the answer off.
async fn send_csv(
    app: App,
    wallet: String,
    query: StatementQuery,
    first: StatementPage,
    send: Sender<io::Result<String>>,
) {
    let mut page = first;
    let mut text = HEADINGS.to_owned() + &csv_lines(&page);
    loop {
        if send.send(Ok(text)).await.is_err() {
            return; // The reader has gone.
        }
        let Some(after) = page.next else { return };
        let query = query.clone();
        let read = move |context: &WalletContext| query.page(context, Some(after), PAGE_LIMIT);
        match app.wallet(wallet.clone(), read).await {
            Ok(next) => page = next,
            Err(_) => {
                // The answer breaks off without its end, so that
                // half a statement is not taken for all of it.
                let broken = io::Error::other("can't read the rest of the history");
                let _ = send.send(Err(broken)).await;
                return;
            }
        }
        text = csv_lines(&page);
    }
}

// ---- command line

pub(super) fn print(
    context: &WalletContext,
    query: &StatementQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    if query.csv {
        return print_csv(context, query, output);
    }
    let found = query.run(context)?;
    output.answer(&found, || {
        let rows = found.lines.iter().map(|line| {
            [
                line.date.map_or(String::new(), |date| date.text()),
                line.txid.clone(),
                line.label.clone().unwrap_or_default(),
                line.value.clone(),
                line.fee.clone().unwrap_or_default(),
                line.balance.clone(),
            ]
        });
        let headings = ["date", "txid", "label", "amount (sat)", "fee", "balance"];
        format!("{}{}", table(headings, rows), tables::next(found.next.as_deref()))
    })?;
    Ok(Outcome::Done)
}

fn print_csv(
    context: &WalletContext,
    query: &StatementQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let mut page = query.page(context, None, PAGE_LIMIT)?;
    output.raw(HEADINGS)?;
    loop {
        output.raw(&csv_lines(&page))?;
        let Some(after) = page.next else { return Ok(Outcome::Done) };
        page = query.page(context, Some(after), PAGE_LIMIT)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted_and_never_run_as_formulas() {
        assert_eq!(csv_text("rent"), "rent");
        assert_eq!(csv_text("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(csv_text("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        for start in ["+1", "-1", "@a"] {
            assert_eq!(csv_text(start), format!("'{start}"));
        }
        assert_eq!(csv_text("two\nlines"), "\"two\nlines\"");
    }
}
