//! Blocks, and what each did to the coin set.

use axum::{Json, extract::State};
use clap::Args;
use serde::Serialize;
use unspent_chain::{
    ChainSnapshot, Reader,
    codec::{DeltaCounts, StoredDelta, StoredPoint},
};
use unspent_model::{BlockHash, Family, Network};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiPath, ApiQuery, May, PageQuery, Read},
        state::App,
    },
    error::Outcome,
    json::{PointJson, Time},
    output::{Output, table},
    request::bad_cursor,
    text,
};
use utoipa::ToSchema;

use super::{ChainQueries, json::DeltaJson};

/// A block of the stored chain.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlockJson {
    #[serde(flatten)]
    point: PointJson,
    /// As its header says.
    time: Time,
    /// 1 for the tip.
    confirmations: u64,
    /// Coins that it created, where that is still known.
    created: Option<u64>,
    /// Coins that it spent, where that is still known.
    spent: Option<u64>,
}

impl BlockJson {
    fn new(network: Network, stored: &StoredPoint, tip: u64) -> Self {
        Self {
            point: PointJson::new(network, &stored.point),
            time: Time::seconds(stored.time),
            // The tip was read first: a block may have come since.
            confirmations: tip.saturating_sub(stored.point.height) + 1,
            created: None,
            spent: None,
        }
    }

    /// With the counts, where the delta is kept.
    fn with_counts(snapshot: &ChainSnapshot<'_>, stored: &StoredPoint, tip: u64) -> Self {
        let mut shown = Self::new(snapshot.network(), stored, tip);
        if let Ok(DeltaCounts { created, spent }) = snapshot.delta_counts(stored.point.height) {
            (shown.created, shown.spent) = (Some(created), Some(spent));
        }
        shown
    }
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

impl DeltasJson {
    fn new(network: Network, height: u64, stored: &[StoredDelta]) -> Self {
        let deltas = stored.iter().map(|delta| DeltaJson::new(network, delta)).collect();
        Self { height, deltas }
    }
}

/// What a block is called.
pub(super) enum BlockName {
    Height(u64),
    Hash(BlockHash),
}

impl BlockName {
    pub(super) fn parse(network: Network, text: &str) -> Option<Self> {
        // 64 decimal digits are a hash as well: no height is that long.
        if let Some(hash) = network.parse_hash(text) {
            return Some(Self::Hash(BlockHash(hash)));
        }
        // `parse` alone would take a leading plus: one block would have two names.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().map(Self::Height)).flatten()
    }
}

// ---- REST

/// The latest blocks, newest first
#[utoipa::path(get, path = "/blocks", operation_id = "list_blocks",
    tag = "chain", params(PageQuery),
    responses((status = 200, body = BlocksJson), Failures))]
pub(super) async fn blocks(
    _: May<Read>,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<PageQuery>,
) -> Result<Json<BlocksJson>, ApiError> {
    let limit = u64::from(query.limit()?);
    let below = query.after()?.map(|text| text.parse::<u64>().map_err(|_| bad_cursor()));
    let below = below.transpose()?;
    let found = app.chain(move |reader| {
        let snapshot = reader.snapshot();
        let Some(last) = snapshot.last_block()? else {
            return Ok(BlocksJson { blocks: Vec::new(), next: None });
        };
        let tip = last.point.height;
        // A cursor may be older than a rollback: it is cut to what is there now.
        let end = below.unwrap_or(u64::MAX).min(tip + 1);
        // Fewer blocks than a page holds: the page begins at the first.
        let start = end.saturating_sub(limit);
        let mut blocks = Vec::new();
        let mut lowest = end;
        for height in (start..end).rev() {
            // A height without a block lies in a hole that an import left.
            if let Some(stored) = snapshot.block_at(height)? {
                blocks.push(BlockJson::new(reader.network(), &stored, tip));
            }
            lowest = height;
        }
        let next = (lowest > 0 && !blocks.is_empty()).then(|| lowest.to_string());
        Ok(BlocksJson { blocks, next })
    });
    Ok(Json(found.await?))
}

