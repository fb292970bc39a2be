//! A block as people look at it: what it created and spent, with amounts, owners and totals, and
//! how large it is.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use bitcoin::consensus::deserialize;
use serde::Serialize;
use unspent_chain::{ChainSnapshot, CoinState, QueryError, codec::StoredPoint};
use unspent_engine::Engine;
use unspent_model::{Family, Network, Outpoint, Point, chain::Record};
use unspent_networks::address::show_address;
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, May, Read},
        state::App,
    },
    json::OutpointJson,
};
use utoipa::ToSchema;

use super::{
    ChainQueries,
    blocks::{BlockJson, find, kept},
};
use crate::block_bytes;

/// Coins shown on each side; the totals count all.
const SHOWN: usize = 100;
/// How long the source is waited for; a block is shown without its size then.
const PATIENCE: Duration = Duration::from_secs(3);

/// A coin that a block created or spent.
#[derive(Serialize, ToSchema)]
struct BlockCoinJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    /// Null where it is no longer known
    value: Option<String>,
    address: Option<String>,
    spent_by: Option<String>,
}

/// What a block created, or what it spent.
#[derive(Serialize, ToSchema)]
pub(super) struct BlockSideJson {
    coins: u64,
    /// The total of all of them; null where some are no longer known
    value: Option<String>,
    /// The first hundred
    first: Vec<BlockCoinJson>,
}

/// How large a block is.
#[derive(Serialize, ToSchema)]
struct BlockSizeJson {
    size: usize,
    /// Null on Cardano, which has none
    weight: Option<u64>,
    /// Null on Cardano
    transactions: Option<usize>,
}

/// A block with its coins and totals.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlockDetailJson {
    #[serde(flatten)]
    block: BlockJson,
    /// Null where what it did is no longer kept
    created_coins: Option<BlockSideJson>,
    spent_coins: Option<BlockSideJson>,
    /// As the source gives it; null where it doesn't, or no longer
    size: Option<BlockSizeJson>,
}

/// A coin's body, where the delta doesn't have it.
fn record(snapshot: &ChainSnapshot<'_>, coin: &Outpoint) -> Result<Option<Record>, QueryError> {
    Ok(match snapshot.coin(coin)? {
        CoinState::Unspent(record) => Some(record),
        CoinState::Spent(spent) => Some(spent.record),
        CoinState::Unknown => None,
    })
}

/// Adds coins up while they come.
struct CoinSum {
    network: Network,
    coins: u64,
    value: Option<u128>,
    first: Vec<BlockCoinJson>,
}

impl CoinSum {
    fn new(network: Network) -> Self {
        Self { network, coins: 0, value: Some(0), first: Vec::new() }
    }

    fn add(&mut self, coin: &Outpoint, record: Option<&Record>, spent_by: Option<String>) {
        let value = record.map(|record| record.output.value);
        self.coins += 1;
        self.value = self.value.zip(value).map(|(sum, value)| sum + u128::from(value));
        if self.first.len() < SHOWN {
            self.first.push(BlockCoinJson {
                outpoint: OutpointJson::new(self.network, coin),
                value: value.map(|value| value.to_string()),
                address: record.map(|record| show_address(self.network, &record.output.addr)),
                spent_by,
            });
        }
    }

    fn shown(self) -> BlockSideJson {
        let value = self.value.map(|value| value.to_string());
        BlockSideJson { coins: self.coins, value, first: self.first }
    }
}

/// What the blocks at a height did; `None` where it is no longer kept.
pub(super) fn sides(
    snapshot: &ChainSnapshot<'_>,
    stored: &StoredPoint,
) -> Result<Option<(BlockSideJson, BlockSideJson)>, QueryError> {
    let network = snapshot.network();
    let Some(deltas) = kept(snapshot.delta(stored.point.height))? else { return Ok(None) };
    let (mut created, mut spent) = (CoinSum::new(network), CoinSum::new(network));
    // Where a boundary block shares the height, the other delta is another block's.
    for delta in deltas.iter().filter(|delta| delta.point.hash == stored.point.hash) {
        for born in &delta.created {
            let known = match &born.record {
                Some(record) => Some(record.clone()),
                None => record(snapshot, &born.outpoint)?,
            };
            created.add(&born.outpoint, known.as_ref(), None);
        }
        for gone in &delta.spent {
            let by = gone.by.map(|by| network.show_hash(&by.tx.0));
            spent.add(&gone.outpoint, Some(&gone.record), by);
        }
    }
    Ok(Some((created.shown(), spent.shown())))
}

fn size_of(
    engine: &Engine,
    network: Network,
    parent: Option<Point>,
    at: Point,
) -> Option<BlockSizeJson> {
    let bytes: Arc<[u8]> = match block_bytes(engine, parent, at, PATIENCE) {
        Ok(bytes) => bytes?,
        Err(error) => {
            tracing::debug!(%error, "can't ask the source for a block's size");
            return None;
        }
    };
    let parsed = match network.family() {
        Family::Bitcoin => deserialize::<bitcoin::Block>(&bytes).ok(),
        Family::Cardano => None,
    };
    let weight = parsed.as_ref().map(|block| block.weight().to_wu());
    let transactions = parsed.as_ref().map(|block| block.txdata.len());
    Some(BlockSizeJson { size: bytes.len(), weight, transactions })
}

/// A block with what it created and spent: amounts, owners, totals, size
#[utoipa::path(get, path = "/blocks/{block}/detail", operation_id = "get_block_detail",
    tag = "chain",
    params(("block" = String, Path, description = "Height or hash")),
    responses((status = 200, body = BlockDetailJson), Failures))]
pub(super) async fn block_detail(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BlockDetailJson>, ApiError> {
    let network = app.network();
    let found = app.chain(move |reader| {
        let snapshot = reader.snapshot();
        let (stored, block) = find(&snapshot, &text)?;
        let sides = sides(&snapshot, &stored)?;
        let below = stored.point.height.checked_sub(1);
        let parent = below.map(|height| snapshot.block_at(height)).transpose()?.flatten();
        Ok((block, sides, parent.map(|parent| parent.point), stored.point))
    });
    let (block, sides, parent, at) = found.await?;
    let engine = app.engine.clone();
    // The source may be slow, and that must hold up nobody who asks for what we have ourselves.
    let size = app.outward.run(move || Ok(size_of(&engine, network, parent, at))).await?;
    let (created_coins, spent_coins) = sides.unzip();
    Ok(Json(BlockDetailJson { block, created_coins, spent_coins, size }))
}
