//! The chain room's blocks as events, by comparing the points written with those stored.
//!
//! The last points written are kept, so that the place where the chain left them is found exactly,
//! whatever happened in between. Replaying the events gives the stored chain.

use serde::Serialize;
use unspent_chain::Reader;
use unspent_engine::{
    event_kinds,
    events::{EventLog, LogError, NewEvent},
    status::TipView,
};
use unspent_model::{BlockHash, Network, Point};
use unspent_sql::{Arg, BulkStatement, Column, Tx};
use utoipa::ToSchema;

use crate::room::NAME;

event_kinds! {
    NAME.name();
    /// A block went into the chain room.
    BLOCK_APPLIED: BlockAppliedBody = "block_applied";
    /// Blocks went out of the chain room.
    REORGANISATION: ReorganisationBody = "reorganisation";
    /// Many blocks went into the chain room at once.
    CATCHING_UP: CatchingUpBody = "catching_up";
}

/// Where the block stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlockAppliedBody {
    height: u64,
    /// The height on Bitcoin
    slot: u64,
    /// The root of the coin set; only in the store `mmr`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    root: Option<String>,
}

/// Where the last of many blocks stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct CatchingUpBody {
    /// How many
    blocks: u64,
    height: u64,
    /// The height on Bitcoin
    slot: u64,
    /// The root of the coin set; only in the store `mmr`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    root: Option<String>,
}

/// From where to where the chain went back.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReorganisationBody {
    /// Blocks that went
    depth: u64,
    /// The tip before
    from: TipView,
    /// The last common block; null when all blocks went
    to: Option<TipView>,
}

/// Points written that are kept: more than the deepest window of any network.
const POINTS_KEPT: u64 = 5_000;
/// More blocks than this since the last time become one event.
const MOST_SINGLE_BLOCKS: u64 = 100;
/// Points written that are compared at once.
const COMPARED_AT_ONCE: u32 = 200;

const WRITTEN: &str = "SELECT height, slot, hash FROM told_points WHERE height <= $1
    ORDER BY height DESC LIMIT $2";
const LEAVE: &str = "DELETE FROM told_points WHERE height > $1";
const FORGET: &str = "DELETE FROM told_points WHERE height < $1";
const MARK: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO told_points (height, slot, hash) VALUES ($1, $2, $3)
        ON CONFLICT (height) DO UPDATE SET slot = excluded.slot, hash = excluded.hash",
    postgres: "INSERT INTO told_points (height, slot, hash)
        SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[]) k
        ON CONFLICT (height) DO UPDATE SET slot = excluded.slot, hash = excluded.hash",
};

/// Writes what the chain has that wasn't written yet, or nothing when it moved meanwhile.
pub(super) fn write(log: &EventLog, reader: &Reader, network: Network) -> Result<(), LogError> {
    let Some(tip) = reader.tip().map_err(unreadable)? else { return left_all(log, network) };
    let written = written_at_most(log, i64::MAX, 1)?.first().copied();
    if written == Some(tip) {
        return Ok(());
    }
    let common = common(log, reader)?;
    let news = news(reader, common, tip)?;
    // While blocks were read one by one the chain may have changed branches under them.
    if reader.tip().map_err(unreadable)? != Some(tip) {
        return Ok(());
    }
    let mut events = Vec::new();
    if let Some(written) = written.filter(|written| Some(*written) != common) {
        events.push(reorganisation(network, written, common));
    }
    let start = common.map_or(0, |point| point.height + 1);
    // None, where the tip is below what was told last.
    if (tip.height + 1).saturating_sub(start) > MOST_SINGLE_BLOCKS {
        events.push(many(network, start, tip, root(reader, tip)));
    } else {
        events.extend(news.iter().map(|point| applied(network, *point, root(reader, *point))));
    }
    mark(log, events, common, news)
}

/// The chain room went back to the origin.
fn left_all(log: &EventLog, network: Network) -> Result<(), LogError> {
    let Some(written) = written_at_most(log, i64::MAX, 1)?.first().copied() else { return Ok(()) };
    mark(log, vec![reorganisation(network, written, None)], None, Vec::new())
}

fn written_at_most(log: &EventLog, height: i64, limit: u32) -> Result<Vec<Point>, LogError> {
    log.door().read(move |tx| {
        let rows = tx.query(WRITTEN, &[Arg::Int(height), Arg::Int(limit.into())])?;
        let point = |row: &unspent_sql::Row| {
            Ok(Point {
                height: row.natural("height")?,
                slot: row.natural("slot")?,
                hash: BlockHash(row.hash("hash")?),
            })
        };
        rows.iter().map(point).collect()
    })
}

