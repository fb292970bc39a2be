//! Wallets: list, create, show, and what is added to one.

use axum::{Json, extract::State, http::StatusCode};
use bitcoin::ScriptBuf;
use clap::Args;
use serde::Deserialize;
use unspent_model::Network;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, ApiQuery, Caller, May, PageQuery, Read, Wallet},
        state::App,
    },
    config::Config,
    error::{CliError, Outcome},
    output::{Output, facts, table},
    request::{BadRequest, bounded, cursor_number, cut},
};
use unspent_sql::{Options, Url};
use unspent_wallet::{
    NewAccount, NewWallet, WalletError, WalletId, WalletStore,
    additions::WatchAdditions,
    descriptor::parse_address,
    wallet_info::{DEFAULT_GAP_LIMIT, WalletInfo},
};
use utoipa::ToSchema;

use super::{
    NAME,
    context::{RoomContext, WalletContext, WalletQueries},
    error::RequestError,
    input::{self, Birthday},
    json::{WalletDetailJson, WalletJson, WalletsJson},
};

/// Name of an account unless another is given.
const MAIN: &str = "main";

/// A wallet to create. It watches what `descriptor` and `watch` name.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWallet {
    /// Name of the wallet
    #[arg(value_name = "WALLET")]
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Output descriptor; `<0;1>` names receive and change at once
    #[arg(long)]
    descriptor: Option<String>,
    /// Descriptor for change, when the first one has a single path
    #[arg(long, requires = "descriptor")]
    change: Option<String>,
    /// Name of the account
    #[arg(long, default_value = MAIN)]
    #[serde(default = "main_account")]
    #[schema(default = "main")]
    account: String,
    /// Single address or script (hex) to watch; may be repeated
    #[arg(long)]
    #[serde(default)]
    #[schema(max_items = 1000)]
    watch: Vec<String>,
    /// The first block that could concern the wallet: its height, or a date such as 2023-05-01
    #[arg(long, default_value_t = Birthday::default())]
    #[serde(default)]
    birthday: Birthday,
    /// Addresses to watch beyond the last used one (gap limit)
    #[arg(long, default_value_t = DEFAULT_GAP_LIMIT)]
    #[serde(default = "default_gap_limit")]
    #[schema(minimum = 1, maximum = 10000)]
    gap_limit: u32,
}

fn main_account() -> String {
    MAIN.to_owned()
}

fn default_gap_limit() -> u32 {
    DEFAULT_GAP_LIMIT
}

impl CreateWallet {
    fn check(&self) -> Result<(), BadRequest> {
        bounded(self.watch.len(), 0)?;
        if self.descriptor.is_none() && self.watch.is_empty() {
            return Err(BadRequest::invalid("give a descriptor, or a script or address to watch"));
        }
        Ok(())
    }

    /// Where the past of an addition begins: at a birthday that was named, or at the wallet's.
    fn past(&self) -> Option<Birthday> {
        Some(self.birthday).filter(|birthday| *birthday != Birthday::default())
    }

    fn new_account(&self) -> Option<NewAccount> {
        self.descriptor.as_ref().map(|receive| NewAccount {
            name: self.account.clone(),
            receive: receive.clone(),
            change: self.change.clone(),
        })
    }

    /// Makes the wallet; `extend` gives one that is there a further account instead.
    fn run(&self, context: &RoomContext, extend: bool) -> Result<WalletContext, RequestError> {
        let RoomContext { room, now, .. } = context;
        self.check()?;
        // Everything is read before anything is written.
        let network = room.bitcoin_network();
        let scripts = self.watch.iter().map(|text| script(text, network));
        let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
        let known = if extend { known(room, &self.name)? } else { None };
        let accounts: Vec<NewAccount> = self.new_account().into_iter().collect();
        let wallet = if let Some(wallet) = known {
            let additions = WatchAdditions { accounts, scripts };
            room.extend_wallet(wallet, &additions, past(context, self.past())?)?;
            wallet
        } else {
            let (birthday, born) = self.birthday.parts();
            let (name, gap_limit) = (self.name.clone(), self.gap_limit);
            let new = NewWallet { name, accounts, birthday, gap_limit };
            room.create_wallet_born(&new, &scripts, born, *now)?
        };
        Ok(context.with(wallet, &self.name))
    }
}

