//! The room under `/api/v1/ecash`.
//!
//! Reading asks the database. What is begun asks a mint first, which may take its time: that has a
//! pool of its own, so that a mint which never answers holds up nobody but those who ask for it.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use unspent_ecash::{EcashAccount, EcashEntity};
use unspent_engine::Engine;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{Admin, ApiJson, ApiPath, ApiQuery, Caller, May, PageQuery, Read, Wallet},
        keyed::{KeyHeader, Keyed, KeyedTarget},
        state::App,
        webhooks::{CreateWebhook, CreatedWebhookJson},
    },
    auth::Identity,
    qr::{self, QrJson},
    request::{page_limit, short},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    NAME,
    json::{AccountJson, EcashFiguresJson, PaymentJson, PaymentPriceJson},
    lists::{
        self, EcashTxsJson, PaymentGroup, PaymentsJson, ProofStateName, ProofsJson,
        ShownPaymentJson,
    },
    requests::{
        AddAccount, CancelClaim, ChangeAccount, ClaimToken, OfAccount, PayInvoice, ReceiveAmount,
        RequestTarget, ReverseSend, SendAmount, no_account, own_payment,
    },
    section::EcashSection,
};
use crate::{
    events::tenant,
    executor, figures,
    mint::check::{MintBlocklist, address, check_named},
    work::{EcashWorkError, executor::PaymentExecutor, payments::RequestKey},
};

/// The room as a request finds it.
struct EcashAtHand {
    executor: Arc<PaymentExecutor>,
    blocklist: MintBlocklist,
}

impl EcashAtHand {
    fn of(engine: &Engine, blocklist: MintBlocklist) -> Result<Self, ApiError> {
        let executor = executor(engine).ok_or_else(|| ApiError::room_off(NAME))?;
        Ok(Self { executor, blocklist })
    }

    fn target(&self) -> RequestTarget<'_> {
        RequestTarget { executor: &self.executor, blocklist: &self.blocklist }
    }
}

/// The account of that name or id, where it is the only one.
pub(super) fn known(
    executor: &PaymentExecutor,
    name: &str,
) -> Result<Option<EcashAccount>, ApiError> {
    let mut accounts = executor.store.accounts()?;
    accounts.retain(|account| account.id == name || account.name == name);
    // Whoever sees one of two namesakes would see both.
    Ok(accounts.pop().filter(|_| accounts.is_empty()))
}

/// The only account that a caller sees; `None` for all.
fn own(executor: &PaymentExecutor, who: &Identity) -> Result<Option<EcashAccount>, ApiError> {
    let Some(only) = &who.tenant else { return Ok(None) };
    let account = known(executor, &only.name)?.filter(|_| only.room == NAME);
    account.map(Some).ok_or_else(|| no_account(&only.name))
}

/// An account that a caller names.
fn named(executor: &PaymentExecutor, who: &Identity, name: &str) -> Result<EcashAccount, ApiError> {
    match own(executor, who)? {
        Some(own) if own.id == name || own.name == name => Ok(own),
        Some(_) => Err(no_account(name)),
        None => Ok(executor.find_account(Some(name))?),
    }
}

impl KeyedTarget for EcashAtHand {
    /// The store knows the key: a payment that was begun is found again, nothing is begun twice.
    fn give_back(&self, _: &str) -> Result<(), ApiError> {
        Ok(())
    }

    // An answer shows an invoice or a quote, which the room's own database never holds in clear.
    fn close_answer(&self, key: &str, body: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        Ok(self.executor.store.seal_answer(key, &body)?)
    }

    fn open_answer(&self, key: &str, kept: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        Ok(self.executor.store.open_answer(key, kept)?)
    }
}

fn ecash_section(app: &App) -> Result<&EcashSection, ApiError> {
    app.config.room::<EcashSection>().map_err(|error| ApiError::bug(&error))
}

fn blocklist(app: &App) -> Result<MintBlocklist, ApiError> {
    let entries = &ecash_section(app)?.mint_blocklist;
    MintBlocklist::parse(entries).map_err(|error| ApiError::bug(&error))
}

