//! What Prometheus reads: every figure is there from the start and explained, and the dashboard for
//! Grafana asks for nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::daemon::{Daemon, Folder};

/// Label names of each figure that was seen, with those of its histogram's parts.
type Seen = BTreeMap<String, BTreeSet<String>>;

struct Scrape {
    seen: Seen,
    helped: BTreeSet<String>,
    text: String,
}

impl Scrape {
    fn of(daemon: &Daemon) -> Self {
        let text = daemon.nobody().get("/metrics").text;
        let (mut seen, mut helped) = (Seen::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(!help.trim().is_empty(), "{line}");
                helped.insert(name.to_owned());
            } else if !line.starts_with('#') && !line.is_empty() {
                let (series, _) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let names = labels.split(',').filter_map(|label| label.split_once('='));
                let names = names.map(|(name, _)| name.to_owned());
                seen.entry(name.to_owned()).or_default().extend(names);
            }
        }
        Self { seen, helped, text }
    }

    /// The figure that a series belongs to.
    fn figure(&self, series: &str) -> String {
        let parts = ["_bucket", "_sum", "_count"];
        let whole = parts.iter().find_map(|part| series.strip_suffix(part));
        whole.filter(|whole| self.helped.contains(*whole)).unwrap_or(series).to_owned()
    }
}

/// Words that begin like a figure's name, in any text.
fn named(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_word(c));
    let rooms = ["chain", "engine", "wallet", "txstore", "ecash", "http", "process"];
    let is_ours =
        |word: &&str| rooms.iter().any(|room| word.starts_with(&format!("unspent_{room}_")));
    words.filter(is_ours).map(str::to_owned).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            found.push(entry);
        }
    }
}

/// Names in string literals of everything that ships.
fn counted_in_sources() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for part in ["app/src", "foundations/sql/src", "runtime", "rooms"] {
        sources(&crates.join(part), &mut files);
    }
    files.retain(|file| file.components().any(|part| part.as_os_str() == "src"));
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        // A string that is one such name and nothing else.
        let literals = text.split("\"unspent_").skip(1).filter_map(|rest| rest.split_once('"'));
        let literals = literals.map(|(name, _)| format!("unspent_{name}"));
        found.extend(literals.filter(|name| named(name).contains(name)));
    }
    found
}

/// A daemon whose rooms have been measured once.
fn fresh(folder: &Folder) -> Daemon {
    let daemon = folder.start(&["txstore.enabled=true"]);
    daemon.wait_for("the first measurement", |client| {
        let jobs = client.get("/api/v1/jobs").ok()["jobs"].clone();
        let jobs = jobs.as_array().unwrap().clone();
        jobs.iter().any(|job| job["job"] == "measure" && job["runs"].as_u64() > Some(0))
    });
    daemon
}

#[test]
fn every_figure_that_is_ever_counted_is_there_from_the_start_with_help() {
    let folder = Folder::new();
    let daemon = fresh(&folder);
    let scrape = Scrape::of(&daemon);
    let counted = counted_in_sources();
    assert!(counted.len() > 40, "the sources were not read: {counted:?}");
    for name in &counted {
        assert!(scrape.helped.contains(name), "{name} isn't there or has no HELP");
    }
    for series in scrape.seen.keys() {
        let figure = scrape.figure(series);
        assert!(scrape.helped.contains(&figure), "{series} has no HELP");
        assert!(counted.contains(&figure), "{series} is counted nowhere");
    }
    for room in ["chain", "wallet", "txstore"] {
        for series in ["unspent_engine_blocks_applied_total", "unspent_engine_lag_blocks"] {
            let line = format!("{series}{{room=\"{room}\"}} ");
            assert!(scrape.text.contains(&line), "{line}");
        }
    }
    assert_eq!(daemon.end(), 0);
}

/// Labels that an expression groups by.
fn grouped_by(expression: &str) -> BTreeSet<String> {
    let after = expression.split("by (").skip(1).filter_map(|text| text.split_once(')'));
    let names = after.flat_map(|(names, _)| names.split(','));
    names.map(|name| name.trim().to_owned()).collect()
}

#[test]
fn the_grafana_file_asks_for_what_a_fresh_daemon_has() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/unspent.json");
    let file: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let folder = Folder::new();
    let daemon = fresh(&folder);
    let scrape = Scrape::of(&daemon);
    let mut asked = 0;
    for panel in file["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let mut labels = grouped_by(expression);
            let shown = legend.split("{{").skip(1).filter_map(|text| text.split_once("}}"));
            labels.extend(shown.map(|(name, _)| name.trim().to_owned()));
            let series = named(expression);
            assert!(!series.is_empty(), "{expression}");
            for name in series {
                let has = scrape.seen.get(&name);
                let has = has.unwrap_or_else(|| panic!("{}: no {name}", panel["title"]));
                assert!(labels.is_subset(has), "{name} has {has:?}, asked for {labels:?}");
                asked += 1;
            }
        }
    }
    assert!(asked > 30, "the file was not read");
    assert_eq!(daemon.end(), 0);
}
