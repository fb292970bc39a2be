//! Undoing, forgetting and checking.

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use unspent_chain::{ChainIndex, OpenError, Reader, RollbackError};
use unspent_model::Network;
use unspent_server::{
    config::{Config, SettingFlags},
    error::{CliError, Outcome},
    json::PointJson,
    output::{Output, facts, table},
    progress::Show,
    text,
};

use super::{
    UtxoSection, args::reader, coins::as_of, folder, json::DigestJson, parse, status::HoleJson,
};

use crate::import;

/// Opens an existing folder for writing, with what it knows of itself.
fn writer(config: &Config) -> anyhow::Result<ChainIndex> {
    let folder = folder(&config.data_dir);
    let known = import::known(&folder)?;
    let known = known.ok_or_else(|| OpenError::NotFound(folder.display().to_string()))?;
    let options = UtxoSection::command_options(config)?;
    let options = options.resolve(known.network, Some(&known))?;
    Ok(ChainIndex::open(&folder, known.network, options, &[])?.0)
}

#[derive(Serialize)]
struct RollbackJson {
    blocks: u64,
    reversals: usize,
    tip: Option<PointJson>,
}

/// The target of a rollback.
#[derive(Args)]
pub(crate) struct RollbackArgs {
    /// The last block to keep: HEIGHT, slot:N, HEIGHT:HASH, or origin for none
    #[arg(long, value_name = "TARGET")]
    to: String,
    #[command(flatten)]
    pub(super) settings: SettingFlags<UtxoSection>,
}

pub(super) fn rollback(
    config: &Config,
    args: &RollbackArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader(config)?.network();
    // Read before the folder is opened for writing, which takes its lock and stores the options.
    let target = parse::target(network, &args.to)?;
    let mut index = writer(config)?;
    let undone = index.rollback(target).map_err(|error| explained(network, error))?;
    let tip = undone.tip.map(|tip| PointJson::new(network, &tip));
    let shown =
        RollbackJson { blocks: undone.blocks, reversals: undone.reversals, tip: tip.clone() };
    output.answer(&shown, || {
        facts(&[
            ("blocks undone", text::grouped(u128::from(undone.blocks))),
            ("coin changes reversed", text::grouped(undone.reversals as u128)),
            ("tip", tip.as_ref().map_or("origin".into(), text::point)),
        ])
    })?;
    Ok(Outcome::Done)
}

/// The refusal in words of the network.
fn explained(network: Network, error: RollbackError) -> anyhow::Error {
    match error {
        RollbackError::AboveTip(tip) => {
            let tip = tip.map(|tip| text::point(&PointJson::new(network, &tip)));
            let tip = tip.unwrap_or_else(|| "the origin".into());
            let message = format!("the target lies above the tip ({tip}); nothing was undone");
            CliError::refused(message).into()
        }
        RollbackError::BelowHorizon { .. }
        | RollbackError::UnknownTarget
        | RollbackError::AcrossHole { .. }
        | RollbackError::Store(_) => error.into(),
    }
}

#[derive(Serialize)]
struct PrunedJson {
    deltas: usize,
    spends: usize,
}

/// Forgets what is due.
pub(super) fn prune(config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let pruned = writer(config)?.prune_all()?;
    let shown = PrunedJson { deltas: pruned.deltas, spends: pruned.spends };
    output.answer(&shown, || {
        facts(&[
            ("deltas pruned", text::grouped(pruned.deltas as u128)),
            ("spent coins pruned", text::grouped(pruned.spends as u128)),
        ])
    })?;
    Ok(Outcome::Done)
}

#[derive(Serialize)]
struct VerifyJson {
    is_clean: bool,
    differences: u64,
    findings: Vec<FindingJson>,
    checked: Vec<CheckedJson>,
    holes: Vec<HoleJson>,
    missing_inputs: u64,
}

