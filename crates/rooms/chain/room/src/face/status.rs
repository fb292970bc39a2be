//! Where a folder stands.

use serde::Serialize;
use serde_json::Value;
use unspent_chain::{IndexName, Reader, StoreStatus};
use unspent_model::Family;
use unspent_server::{
    api::figures::{sum_of_bytes, value_at},
    error::Outcome,
    json::{PointJson, Time, ValueJson},
    output::{Output, facts},
    text,
};
use utoipa::ToSchema;

/// The chain room in numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct FiguresJson {
    network: &'static str,
    enabled: bool,
    store: &'static str,
    /// The root of the tip; null in a classic store
    root: Option<String>,
    tip: Option<TimedPointJson>,
    blocks: u64,
    utxos: u64,
    #[serde(flatten)]
    value: ValueJson,
    missing_inputs: u64,
    holes: Vec<HoleJson>,
    /// Blocks that can be undone.
    rollback_blocks: u64,
    chain: ChainJson,
    index: IndexJson,
    sizes: Vec<SizeJson>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TimedPointJson {
    #[serde(flatten)]
    point: PointJson,
    time: Option<Time>,
}

/// The chain's own points; the index may lag behind them.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChainJson {
    height: Option<u64>,
    blocks: u64,
    /// Blocks of the chain that the index has not seen.
    index_behind: u64,
    /// Blocks of the index that the chain no longer has.
    index_ahead: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct IndexJson {
    address_hash: bool,
    payment_credential: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct HoleJson {
    /// Height of the last block before it; null for the origin
    pub(super) left_at: Option<u64>,
    pub(super) resumes_at: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SizeJson {
    family: &'static str,
    bytes: u64,
}

impl FiguresJson {
    pub(crate) fn new(status: &StoreStatus) -> Self {
        let cursor = &status.cursor;
        let chain_blocks = status.chain.as_ref().map_or(0, |(ordinal, _)| *ordinal);
        // Points may be ahead of the index: then the time of the last one isn't that of its tip.
        let time = status.chain.as_ref().filter(|(ordinal, _)| *ordinal == cursor.ordinal);
        let time = time.map(|(_, point)| Time::seconds(point.time));
        let tip = cursor
            .point()
            .map(|point| TimedPointJson { point: PointJson::new(status.network, &point), time });
        let keeps = |name| status.indexes.is_some_and(|indexes| indexes.has(name));
        Self {
            network: status.network.name(),
            enabled: status.enabled,
            store: status.store.name(),
            root: status.commitment.map(|commitment| hex::encode(commitment.root)),
            tip,
            blocks: cursor.ordinal,
            utxos: cursor.coins,
            value: ValueJson::new(status.network, cursor.value),
            missing_inputs: cursor.missing_inputs,
            holes: status
                .holes
                .iter()
                .map(|hole| HoleJson { left_at: hole.left_at, resumes_at: hole.resumes_at })
                .collect(),
            rollback_blocks: undoable(status),
            chain: ChainJson {
                height: status.chain.as_ref().map(|(_, point)| point.point.height),
                blocks: chain_blocks,
                // One of the two is ahead of the other, or neither; what isn't ahead is 0 ahead.
                index_behind: chain_blocks.saturating_sub(cursor.ordinal),
                index_ahead: cursor.ordinal.saturating_sub(chain_blocks),
            },
            index: IndexJson {
                address_hash: keeps(IndexName::AddressHash),
                payment_credential: keeps(IndexName::PaymentCredential),
            },
            sizes: status
                .sizes
                .iter()
                .map(|(family, bytes)| SizeJson { family, bytes: *bytes })
                .collect(),
        }
    }
}

/// Blocks down to the horizon or to just above the last hole, whichever comes first.
fn undoable(status: &StoreStatus) -> u64 {
    let hole = status.holes.iter().map(|hole| hole.ordinal).max().unwrap_or(0);
    // A hole may lie above the cursor of a folder that was rolled back: then nothing can be undone.
    status.cursor.ordinal.saturating_sub(status.horizon.floor.max(hole))
}

pub(crate) fn run(reader: &Reader, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let status = reader.status()?;
    let shown = FiguresJson::new(&status);
    output.answer(&shown, || facts(&rows(&status, &shown)))?;
    Ok(Outcome::Done)
}

fn rows(status: &StoreStatus, shown: &FiguresJson) -> Vec<(&'static str, String)> {
    let number = |number: u64| text::grouped(u128::from(number));
    // Bitcoin has no credentials, whatever the switch says.
    let credentials = shown.index.payment_credential && status.network.family() == Family::Cardano;
    let lists = match (shown.index.address_hash, credentials) {
        (true, true) => "by address, by payment credential",
        (true, false) => "by address",
        (false, true) => "by payment credential",
        (false, false) => "none",
    };
    let tip = shown.tip.as_ref();
    let mut rows = vec![
        ("network", shown.network.to_owned()),
        ("tip", tip.map_or("origin".into(), |tip| text::point(&tip.point))),
        ("slot", tip.map_or("-".into(), |tip| number(tip.point.slot))),
        ("time", tip.and_then(|tip| tip.time).map_or("-".into(), Time::text)),
        ("blocks", number(shown.blocks)),
        ("coins", number(shown.utxos)),
        ("value", text::value(status.network, status.cursor.value)),
        ("missing inputs", number(shown.missing_inputs)),
        ("can undo", format!("{} blocks", number(shown.rollback_blocks))),
        ("lists", lists.to_owned()),
    ];
    if let Some(root) = &shown.root {
        rows.push(("root", root.clone()));
    }
    if !shown.enabled {
        rows.push(("index", "switched off".into()));
    }
    for (what, count) in [("behind", shown.chain.index_behind), ("ahead", shown.chain.index_ahead)]
    {
        if count > 0 {
            rows.push(("index", format!("{what} the chain by {} blocks", number(count))));
        }
    }
    rows.extend(shown.holes.iter().map(|hole| {
        let left = hole.left_at.map_or("the origin".into(), |height| format!("height {height}"));
        ("hole", format!("after {left}, continues at height {}", hole.resumes_at))
    }));
    for (family, size) in &status.sizes {
        rows.push((family, text::bytes(*size)));
    }
    rows
}

pub(super) fn plotted(figures: &Value) -> Vec<(&'static str, Value)> {
    vec![
        ("height", value_at(figures, "/tip/height")),
        ("utxos", value_at(figures, "/utxos")),
        ("value", value_at(figures, "/value")),
        ("chain_bytes", sum_of_bytes(figures, "/sizes")),
    ]
}
