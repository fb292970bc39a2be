//! `/utxos`, `/blocks` and `/deltas`: one coin, one block, what a block did.

use axum::{Json, extract::State};
use serde::Serialize;
use unspent_chain::{CoinState, Reader};
use unspent_model::{BlockHash, Network};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{ApiPath, ApiQuery, CoinPath, May, PageQuery, Read, bad_cursor},
    state::App,
};
use crate::chain::json::{CoinJson, DeltaJson, PointJson};

/// A block of the stored chain.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlockJson {
    #[serde(flatten)]
    point: PointJson,
    /// Seconds, as its header says.
    time: u64,
    /// 1 for the tip.
    confirmations: u64,
    /// Coins that it created, where that is still known.
    created: Option<u64>,
    /// Coins that it spent, where that is still known.
    spent: Option<u64>,
}

/// The latest blocks.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlocksJson {
    blocks: Vec<BlockJson>,
    next: Option<String>,
}

/// What the block at a height did; two where a boundary block shares the height.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeltasJson {
    height: u64,
    deltas: Vec<DeltaJson>,
}

/// One coin: unspent, or spent inside the window
#[utoipa::path(get, path = "/utxos/{tx_hash}/{output_index}", tag = "chain", params(CoinPath),
    responses((status = 200, body = CoinJson), Failures))]
pub(crate) async fn utxo(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(path): ApiPath<CoinPath>,
) -> Result<Json<CoinJson>, ApiError> {
    let outpoint = path.outpoint(app.network())?;
    let found = app.chain(move |reader| match reader.coin(&outpoint)? {
        CoinState::Unknown => Err(ApiError::not_found(
            "this coin was never seen, or spent so long ago that it is forgotten",
        )),
        state @ (CoinState::Unspent(_) | CoinState::Spent(_)) => {
            Ok(CoinJson::new(reader.network(), &outpoint, &state))
        }
    });
    Ok(Json(found.await?))
}

fn tip_height(reader: &Reader) -> Result<u64, ApiError> {
    let tip = reader.status()?.chain.map(|(_, stored)| stored.point.height);
    tip.ok_or_else(|| ApiError::not_found("there are no blocks yet"))
}

fn block(reader: &Reader, stored: &unspent_chain::codec::StoredPoint, tip: u64) -> BlockJson {
    BlockJson {
        point: PointJson::new(reader.network(), &stored.point),
        time: stored.time,
        confirmations: tip.saturating_sub(stored.point.height) + 1,
        created: None,
        spent: None,
    }
}

/// With the counts, where the delta is kept.
fn block_with_counts(
    reader: &Reader,
    stored: &unspent_chain::codec::StoredPoint,
    tip: u64,
) -> BlockJson {
    let mut shown = block(reader, stored, tip);
    if let Ok(deltas) = reader.delta(stored.point.height) {
        shown.created = Some(deltas.iter().map(|delta| delta.created.len() as u64).sum());
        shown.spent = Some(deltas.iter().map(|delta| delta.spent.len() as u64).sum());
    }
    shown
}

/// The latest blocks, newest first
#[utoipa::path(get, path = "/blocks", tag = "chain", params(PageQuery),
    responses((status = 200, body = BlocksJson), Failures))]
pub(crate) async fn blocks(
    _: May<Read>,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<BlocksJson>, ApiError> {
    let limit = u64::from(query.limit()?);
    let below = query.after()?.map(|text| text.parse::<u64>().map_err(|_| bad_cursor()));
    let below = below.transpose()?;
    let found = app.chain(move |reader| {
        let Some(tip) = reader.status()?.chain.map(|(_, stored)| stored.point.height) else {
            return Ok(BlocksJson { blocks: Vec::new(), next: None });
        };
        let end = below.unwrap_or(u64::MAX).min(tip + 1);
        let start = end.saturating_sub(limit);
        let mut blocks = Vec::new();
        let mut lowest = end;
        for height in (start..end).rev() {
            // A height without a block lies in a hole that an import left.
            if let Some(stored) = reader.block_at(height)? {
                blocks.push(block(reader, &stored, tip));
            }
            lowest = height;
        }
        let next = (lowest > 0 && !blocks.is_empty()).then(|| lowest.to_string());
        Ok(BlocksJson { blocks, next })
    });
    Ok(Json(found.await?))
}

/// The tip
#[utoipa::path(get, path = "/blocks/tip", tag = "chain",
    responses((status = 200, body = BlockJson), Failures))]
pub(crate) async fn tip(_: May<Read>, State(app): State<App>) -> Result<Json<BlockJson>, ApiError> {
    let found = app.chain(|reader| {
        let tip = tip_height(reader)?;
        let stored = reader.block_at(tip)?;
        let stored = stored.ok_or_else(|| ApiError::not_found("there are no blocks yet"))?;
        Ok(block_with_counts(reader, &stored, tip))
    });
    Ok(Json(found.await?))
}

/// What a block is called.
pub(crate) enum BlockName {
    Height(u64),
    Hash(BlockHash),
}

impl BlockName {
    pub(crate) fn parse(network: Network, text: &str) -> Option<Self> {
        if let Some(hash) = network.parse_hash(text) {
            return Some(Self::Hash(BlockHash(hash)));
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().map(Self::Height)).flatten()
    }
}

/// A block by height or hash
#[utoipa::path(get, path = "/blocks/{block}", tag = "chain",
    params(("block" = String, Path, description = "Height or hash")),
    responses((status = 200, body = BlockJson), Failures))]
pub(crate) async fn one(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BlockJson>, ApiError> {
    let wrong = || ApiError::malformed("a block is named by its height or its hash");
    let name = BlockName::parse(app.network(), &text).ok_or_else(wrong)?;
    let found = app.chain(move |reader| {
        let stored = match name {
            BlockName::Height(height) => reader.block_at(height)?,
            BlockName::Hash(hash) => reader.block_by_hash(&hash)?,
        };
        let stored = stored.ok_or_else(|| ApiError::not_found("no such block is stored"))?;
        Ok(block_with_counts(reader, &stored, tip_height(reader)?))
    });
    Ok(Json(found.await?))
}

/// What the block at a height did to the coin set
#[utoipa::path(get, path = "/deltas/{height}", tag = "chain",
    params(("height" = u64, Path, minimum = 0)),
    responses((status = 200, body = DeltasJson), Failures))]
pub(crate) async fn deltas(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(height): ApiPath<u64>,
) -> Result<Json<DeltasJson>, ApiError> {
    let found = app.chain(move |reader| {
        let stored = reader.delta(height)?;
        let network = reader.network();
        let deltas = stored.iter().map(|delta| DeltaJson::new(network, delta)).collect();
        Ok(DeltasJson { height, deltas })
    });
    Ok(Json(found.await?))
}
