//! Choosing coins, building payments, taking them back signed, sending them.

use std::{fs, path::PathBuf, str::FromStr};

use anyhow::Context as _;
use axum::{extract::State, http::StatusCode, response::Response};
use bitcoin::{Psbt, Txid, consensus::encode};
use clap::Args;
use serde::Deserialize;
use unspent_engine::{
    Engine,
    rooms::wallet::{BroadcastError, broadcast as hand_over},
    source::Answer,
};
use unspent_model::wallet::{
    LockId,
    select::{ChangePolicy, OVERHEAD_WEIGHT},
};
use unspent_wallet::{
    choose::Wanted,
    descriptor::parse_address,
    pay::{FeeBump, Payment, Signed},
};
use utoipa::ToSchema;

use super::{
    NAME,
    context::{WalletContext, new_lock},
    error::RequestError,
    input::{self, BaseUnits, Lock, TxName},
    json::{BroadcastJson, ChosenJson, FinalizedJson, NodeAnswerJson, UnsignedJson},
    leases::Lease,
    policy::Policy,
    upkeep::TxRequest,
};
use crate::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Wallet},
        keyed::{KeyHeader, Keyed},
        state::App,
    },
    error::Outcome,
    output::{Output, facts, table},
    request::{BadRequest, bounded},
};

/// Weight of an output and an input of the commonest kind, for a choice without a payment.
const OUTPUT_WEIGHT: u64 = 4 * 31;
const INPUT_WEIGHT: u64 = 272;
/// The smallest change worth an output of that kind: less is dust to nodes.
const DUST: u64 = 294;

/// A value to choose coins for.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectCoins {
    /// What is to be paid, in base units
    value: BaseUnits,
    /// Only look, lease nothing
    #[arg(long)]
    #[serde(default)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    #[serde(default)]
    policy: Policy,
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
}

impl SelectCoins {
    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<ChosenJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        let policy = self.policy.coins()?;
        let wanted = Wanted {
            target: self.value.0,
            base_weight: OVERHEAD_WEIGHT + 4 + OUTPUT_WEIGHT,
            rate: self.policy.rate(),
            min_fee: 0,
            change: ChangePolicy { weight: OUTPUT_WEIGHT, spend_weight: INPUT_WEIGHT, min: DUST },
        };
        if self.dry_run {
            let chosen = room.preview_selection(*wallet, wanted, &policy, *now)?;
            return Ok(ChosenJson::new(&chosen, None));
        }
        let terms = self.lease.terms(context, fresh);
        let chosen = room.select_and_lease(*wallet, wanted, &policy, terms, *now)?;
        Ok(ChosenJson::new(&chosen, Some(terms.lock.to_string())))
    }
}

/// Whom to pay.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PayOutput {
    address: String,
    value: BaseUnits,
}

impl FromStr for PayOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not ADDRESS=VALUE");
        let (address, value) = text.split_once('=').ok_or_else(wrong)?;
        Ok(Self { address: address.to_owned(), value: value.parse()? })
    }
}

/// A payment to build.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pay {
    /// Whom to pay, as ADDRESS=VALUE; may be repeated
    #[arg(long = "to", required = true, value_name = "ADDRESS=VALUE")]
    #[schema(min_items = 1, max_items = 1000)]
    outputs: Vec<PayOutput>,
    #[command(flatten)]
    #[serde(default)]
    policy: Policy,
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
}

impl Pay {
    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<UnsignedJson, RequestError> {
        bounded(self.outputs.len(), 1)?;
        let network = context.room.bitcoin_network();
        let outputs = self.outputs.iter().map(|to| {
            let script = parse_address(&to.address, network)?;
            Ok((script, to.value.0))
        });
        let payment = Payment {
            outputs: outputs.collect::<Result<Vec<_>, RequestError>>()?,
            rate: self.policy.rate(),
            policy: self.policy.coins()?,
            change_account: self.policy.account.clone(),
            terms: self.lease.terms(context, fresh),
        };
        let unsigned = context.room.pay(context.wallet, &payment, context.now)?;
        Ok(UnsignedJson::new(&unsigned, payment.terms.lock.to_string()))
    }
}

/// A transaction to replace by one that pays more.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bump {
    /// The transaction to replace
    txid: TxName,
    #[command(flatten)]
    #[serde(default)]
    policy: Policy,
    /// Its lock is that of the first payment, where its coins are still held
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
}