/// What handlers ask of the ecash room.
trait EcashQueries {
    /// Reads, on a thread that may block.
    async fn ecash<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&PaymentExecutor) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError>;

    /// Asks what a mint may have to be asked for, in the pool of those who wait for others.
    async fn ecash_outward<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&EcashAtHand) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError>;
}

impl EcashQueries for App {
    async fn ecash<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&PaymentExecutor) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let engine = self.engine.clone();
        let work = move || match executor(&engine) {
            Some(executor) => ask(&executor),
            None => Err(ApiError::room_off(NAME)),
        };
        self.pool.run(work).await
    }

    async fn ecash_outward<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&EcashAtHand) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (engine, blocklist) = (self.engine.clone(), blocklist(self)?);
        self.outward.run(move || ask(&EcashAtHand::of(&engine, blocklist)?)).await
    }
}

// ---- reading

/// Money by account, payments by state
#[utoipa::path(get, path = "/ecash", operation_id = "get_ecash_status", tag = "ecash",
    responses((status = 200, body = EcashFiguresJson), Failures))]
pub(super) async fn status(
    _: May<Read>,
    State(app): State<App>,
) -> Result<Json<EcashFiguresJson>, ApiError> {
    let engine = app.engine.clone();
    let work = move || figures(&engine).ok_or_else(|| ApiError::room_off(NAME));
    Ok(Json(EcashFiguresJson::new(&app.pool.run(work).await?)))
}

/// All accounts.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountsJson {
    accounts: Vec<AccountJson>,
}

/// All accounts
#[utoipa::path(get, path = "/ecash/accounts", operation_id = "list_ecash_accounts", tag = "ecash",
    responses((status = 200, body = AccountsJson), Failures))]
pub(super) async fn accounts(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
) -> Result<Json<AccountsJson>, ApiError> {
    let found = app.ecash(move |executor| match own(executor, &who)? {
        Some(own) => Ok(vec![own]),
        None => Ok(executor.store.accounts()?),
    });
    let found = found.await?;
    Ok(Json(AccountsJson { accounts: found.iter().map(AccountJson::new).collect() }))
}

/// An account named in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code)]
pub(crate) struct EcashAccountPath {
    /// The account, by its name or id
    account: String,
}

/// Post an account's events to a URL from now on
#[utoipa::path(post, path = "/ecash/accounts/{account}/webhooks",
    operation_id = "add_ecash_webhook", tag = "webhooks",
    params(EcashAccountPath), request_body = CreateWebhook,
    responses((status = 201, body = CreatedWebhookJson), Failures))]
pub(super) async fn add_webhook(
    _: May<Admin>,
    State(app): State<App>,
    ApiPath(account): ApiPath<String>,
    ApiJson(request): ApiJson<CreateWebhook>,
) -> Result<(StatusCode, Json<CreatedWebhookJson>), ApiError> {
    let found = app.ecash(move |executor| {
        let account = known(executor, &account)?.ok_or_else(|| no_account(&account))?;
        Ok(tenant(&account.id, &account.name))
    });
    app.add_hook(found.await?, request).await
}

/// Which proofs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProofsQuery {
    /// `unspent` unless asked otherwise
    #[serde(default)]
    #[param(inline, default = "unspent")]
    state: ProofStateName,
    /// Rows on the page, 1 to 500
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// Go on after the `next` of the page before
    #[param(max_length = 1000)]
    after: Option<String>,
}

/// Proofs of an account, without their secrets
#[utoipa::path(get, path = "/ecash/accounts/{account}/proofs", operation_id = "list_ecash_proofs",
    tag = "ecash",
    params(EcashAccountPath, ProofsQuery),
    responses((status = 200, body = ProofsJson), Failures))]
pub(super) async fn proofs(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(account): ApiPath<String>,
    ApiQuery(query): ApiQuery<ProofsQuery>,
) -> Result<Json<ProofsJson>, ApiError> {
    let limit = page_limit(query.limit)?;
    short(query.after.as_deref())?;
    let found = app.ecash(move |executor| {
        let account = named(executor, &who, &account)?;
        let after = query.after.as_deref();
        Ok(lists::proofs(&executor.store, &account.id, query.state, after, limit)?)
    });
    Ok(Json(found.await?))
}

