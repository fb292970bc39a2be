//! The walks of docs/api.md and of README.md, run as they are written.

use std::{path::Path, process::Command};

use serde_json::Value;
use unspent_testkit::{
    pages::commands,
    peers::{Signer, required},
};

use crate::{
    daemon::{Daemon, Folder, ended},
    world::balance,
};

/// Where the pages say the daemon is.
const WRITTEN: &str = "http://127.0.0.1:8480";

/// What the walks are written for besides the shell.
fn tools() -> Result<(), String> {
    for tool in ["curl", "jq"] {
        let found = Command::new(tool).arg("--version").output();
        found.map_err(|error| format!("{tool} (scripts/deps curl installs it): {error}"))?;
    }
    Ok(())
}

/// Runs a page's walk beside the daemon's folder, with what lies in `tools` found first.
fn walk(folder: &Folder, daemon: &Daemon, page: &str, tools: Option<&Path>) -> String {
    let here = format!("http://{}", daemon.address);
    let script = format!("set -eu\n{}", commands(page, "walk").replace(WRITTEN, &here));
    let mut path: Vec<_> = tools.map(Path::to_owned).into_iter().collect();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut shell = Command::new("timeout");
    shell.args(["300", "bash", "-c", &script]).current_dir(folder.beside(""));
    shell.env("PATH", std::env::join_paths(path).unwrap());
    let (code, said, wrong) = ended(shell);
    assert_eq!(code, 0, "{said}\n{wrong}");
    said
}

#[test]
fn the_lines_of_the_readme_fund_a_wallet() {
    let Some(()) = required("curl and jq", tools()) else { return };
    let folder = Folder::new();
    let daemon = Daemon::start(&folder.beside("unspent-data"), &["source.sim.blocks=110"]);
    let said = walk(&folder, &daemon, include_str!("../../../../README.md"), None);
    daemon.wait_for("the wallet is funded", |client| {
        balance(client, "alice")["confirmed"]["value"] == "100000"
    });
    assert!(said.contains("\"txid\""), "{said}");
}

#[test]
fn the_walk_of_the_page_leads_to_a_confirmed_payment() {
    let (Some(signer), Some(())) = (Signer::find(), required("curl and jq", tools())) else {
        return;
    };
    let folder = Folder::new();
    let daemon = Daemon::start(&folder.beside("unspent-data"), &["source.sim.blocks=110"]);
    let page = include_str!("../../../../docs/api.md");
    let said = walk(&folder, &daemon, page, signer.python().parent());
    check(&folder, &daemon, &said);
}

fn check(folder: &Folder, daemon: &Daemon, said: &str) {
    let read = |name: &str| std::fs::read_to_string(folder.beside(name)).unwrap();
    let sent: Value = serde_json::from_str(&read("sent.json")).unwrap();
    let bumped: Value = serde_json::from_str(&read("bumped.json")).unwrap();
    for finalized in [&sent, &bumped] {
        assert_eq!(finalized["broadcast"]["accepted"], true, "{finalized}");
    }
    let client = daemon.admin();
    let transaction = |finalized: &Value| {
        let txid = finalized["txid"].as_str().unwrap();
        client.get(&format!("/api/v1/wallets/alice/txs/{txid}")).ok()
    };
    assert_eq!(transaction(&sent)["status"], "replaced", "{said}");
    let fee: u64 = bumped["fee"].as_str().unwrap().parse().unwrap();
    assert!(fee > 1_000, "the replacement pays {fee}");
    let left = 100_000 - 30_000 - fee;
    assert_eq!(balance(&client, "alice")["value"], left.to_string(), "{said}");
    let stream = read("stream.txt");
    for kind in ["created", "replaced", "confirmed", "disconnected", "broadcast_accepted"] {
        assert!(stream.contains(&format!("event: {kind}\n")), "no {kind} in {stream}");
    }
}
