//! Blocks, and what each did to the coin set.

use axum::{Json, extract::State};
use clap::Args;
use serde::Serialize;
use unspent_chain::{
    ChainSnapshot, QueryError, Reader,
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
    fn with_counts(
        snapshot: &ChainSnapshot<'_>,
        stored: &StoredPoint,
        tip: u64,
    ) -> Result<Self, QueryError> {
        let counts = kept(snapshot.delta_counts(stored.point.height))?;
        let (created, spent) =
            counts.map(|DeltaCounts { created, spent }| (created, spent)).unzip();
        Ok(Self { created, spent, ..Self::new(snapshot.network(), stored, tip) })
    }
}

/// What a block did, where that is still kept. Whatever else stands against it is an error: damage
/// isn't age.
pub(super) fn kept<T>(found: Result<T, QueryError>) -> Result<Option<T>, QueryError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(QueryError::NoDelta { .. } | QueryError::Disabled) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The latest blocks.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlocksJson {
    blocks: Vec<BlockJson>,
    next: Option<String>,
}

impl BlocksJson {
    /// So many blocks below a height, or the latest ones.
    fn page(
        snapshot: &ChainSnapshot<'_>,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Self, QueryError> {
        let tip = snapshot.last_block()?.map_or(0, |last| last.point.height);
        // By blocks, not by heights: a hole that an import left may be larger than a page.
        let mut coming = snapshot.block_below(below.unwrap_or(u64::MAX))?;
        let (mut blocks, mut next) = (Vec::new(), None);
        while let Some(stored) = coming.filter(|_| blocks.len() < limit) {
            let height = stored.point.height;
            blocks.push(BlockJson::new(snapshot.network(), &stored, tip));
            coming = snapshot.block_below(height)?;
            next = coming.is_some().then(|| height.to_string());
        }
        Ok(Self { blocks, next })
    }
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
    let limit = query.limit()? as usize;
    let below = query.after()?.map(|text| text.parse::<u64>().map_err(|_| bad_cursor()));
    let below = below.transpose()?;
    let found = app.chain(move |reader| Ok(BlocksJson::page(&reader.snapshot(), below, limit)?));
    Ok(Json(found.await?))
}

fn last_block(snapshot: &ChainSnapshot<'_>) -> Result<StoredPoint, ApiError> {
    snapshot.last_block()?.ok_or_else(|| ApiError::not_found("no blocks are stored yet"))
}

/// The tip
#[utoipa::path(get, path = "/blocks/tip", operation_id = "get_tip", tag = "chain",
    responses((status = 200, body = BlockJson), Failures))]
pub(super) async fn tip(_: May<Read>, State(app): State<App>) -> Result<Json<BlockJson>, ApiError> {
    let found = app.chain(|reader| {
        let snapshot = reader.snapshot();
        let stored = last_block(&snapshot)?;
        Ok(BlockJson::with_counts(&snapshot, &stored, stored.point.height)?)
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
    let shown = BlockJson::with_counts(snapshot, &stored, tip)?;
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
            format!(", {invalid} transactions failed phase 2")
        }
    };
    format!("{block}\n{}\n{counts}{invalid}", table(["what", "outpoint"], rows))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unspent_chain::{ChainIndex, Kind, Options, prepare, schema::ColumnFamily};
    use unspent_model::{
        Point,
        chain::{Block, Era, Header, Work},
    };

    use super::*;
    use crate::face::block_detail;

    const NETWORK: Network = Network::BitcoinRegtest;

    fn hash(height: u64) -> BlockHash {
        BlockHash([u8::try_from(height).unwrap(); 32])
    }

    fn open(folder: &Path) -> ChainIndex {
        let options = Options::for_network(NETWORK);
        ChainIndex::open(folder, NETWORK, options, &[]).unwrap().0
    }

    /// A chain that has blocks at these heights only.
    fn stored(folder: &Path, heights: &[u64]) -> ChainIndex {
        let mut index = open(folder);
        index.allow_holes();
        for height in heights {
            let header = Header {
                point: Point::at_height(*height, hash(*height)),
                parent: hash(height.saturating_sub(1)),
                era: Era::Bitcoin,
                is_boundary: false,
                epoch: None,
                time: *height,
                work: Work::default(),
            };
            index.apply(prepare(Block { header, txs: Vec::new() })).unwrap();
        }
        index
    }

    #[test]
    fn pages_of_blocks_lead_over_holes_to_the_first_block() {
        let folder = tempfile::tempdir().unwrap();
        let heights = [3, 4, 40, 41, 90, 200, 201];
        let index = stored(folder.path(), &heights);
        let reader = index.reader();
        for limit in [1, 2, 3, 7, 500] {
            let (mut seen, mut below, mut pages) = (Vec::new(), None, 0);
            loop {
                let page = BlocksJson::page(&reader.snapshot(), below, limit).unwrap();
                seen.extend(page.blocks.iter().map(|block| block.confirmations));
                pages += 1;
                let Some(next) = page.next else { break };
                below = Some(next.parse().unwrap());
            }
            let expected: Vec<u64> = heights.iter().rev().map(|height| 202 - height).collect();
            assert_eq!((seen, pages), (expected, heights.len().div_ceil(limit)), "{limit}");
        }
        // A cursor from before a rollback, or of nobody's making.
        let page = |below| BlocksJson::page(&reader.snapshot(), Some(below), 2).unwrap();
        assert_eq!(page(60).next.as_deref(), Some("40"), "inside a hole");
        assert_eq!(page(u64::MAX).blocks.len(), 2);
        assert_eq!((page(3).blocks.len(), page(0).next), (0, None));
    }

    #[test]
    fn a_damaged_delta_is_an_error_and_a_pruned_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        drop(stored(folder.path(), &[0, 1, 2]));
        let raw = folder.path().join("db");
        let families = rocksdb::DB::list_cf(&rocksdb::Options::default(), &raw).unwrap();
        let raw = rocksdb::DB::open_cf(&rocksdb::Options::default(), &raw, families).unwrap();
        let deltas = raw.cf_handle(ColumnFamily::Delta.name()).unwrap();
        // Ordinals count from 1.
        raw.put_cf(deltas, 3_u64.to_be_bytes(), b"rotten").unwrap();
        raw.delete_cf(deltas, 2_u64.to_be_bytes()).unwrap();
        drop(raw);
        let index = open(folder.path());
        let reader = index.reader();
        let snapshot = reader.snapshot();
        let stored = |height| snapshot.block_at(height).unwrap().unwrap();
        let damaged = BlockJson::with_counts(&snapshot, &stored(2), 2).err().unwrap();
        assert_eq!(damaged.kind(), Kind::Corrupt, "{damaged}");
        let damaged = block_detail::sides(&snapshot, &stored(2)).err().unwrap();
        assert_eq!(damaged.kind(), Kind::Corrupt, "{damaged}");
        let pruned = BlockJson::with_counts(&snapshot, &stored(1), 2).unwrap();
        assert_eq!((pruned.created, pruned.spent), (None, None));
        assert!(block_detail::sides(&snapshot, &stored(1)).unwrap().is_none());
        let whole = BlockJson::with_counts(&snapshot, &stored(0), 2).unwrap();
        assert_eq!((whole.created, whole.spent), (Some(0), Some(0)));
    }
}