fn last_block(snapshot: &ChainSnapshot<'_>) -> Result<StoredPoint, ApiError> {
    snapshot.last_block()?.ok_or_else(|| ApiError::not_found("there are no blocks yet"))
}

/// The tip
#[utoipa::path(get, path = "/blocks/tip", operation_id = "get_tip", tag = "chain",
    responses((status = 200, body = BlockJson), Failures))]
pub(super) async fn tip(_: May<Read>, State(app): State<App>) -> Result<Json<BlockJson>, ApiError> {
    let found = app.chain(|reader| {
        let snapshot = reader.snapshot();
        let stored = last_block(&snapshot)?;
        Ok(BlockJson::with_counts(&snapshot, &stored, stored.point.height))
    });
    Ok(Json(found.await?))
}

/// A block by height or hash
#[utoipa::path(get, path = "/blocks/{block}", operation_id = "get_block", tag = "chain",
    params(("block" = String, Path, description = "Height or hash")),
    responses((status = 200, body = BlockJson), Failures))]
pub(super) async fn one(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(text): ApiPath<String>,
) -> Result<Json<BlockJson>, ApiError> {
    let found = app.chain(move |reader| Ok(find(&reader.snapshot(), &text)?.1));
    Ok(Json(found.await?))
}

/// A block that somebody names, as it is stored and as it is shown.
pub(super) fn find(
    snapshot: &ChainSnapshot<'_>,
    text: &str,
) -> Result<(StoredPoint, BlockJson), ApiError> {
    let wrong = || ApiError::malformed("a block is named by its height or its hash");
    let stored = match BlockName::parse(snapshot.network(), text).ok_or_else(wrong)? {
        BlockName::Height(height) => snapshot.block_at(height)?,
        BlockName::Hash(hash) => snapshot.block_by_hash(&hash)?,
    };
    let stored = stored.ok_or_else(|| ApiError::not_found("no such block is stored"))?;
    let tip = last_block(snapshot)?.point.height;
    let shown = BlockJson::with_counts(snapshot, &stored, tip);
    Ok((stored, shown))
}

/// What the block at a height did to the coin set
#[utoipa::path(get, path = "/deltas/{height}", operation_id = "get_deltas", tag = "chain",
    params(("height" = u64, Path, minimum = 0)),
    responses((status = 200, body = DeltasJson), Failures))]
pub(super) async fn deltas(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(height): ApiPath<u64>,
) -> Result<Json<DeltasJson>, ApiError> {
    let found = app
        .chain(move |reader| Ok(DeltasJson::new(reader.network(), height, &reader.delta(height)?)));
    Ok(Json(found.await?))
}

// ---- command line

/// Which block.
#[derive(Args)]
pub(crate) struct DeltaArgs {
    /// Height of the block
    height: u64,
}

pub(super) fn print_delta(
    reader: &Reader,
    args: &DeltaArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let stored = reader.delta(args.height)?;
    output.answer(&DeltasJson::new(network, args.height, &stored), || {
        let blocks = stored.iter().map(|delta| delta_text(network, delta));
        blocks.collect::<Vec<_>>().join("\n")
    })?;
    Ok(Outcome::Done)
}

fn delta_text(network: Network, delta: &StoredDelta) -> String {
    let created = delta.created.iter().map(|born| ("created", born.outpoint));
    let spent = delta.spent.iter().map(|spent| ("spent", spent.outpoint));
    let lost = delta.overwritten.iter().map(|(lost, _)| ("overwritten", *lost));
    let missing = delta.missing.iter().map(|outpoint| ("missing", *outpoint));
    let all = created.chain(spent).chain(lost).chain(missing);
    let rows = all.map(|(what, at)| [what.to_owned(), text::outpoint(network, &at)]);
    let block = text::point(&PointJson::new(network, &delta.point));
    let counts = format!("{} created, {} spent", delta.created.len(), delta.spent.len());
    let invalid = match network.family() {
        Family::Bitcoin => String::new(),
        Family::Cardano => {
            let invalid = delta.tx_flags.iter().filter(|flags| flags.is_invalid).count();
            format!(", {invalid} transactions failed in phase 2")
        }
    };
    format!("{block}\n{}\n{counts}{invalid}", table(["what", "outpoint"], rows))
}
