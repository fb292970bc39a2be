//! Choosing coins and building payments.

use std::{fs, path::PathBuf, str::FromStr};

use anyhow::Context as _;
use axum::{extract::State, http::StatusCode, response::Response};
use bitcoin::{ScriptBuf, script::PushBytesBuf};
use clap::Args;
use serde::{Deserialize, Serialize};
use unspent_engine::Engine;
use unspent_model::wallet::{
    LockId,
    select::{ChangePolicy, OVERHEAD_WEIGHT},
};
use unspent_server::{
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
use unspent_wallet::{
    choose::SelectionTarget,
    descriptor::parse_address,
    pay::{Payment, PaymentRequest},
};
use utoipa::ToSchema;

use super::{
    context::{KeyedOnWallet, WalletContext, new_lock},
    error::RequestError,
    input::{BaseUnits, PayValue},
    json::{ChosenJson, ShownRate, UnsignedJson},
    leases::Lease,
    policy::Policy,
};

/// Most bytes that an output which pays nobody may carry; nodes long relayed no more.
const MAX_DATA: usize = 80;
/// Weight of an output and an input of the commonest kind, for a choice without a payment.
const OUTPUT_WEIGHT: u64 = 4 * 31;
const INPUT_WEIGHT: u64 = 272;
/// The smallest change worth an output of that kind: less is dust to nodes.
const DUST: u64 = 294;

/// A request that chooses coins by a policy and holds them.
pub(super) trait HoldsCoins: Send + Sized + 'static {
    type Answer: Serialize + 'static;
    /// Whether the request may say who is to hold the coins.
    const NAMES_HOLDER: bool = false;

    fn policy(&mut self) -> &mut Policy;

    fn lease(&self) -> &Lease;

    /// Asks the node for what it may know and the wallet doesn't.
    fn ask_node(&mut self, engine: &Engine) -> Result<(), ApiError> {
        self.policy().ask_node(engine)
    }

    /// `fresh` is the holder unless the request names one.
    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<Self::Answer, RequestError>;
}

/// Runs such a request over REST, once for its key.
pub(super) async fn hold<T: HoldsCoins>(
    app: &App,
    wallet: String,
    status: StatusCode,
    request: Keyed<T>,
) -> Result<Response, ApiError> {
    let engine = app.engine.clone();
    let work = move |context: &WalletContext, mut request: T, lock: LockId| {
        // What an interrupted run holds is found again by the key alone: no other holder can be.
        if request.lease().lock.is_some() && !T::NAMES_HOLDER {
            let message =
                "with an idempotency key the lock is derived from that key; leave out lease.lock";
            return Err(ApiError::invalid(message));
        }
        request.ask_node(&engine)?;
        Ok(request.run(context, lock)?)
    };
    request.on_wallet(app, wallet, status, work).await
}

/// Builds a payment, or only looks at what it would be.
pub(super) fn built(
    context: &WalletContext,
    payment: impl Into<PaymentRequest>,
    rate: Option<ShownRate>,
    dry_run: bool,
) -> Result<UnsignedJson, RequestError> {
    let WalletContext { room, wallet, now, .. } = context;
    let (payment, now) = (payment.into(), *now);
    if dry_run {
        let unsigned = room.preview_payment(*wallet, payment, now)?;
        return Ok(UnsignedJson::new(&unsigned, None, rate));
    }
    let lock = payment.terms().lock;
    let unsigned = room.build_payment(*wallet, payment, now)?;
    Ok(UnsignedJson::new(&unsigned, Some(lock.to_string()), rate))
}

/// A value to choose coins for.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectCoins {
    /// The value to pay, in base units
    value: BaseUnits,
    /// Only preview: lease nothing
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

impl HoldsCoins for SelectCoins {
    type Answer = ChosenJson;

