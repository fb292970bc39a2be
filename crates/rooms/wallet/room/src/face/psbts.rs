//! PSBTs between signers: what one does and lacks, and bringing copies together.

use axum::{Json, extract::State};
use bitcoin::Psbt;
use clap::{Args, Subcommand};
use serde::Deserialize;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, ApiPath, May, Read},
        state::App,
    },
    error::Outcome,
    output::{Output, facts, table},
    request::bounded,
};
use unspent_wallet::pay::combine;
use utoipa::ToSchema;

use super::{
    context::{RoomContext, WalletContext, WalletQueries},
    error::RequestError,
    finishing::psbt,
    input,
    json::PsbtJson,
};

/// PSBTs of one transaction.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Psbts {
    /// PSBT (base64 or hex); several are combined. On the command line also @FILE, or - for
    /// standard input
    #[arg(required = true, value_name = "PSBT")]
    #[schema(min_items = 1, max_items = 1000)]
    psbts: Vec<String>,
}

impl Psbts {
    fn run(&self, context: &WalletContext) -> Result<PsbtJson, RequestError> {
        bounded(self.psbts.len(), 1)?;
        let read = self.psbts.iter().map(|text| psbt(text));
        let whole: Psbt = combine(read.collect::<Result<Vec<_>, _>>()?)?;
        let view = context.room.inspect_psbt(context.wallet, &whole)?;
        Ok(PsbtJson::new(&whole, &view, context.room.bitcoin_network()))
    }

    /// The same with files and standard input read.
    fn loaded(&self) -> anyhow::Result<Self> {
        let texts = self.psbts.iter().map(|text| input::text_of(text));
        Ok(Self { psbts: texts.collect::<anyhow::Result<_>>()? })
    }
}

// ---- REST

/// Combine copies of a PSBT and show what it pays, to whom, its fee and what is missing
#[utoipa::path(post, path = "/wallets/{wallet}/psbt", operation_id = "inspect_psbt",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body = Psbts,
    responses((status = 200, body = PsbtJson), Failures))]
pub(super) async fn inspect(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(wallet): ApiPath<String>,
    ApiJson(request): ApiJson<Psbts>,
) -> Result<Json<PsbtJson>, ApiError> {
    Ok(Json(app.wallet(wallet, move |context| request.run(context)).await?))
}

// ---- command line

/// What to do with PSBTs.
#[derive(Subcommand)]
pub(crate) enum PsbtCommand {
    /// Show what a PSBT pays, to whom, its fee and what is missing
    Show(PsbtArgs),
    /// Combine the signatures of several copies
    Combine(PsbtArgs),
}

#[derive(Args)]
pub(crate) struct PsbtArgs {
    /// Name of the wallet
    wallet: String,
    #[command(flatten)]
    request: Psbts,
}

pub(super) fn print(
    context: &RoomContext,
    command: &PsbtCommand,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let (PsbtCommand::Show(args) | PsbtCommand::Combine(args)) = command;
    let found = args.request.loaded()?.run(&context.wallet(&args.wallet)?)?;
    output.answer(&found, || match command {
        PsbtCommand::Combine(_) => found.psbt.clone(),
        PsbtCommand::Show(_) => shown(&found),
    })?;
    Ok(Outcome::Done)
}

fn shown(found: &PsbtJson) -> String {
    let unknown = || "unknown".to_owned();
    let inputs = found.inputs.iter().map(|input| {
        let state = match (input.complete, input.missing.is_empty()) {
            (true, _) => "signed".to_owned(),
            (false, true) => "not signed".to_owned(),
            (false, false) => format!("may be signed by {}", input.missing.join(", ")),
        };
        let value = input.value.clone().unwrap_or_else(unknown);
        [input.outpoint.outpoint.clone(), value, input.signatures.to_string(), state]
    });
    let outputs = found.outputs.iter().map(|output| {
        let whose = output.purpose.clone().unwrap_or_else(|| "somebody else".to_owned());
        [output.address.clone(), output.value.clone(), whose]
    });
    let rows = [
        ("transaction", found.unsigned_txid.clone()),
        ("fee", found.fee.as_ref().map_or_else(unknown, |fee| format!("{fee} sat"))),
        ("pays others", format!("{} sat", found.pays_others)),
        ("complete", if found.complete { "yes" } else { "no" }.to_owned()),
    ];
    format!(
        "{}\n{}\n{}",
        table(["spends", "value (sat)", "signatures", "state"], inputs),
        table(["pays", "value (sat)", "whose"], outputs),
        facts(&rows)
    )
}