/// The highest point written that the chain still has.
fn common(log: &EventLog, reader: &Reader) -> Result<Option<Point>, LogError> {
    let mut below = i64::MAX;
    loop {
        // Newest first: nearly always the very first one is still on the chain.
        let page = written_at_most(log, below, COMPARED_AT_ONCE)?;
        let Some(lowest) = page.last().map(|point| point.height) else { return Ok(None) };
        for point in page {
            if reader.block_by_hash(&point.hash).map_err(unreadable)?.is_some() {
                return Ok(Some(point));
            }
        }
        let Some(next) = lowest.checked_sub(1) else { return Ok(None) };
        below = i64::try_from(next).unwrap_or(i64::MAX);
    }
}

/// The stored points above `common`, as far as they are worth keeping.
fn news(reader: &Reader, common: Option<Point>, tip: Point) -> Result<Vec<Point>, LogError> {
    let first = common.map_or(0, |point| point.height + 1);
    // All, where there are fewer than are kept.
    let first = first.max((tip.height + 1).saturating_sub(POINTS_KEPT));
    let mut points = Vec::new();
    for height in first..=tip.height {
        // A hole of an import has no block; it shows as the blocks around it.
        points.extend(reader.block_at(height).map_err(unreadable)?.map(|stored| stored.point));
    }
    // A Cardano boundary block shares its predecessor's height and takes its place.
    if points.is_empty() && common != Some(tip) {
        points.push(tip);
    }
    Ok(points)
}

fn mark(
    log: &EventLog,
    events: Vec<NewEvent>,
    common: Option<Point>,
    news: Vec<Point>,
) -> Result<(), LogError> {
    // Genesis has height 0: with nothing in common that one goes as well.
    let keep = common.map_or(-1, |point| i64::try_from(point.height).unwrap_or(i64::MAX));
    let tip = news.last().map_or(0, |point| point.height);
    // All, where there are fewer than are kept.
    let oldest = i64::try_from(tip.saturating_sub(POINTS_KEPT)).unwrap_or(0);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    // One transaction: points that got ahead of their events would never be told of again.
    log.write_with(events, move |tx: &mut Tx<'_>| {
        tx.execute(LEAVE, &[Arg::Int(keep)])?;
        let columns = [
            Column::ints(news.iter().map(|point| number(point.height))),
            Column::ints(news.iter().map(|point| number(point.slot))),
            Column::blobs(news.iter().map(|point| point.hash.0)),
        ];
        tx.execute_set(MARK, &[], &columns)?;
        tx.execute(FORGET, &[Arg::Int(oldest)])?;
        Ok(())
    })
}

/// The root of a block, where the store keeps roots and still has this one.
fn root(reader: &Reader, point: Point) -> Option<String> {
    let found = reader.snapshot().root(Some(point.height)).ok();
    // By height alone it could be the root of a boundary block, or of a block that came since.
    let found = found.filter(|found| found.point == Some(point))?;
    Some(found.root.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn applied(network: Network, point: Point, root: Option<String>) -> NewEvent {
    let body = BlockAppliedBody { height: point.height, slot: point.slot, root };
    NewEvent::new(BLOCK_APPLIED, &body).about(Some(network.show_hash(&point.hash.0)))
}

fn many(network: Network, start: u64, tip: Point, root: Option<String>) -> NewEvent {
    // None below the start; it is told to people.
    let blocks = (tip.height + 1).saturating_sub(start);
    let body = CatchingUpBody { blocks, height: tip.height, slot: tip.slot, root };
    NewEvent::new(CATCHING_UP, &body).about(Some(network.show_hash(&tip.hash.0)))
}

fn reorganisation(network: Network, from: Point, to: Option<Point>) -> NewEvent {
    let to_height = to.map_or(0, |point| point.height + 1);
    let body = ReorganisationBody {
        // The other branch may be longer than ours was.
        depth: (from.height + 1).saturating_sub(to_height).max(1),
        from: TipView::new(network, from),
        to: to.map(|point| TipView::new(network, point)),
    };
    NewEvent::new(REORGANISATION, &body).about(Some(network.show_hash(&from.hash.0)))
}

fn unreadable(error: unspent_chain::QueryError) -> LogError {
    LogError::room(NAME, error)
}
