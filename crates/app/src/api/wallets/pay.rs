//! Choosing coins, building payments, taking them back signed, sending them.

use axum::{extract::State, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use unspent_engine::{Engine, error::BroadcastError, source::Answer};
use unspent_model::wallet::{
    LockId,
    select::{MAX_STANDARD_WEIGHT, Method, Rate, Strategy},
};
use unspent_wallet::{
    choose::CoinPolicy,
    descriptor::parse_address,
    pay::{FeeBump, Payment},
};
use utoipa::ToSchema;

use super::{bounded, coins, leases::terms, parse, txid};
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Wallet},
        keyed::{KeyHeader, Keyed},
        state::{App, WalletDesk},
    },
    wallet::{
        hold::wanted,
        json::{ChosenJson, UnsignedJson},
        spend::signed,
    },
};

/// The highest fee rate taken, in sat/vB: beyond it there is a mistake.
const MAX_FEE_RATE: f64 = 100_000.0;

/// Which coins may be chosen, how, and how long they are held.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyBody {
    /// Fee rate in sat/vB; two decimals count
    #[schema(minimum = 0.0, maximum = 100000.0, default = 1.0)]
    fee_rate: Option<f64>,
    #[schema(inline)]
    strategy: Option<StrategyName>,
    /// Confirmations that other people's coins need
    #[schema(minimum = 1, default = 1)]
    minconf: Option<u32>,
    /// Spend own unconfirmed change
    own_change: Option<bool>,
    /// Also spend outputs of transactions that were never sent
    chain_pending: Option<bool>,
    /// Spend all coins of an address together
    by_address: Option<bool>,
    /// Only coins of this account
    account: Option<String>,
    /// Coins that must be chosen, as TXID:VOUT
    #[serde(default)]
    #[schema(max_items = 1000)]
    require: Vec<String>,
    /// Coins that must not be chosen, as TXID:VOUT
    #[serde(default)]
    #[schema(max_items = 1000)]
    exclude: Vec<String>,
    /// The heaviest transaction allowed, in weight units
    #[schema(minimum = 1, maximum = 400000)]
    max_weight: Option<u64>,
    /// How long the coins are held; the configured time by default
    #[schema(minimum = 1, maximum = 31536000)]
    seconds: Option<u32>,
    /// Keep holding a coin after its spend until that has so many confirmations
    hold_confirmations: Option<u32>,
}

/// How coins are chosen.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StrategyName {
    Best,
    Bnb,
    Random,
    Largest,
    Oldest,
}

impl PolicyBody {
    fn rate(&self) -> Result<Rate, ApiError> {
        let rate = self.fee_rate.unwrap_or(1.0);
        if !(0.0..=MAX_FEE_RATE).contains(&rate) {
            return Err(ApiError::invalid("fee_rate must be 0 to 100,000 sat/vB"));
        }
        // Hundredths of a satoshi, as on the command line; the range is checked above.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let hundredths = (rate * 100.0).round() as u64;
        Ok(Rate { sat_per_kwu: hundredths * 5 / 2 })
    }

    fn policy(&self) -> Result<CoinPolicy, ApiError> {
        let random = crate::wallet::random().map_err(|error| ApiError::bug(&error))?;
        let seed = random.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let max_weight = self.max_weight.unwrap_or(MAX_STANDARD_WEIGHT);
        if !(1..=MAX_STANDARD_WEIGHT).contains(&max_weight) {
            let message = format!("max_weight must be 1 to {MAX_STANDARD_WEIGHT}");
            return Err(ApiError::invalid(message));
        }
        Ok(CoinPolicy {
            minconf: self.minconf.unwrap_or(1),
            own_change: self.own_change.unwrap_or(true),
            pending_chaining: self.chain_pending.unwrap_or(false),
            account: self.account.clone(),
            exclude: coins(&self.exclude, 0)?,
            require: coins(&self.require, 0)?,
            by_address: self.by_address.unwrap_or(false),
            max_weight,
            strategy: match self.strategy.unwrap_or(StrategyName::Best) {
                StrategyName::Best => Strategy::Best,
                StrategyName::Bnb => Strategy::Only(Method::BranchAndBound),
                StrategyName::Random => Strategy::Only(Method::RandomDraw),
                StrategyName::Largest => Strategy::Only(Method::LargestFirst),
                StrategyName::Oldest => Strategy::Only(Method::OldestFirst),
            },
            seed,
            ..CoinPolicy::default()
        })
    }
}

