//! Roots of blocks, and proofs that lead to them: as routes and commands.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use clap::Args;
use serde::Deserialize;
use unspent_chain::{CheckedProof, Reader};
use unspent_model::{Network, Outpoint, TxId};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, Read},
        state::App,
    },
    error::Outcome,
    output::{Output, facts, table},
    text,
};
use utoipa::IntoParams;

use super::{
    ChainQueries,
    coins::as_of,
    json::{ProvenJson, RootJson},
    parse,
};

const CBOR: &str = "application/cbor";

/// Which block.
#[derive(Args, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AtBlock {
    /// Height of the block, inside the window [default: the tip]
    #[arg(long = "at", value_name = "HEIGHT")]
    #[param(minimum = 0)]
    height: Option<u64>,
}

// ---- REST

/// The root of a block: of the tip, or of an older block inside the window
#[utoipa::path(get, path = "/roots", operation_id = "get_root", tag = "chain", params(AtBlock),
    responses((status = 200, body = RootJson), Failures))]
pub(super) async fn root(
    _: May<Read>,
    State(app): State<App>,
    ApiQuery(at): ApiQuery<AtBlock>,
) -> Result<Json<RootJson>, ApiError> {
    let found = app
        .chain(move |reader| {
            let root = reader.snapshot().root(at.height)?;
            Ok(RootJson::new(reader.network(), &root))
        })
        .await?;
    Ok(Json(found))
}

/// A proof that a coin is unspent, or was spent, at a block; as CBOR for those who accept it
#[utoipa::path(get, path = "/proofs/{txid}/{index}", operation_id = "get_proof", tag = "chain",
    params(
        ("txid" = String, Path, pattern = "^[0-9a-fA-F]{64}$"),
        ("index" = u32, Path, minimum = 0),
        AtBlock,
    ),
    responses((status = 200, content(
        (ProvenJson = "application/json"),
        (Vec<u8> = "application/cbor"),
    )), Failures))]
pub(super) async fn proof(
    _: May<Read>,
    State(app): State<App>,
    ApiPath((txid, index)): ApiPath<(String, u32)>,
    ApiQuery(at): ApiQuery<AtBlock>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wrong = || ApiError::malformed("a transaction is named by 64 hex digits");
    let txid = TxId(app.network().parse_hash(&txid).ok_or_else(wrong)?);
    let coin = Outpoint::new(txid, index);
    let found = app
        .chain(move |reader| Ok((reader.network(), reader.snapshot().prove(&[coin], at.height)?)));
    let (network, proven) = found.await?;
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains(CBOR)) {
        return Ok(([(header::CONTENT_TYPE, CBOR)], proven.proof.to_bytes()).into_response());
    }
    Ok(Json(ProvenJson::new(network, &proven)).into_response())
}

// ---- command line

/// Coins to prove.
#[derive(Args)]
pub(crate) struct ProveArgs {
    /// The coins, each as TXID:VOUT
    #[arg(required = true, value_name = "TXID:VOUT")]
    outpoints: Vec<String>,
    #[command(flatten)]
    at: AtBlock,
    /// Write the proof to a file, as CBOR or, with --json, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn print_root(
    reader: &Reader,
    at: &AtBlock,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let root = reader.snapshot().root(at.height)?;
    let network = reader.network();
    output.answer(&RootJson::new(network, &root), || {
        facts(&[
            ("root", hex::encode(root.root)),
            ("block", as_of(network, root.point)),
            ("outputs", text::grouped(u128::from(root.leaves))),
            ("unspent", text::grouped(u128::from(root.live))),
        ])
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_proof(
    reader: &Reader,
    args: &ProveArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let coins = args.outpoints.iter().map(|text| parse::outpoint(network, text));
    let coins: Vec<Outpoint> = coins.collect::<Result<_, _>>()?;
    let proven = reader.snapshot().prove(&coins, args.at.height)?;
    let document = ProvenJson::new(network, &proven);
    if let Some(file) = &args.out {
        let bytes = if output.is_json() {
            serde_json::to_vec_pretty(&document)?
        } else {
            proven.proof.to_bytes()
        };
        fs::write(file, bytes).with_context(|| format!("can't write {}", file.display()))?;
    }
    output.answer(&document, || proof_text(network, &proven, args.out.as_ref()))?;
    Ok(Outcome::Done)
}

fn proof_text(network: Network, proven: &CheckedProof, file: Option<&PathBuf>) -> String {
    let rows = proven.proof.coins.iter().zip(&proven.verdicts).map(|((_, leaf), verdict)| {
        let outpoint = Outpoint::new(TxId(leaf.txid), leaf.vout);
        [text::outpoint(network, &outpoint), verdict.to_string()]
    });
    let coins = table(["outpoint", "state"], rows);
    let bytes = proven.proof.to_bytes();
    let place = match file {
        Some(file) => format!("{} bytes in {}", bytes.len(), file.display()),
        None => format!("proof: {}", hex::encode(&bytes)),
    };
    let (root, at) = (hex::encode(proven.root.root), as_of(network, proven.root.point));
    format!("{coins}\nas of {at}\nroot: {root}\n{place}")
}