/// Where the past of an addition begins. For a date that is what the daemon's source says, or else
/// what the stored blocks tell; where nobody knows, it is the first block.
fn past(context: &RoomContext, birthday: Option<Birthday>) -> Result<Option<u64>, RequestError> {
    match birthday {
        None => Ok(None),
        Some(Birthday::Height(height)) => Ok(Some(height)),
        Some(Birthday::Date(seconds)) => Ok(Some(context.height_of(seconds)?)),
    }
}

pub(super) fn known(room: &WalletStore, name: &str) -> Result<Option<WalletId>, WalletError> {
    match room.wallet(name) {
        Ok(wallet) => Ok(Some(wallet)),
        Err(WalletError::NoWallet(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A script in hex, or that of an address.
pub(super) fn script(text: &str, network: bitcoin::Network) -> Result<ScriptBuf, WalletError> {
    match ScriptBuf::from_hex(text) {
        // An empty text is valid hex too, and would become a script that nobody means.
        Ok(script) if !text.is_empty() => Ok(script),
        _ => parse_address(text, network),
    }
}

pub(super) fn detail(context: &WalletContext) -> Result<WalletDetailJson, RequestError> {
    let WalletContext { room, wallet, now, .. } = context;
    let (info, chains) = (room.wallet_info(*wallet)?, room.keychains(*wallet)?);
    let (balance, tip) = (room.balance(*wallet, 1, *now)?, context.in_room().chain_tip()?);
    Ok(WalletDetailJson::new(&info, room.network(), tip, &chains, &balance))
}

// ---- REST

/// All wallets, and how far each has been scanned
#[utoipa::path(get, path = "/wallets", operation_id = "list_wallets",
    tag = "wallets", params(PageQuery),
    responses((status = 200, body = WalletsJson), Failures))]
pub(super) async fn list(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<WalletsJson>, ApiError> {
    let (limit, after) = (query.limit()?, cursor_number(query.after()?)?);
    let found = app.wallets(move |context| {
        let mut page = match &who.tenant {
            Some(only) if only.room == NAME => only_one(&context.room, &only.name, after)?,
            Some(_) => Vec::new(),
            None => context.room.wallets(Some(WalletId(after)))?,
        };
        let next = cut(&mut page, limit).map(|last| last.id.0.to_string());
        let network = context.room.network();
        let tip = context.chain_tip()?;
        let wallets = page.iter().map(|info| WalletJson::new(info, network, tip)).collect();
        Ok(WalletsJson { network: network.name(), wallets, next })
    });
    Ok(Json(found.await?))
}

/// The page of somebody who sees one wallet.
fn only_one(room: &WalletStore, name: &str, after: i64) -> Result<Vec<WalletInfo>, WalletError> {
    match known(room, name)?.filter(|wallet| wallet.0 > after) {
        Some(wallet) => Ok(vec![room.wallet_info(wallet)?]),
        None => Ok(Vec::new()),
    }
}

/// Create a watch-only wallet
#[utoipa::path(post, path = "/wallets", operation_id = "create_wallet",
    tag = "wallets", request_body = CreateWallet,
    responses((status = 201, body = WalletDetailJson), Failures))]
pub(super) async fn create(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(request): ApiJson<CreateWallet>,
) -> Result<(StatusCode, Json<WalletDetailJson>), ApiError> {
    let made = app.wallets(move |context| Ok(detail(&request.run(context, false)?)?)).await?;
    // Or the wallet would wait for the next block before anybody reads its past.
    app.engine.wake();
    Ok((StatusCode::CREATED, Json(made)))
}

/// One wallet: its chains, its tip, its balance
#[utoipa::path(get, path = "/wallets/{wallet}", operation_id = "get_wallet", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    responses((status = 200, body = WalletDetailJson), Failures))]
pub(super) async fn show(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
) -> Result<Json<WalletDetailJson>, ApiError> {
    let mut found = app.wallet(wallet, detail).await?;
    if !who.may_see_descriptors() {
        // An extended public key tells every address there was and will be.
        found.hide_descriptors();
    }
    Ok(Json(found))
}

/// An account to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateAccount {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    descriptor: String,
    change: Option<String>,
    /// The first block that could concern it, by height or date; by default the wallet's birthday
    birthday: Option<Birthday>,
}

/// Add an account to a wallet
#[utoipa::path(post, path = "/wallets/{wallet}/accounts", operation_id = "add_account",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = CreateAccount,
    responses((status = 201, body = WalletDetailJson), Failures))]
