//! Taking signed payments back, and sending them.

use std::str::FromStr;

use axum::{extract::State, http::StatusCode, response::Response};
use bitcoin::{Psbt, Transaction, Txid, consensus::encode};
use clap::Args;
use serde::Deserialize;
use unspent_engine::Engine;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Wallet},
        keyed::{KeyHeader, Keyed},
        state::App,
    },
    error::Outcome,
    output::Output,
    request::BadRequest,
};
use unspent_source::Answer;
use unspent_wallet::pay::{CompletedTx, FinishOptions, SignedPayment};
use utoipa::ToSchema;

use super::{
    NAME,
    context::{KeyedOnWallet, WalletContext},
    error::RequestError,
    input::{self, Lock},
    json::{BroadcastJson, FinalizedJson, NodeAnswerJson},
    upkeep::TxRequest,
};
use crate::{BroadcastError, broadcast as hand_over, test};

/// A transaction returned by its signer.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finalize {
    /// Signed PSBT (base64 or hex) or raw transaction (hex); on the command line also @FILE, or -
    /// for standard input
    signed: String,
    /// The lock whose leases it uses, 64 hex digits
    #[arg(long)]
    lock: Option<Lock>,
    /// Spend coins even if another holder leased them; the journal says so
    #[arg(long)]
    #[serde(default)]
    force: bool,
    /// Allow a fee above 0.1 BTC or a rate above 1,000 sat/vB
    #[arg(long)]
    #[serde(default)]
    allow_high_fee: bool,
    /// Record it even if the node would refuse it, as it does while a parent is unsent
    #[arg(skip)]
    #[serde(default)]
    unchecked: bool,
    /// Send it to the node at once
    #[arg(skip)]
    #[serde(default)]
    broadcast: bool,
}

impl Finalize {
    fn how(&self) -> FinishOptions {
        let (lock, force) = (self.lock.map(|lock| lock.0), self.force);
        FinishOptions { lock, force, allow_high_fee: self.allow_high_fee }
    }

    /// Puts the signatures in place and checks them; `text` is what `signed` leads to.
    fn complete(&self, context: &WalletContext, text: &str) -> Result<CompletedTx, RequestError> {
        let signed = signed(text.trim())?;
        Ok(context.room.complete(context.wallet, signed, self.allow_high_fee)?)
    }

    /// Takes it in as pending.
    fn record(&self, context: &WalletContext, done: CompletedTx) -> Result<Txid, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        Ok(room.record_completed(*wallet, done, self.how(), *now)?.0)
    }
}

fn signed(text: &str) -> Result<SignedPayment, BadRequest> {
    // Which of the two can't be mistaken: no transaction begins with a PSBT's magic bytes.
    if let Ok(psbt) = psbt(text) {
        return Ok(SignedPayment::Psbt(Box::new(psbt)));
    }
    let neither = || {
        let message = "this is neither a PSBT (base64 or hex) nor a raw transaction (hex)";
        BadRequest::Unreadable(message.into())
    };
    let bytes = hex::decode(text).map_err(|_| neither())?;
    encode::deserialize(&bytes).map(SignedPayment::Raw).map_err(|_| neither())
}

/// A PSBT in base64 or hex.
pub(super) fn psbt(text: &str) -> Result<Psbt, BadRequest> {
    let none = || BadRequest::Unreadable("this is not a PSBT (base64 or hex)".into());
    if let Ok(psbt) = Psbt::from_str(text.trim()) {
        return Ok(psbt);
    }
    let bytes = hex::decode(text.trim()).map_err(|_| none())?;
    Psbt::deserialize(&bytes).map_err(|_| none())
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
        fee: found.summary.fee.map(|fee| fee.to_string()),
        raw: encode::serialize_hex(&found.tx),
        broadcast,
    })
}

// ---- REST

