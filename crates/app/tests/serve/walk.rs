//! The walk of docs/api.md, run as it is written.

use std::process::Command;

use serde_json::Value;
use unspent_testkit::peers::{Signer, required};

use crate::{
    daemon::{Daemon, Folder, ended},
    world::balance,
};

/// Where the page says the daemon is.
const WRITTEN: &str = "http://127.0.0.1:8480";

/// The commands of a page's walk, in their order.
fn commands(page: &str) -> String {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, block)) = rest.split_once("```sh walk\n") {
        let (block, after) = block.split_once("```").expect("the block ends");
        blocks.push(block);
        rest = after;
    }
    assert!(blocks.len() >= 8, "the walk is gone from the page");
    blocks.concat()
}

/// What the walk is written for besides the shell.
fn tools() -> Result<(), String> {
    for tool in ["curl", "jq"] {
        let found = Command::new(tool).arg("--version").output();
        found.map_err(|error| format!("{tool} (scripts/deps curl installs it): {error}"))?;
    }
    Ok(())
}

#[test]
fn the_walk_of_the_page_leads_to_a_confirmed_payment() {
    let (Some(signer), Some(())) = (Signer::find(), required("curl and jq", tools())) else {
        return;
    };
    let folder = Folder::new();
    let daemon = Daemon::start(&folder.beside("unspent-data"), &["source.sim.blocks=110"]);
    let here = format!("http://{}", daemon.address);
    let page = include_str!("../../../../docs/api.md");
    let script = format!("set -eu\n{}", commands(page).replace(WRITTEN, &here));
    let mut path = vec![signer.python().parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut shell = Command::new("timeout");
    shell.args(["300", "bash", "-c", &script]).current_dir(folder.beside(""));
    shell.env("PATH", std::env::join_paths(path).unwrap());
    let (code, said, wrong) = ended(shell);
    assert_eq!(code, 0, "{said}\n{wrong}");
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