impl Bump {
    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<UnsignedJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        let (policy, rate) = (self.policy.coins()?, self.policy.rate());
        let terms = self.lease.terms(context, fresh);
        let bump = FeeBump { tx: self.txid.0, rate, policy, terms };
        let unsigned = room.bump(*wallet, &bump, *now)?;
        Ok(UnsignedJson::new(&unsigned, terms.lock.to_string()))
    }
}

/// A transaction that came back from its signer.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finalize {
    /// Signed PSBT (base64 or hex) or raw transaction (hex); on the command line also @FILE, or -
    /// for standard input
    signed: String,
    /// Whose leases it uses, 64 hex digits
    #[arg(long)]
    lock: Option<Lock>,
    /// Spend coins even if somebody else leased them; the journal says so
    #[arg(long)]
    #[serde(default)]
    force: bool,
    /// Hand it to the node at once
    #[arg(skip)]
    #[serde(default)]
    broadcast: bool,
}

impl Finalize {
    /// Takes it back as pending; `text` is what `signed` leads to.
    fn run(&self, context: &WalletContext, text: &str) -> Result<Txid, RequestError> {
        let (holder, force) = (self.lock.map(|lock| lock.0), self.force);
        let signed = signed(text.trim())?;
        let done = context.room.finalize(context.wallet, signed, holder, force, context.now)?;
        Ok(done.0)
    }
}

fn signed(text: &str) -> Result<Signed, BadRequest> {
    let neither = || {
        let message = "this is neither a PSBT (base64 or hex) nor a raw transaction (hex)";
        BadRequest::Unreadable(message.into())
    };
    if let Ok(psbt) = Psbt::from_str(text) {
        return Ok(Signed::Psbt(Box::new(psbt)));
    }
    let bytes = hex::decode(text).map_err(|_| neither())?;
    if let Ok(psbt) = Psbt::deserialize(&bytes) {
        return Ok(Signed::Psbt(Box::new(psbt)));
    }
    encode::deserialize(&bytes).map(Signed::Raw).map_err(|_| neither())
}

fn finalized(
    context: &WalletContext,
    txid: Txid,
    broadcast: Option<NodeAnswerJson>,
) -> Result<FinalizedJson, RequestError> {
    let found = context.room.tx(context.wallet, txid)?;
    Ok(FinalizedJson {
        txid: txid.to_string(),
        status: found.summary.status.name(),
        raw: encode::serialize_hex(&found.tx),
        broadcast,
    })
}

// ---- REST

/// The lease of a keyed request is found again by the key alone, so it can't have another holder.
fn keyed_lock(lease: &Lease) -> Result<(), ApiError> {
    if lease.lock.is_none() {
        return Ok(());
    }
    Err(ApiError::invalid("lease.lock derives from the idempotency key here; leave it out"))
}

/// Choose coins for a value and lease them
#[utoipa::path(post, path = "/wallets/{wallet}/select", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = SelectCoins,
    responses((status = 200, body = ChosenJson), Failures))]
pub(super) async fn select(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<SelectCoins>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: SelectCoins, lock: LockId| {
        keyed_lock(&request.lease)?;
        Ok(request.run(context, lock)?)
    };
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

/// Choose coins, lease them and build an unsigned PSBT
#[utoipa::path(post, path = "/wallets/{wallet}/pay", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Pay,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(super) async fn pay(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Pay>,
) -> Result<Response, ApiError> {
    let work = |context: &WalletContext, request: Pay, lock: LockId| {
        keyed_lock(&request.lease)?;
        Ok(request.run(context, lock)?)
    };
    request.on_wallet(&app, wallet, StatusCode::CREATED, work).await
}

/// Build a replacement for an own unconfirmed transaction, at a higher rate
#[utoipa::path(post, path = "/wallets/{wallet}/bump", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Bump,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(super) async fn bump(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Bump>,
) -> Result<Response, ApiError> {
    let work =
        |context: &WalletContext, request: Bump, lock: LockId| Ok(request.run(context, lock)?);
    request.on_wallet(&app, wallet, StatusCode::CREATED, work).await
}

/// Take a signed transaction back as pending, and send it if asked to
#[utoipa::path(post, path = "/wallets/{wallet}/finalize", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Finalize,
    responses((status = 201, body = FinalizedJson), Failures))]
pub(super) async fn finalize(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Finalize>,
) -> Result<Response, ApiError> {
    let engine = app.engine.clone();
    let work = move |context: &WalletContext, request: Finalize, _| {
        let txid = request.run(context, &request.signed)?;
        let broadcast = match request.broadcast {
            true => Some(send(&engine, context, txid)?),
            false => None,
        };
        Ok(finalized(context, txid, broadcast)?)
    };
    request.on_wallet(&app, wallet, StatusCode::CREATED, work).await
}