/// Check a signed transaction and record it as pending; send it if asked to
#[utoipa::path(post, path = "/wallets/{wallet}/finalize", operation_id = "finalize_payment",
    tag = "wallets",
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
        let done = request.complete(context, &request.signed)?;
        // Before it is recorded: afterwards its coins and
        // change would be bound to what no node takes.
        if !request.unchecked {
            would_take(&engine, &done.tx)?;
        }
        let txid = request.record(context, done)?;
        // From here on a failure is no refusal: the payment is recorded.
        sent_and_finalized(&engine, context, txid, request.broadcast)
            .map_err(ApiError::after_change)
    };
    request.on_wallet(&app, wallet, StatusCode::CREATED, work).await
}

/// What follows once it is recorded.
fn sent_and_finalized(
    engine: &Engine,
    context: &WalletContext,
    txid: Txid,
    broadcast: bool,
) -> Result<FinalizedJson, ApiError> {
    let broadcast = broadcast.then(|| send(engine, context, txid)).transpose()?;
    Ok(finalized(context, txid, broadcast)?)
}

/// Refuses what the node would refuse. A node that can't be asked stops nobody: what is recorded is
/// sent once it is back.
fn would_take(engine: &Engine, tx: &Transaction) -> Result<(), ApiError> {
    match test(engine, tx) {
        Ok(Some(Answer::Rejected { reason })) => {
            let message = format!(
                "the node would refuse it: {reason}; nothing was recorded; `unchecked` records it \
                 anyway"
            );
            Err(ApiError::refused(message))
        }
        Ok(Some(Answer::Accepted) | None) => Ok(()),
        Err(error) => {
            tracing::warn!(
                %error,
                "can't ask the node about a transaction; it was recorded unchecked"
            );
            Ok(())
        }
    }
}

fn send(engine: &Engine, context: &WalletContext, txid: Txid) -> Result<NodeAnswerJson, ApiError> {
    match hand_over(engine, context.wallet, txid) {
        Ok(Answer::Accepted) => Ok(NodeAnswerJson { accepted: true, reason: None }),
        Ok(Answer::Rejected { reason }) => {
            Ok(NodeAnswerJson { accepted: false, reason: Some(reason) })
        }
        // The node may have taken it before.
        Err(BroadcastError::Wallet(error)) => Err(ApiError::from(error).after_change()),
        Err(error @ (BroadcastError::NoNode | BroadcastError::NotLive(_))) => {
            Err(ApiError::refused(error.to_string()))
        }
        Err(BroadcastError::NoWallets) => Err(ApiError::room_off(NAME)),
        Err(error) => {
            tracing::warn!(%error, "can't send a transaction");
            let message = "the node can't be reached; sending again is harmless";
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).after(5))
        }
    }
}

/// Send one of the wallet's pending transactions to the node
#[utoipa::path(post, path = "/wallets/{wallet}/broadcast", operation_id = "broadcast_payment",
    tag = "wallets",
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
        // An unknown name is a plain refusal; found out while
        // sending, it would count as one after a change.
        context.room.tx(context.wallet, txid)?;
        let NodeAnswerJson { accepted, reason } = send(&engine, context, txid)?;
        let status = context.room.tx(context.wallet, txid);
        let status = status.map_err(|error| ApiError::from(error).after_change())?;
        let status = status.summary.status.name();
        Ok(BroadcastJson { txid: txid.to_string(), status, accepted, reason })
    };
    request.on_wallet(&app, wallet, StatusCode::OK, work).await
}

// ---- command line

pub(super) fn print_finalize(
    context: &WalletContext,
    request: &Finalize,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let completed = request.complete(context, &input::text_of(&request.signed)?)?;
    let txid = request.record(context, completed)?;
    let done = finalized(context, txid, None)?;
    output.answer(&done, || {
        let FinalizedJson { txid, raw, .. } = &done;
        format!(
            "{txid} is pending; send it, then run: unspent wallet record … --sent {txid}\n{raw}"
        )
    })?;
    Ok(Outcome::Done)
}