#[derive(Serialize)]
struct FindingJson {
    family: &'static str,
    entry: String,
    what: String,
}

#[derive(Serialize)]
struct CheckedJson {
    family: &'static str,
    entries: u64,
}

pub(super) fn verify(reader: &Reader, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let bar = time_left(output, reader.entries_estimated()?, "entries");
    let report = reader.verify(&mut |more| bar.inc(more));
    bar.finish_and_clear();
    let report = report.context("can't complete the check")?;
    let holes = report.holes.iter();
    let shown = VerifyJson {
        is_clean: report.is_clean(),
        differences: report.differences,
        findings: report
            .findings
            .iter()
            .map(|found| FindingJson {
                family: found.family,
                entry: found.entry.clone(),
                what: found.what.clone(),
            })
            .collect(),
        checked: report
            .checked
            .iter()
            .map(|(family, entries)| CheckedJson { family, entries: *entries })
            .collect(),
        holes: holes.map(|&(left_at, resumes_at)| HoleJson { left_at, resumes_at }).collect(),
        missing_inputs: report.missing_inputs,
    };
    output.answer(&shown, || verify_text(&shown))?;
    Ok(if shown.is_clean { Outcome::Done } else { Outcome::Differences })
}

fn verify_text(shown: &VerifyJson) -> String {
    let checked = shown.checked.iter();
    let rows = checked.map(|row| [row.family.into(), text::grouped(u128::from(row.entries))]);
    let mut lines = vec![table(["family", "entries read"], rows).to_string()];
    for HoleJson { left_at, resumes_at } in &shown.holes {
        let left = left_at.map_or("the origin".into(), |height| format!("height {height}"));
        lines.push(format!("hole: after {left}, continues at height {resumes_at}"));
    }
    lines.push(format!("missing inputs: {}", text::grouped(u128::from(shown.missing_inputs))));
    for FindingJson { family, entry, what } in &shown.findings {
        lines.push(format!("difference: {family}[{entry}]: {what}"));
    }
    lines.push(match shown.differences {
        0 => "no differences".into(),
        count => format!("{} differences", text::grouped(u128::from(count))),
    });
    lines.join("\n")
}

/// Options of the digest.
#[derive(Args)]
pub(crate) struct DigestArgs {
    /// Also compute MuHash3072, as `gettxoutsetinfo muhash` of a Bitcoin node does
    #[arg(long, env = "UNSPENT_MUHASH")]
    muhash: bool,
}

/// The fingerprint of the whole set.
pub(super) fn digest(
    reader: &Reader,
    args: &DigestArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let coins = reader.status()?.cursor.coins;
    let passes = if args.muhash { 2 } else { 1 };
    let bar = time_left(output, passes * coins, "coins");
    // What makes no sense is refused before the set is read.
    let muhash = args.muhash.then(|| reader.muhash(&mut |more| bar.inc(more))).transpose()?;
    let digest = reader.digest_watched(&mut |more| bar.inc(more))?;
    bar.finish_and_clear();
    // Core shows it as it shows a block's hash.
    let muhash = muhash.map(|(_, hash)| network.show_hash(&hash));
    output.answer(&DigestJson::new(network, &digest, muhash.clone()), || {
        let mut rows = vec![
            ("as of", as_of(network, digest.at)),
            ("coins", text::grouped(u128::from(digest.coins))),
            ("value", text::value(network, digest.value)),
            ("asset entries", text::grouped(u128::from(digest.asset_entries))),
            ("sha256", hex::encode(digest.sha256)),
        ];
        rows.extend(muhash.map(|hash| ("muhash", hash)));
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}

/// A bar that says how long reading `total` entries will take yet.
fn time_left(output: &Output<'_>, total: u64, what: &str) -> ProgressBar {
    let bar = Show::suitable(output.is_json()).counter(total.max(1), what);
    let template = "{bar:32.cyan/blue} {percent} % of {human_len} {msg}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