fn send(engine: &Engine, context: &WalletContext, txid: Txid) -> Result<NodeAnswerJson, ApiError> {
    match hand_over(engine, context.wallet, txid) {
        Ok(Answer::Accepted) => Ok(NodeAnswerJson { accepted: true, reason: None }),
        Ok(Answer::Rejected { reason }) => {
            Ok(NodeAnswerJson { accepted: false, reason: Some(reason) })
        }
        Err(BroadcastError::Wallet(error)) => Err(error.into()),
        Err(error @ (BroadcastError::NoNode | BroadcastError::NotLive(_))) => {
            Err(ApiError::refused(error.to_string()))
        }
        Err(BroadcastError::NoWallets) => Err(ApiError::room_off(NAME)),
        Err(error) => {
            tracing::warn!(%error, "a transaction was not sent");
            let message = "the node can't be asked; sending again is harmless";
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).after(5))
        }
    }
}

/// Hand an own pending transaction to the node
#[utoipa::path(post, path = "/wallets/{wallet}/broadcast", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = TxRequest,
    responses((status = 200, body = BroadcastJson), Failures))]
pub(super) async fn broadcast(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<TxRequest>,
) -> Result<Response, ApiError> {
    let engine = app.engine.clone();
    let work = move |context: &WalletContext, request: TxRequest, _| {
        let txid = request.txid.0;
        context.room.tx(context.wallet, txid)?;
        let NodeAnswerJson { accepted, reason } = send(&engine, context, txid)?;
        let status = context.room.tx(context.wallet, txid)?.summary.status.name();
        Ok(BroadcastJson { txid: txid.to_string(), status, accepted, reason })
    };
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

// ---- command line

/// Where a PSBT goes.
#[derive(Args)]
pub(crate) struct PsbtFile {
    /// Write the PSBT to this file instead of showing it
    #[arg(long, value_name = "FILE")]
    psbt: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PayArgs {
    #[command(flatten)]
    pay: Pay,
    #[command(flatten)]
    file: PsbtFile,
}

#[derive(Args)]
pub(crate) struct BumpArgs {
    #[command(flatten)]
    bump: Bump,
    #[command(flatten)]
    file: PsbtFile,
}

pub(super) fn print_select(
    context: &WalletContext,
    request: &SelectCoins,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let chosen = request.run(context, new_lock()?)?;
    output.answer(&chosen, || {
        let coins = chosen.coins.iter();
        let rows = coins.map(|coin| [coin.outpoint.outpoint.clone(), coin.value.clone()]);
        let coins = table(["outpoint", "value (sat)"], rows);
        format!("{coins}\n{}", facts(&chosen_rows(&chosen)))
    })?;
    Ok(Outcome::Done)
}

fn chosen_rows(chosen: &ChosenJson) -> [(&'static str, String); 4] {
    let sat = |value: &String| format!("{value} sat");
    [
        ("fee", sat(&chosen.fee)),
        ("change", chosen.change.as_ref().map_or("none".into(), sat)),
        ("why", chosen.why.clone()),
        ("lock", chosen.lock.clone().unwrap_or_else(|| "nothing leased".to_owned())),
    ]
}

pub(super) fn print_pay(
    context: &WalletContext,
    args: &PayArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_unsigned(&args.pay.run(context, new_lock()?)?, &args.file, output)
}

pub(super) fn print_bump(
    context: &WalletContext,
    args: &BumpArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_unsigned(&args.bump.run(context, new_lock()?)?, &args.file, output)
}

fn print_unsigned(
    unsigned: &UnsignedJson,
    file: &PsbtFile,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let shown = match &file.psbt {
        Some(path) => {
            let name = path.display();
            fs::write(path, &unsigned.psbt).with_context(|| format!("can't write {name}"))?;
            format!("written to {name}")
        }
        None => unsigned.psbt.clone(),
    };
    output.answer(unsigned, || {
        let lock = unsigned.chosen.lock.as_deref().unwrap_or_default();
        format!(
            "{}\nPSBT: {shown}\nSign it, then: unspent wallet finalize … --lock {lock}",
            facts(&chosen_rows(&unsigned.chosen))
        )
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_finalize(
    context: &WalletContext,
    request: &Finalize,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let txid = request.run(context, &input::text_of(&request.signed)?)?;
    let done = finalized(context, txid, None)?;
    output.answer(&done, || {
        let FinalizedJson { txid, raw, .. } = &done;
        format!("{txid} is pending; send it, then: unspent wallet record … --sent {txid}\n{raw}")
    })?;
    Ok(Outcome::Done)
}