/// Which payments.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PaymentsQuery {
    /// `quotes` (invoices) or `swaps` (tokens); all unless asked otherwise
    #[param(inline)]
    group: Option<PaymentGroup>,
    /// Rows on the page, 1 to 500
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// Go on after the `next` of the page before
    #[param(max_length = 1000)]
    after: Option<String>,
}

/// Payments, the newest first
#[utoipa::path(get, path = "/ecash/payments", operation_id = "list_ecash_payments",
    tag = "ecash", params(PaymentsQuery),
    responses((status = 200, body = PaymentsJson), Failures))]
pub(super) async fn payments(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<PaymentsQuery>,
) -> Result<Json<PaymentsJson>, ApiError> {
    let limit = page_limit(query.limit)?;
    let before = lists::before(short(query.after.as_deref())?)?;
    let found = app.ecash(move |executor| {
        let own = own(executor, &who)?.map(|own| own.id);
        Ok(lists::payments(&executor.store, own.as_deref(), query.group, &before, limit)?)
    });
    Ok(Json(found.await?))
}

/// A payment named in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code)]
pub(crate) struct PaymentPath {
    /// Its id
    id: String,
}

/// One payment with everything that happened to it
#[utoipa::path(get, path = "/ecash/payments/{id}", operation_id = "get_ecash_payment",
    tag = "ecash", params(PaymentPath),
    responses((status = 200, body = ShownPaymentJson), Failures))]
pub(super) async fn payment(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<ShownPaymentJson>, ApiError> {
    let found = app.ecash(move |executor| {
        own_payment(executor, own(executor, &who)?.as_ref(), &id)?;
        Ok(lists::shown(&executor.store, &id)?)
    });
    Ok(Json(found.await?))
}

/// Transactions, the newest first
#[utoipa::path(get, path = "/ecash/transactions", operation_id = "list_ecash_transactions",
    tag = "ecash", params(PageQuery),
    responses((status = 200, body = EcashTxsJson), Failures))]
pub(super) async fn transactions(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiQuery(page): ApiQuery<PageQuery>,
) -> Result<Json<EcashTxsJson>, ApiError> {
    let (before, limit) = (lists::before(page.after()?)?, page.limit()?);
    let found = app.ecash(move |executor| {
        let own = own(executor, &who)?.map(|own| own.id);
        Ok(lists::transactions(&executor.store, own.as_deref(), before, limit)?)
    });
    Ok(Json(found.await?))
}

/// A token: whoever has it has the money.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenJson {
    token: String,
    /// Null where it is too long for one
    qr: Option<QrJson>,
}

/// The token of a send that nobody has claimed yet; needs `wallet`, as it is money
#[utoipa::path(get, path = "/ecash/payments/{id}/token", operation_id = "get_ecash_token",
    tag = "ecash", params(PaymentPath),
    responses((status = 200, body = TokenJson), Failures))]
pub(super) async fn token(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<TokenJson>, ApiError> {
    // The mint may have to be asked for its keysets.
    let found = app.ecash_outward(move |room| {
        own_payment(&room.executor, own(&room.executor, &who)?.as_ref(), &id)?;
        Ok(room.executor.token(&id)?.to_string())
    });
    let token = found.await?;
    let qr = qr::path(&token);
    Ok(Json(TokenJson { token, qr }))
}

// ---- accounts and mints

/// Open an account, once its mint is found fit
#[utoipa::path(post, path = "/ecash/accounts", operation_id = "add_ecash_account",
    tag = "ecash", request_body = AddAccount,
    responses((status = 201, body = AccountJson), Failures))]
pub(super) async fn add_account(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(request): ApiJson<AddAccount>,
) -> Result<(StatusCode, Json<AccountJson>), ApiError> {
    let account = app.ecash_outward(move |room| Ok(request.run(room.target())?)).await?;
    Ok((StatusCode::CREATED, Json(AccountJson::new(&account))))
}

