//! Making an unconfirmed transaction worth a miner's while: by a replacement, or by a child.

use axum::{extract::State, http::StatusCode, response::Response};
use clap::Args;
use serde::Deserialize;
use unspent_engine::Engine;
use unspent_model::wallet::LockId;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Wallet},
        keyed::{KeyHeader, Keyed},
        state::App,
    },
    error::Outcome,
    output::Output,
};
use unspent_wallet::pay::{CpfpRequest, FeeBump, PooledTx};
use utoipa::ToSchema;

use super::{
    context::{WalletContext, new_lock},
    error::RequestError,
    input::{BaseUnits, TxName},
    json::UnsignedJson,
    leases::Lease,
    payments::{HoldsCoins, PsbtFile, built, hold, print_unsigned},
    policy::Policy,
};
use crate::with_ancestors;

/// A transaction to replace by one that pays more.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bump {
    /// The transaction to replace
    txid: TxName,
    /// Take the higher fee from the largest payment, and add no coins
    #[arg(long)]
    #[serde(default)]
    subtract_fee: bool,
    /// Allow a fee above 0.1 BTC or a rate above 1,000 sat/vB
    #[arg(long)]
    #[serde(default)]
    allow_high_fee: bool,
    /// Only preview: lease nothing and use up no address
    #[arg(long)]
    #[serde(default)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    #[serde(default)]
    policy: Policy,
    /// The terms for leasing the coins; they replace those of the first payment
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
}

impl HoldsCoins for Bump {
    type Answer = UnsignedJson;
    // The coins are the replaced payment's, and held by whoever holds those: whoever bumps names
    // that lock, or they pass to the key's.
    const NAMES_HOLDER: bool = true;

    fn policy(&mut self) -> &mut Policy {
        &mut self.policy
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<UnsignedJson, RequestError> {
        let terms = self.lease.terms(context, fresh);
        let bump = FeeBump {
            subtract_fee: self.subtract_fee,
            allow_high_fee: self.allow_high_fee,
            policy: self.policy.coins()?,
            ..FeeBump::new(self.txid.0, self.policy.rate(), terms)
        };
        built(context, &bump, Some(self.policy.shown_rate()), self.dry_run)
    }
}

/// An incoming transaction that is too slow, to be paid for by a child.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cpfp {
    /// The unconfirmed transaction that pays the wallet
    txid: TxName,
    /// Its fee in base units, where neither the wallet nor the node knows it
    #[arg(long)]
    #[serde(default)]
    parent_fee: Option<BaseUnits>,
    /// Allow a fee above 0.1 BTC or a rate above 1,000 sat/vB
    #[arg(long)]
    #[serde(default)]
    allow_high_fee: bool,
    /// The fee rate applies to the child and all its unconfirmed ancestors together
    #[command(flatten)]
    #[serde(default)]
    policy: Policy,
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
    /// What the node says of the parent and of what it rests on, once it was asked
    #[arg(skip)]
    #[serde(skip)]
    pool: Vec<PooledTx>,
}

impl HoldsCoins for Cpfp {
    type Answer = UnsignedJson;

    fn policy(&mut self) -> &mut Policy {
        &mut self.policy
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Also for the parent's fee and what it rests on. A node that can't tell is not an error: the
    /// answer says then what isn't known.
    fn ask_node(&mut self, engine: &Engine) -> Result<(), ApiError> {
        self.policy.ask_node(engine)?;
        self.pool = with_ancestors(engine, self.txid.0).unwrap_or_else(|error| {
            tracing::warn!(%error, "can't ask the node for unconfirmed ancestors");
            Vec::new()
        });
        Ok(())
    }

    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<UnsignedJson, RequestError> {
        let lift = CpfpRequest {
            tx: self.txid.0,
            parent_fee: self.parent_fee.map(|fee| fee.0),
            pool: self.pool.clone(),
            rate: self.policy.rate(),
            allow_high_fee: self.allow_high_fee,
            policy: self.policy.coins()?,
            terms: self.lease.terms(context, fresh),
        };
        built(context, &lift, Some(self.policy.shown_rate()), false)
    }
}

// ---- REST

/// Build a replacement for one of the wallet's unconfirmed transactions, at a higher fee rate
#[utoipa::path(post, path = "/wallets/{wallet}/bump", operation_id = "bump_payment",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Bump,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(super) async fn bump(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Bump>,
) -> Result<Response, ApiError> {
    hold(&app, wallet, StatusCode::CREATED, request).await
}

/// Build a child that pays for an unconfirmed transaction to the wallet (CPFP)
#[utoipa::path(post, path = "/wallets/{wallet}/cpfp", operation_id = "pay_for_parents",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Cpfp,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(super) async fn cpfp(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Cpfp>,
) -> Result<Response, ApiError> {
    hold(&app, wallet, StatusCode::CREATED, request).await
}

// ---- command line

#[derive(Args)]
pub(crate) struct BumpArgs {
    #[command(flatten)]
    pub(super) bump: Bump,
    #[command(flatten)]
    file: PsbtFile,
}

#[derive(Args)]
pub(crate) struct CpfpArgs {
    #[command(flatten)]
    cpfp: Cpfp,
    #[command(flatten)]
    file: PsbtFile,
}

pub(super) fn print_bump(
    context: &WalletContext,
    args: &BumpArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_unsigned(&args.bump.run(context, new_lock()?)?, &args.file, output)
}

pub(super) fn print_cpfp(
    context: &WalletContext,
    args: &CpfpArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_unsigned(&args.cpfp.run(context, new_lock()?)?, &args.file, output)
}