pub(super) async fn add_account(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<CreateAccount>,
) -> Result<(StatusCode, Json<WalletDetailJson>), ApiError> {
    let made = app.wallet(wallet, move |context| {
        let CreateAccount { name, descriptor: receive, change, birthday } = request;
        let accounts = vec![NewAccount { name, receive, change }];
        let additions = WatchAdditions { accounts, ..WatchAdditions::default() };
        let from = past(&context.in_room(), birthday)?;
        context.room.extend_wallet(context.wallet, &additions, from)?;
        detail(context)
    });
    let made = made.await?;
    app.engine.wake();
    Ok((StatusCode::CREATED, Json(made)))
}

/// A script to watch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchScript {
    /// An address, or a script in hex
    script: String,
    /// The first block that could concern it, by height or date; by default the wallet's birthday
    birthday: Option<Birthday>,
}

/// Watch a single address or script
#[utoipa::path(post, path = "/wallets/{wallet}/scripts", operation_id = "watch_script",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = WatchScript,
    responses((status = 201, body = WalletDetailJson), Failures))]
pub(super) async fn add_script(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<WatchScript>,
) -> Result<(StatusCode, Json<WalletDetailJson>), ApiError> {
    let made = app.wallet(wallet, move |context| {
        let scripts = vec![script(&request.script, context.room.bitcoin_network())?];
        let additions = WatchAdditions { scripts, ..WatchAdditions::default() };
        let from = past(&context.in_room(), request.birthday)?;
        context.room.extend_wallet(context.wallet, &additions, from)?;
        detail(context)
    });
    let made = made.await?;
    app.engine.wake();
    Ok((StatusCode::CREATED, Json(made)))
}

// ---- command line

#[derive(Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    wallet: CreateWallet,
    /// Network, needed for a new database: bitcoin, testnet4, signet or regtest
    #[arg(long, value_parser = input::network)]
    network: Option<Network>,
}

impl CreateArgs {
    pub(super) fn open(&self, config: &Config, url: &Url) -> anyhow::Result<WalletStore> {
        self.wallet.check()?;
        open(config, url, config.network_or(self.network))
    }
}

/// Opens the room, or makes one where a network is named.
pub(super) fn open(
    config: &Config,
    url: &Url,
    network: Option<Network>,
) -> anyhow::Result<WalletStore> {
    let Some(network) = network else {
        return WalletStore::open_existing(url, Options::default()).map_err(|error| {
            let folder = &config.data_dir;
            let hint =
                format!("a new database needs --network; the data folder is {}", folder.display());
            CliError::usage(error.to_string()).hint(hint).into()
        });
    };
    if let Url::Sqlite(path) = url
        && let Some(folder) = path.parent()
    {
        std::fs::create_dir_all(folder)?;
    }
    Ok(WalletStore::open(url, network, Options::default())?)
}

pub(super) fn print_create(
    context: &RoomContext,
    args: &CreateArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_show(&args.wallet.run(context, true)?, output)
}

pub(super) fn print_list(
    context: &RoomContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = context.room.network();
    let all = context.room.all_wallets()?;
    let tip = context.chain_tip()?;
    let wallets = all.iter().map(|info| WalletJson::new(info, network, tip)).collect();
    let found = WalletsJson { network: network.name(), wallets, next: None };
    output.answer(&found, || {
        let rows = found.wallets.iter().map(|wallet| {
            [wallet.name.clone(), wallet.scanned_to(), wallet.born(), wallet.state()]
        });
        table(["wallet", "scanned to", "birthday", "history"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_show(
    context: &WalletContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = detail(context)?;
    output.answer(&found, || {
        let WalletDetailJson { wallet, network, chains, balance } = &found;
        let rows = chains.iter().map(|chain| {
            [
                chain.account.clone(),
                chain.purpose.clone(),
                chain.watched.to_string(),
                chain.descriptor.clone().unwrap_or_default(),
            ]
        });
        let facts = facts(&[
            ("wallet", wallet.name.clone()),
            ("network", (*network).to_owned()),
            ("scanned to", wallet.scanned_to()),
            ("birthday", wallet.born()),
            ("history", wallet.state()),
            ("value", format!("{} sat", balance.value)),
        ]);
        format!("{facts}\n{}", table(["account", "chain", "watched", "descriptor"], rows))
    })?;
    Ok(Outcome::Done)
}
