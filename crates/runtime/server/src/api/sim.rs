//! `/sim/…`: what can be done to the simulated network. The routes are there with that source
//! alone; on any other a daemon doesn't know them, and its description doesn't name them.
//!
//! They need `wallet`: the money isn't real, but what they do is seen by every wallet. A token that
//! sees one wallet only can't use them.

use std::ops::RangeInclusive;

use axum::{Json, extract::State};
use bitcoin::ScriptBuf;
use serde::{Deserialize, Serialize};
use unspent_model::wallet::amount;
use unspent_networks::address::{Query, parse_query};
use unspent_source::sim::{SimError, SimNetwork};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    error::{ApiError, Failures},
    extract::{ApiJson, May, Wallet},
    state::App,
};
use crate::json::PointJson;

/// Blocks mined by one request at most.
const MOST_BLOCKS: u32 = 1_000;
/// Blocks replaced by one request at most.
const DEEPEST: u32 = 100;
/// What the network pays a miner for a payment, in satoshis.
const FEE: u64 = 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(mine)).routes(routes!(pay)).routes(routes!(reorganise))
}

/// Blocks to mine.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MineBlocks {
    /// The first ones include what waits in the mempool
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    blocks: u32,
}

fn one() -> u32 {
    1
}

/// A payment out of the network's own coins.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PayAddress {
    /// Who is paid
    #[schema(min_length = 1, max_length = 1000)]
    address: String,
    /// Base units, as a decimal string
    #[schema(pattern = "^[0-9]{1,16}$")]
    value: String,
    /// Blocks mined on it at once; with 0 it waits in the mempool
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000, default = 0)]
    confirmations: u32,
}

/// A reorganisation to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Reorganise {
    /// This many blocks are replaced, by one more
    #[schema(minimum = 1, maximum = 100)]
    depth: u32,
}

/// The simulated network afterwards.
#[derive(Serialize, ToSchema)]
struct SimJson {
    tip: PointJson,
    /// Transactions that wait in its mempool
    mempool: usize,
    /// The payment, where one was made
    txid: Option<String>,
}

impl SimJson {
    fn new(network: &SimNetwork, txid: Option<String>) -> Self {
        network.look(|sim| {
            let (height, block_hash) = (u64::from(sim.height()), sim.tip().to_string());
            let tip = PointJson { height, slot: height, block_hash };
            Self { tip, mempool: sim.mempool().iter().count(), txid }
        })
    }
}

impl App {
    /// Does something to the simulated network, on a thread that may block.
    async fn simulated(
        &self,
        act: impl FnOnce(&SimNetwork) -> Result<Option<String>, ApiError> + Send + 'static,
    ) -> Result<Json<SimJson>, ApiError> {
        let absent = || ApiError::not_found("the source is not the simulated network");
        let network = self.engine.simulated().ok_or_else(absent)?;
        let done = self.pool.run(move || {
            let txid = act(&network)?;
            Ok(SimJson::new(&network, txid))
        });
        Ok(Json(done.await?))
    }
}

fn failed(error: SimError) -> ApiError {
    if let SimError::Refused(_) = error {
        return ApiError::refused(error.to_string());
    }
    tracing::warn!(%error, "the simulated network failed");
    ApiError::unavailable("can't write the simulated network's file")
}

fn bounded(name: &str, asked: u32, allowed: RangeInclusive<u32>) -> Result<(), ApiError> {
    if allowed.contains(&asked) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("{name} is {} to {}", allowed.start(), allowed.end())))
}

/// Mines what waits, and then empty blocks.
fn mine_blocks(network: &SimNetwork, blocks: u32) -> Result<(), ApiError> {
    let mut left = blocks;
    while left > 0 && network.look(|sim| sim.mempool().iter().next().is_some()) {
        network.mine_mempool().map_err(failed)?;
        left -= 1;
    }
    if left > 0 {
        network.mine(left).map_err(failed)?;
    }
    Ok(())
}

/// Mine blocks on the simulated network
#[utoipa::path(post, path = "/sim/mine", operation_id = "sim_mine", tag = "sim",
    request_body = MineBlocks, responses((status = 200, body = SimJson), Failures))]
async fn mine(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(request): ApiJson<MineBlocks>,
) -> Result<Json<SimJson>, ApiError> {
    bounded("blocks", request.blocks, 1..=MOST_BLOCKS)?;
    app.simulated(move |network| mine_blocks(network, request.blocks).map(|()| None)).await
}

/// Pay an address on the simulated network
#[utoipa::path(post, path = "/sim/pay", operation_id = "sim_pay", tag = "sim",
    request_body = PayAddress, responses((status = 200, body = SimJson), Failures))]
async fn pay(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(request): ApiJson<PayAddress>,
) -> Result<Json<SimJson>, ApiError> {
    bounded("confirmations", request.confirmations, 0..=MOST_BLOCKS)?;
    let value = amount::parse(&request.value);
    let value = value.map_err(|error| ApiError::invalid(error.to_string()))?;
    let Query::Address(script) = parse_query(app.network(), &request.address)? else {
        return Err(ApiError::malformed("only an address can be paid"));
    };
    let paid = app.simulated(move |network| {
        let script = ScriptBuf::from_bytes(script.to_vec());
        let txid = network.pay(&script, value, FEE).map_err(failed)?;
        mine_blocks(network, request.confirmations)?;
        Ok(Some(txid.to_string()))
    });
    paid.await
}

/// Replace the last blocks of the simulated network by others
#[utoipa::path(post, path = "/sim/reorganise", operation_id = "sim_reorganise", tag = "sim",
    request_body = Reorganise, responses((status = 200, body = SimJson), Failures))]
async fn reorganise(
    _: May<Wallet>,
    State(app): State<App>,
    ApiJson(request): ApiJson<Reorganise>,
) -> Result<Json<SimJson>, ApiError> {
    bounded("depth", request.depth, 1..=DEEPEST)?;
    app.simulated(move |network| network.fork(request.depth).map(|()| None).map_err(failed)).await
}
