//! `wallet import-core` and `/imports/core`: Bitcoin Core's `listdescriptors` as a wallet.

use axum::{Json, extract::State, http::StatusCode};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use unspent_engine::clock::Time;
use unspent_model::Network;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, May, Wallet},
        state::App,
    },
    error::Outcome,
    output::{Output, facts, table},
    request::BadRequest,
};
use unspent_wallet::import::{
    core::{CoreImport, CoreList, prepare},
    report::LeftOut,
};
use utoipa::ToSchema;

use super::{
    context::{RoomContext, WalletQueries},
    error::RequestError,
    input::{self, Birthday},
};

/// A list of descriptors to import.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportList {
    /// Name for the wallet
    #[arg(long, value_name = "WALLET")]
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// The first block that could concern the wallet: its height, or a date such as 2023-05-01; by
    /// default the date given by the list
    #[arg(long)]
    birthday: Option<Birthday>,
    /// Addresses to watch beyond the last used one (gap limit); by default as many as Core watches
    #[arg(long)]
    #[schema(minimum = 1, maximum = 10000)]
    gap_limit: Option<u32>,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    #[serde(default)]
    pub(super) dry_run: bool,
    /// The output of `listdescriptors`
    #[arg(skip)]
    #[schema(value_type = Object)]
    list: Value,
}

/// Something of the list that was not imported.
#[derive(Serialize, ToSchema)]
struct LeftJson {
    what: String,
    why: String,
}

/// What was imported.
#[derive(Serialize, ToSchema)]
pub(super) struct ImportedListJson {
    wallet: String,
    dry_run: bool,
    /// Accounts created
    accounts: usize,
    /// Single scripts added
    scripts: usize,
    /// The first block that could concern it; null while only a date is known
    birthday: Option<u64>,
    /// When Core made the oldest of the descriptors
    #[schema(value_type = String)]
    born_at: Time,
    gap_limit: u32,
    left: Vec<LeftJson>,
}

fn take_in(
    context: &RoomContext,
    request: &ImportList,
    list: &Value,
) -> Result<ImportedListJson, RequestError> {
    let list = CoreList::deserialize(list).map_err(|error| {
        BadRequest::Unreadable(format!("not the output of listdescriptors: {error}"))
    })?;
    let room = &context.room;
    let prepared = prepare(&list, &request.name, room.bitcoin_network(), request.gap_limit)?;
    let CoreImport { mut import, left, born } = prepared;
    (import.birthday, import.born) = match request.birthday {
        Some(birthday) => birthday.parts(),
        None => known_or_date(room.height_before(born)?, born),
    };
    let gap_limit = import.gap_limit;
    let birthday = Some(import.birthday).filter(|_| import.born.is_none());
    let done = room.import(import, request.dry_run, context.now)?;
    let left = left.into_iter().map(|LeftOut { what, why, .. }| LeftJson { what, why });
    Ok(ImportedListJson {
        wallet: request.name.clone(),
        dry_run: request.dry_run,
        accounts: done.accounts,
        scripts: done.scripts,
        birthday,
        born_at: Time::seconds(born),
        gap_limit,
        left: left.collect(),
    })
}

/// Where the stored blocks don't tell, whoever scans the wallet looks for the block of its date.
/// Core says 0 or 1 for keys that may be as old as the chain.
fn known_or_date(height: u64, born: u64) -> (u64, Option<u64>) {
    (height, Some(born).filter(|born| height == 0 && *born > 1))
}

// ---- REST

/// Create a wallet from the output of Bitcoin Core's `listdescriptors`
#[utoipa::path(post, path = "/imports/core", operation_id = "import_from_core",
    tag = "wallets", request_body = ImportList,
    responses((status = 200, body = ImportedListJson), Failures))]
pub(super) async fn import(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(body): ApiJson<ImportList>,
) -> Result<(StatusCode, Json<ImportedListJson>), ApiError> {
    let done = app.wallets(move |context| Ok(take_in(context, &body, &body.list)?)).await?;
    app.engine.wake();
    Ok((StatusCode::OK, Json(done)))
}

// ---- command line

const EXAMPLE: &str = "  bitcoin-cli -rpcwallet=shop listdescriptors > shop.json
  unspent wallet import-core @shop.json --name shop --network bitcoin";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ImportCoreArgs {
    /// The output of listdescriptors: @FILE, or - for standard input
    #[arg(value_name = "LIST")]
    list: String,
    #[command(flatten)]
    pub(super) request: ImportList,
    /// Network, needed for a new database: bitcoin, testnet4, signet or regtest
    #[arg(long, value_parser = input::network)]
    pub(super) network: Option<Network>,
}

pub(super) fn print(
    context: &RoomContext,
    args: &ImportCoreArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let text = input::text_of(&args.list)?;
    let list: Value = serde_json::from_str(&text)
        .map_err(|error| BadRequest::Unreadable(format!("not JSON: {error}")))?;
    let done = take_in(context, &args.request, &list)?;
    output.answer(&done, || {
        let top = facts(&[
            ("wallet", done.wallet.clone()),
            ("accounts", done.accounts.to_string()),
            ("single scripts", done.scripts.to_string()),
            ("oldest descriptor", done.born_at.text()),
            (
                "birthday",
                done.birthday.map_or("its block is not known yet".into(), |at| at.to_string()),
            ),
            ("gap limit", done.gap_limit.to_string()),
        ]);
        if done.left.is_empty() {
            return top;
        }
        let rows = done.left.iter().map(|left| [left.what.clone(), left.why.clone()]);
        format!("{top}\n{}", table(["left", "why"], rows))
    })?;
    Ok(Outcome::Done)
}
