//! What came of an import.

use std::time::Duration;

use serde::Serialize;
use unspent_chain::StoreStatus;
use unspent_model::{Network, Point};
use unspent_server::{
    json::{PointJson, ValueJson},
    text,
};
use unspent_source::files::catalogue::PassedOver;

use super::{plan::LeftOut, progress::rate};
use crate::BlockTally;

/// What the import did before and beside applying.
pub(crate) struct Report {
    pub(crate) rolled_back: Option<RolledBack>,
    pub(crate) left_out: LeftOut,
    pub(crate) passed_over: Vec<PassedOver>,
    pub(crate) warnings: Vec<String>,
    /// Somebody stopped it.
    pub(crate) interrupted: bool,
    pub(crate) took: Duration,
}

/// A branch that was left.
#[derive(Clone, Copy)]
pub(crate) struct RolledBack {
    /// The tip before.
    pub(crate) from: Option<Point>,
    /// The last common block; `None` for the origin.
    pub(crate) to: Option<Point>,
    /// Blocks undone.
    pub(crate) blocks: u64,
}

/// The summary, in the form of `--json`.
#[derive(Serialize)]
pub(crate) struct Summary {
    network: &'static str,
    /// Blocks applied.
    pub(crate) blocks: u64,
    already_applied: u64,
    stale_blocks: u64,
    unconnected_blocks: u64,
    /// Bytes of the files in which no whole block stands.
    passed_over_bytes: u64,
    rolled_back: Option<RolledBackJson>,
    txs: u64,
    created: u64,
    spent: u64,
    same_block_spends: u64,
    missing_inputs: u64,
    /// Coins now.
    pub(crate) utxos: u64,
    #[serde(flatten)]
    value: ValueJson,
    tip: Option<PointJson>,
    total_missing_inputs: u64,
    holes: usize,
    seconds: f64,
    blocks_per_second: f64,
    /// It was stopped by a signal.
    pub(crate) interrupted: bool,
    warnings: Vec<String>,
    #[serde(skip)]
    shown_value: String,
}

#[derive(Serialize)]
struct RolledBackJson {
    blocks: u64,
    from: Option<PointJson>,
    to: Option<PointJson>,
}

impl Summary {
    pub(super) fn new(status: &StoreStatus, done: BlockTally, report: Report) -> Self {
        let Report { rolled_back, left_out, passed_over, mut warnings, interrupted, took } = report;
        warnings.extend(passed_over_warnings(&passed_over));
        let network = status.network;
        let point = |point: Option<Point>| point.map(|point| PointJson::new(network, &point));
        if let Some(missing) = missing_warning(status) {
            warnings.push(missing);
        }
        Self {
            network: network.name(),
            blocks: done.blocks,
            already_applied: done.already + left_out.known,
            stale_blocks: left_out.stale,
            unconnected_blocks: left_out.unconnected,
            passed_over_bytes: passed_over.iter().map(|place| place.bytes).sum(),
            rolled_back: rolled_back.map(|RolledBack { from, to, blocks }| RolledBackJson {
                blocks,
                from: point(from),
                to: point(to),
            }),
            txs: done.txs,
            created: done.counts.created as u64,
            spent: done.counts.spent as u64,
            same_block_spends: done.counts.same_block as u64,
            missing_inputs: done.counts.missing as u64,
            utxos: status.cursor.coins,
            value: ValueJson::new(network, status.cursor.value),
            tip: point(status.cursor.point()),
            total_missing_inputs: status.cursor.missing_inputs,
            holes: status.holes.len(),
            seconds: took.as_secs_f64(),
            blocks_per_second: rate(done.blocks, took),
            interrupted,
            warnings,
            shown_value: text::value(network, status.cursor.value),
        }
    }

    /// What an operator should not overlook.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The summary for people.
    pub(crate) fn text(&self) -> String {
        let count = |number: u64| text::grouped(u128::from(number));
        let speed = format!("{:.2} s, {:.0} blocks/s", self.seconds, self.blocks_per_second);
        let mut rows = vec![
            ("network", self.network.to_owned()),
            ("blocks applied", count(self.blocks)),
            ("already there", count(self.already_applied)),
            ("stale", count(self.stale_blocks)),
            ("not connected", count(self.unconnected_blocks)),
            ("bytes skipped", count(self.passed_over_bytes)),
            ("transactions", count(self.txs)),
            ("coins created", count(self.created)),
            ("coins spent", count(self.spent)),
            ("  in their own block", count(self.same_block_spends)),
            ("missing inputs", count(self.missing_inputs)),
            ("coins now", count(self.utxos)),
            ("value", self.shown_value.clone()),
            ("tip", self.tip.as_ref().map_or("origin".into(), text::point)),
            ("took", speed),
        ];
        if let Some(rolled_back) = &self.rolled_back {
            let to = rolled_back.to.as_ref().map_or("origin".into(), text::point);
            rows.insert(1, ("rolled back", format!("{} blocks, to {to}", rolled_back.blocks)));
        }
        rows.retain(|(name, value)| value != "0" || !OPTIONAL.contains(name));
        let mut shown = unspent_server::output::facts(&rows);
        if self.interrupted {
            shown.push_str("\nstopped at a block boundary; run the command again to continue");
        }
        shown
    }
}

/// Damaged places that are named one by one.
const PLACES_NAMED: usize = 5;

fn passed_over_warnings(places: &[PassedOver]) -> Vec<String> {
    let named = places.iter().take(PLACES_NAMED).map(|PassedOver { file, offset, bytes }| {
        let file = file.display();
        format!("no whole block in {bytes} bytes at {offset} of {file}; they were skipped")
    });
    // Fewer places than are named leave no rest.
    let rest = places.len().saturating_sub(PLACES_NAMED);
    let rest = (rest > 0).then(|| format!("{rest} more such places were skipped"));
    named.chain(rest).collect()
}

/// Rows that are left out when there is nothing to say.
const OPTIONAL: [&str; 4] = ["already there", "stale", "not connected", "bytes skipped"];

/// On a chain without holes every input must be known.
fn missing_warning(status: &StoreStatus) -> Option<String> {
    let missing = status.cursor.missing_inputs;
    (missing > 0 && status.holes.is_empty()).then(|| {
        let genesis = match status.network {
            Network::CardanoMainnet | Network::CardanoPreprod | Network::CardanoPreview => {
                " (were the genesis files given?)"
            }
            Network::Bitcoin
            | Network::BitcoinTestnet4
            | Network::BitcoinSignet
            | Network::BitcoinRegtest => "",
        };
        format!(
            "{missing} inputs were not in the coin set although no block is missing{genesis}: \
             the set can't be trusted; import again into a new folder"
        )
    })
}