/// Rename an account, or write down that its mint has moved, once the new address shows that it is
/// the same mint
#[utoipa::path(patch, path = "/ecash/accounts/{account}", operation_id = "change_ecash_account",
    tag = "ecash", params(EcashAccountPath), request_body = ChangeAccount,
    responses((status = 200, body = AccountJson), Failures))]
pub(super) async fn change_account(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(account): ApiPath<String>,
    ApiJson(request): ApiJson<ChangeAccount>,
) -> Result<Json<AccountJson>, ApiError> {
    let is_renamed = request.name.is_some();
    let changed = app.ecash_outward(move |room| {
        let account = named(&room.executor, &who, &account)?;
        Ok(request.run(&account, room.target())?)
    });
    let changed = changed.await?;
    if is_renamed {
        // Hooks go with the account, by its id; only the name that they show is to be changed.
        let renamed = tenant(&changed.id, &changed.name);
        app.hooks(move |engine| engine.webhooks().rename(&renamed)).await?;
    }
    Ok(Json(AccountJson::new(&changed)))
}

/// Remove an account that holds nothing and of which nothing is expected; its payments stay
#[utoipa::path(delete, path = "/ecash/accounts/{account}", operation_id = "remove_ecash_account",
    tag = "ecash", params(EcashAccountPath),
    responses((status = 200, body = AccountJson), Failures))]
pub(super) async fn remove_account(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(account): ApiPath<String>,
) -> Result<Json<AccountJson>, ApiError> {
    let grace = ecash_section(&app)?.worker().late_payment_grace;
    let removed = app.ecash(move |executor| {
        let account = named(executor, &who, &account)?;
        executor.remove_account(&account.id, grace)?;
        Ok(account)
    });
    Ok(Json(AccountJson::new(&removed.await?)))
}

/// Have a mint asked for everything that it has ever signed for an account; `scans` of the status
/// tells what was found
#[utoipa::path(post, path = "/ecash/accounts/{account}/scan", operation_id = "scan_ecash_account",
    tag = "ecash", params(EcashAccountPath),
    responses((status = 202, body = AccountJson), Failures))]
pub(super) async fn scan_account(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(account): ApiPath<String>,
) -> Result<(StatusCode, Json<AccountJson>), ApiError> {
    let begun = app.ecash(move |executor| {
        let account = named(executor, &who, &account)?;
        executor.store.scan_account(&account.id)?;
        Ok(account)
    });
    Ok((StatusCode::ACCEPTED, Json(AccountJson::new(&begun.await?))))
}

/// A mint to be looked at.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckMint {
    /// Its address
    // `url` in versions before, where accounts said `mint` already.
    #[serde(alias = "url")]
    #[schema(max_length = 400)]
    mint: String,
    /// `sat` unless asked otherwise
    #[schema(default = "sat", max_length = 20)]
    unit: Option<String>,
}

/// Whether a mint can be used.
#[derive(Serialize, ToSchema)]
pub(crate) struct CheckedMintJson {
    usable: bool,
    /// Everything that it lacks
    problems: Vec<String>,
}

/// Whether a mint can be used, and what it lacks
#[utoipa::path(post, path = "/ecash/mints/check", operation_id = "check_ecash_mint",
    tag = "ecash", request_body = CheckMint,
    responses((status = 200, body = CheckedMintJson), Failures))]
pub(super) async fn check_mint(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(request): ApiJson<CheckMint>,
) -> Result<Json<CheckedMintJson>, ApiError> {
    let options = ecash_section(&app)?.mints();
    let found = app.ecash_outward(move |room| {
        let unit = request.unit.as_deref().unwrap_or("sat");
        let _place =
            address(&request.mint).ok().map(|url| room.executor.place(&url)).transpose()?;
        let problems = check_named(&request.mint, unit, &room.blocklist, options).err();
        Ok(problems.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>())
    });
    let problems = found.await?;
    Ok(Json(CheckedMintJson { usable: problems.is_empty(), problems }))
}

// ---- payments