/// An amount to choose coins for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectCoins {
    #[schema(minimum = 0, maximum = 2100000000000000u64)]
    sats: u64,
    /// Only look, hold nothing
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    policy: PolicyBody,
}

/// Choose coins for an amount and hold them
#[utoipa::path(post, path = "/wallets/{wallet}/select", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = SelectCoins,
    responses((status = 200, body = ChosenJson), Failures))]
pub(crate) async fn select(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<SelectCoins>,
) -> Result<Response, ApiError> {
    let (policy, rate) = (request.body.policy.policy()?, request.body.policy.rate()?);
    let body = &request.body.policy;
    let terms = terms(&app, body.seconds, body.hold_confirmations)?;
    let work = request.run(&app, wallet, StatusCode::OK, move |desk, body, lock| {
        let wanted = wanted(body.sats, rate);
        let WalletDesk { room, wallet, now } = desk;
        if body.dry_run {
            let chosen = room.preview_selection(*wallet, wanted, &policy, *now)?;
            return Ok(ChosenJson::new(&chosen, None));
        }
        let chosen = room.select_and_lease(*wallet, wanted, &policy, terms(lock), *now)?;
        Ok(ChosenJson::new(&chosen, Some(lock.to_string())))
    });
    work.await
}

/// Whom to pay.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PayOutput {
    address: String,
    #[schema(minimum = 0, maximum = 2100000000000000u64)]
    sats: u64,
}

/// A payment to build.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pay {
    #[schema(min_items = 1, max_items = 1000)]
    outputs: Vec<PayOutput>,
    #[serde(default)]
    policy: PolicyBody,
}

/// Choose coins, hold them and build an unsigned PSBT
#[utoipa::path(post, path = "/wallets/{wallet}/pay", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Pay,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(crate) async fn pay(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Pay>,
) -> Result<Response, ApiError> {
    bounded(request.body.outputs.len(), 1)?;
    let (policy, rate) = (request.body.policy.policy()?, request.body.policy.rate()?);
    let body = &request.body.policy;
    let terms = terms(&app, body.seconds, body.hold_confirmations)?;
    let work = request.run(&app, wallet, StatusCode::CREATED, move |desk, body, lock| {
        let network = desk.room.bitcoin_network();
        let outputs =
            body.outputs.iter().map(|to| Ok((parse_address(&to.address, network)?, to.sats)));
        let payment = Payment {
            outputs: outputs.collect::<Result<Vec<_>, ApiError>>()?,
            rate,
            policy,
            change_account: body.policy.account,
            terms: terms(lock),
        };
        let unsigned = desk.room.pay(desk.wallet, &payment, desk.now)?;
        Ok(UnsignedJson::new(&unsigned, lock.to_string()))
    });
    work.await
}

/// A transaction to replace by one that pays more.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bump {
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    txid: String,
    /// The holder of its coins, where they are still held; by default a new one
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    lock: Option<String>,
    #[serde(default)]
    policy: PolicyBody,
}

/// Build a replacement for an own unconfirmed transaction, at a higher rate
#[utoipa::path(post, path = "/wallets/{wallet}/bump", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Bump,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(crate) async fn bump(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Bump>,
) -> Result<Response, ApiError> {
    let replaced = txid(&request.body.txid)?;
    let holder: Option<LockId> =
        request.body.lock.as_deref().map(|lock| parse(lock, "lock id")).transpose()?;
    let (policy, rate) = (request.body.policy.policy()?, request.body.policy.rate()?);
    let body = &request.body.policy;
    let terms = terms(&app, body.seconds, body.hold_confirmations)?;
    let work = request.run(&app, wallet, StatusCode::CREATED, move |desk, _, lock| {
        let WalletDesk { room, wallet, now } = desk;
        let lock = holder.unwrap_or(lock);
        let bump = FeeBump { tx: replaced, rate, policy: policy.clone(), terms: terms(lock) };
        let unsigned = room.bump(*wallet, &bump, *now)?;
        Ok(UnsignedJson::new(&unsigned, lock.to_string()))
    });
    work.await
}

