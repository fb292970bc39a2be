//! Watched addresses, and the next one to hand out.

use axum::{Json, extract::State, http::StatusCode};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, ApiQuery, Caller, May, PageQuery, Read, Wallet},
        state::App,
    },
    error::Outcome,
    output::{Output, facts, table},
    request::{cursor_number, cut},
};
use unspent_wallet::{descriptor::parse_address, wallet_info::KeychainPurpose};
use utoipa::{IntoParams, ToSchema};

use super::{
    context::{WalletContext, WalletQueries},
    error::RequestError,
    json::{AddressJson, AddressesJson, WhoseJson},
    tables,
};

/// Which address to hand out.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextAddress {
    /// By default the first account
    #[arg(long)]
    account: Option<String>,
    /// What the address is for
    #[arg(long, value_enum, default_value = "receive")]
    #[serde(default)]
    purpose: PurposeName,
}

/// What an address is for.
#[derive(Clone, Copy, Default, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PurposeName {
    /// To be paid by others
    #[default]
    Receive,
    /// For change
    Change,
}

impl NextAddress {
    fn run(&self, context: &WalletContext) -> Result<AddressJson, RequestError> {
        let purpose = match self.purpose {
            PurposeName::Change => KeychainPurpose::Change,
            PurposeName::Receive => KeychainPurpose::Receive,
        };
        let account = self.account.as_deref();
        let found = context.room.next_address(context.wallet, account, purpose)?;
        Ok(AddressJson::new(&found, context.room.bitcoin_network()))
    }
}

/// An address to look up.
#[derive(Args)]
pub(crate) struct FindAddress {
    /// The address
    address: String,
}

impl FindAddress {
    fn run(&self, context: &WalletContext) -> Result<WhoseJson, RequestError> {
        let network = context.room.bitcoin_network();
        let script = parse_address(&self.address, network)?;
        let own = context.room.own_address(context.wallet, &script)?;
        Ok(WhoseJson::new(self.address.clone(), own.as_ref(), network))
    }
}

fn page(context: &WalletContext, query: &PageQuery) -> Result<AddressesJson, RequestError> {
    let (limit, after) = (query.limit()?, cursor_number(query.after()?)?);
    let mut page = context.room.addresses(context.wallet, after, limit + 1)?;
    let next = cut(&mut page, limit).map(|last| last.id.to_string());
    let network = context.room.bitcoin_network();
    let addresses = page.iter().map(|info| AddressJson::new(info, network)).collect();
    Ok(AddressesJson { addresses, next })
}

// ---- REST

/// Watched addresses
#[utoipa::path(get, path = "/wallets/{wallet}/addresses", operation_id = "list_addresses",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), PageQuery),
    responses((status = 200, body = AddressesJson), Failures))]
pub(super) async fn list(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<AddressesJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| page(context, &query)).await?))
}

/// Hand out the next address
#[utoipa::path(post, path = "/wallets/{wallet}/addresses", operation_id = "new_address",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = NextAddress,
    responses((status = 201, body = AddressJson), Failures))]
pub(super) async fn next(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<NextAddress>,
) -> Result<(StatusCode, Json<AddressJson>), ApiError> {
    let made = app.wallet(wallet, move |context| request.run(context)).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// An address of a wallet, or of somebody else.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WalletAddressPath {
    /// Name of the wallet
    wallet: String,
    /// The address
    #[param(max_length = 1000)]
    address: String,
}

/// Whether an address is the wallet's, which keys it comes from, and whether it was used
#[utoipa::path(get, path = "/wallets/{wallet}/addresses/{address}", operation_id = "find_address",
    tag = "wallets",
    params(WalletAddressPath), responses((status = 200, body = WhoseJson), Failures))]
pub(super) async fn find(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(path): ApiPath<WalletAddressPath>,
) -> Result<Json<WhoseJson>, ApiError> {
    let request = FindAddress { address: path.address };
    let mut found = app.wallet(path.wallet, move |context| request.run(context)).await?;
    if !who.may_see_descriptors() {
        // The keys may stay: a fingerprint and a path derive nothing.
        found.descriptor = None;
    }
    Ok(Json(found))
}

// ---- command line

pub(super) fn print_find(
    context: &WalletContext,
    request: &FindAddress,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let whose = request.run(context)?;
    output.answer(&whose, || match &whose.found {
        None => "not an address of this wallet".to_owned(),
        Some(found) => facts(&[
            ("address", whose.address.clone()),
            ("account", found.account.clone()),
            ("chain", found.purpose.clone()),
            ("index", found.index.to_string()),
            ("keys", whose.keys.join(" ")),
            ("descriptor", whose.descriptor.clone().unwrap_or_default()),
            ("used", if found.used { "yes" } else { "no" }.to_owned()),
            ("label", whose.label.clone().unwrap_or_default()),
        ]),
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_next(
    context: &WalletContext,
    request: &NextAddress,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = request.run(context)?;
    output.answer(&found, || found.address.clone())?;
    Ok(Outcome::Done)
}

pub(super) fn print_list(
    context: &WalletContext,
    query: &PageQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = page(context, query)?;
    output.answer(&found, || {
        let rows = found.addresses.iter().map(|info| {
            let used = if info.used { "used" } else { "" };
            let place = format!("{} {} {}", info.account, info.purpose, info.index);
            [info.address.clone(), place, used.to_owned()]
        });
        let next = tables::next(found.next.as_deref());
        format!("{}{next}", table(["address", "place", ""], rows))
    })?;
    Ok(Outcome::Done)
}