    fn policy(&mut self) -> &mut Policy {
        &mut self.policy
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<ChosenJson, RequestError> {
        let WalletContext { room, wallet, now, .. } = context;
        let policy = self.policy.coins()?;
        let change = ChangePolicy { weight: OUTPUT_WEIGHT, spend_weight: INPUT_WEIGHT, min: DUST };
        let base_weight = OVERHEAD_WEIGHT + 4 + OUTPUT_WEIGHT;
        let wanted = SelectionTarget::new(self.value.0, base_weight, self.policy.rate(), change);
        if self.dry_run {
            let chosen = room.preview_selection(*wallet, wanted, &policy, *now)?;
            return Ok(ChosenJson::new(&chosen, None, Some(self.policy.shown_rate())));
        }
        let terms = self.lease.terms(context, fresh);
        let chosen = room.select_and_lease(*wallet, wanted, &policy, terms, *now)?;
        let rate = Some(self.policy.shown_rate());
        Ok(ChosenJson::new(&chosen, Some(terms.lock.to_string()), rate))
    }
}

/// Whom to pay.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PayOutput {
    address: String,
    /// Base units, or `all`: everything the account holds, less the other outputs and the fee
    value: PayValue,
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
    /// Whom to pay, as ADDRESS=VALUE; may be repeated. ADDRESS=all sends everything that is left
    #[arg(long = "to", required_unless_present = "data", value_name = "ADDRESS=VALUE")]
    #[serde(default)]
    #[schema(max_items = 1000)]
    outputs: Vec<PayOutput>,
    /// Data in hex for an OP_RETURN output, at most 80 bytes; may be repeated
    #[arg(long, value_name = "HEX")]
    #[serde(default)]
    #[schema(max_items = 1000)]
    data: Vec<String>,
    /// The fee in base units, instead of a rate
    #[arg(long, conflicts_with_all = ["fee_rate", "target_blocks"])]
    #[serde(default)]
    fee: Option<BaseUnits>,
    /// Take the fee from the outputs, in equal parts
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
    #[command(flatten)]
    #[serde(default)]
    lease: Lease,
}

impl HoldsCoins for Pay {
    type Answer = UnsignedJson;

    fn policy(&mut self) -> &mut Policy {
        &mut self.policy
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn run(&self, context: &WalletContext, fresh: LockId) -> Result<UnsignedJson, RequestError> {
        let payment = self.payment(context, fresh)?;
        let rate = self.fee.is_none().then(|| self.policy.shown_rate());
        built(context, &payment, rate, self.dry_run)
    }
}

impl Pay {
    fn payment(&self, context: &WalletContext, fresh: LockId) -> Result<Payment, RequestError> {
        bounded(self.outputs.len() + self.data.len(), 1)?;
        let network = context.room.bitcoin_network();
        let (mut outputs, mut rest_to) = (Vec::new(), None);
        for to in &self.outputs {
            let script = parse_address(&to.address, network)?;
            match to.value {
                PayValue::Exactly(value) => outputs.push((script, value)),
                PayValue::All if rest_to.is_none() => rest_to = Some(script),
                PayValue::All => {
                    return Err(
                        BadRequest::invalid("only one output can have the value `all`").into()
                    );
                }
            }
        }
        for bytes in &self.data {
            // Nobody can ever spend that output: any value in it would be lost.
            outputs.push((data_script(bytes)?, 0));
        }
        Ok(Payment {
            rest_to,
            fee: self.fee.map(|fee| fee.0),
            subtract_fee: self.subtract_fee,
            allow_high_fee: self.allow_high_fee,
            policy: self.policy.coins()?,
            ..Payment::new(outputs, self.policy.rate(), self.lease.terms(context, fresh))
        })
    }
}

/// A script that carries bytes and pays nobody.
fn data_script(text: &str) -> Result<ScriptBuf, BadRequest> {
    let wrong = || BadRequest::invalid(format!("data is 1 to {MAX_DATA} bytes in hex"));
    let bytes = hex::decode(text).map_err(|_| wrong())?;
    if !(1..=MAX_DATA).contains(&bytes.len()) {
        return Err(wrong());
    }
    let bytes = PushBytesBuf::try_from(bytes).map_err(|_| wrong())?;
    Ok(ScriptBuf::new_op_return(bytes))
}

// ---- REST

/// Choose coins for a value and lease them
#[utoipa::path(post, path = "/wallets/{wallet}/select", operation_id = "select_coins",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = SelectCoins,
    responses((status = 200, body = ChosenJson), Failures))]
pub(super) async fn select(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<SelectCoins>,
) -> Result<Response, ApiError> {
    hold(&app, wallet, StatusCode::OK, request).await
}

/// Choose coins, lease them and build an unsigned PSBT
#[utoipa::path(post, path = "/wallets/{wallet}/pay", operation_id = "pay", tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), KeyHeader),
    request_body = Pay,
    responses((status = 201, body = UnsignedJson), Failures))]
pub(super) async fn pay(
    _: May<Wallet>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    request: Keyed<Pay>,
) -> Result<Response, ApiError> {
    hold(&app, wallet, StatusCode::CREATED, request).await
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
    pub(super) pay: Pay,
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

pub(super) fn print_unsigned(
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
        let next = match &unsigned.chosen.lock {
            Some(lock) => format!("Sign it, then run: unspent wallet finalize … --lock {lock}"),
            None => "Nothing is leased: this is only a preview".to_owned(),
        };
        let package = unsigned.package.as_ref().map(|package| format!("\n{}", package.told()));
        let (rows, package) = (facts(&chosen_rows(&unsigned.chosen)), package.unwrap_or_default());
        format!("{rows}{package}\nPSBT: {shown}\n{next}")
    })?;
    Ok(Outcome::Done)
}