/// A transaction that came back from its signer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finalize {
    /// PSBT (base64 or hex) or raw transaction (hex)
    signed: String,
    /// Whose leases it uses, 64 hex digits
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    lock: Option<String>,
    /// Spend coins even if somebody else holds them; the journal says so
    #[serde(default)]
    force: bool,
    /// Hand it to the node at once
    #[serde(default)]
    broadcast: bool,
}

/// What a node said to a transaction.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeAnswerJson {
    accepted: bool,
    /// Why not
    reason: Option<String>,
}

/// A transaction that is recorded as pending, or sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct FinalizedJson {
    txid: String,
    status: &'static str,
    raw: String,
    /// Where it was asked for
    broadcast: Option<NodeAnswerJson>,
}

/// Take a signed transaction back as pending, and send it if asked to
#[utoipa::path(post, path = "/wallets/{wallet}/finalize", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Finalize,
    responses((status = 201, body = FinalizedJson), Failures))]
pub(crate) async fn finalize(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Finalize>,
) -> Result<Response, ApiError> {
    let back = signed(request.body.signed.trim());
    let back = back.map_err(|error| ApiError::invalid(error.to_string()))?;
    let holder: Option<LockId> =
        request.body.lock.as_deref().map(|lock| parse(lock, "lock id")).transpose()?;
    let engine = app.engine.clone();
    let work = request.run(&app, wallet, StatusCode::CREATED, move |desk, body, _| {
        let (txid, _) = desk.room.finalize(desk.wallet, back, holder, body.force, desk.now)?;
        let broadcast = match body.broadcast {
            true => Some(send(&engine, desk, txid)?),
            false => None,
        };
        let found = desk.room.tx(desk.wallet, txid)?;
        Ok(FinalizedJson {
            txid: txid.to_string(),
            status: found.summary.status.name(),
            raw: bitcoin::consensus::encode::serialize_hex(&found.tx),
            broadcast,
        })
    });
    work.await
}

fn send(
    engine: &Engine,
    desk: &WalletDesk,
    txid: bitcoin::Txid,
) -> Result<NodeAnswerJson, ApiError> {
    match engine.broadcast(desk.wallet, txid) {
        Ok(Answer::Accepted) => Ok(NodeAnswerJson { accepted: true, reason: None }),
        Ok(Answer::Rejected { reason }) => {
            Ok(NodeAnswerJson { accepted: false, reason: Some(reason) })
        }
        Err(BroadcastError::Wallet(error)) => Err(error.into()),
        Err(error @ (BroadcastError::NoNode | BroadcastError::NotLive(_))) => {
            Err(ApiError::refused(error.to_string()))
        }
        Err(BroadcastError::NoWallets) => Err(ApiError::room_off("wallet")),
        Err(error) => {
            tracing::warn!(%error, "a transaction was not sent");
            let message = "the node can't be asked; sending again is harmless";
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).after(5))
        }
    }
}

/// A transaction to send.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Broadcast {
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    txid: String,
}

/// A transaction that was handed to the node.
#[derive(Serialize, ToSchema)]
pub(crate) struct BroadcastJson {
    txid: String,
    status: &'static str,
    accepted: bool,
    reason: Option<String>,
}

/// Hand an own pending transaction to the node
#[utoipa::path(post, path = "/wallets/{wallet}/broadcast", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Broadcast,
    responses((status = 200, body = BroadcastJson), Failures))]
pub(crate) async fn broadcast(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Broadcast>,
) -> Result<Response, ApiError> {
    let txid = txid(&request.body.txid)?;
    let engine = app.engine.clone();
    let work = request.run(&app, wallet, StatusCode::OK, move |desk, _, _| {
        desk.room.tx(desk.wallet, txid)?;
        let NodeAnswerJson { accepted, reason } = send(&engine, desk, txid)?;
        let status = desk.room.tx(desk.wallet, txid)?.summary.status.name();
        Ok(BroadcastJson { txid: txid.to_string(), status, accepted, reason })
    });
    work.await
}
