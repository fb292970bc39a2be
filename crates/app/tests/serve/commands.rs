//! The command line around the daemon: configuration, writes beside it, completions, metrics.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use crate::{
    daemon::{Folder, ended, unspent},
    world::{self, SEED_SETTING, funded},
};

fn run(folder: &Folder, arguments: &[&str]) -> (i32, String, String) {
    let mut command = unspent(&folder.data());
    command.args(arguments);
    ended(command)
}

#[test]
fn a_configuration_is_written_checked_and_never_overwritten() {
    let folder = Folder::new();
    let (code, template, _) = run(&folder, &["config", "init"]);
    assert_eq!((code, template.contains("[utxo]")), (0, true));
    let file = folder.beside("unspent.toml");
    let name = file.to_str().unwrap();
    assert_eq!(run(&folder, &["config", "init", name]).0, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), template);
    std::fs::write(&file, "[utxo]\nprunedepth = 1").unwrap();
    assert_eq!(run(&folder, &["config", "init", name]).0, 1);
    let (code, _, err) = run(&folder, &["config", "check", name]);
    assert_eq!((code, err.contains("`prunedepth`")), (2, true), "{err}");
    let (code, _, err) = run(&folder, &["serve", "--config", name]);
    assert_eq!((code, err.contains("`prunedepth`")), (2, true), "{err}");
    std::fs::write(&file, "[http]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let (code, out, _) = run(&folder, &["--json", "config", "check", name]);
    let checked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &checked["listen"]), (0, &json!("127.0.0.1:0")));
    let mut command = unspent(&folder.data());
    command.args(["config", "check", name]).env("UNSPENT_UTXO__PRUNE_DEPHT", "3");
    let (code, _, err) = ended(command);
    assert_eq!((code, err.contains("prune_depht")), (2, true), "{err}");
}

#[test]
fn beside_a_daemon_the_command_line_reads_and_writes_nothing() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    for read in [
        &["chain", "status"][..],
        &["chain", "digest"],
        &["wallet", "list"],
        &["wallet", "balance", "alice"],
        &["wallet", "coins", "alice"],
        &["wallet", "audit", "alice"],
    ] {
        let (code, _, err) = run(&folder, read);
        assert_eq!(code, 0, "{read:?} {err}");
    }
    for write in [
        &["chain", "rollback", "--to", "100"][..],
        &["chain", "prune"],
        &["wallet", "address", "alice"],
        &["wallet", "pay", "alice", "--to", "x=1"],
        &["wallet", "rewind", "alice", "5"],
    ] {
        let (code, _, err) = run(&folder, write);
        let by_name = err.contains("`unspent serve` (process ");
        assert_eq!((code, by_name), (1, true), "{write:?} {err}");
    }
    // Nor does a second daemon start, nor does it take the first one's cookie away.
    let (code, _, err) = run(&folder, &["serve", "--listen", "127.0.0.1:0", "--set", SEED_SETTING]);
    assert_eq!((code, err.contains("another daemon")), (1, true), "{err}");
    daemon.admin().get("/api/v1/status").ok();
    assert_eq!(daemon.end(), 0);
    assert_eq!(run(&folder, &["wallet", "address", "alice"]).0, 0);
}

#[test]
fn completions_and_the_manual_page_are_written() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&folder, &["completions", shell]);
        assert_eq!((code, out.contains("serve")), (0, true), "{shell}");
    }
    let (code, page, _) = run(&folder, &["man"]);
    assert_eq!((code, page.contains(".TH unspent")), (0, true));
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let found = text.split(word).filter(|word| word.starts_with("unspent_"));
    let plain = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        let found = ends.iter().find_map(|end| name.strip_suffix(end));
        found.unwrap_or(name).to_owned()
    };
    found.map(plain).collect()
}

#[test]
fn the_ready_made_dashboard_asks_only_for_metrics_that_exist() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING, "txstore.enabled=true"]);
    world::make_wallet(&daemon, "alice");
    daemon.wait_for("the transactions are there", |client| {
        client.get("/api/v1/transactions").ok()["tip"]["height"] == 113
    });
    daemon.with("wrong").get("/api/v1/status");
    daemon.admin().post("/api/v1/jobs/clean_transactions/run", &json!({}));
    daemon.admin().post("/api/v1/jobs/measure/run", &json!({}));
    let shown = names(&daemon.nobody().get("/metrics").text);
    let text = include_str!("../../../../docs/grafana/unspent.json");
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap_or(&Vec::new()) {
            asked.extend(names(target["expr"].as_str().unwrap()));
        }
    }
    assert!(asked.len() > 10, "{asked:?}");
    // Counted only when it happens.
    let rare = [
        "unspent_chain_rolled_back_blocks_total",
        "unspent_chain_missing_inputs_total",
        "unspent_chain_pruned_total",
        "unspent_engine_reorgs_total",
        "unspent_engine_source_errors_total",
        "unspent_http_streams",
        "unspent_txstore_kept_total",
    ];
    let sources = sources();
    for name in &asked {
        assert!(sources.contains(&format!("\"{name}\"")), "{name} is written nowhere");
        let is_shown = shown.contains(name) || rare.contains(&name.as_str());
        assert!(is_shown, "{name} is not among {shown:?}");
    }
}

/// The text of everything that counts and measures.
fn sources() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut waiting: Vec<_> = ["chain", "engine", "app"].map(|n| crates.join(n).join("src")).into();
    let mut text = String::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text += &std::fs::read_to_string(&path).unwrap();
        }
    }
    text
}