/// Begins a payment, once for its key.
async fn begin<R: OfAccount + Send + 'static>(
    keyed: Keyed<R>,
    app: &App,
    who: Identity,
    run: fn(&R, RequestTarget<'_>, &RequestKey) -> Result<EcashEntity, EcashWorkError>,
) -> Result<Response, ApiError> {
    let blocklist = blocklist(app)?;
    let open = move |engine: &Engine| EcashAtHand::of(engine, blocklist);
    let work = move |room: &EcashAtHand, mut request: R, key: &str| {
        if let Some(own) = own(&room.executor, &who)? {
            request.keep_to(&own, room.target())?;
        }
        let request_key = RequestKey { idempotency_key: Some(key.to_owned()) };
        Ok(PaymentJson::new(&run(&request, room.target(), &request_key)?))
    };
    keyed.run_in(&app.outward, app, StatusCode::CREATED, open, work).await
}

/// Get an invoice whose payment comes into an account
#[utoipa::path(post, path = "/ecash/receive", operation_id = "receive_ecash",
    tag = "ecash", params(KeyHeader),
    request_body = ReceiveAmount, responses((status = 201, body = PaymentJson), Failures))]
pub(super) async fn receive(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    request: Keyed<ReceiveAmount>,
) -> Result<Response, ApiError> {
    begin(request, &app, who, ReceiveAmount::run).await
}

/// Pay a Lightning invoice, or with `dry_run` learn what that would cost
#[utoipa::path(post, path = "/ecash/pay", operation_id = "pay_with_ecash",
    tag = "ecash", params(KeyHeader),
    request_body = PayInvoice,
    responses((status = 200, body = PaymentPriceJson), (status = 201, body = PaymentJson),
        Failures))]
pub(super) async fn pay(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    request: Keyed<PayInvoice>,
) -> Result<Response, ApiError> {
    if !request.body().dry_run {
        return begin(request, &app, who, PayInvoice::run).await;
    }
    // Its key stays free: nothing is begun.
    let mut request = request.into_body();
    let found = app.ecash_outward(move |room| {
        if let Some(own) = own(&room.executor, &who)? {
            request.keep_to(&own, room.target())?;
        }
        Ok(PaymentPriceJson::new(&request.price(room.target())?))
    });
    Ok(Json(found.await?).into_response())
}

/// Make a token; it can be read once the payment is PENDING
#[utoipa::path(post, path = "/ecash/send", operation_id = "send_ecash",
    tag = "ecash", params(KeyHeader),
    request_body = SendAmount, responses((status = 201, body = PaymentJson), Failures))]
pub(super) async fn send(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    request: Keyed<SendAmount>,
) -> Result<Response, ApiError> {
    begin(request, &app, who, SendAmount::run).await
}

/// Claim a token, at its own mint or into an account elsewhere
#[utoipa::path(post, path = "/ecash/claim", operation_id = "claim_ecash",
    tag = "ecash", params(KeyHeader),
    request_body = ClaimToken, responses((status = 201, body = PaymentJson), Failures))]
pub(super) async fn claim(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    request: Keyed<ClaimToken>,
) -> Result<Response, ApiError> {
    begin(request, &app, who, ClaimToken::run).await
}

/// Take back what nobody has claimed of a token
#[utoipa::path(post, path = "/ecash/reverse", operation_id = "reverse_ecash",
    tag = "ecash", params(KeyHeader),
    request_body = ReverseSend, responses((status = 201, body = PaymentJson), Failures))]
pub(super) async fn reverse(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    request: Keyed<ReverseSend>,
) -> Result<Response, ApiError> {
    begin(request, &app, who, ReverseSend::run).await
}

/// Give up the claim of a token; it ends once the mint says that nothing of it has happened
#[utoipa::path(post, path = "/ecash/cancel", operation_id = "cancel_ecash_claim",
    tag = "ecash", params(KeyHeader),
    request_body = CancelClaim, responses((status = 201, body = PaymentJson), Failures))]
pub(super) async fn cancel(
    _: May<Wallet>,
    Caller(who): Caller,
    State(app): State<App>,
    request: Keyed<CancelClaim>,
) -> Result<Response, ApiError> {
    begin(request, &app, who, CancelClaim::run).await
}
