//! The daemon on a real node, killed in the middle: the built binary, its REST interface, its
//! wallets on either database.

use serde_json::{Value, json};
use unspent_testkit::{peers::Knots, wallet::postgres};

use crate::{
    daemon::{Daemon, Folder},
    world::descriptor,
};

fn start(node: &Knots, folder: &Folder, wallets: Option<&str>) -> Daemon {
    let mut settings = vec![
        "network=bitcoin-regtest".to_owned(),
        "source.kind=bitcoin-node".to_owned(),
        "txstore.enabled=true".to_owned(),
        format!("source.url={}", node.url()),
        format!("source.cookie_file={}", node.cookie().display()),
    ];
    settings.extend(wallets.map(|url| format!("wallet.url={url}")));
    folder.start(&settings.iter().map(String::as_str).collect::<Vec<_>>())
}

fn wait_for_tip(node: &Knots, daemon: &Daemon) {
    let best = node.best_hash();
    daemon.wait_for("all rooms stand at the node's tip", |client| {
        let rooms = client.get("/api/v1/status").ok()["rooms"].clone();
        let is_there =
            |room: &Value| room["tip"]["block_hash"] == *best && room["state"] == "following";
        rooms.as_array().unwrap().iter().all(is_there)
    });
    assert_eq!(daemon.nobody().get("/readyz").status, 200);
}

fn wait_for_sats(daemon: &Daemon, class: &str, sats: u64) {
    let wanted = sats.to_string();
    daemon.wait_for(&format!("{sats} sats {class}"), |client| {
        client.get("/api/v1/wallets/alice/balance").ok()[class]["value"] == wanted.as_str()
    });
}

fn paid_killed_and_reorganised(wallets: Option<&str>) {
    let Some(node) = Knots::start(&["-zmqpubhashblock={zmq}"]) else { return };
    node.make_wallet();
    node.mine(110);
    let folder = Folder::new();
    let daemon = start(&node, &folder, wallets);
    let wallet = json!({ "name": "alice", "descriptor": descriptor() });
    daemon.admin().post("/api/v1/wallets", &wallet).ok();
    wait_for_tip(&node, &daemon);
    let next = daemon.admin().post("/api/v1/wallets/alice/addresses", &json!({})).ok();
    node.send(next["address"].as_str().unwrap(), 700_000);
    wait_for_sats(&daemon, "unconfirmed_foreign", 700_000);
    let mined = node.mine(1);
    wait_for_sats(&daemon, "confirmed", 700_000);
    daemon.kill();
    // While it is away, the block with the payment is replaced by others that hold it again.
    node.invalidate(&mined[0]);
    node.mine(3);
    let daemon = start(&node, &folder, wallets);
    wait_for_tip(&node, &daemon);
    let theirs = node.call("gettxoutsetinfo", json!([]));
    let status = daemon.admin().get("/api/v1/status").ok();
    assert_eq!(status["chain"]["utxos"], theirs["txouts"]);
    let audit = daemon.admin().get("/api/v1/wallets/alice/audit").ok();
    assert_eq!(audit["differences"], json!([]));
    let balance = daemon.admin().get("/api/v1/wallets/alice/balance").ok();
    assert_eq!(balance["value"], "700000");
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_daemon_on_a_node_survives_a_kill_and_a_reorganisation() {
    paid_killed_and_reorganised(None);
}

#[test]
fn so_does_one_with_its_wallets_in_postgresql() {
    let Some(url) = postgres::database() else { return };
    paid_killed_and_reorganised(Some(&url));
}
