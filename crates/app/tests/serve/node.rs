//! The daemon on a real node, killed in the middle: the built binary, its REST interface, its
//! wallets on either database.

use serde_json::{Value, json};
use unspent_testkit::{peers::Knots, wallet::postgres};

use crate::{
    daemon::{Daemon, Folder},
    world::descriptor,
};

fn start(node: &Knots, folder: &Folder, wallets: Option<&str>) -> Daemon {
    start_with(node, folder, wallets, &[])
}

pub(crate) fn start_with(
    node: &Knots,
    folder: &Folder,
    wallets: Option<&str>,
    more: &[&str],
) -> Daemon {
    let mut settings = vec![
        "network=bitcoin-regtest".to_owned(),
        "source.kind=bitcoin-node".to_owned(),
        "txstore.enabled=true".to_owned(),
        format!("source.url={}", node.url()),
        format!("source.cookie_file={}", node.cookie().display()),
    ];
    settings.extend(wallets.map(|url| format!("wallet.url={url}")));
    let settings = settings.iter().map(String::as_str).chain(more.iter().copied());
    folder.start(&settings.collect::<Vec<_>>())
}

/// The mempool is read once a day here, so only the node's own word can bring a payment.
#[test]
fn a_node_that_publishes_transactions_is_not_asked_for_its_whole_mempool() {
    for topic in ["sequence", "hashtx", "rawtx"] {
        let Some(node) = Knots::start(&[&format!("-zmqpub{topic}={{zmq}}")]) else { return };
        node.make_wallet();
        node.mine(110);
        let folder = Folder::new();
        let daemon = start_with(&node, &folder, None, &["wallet.mempool_seconds=86400"]);
        let wallet = json!({ "name": "alice", "descriptor": descriptor() });
        daemon.admin().post("/api/v1/wallets", &wallet).ok();
        wait_for_tip(&node, &daemon);
        let next = || {
            let made = daemon.admin().post("/api/v1/wallets/alice/addresses", &json!({})).ok();
            made["address"].as_str().unwrap().to_owned()
        };
        let addresses = [next(), next(), next()];
        // The first message shows that the node publishes; from then on its word is enough.
        for (count, address) in (1..).zip(&addresses) {
            node.send(address, 100_000);
            wait_for_sats(&daemon, "unconfirmed_foreign", 100_000 * count);
        }
        let jobs = daemon.admin().get("/api/v1/jobs").ok();
        assert!(jobs.to_string().contains("transactions announced"), "{topic}: {jobs}");
        assert_eq!(daemon.end(), 0);
    }
}

pub(crate) fn wait_for_tip(node: &Knots, daemon: &Daemon) {
    let best = node.best_hash();
    daemon.wait_for("all rooms stand at the node's tip", |client| {
        let rooms = client.get("/api/v1/status").ok()["rooms"].clone();
        let is_there =
            |room: &Value| room["tip"]["block_hash"] == *best && room["state"] == "following";
        let mut on = rooms.as_array().unwrap().iter().filter(|room| room["state"] != "off");
        on.clone().count() == 3 && on.all(is_there)
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

/// Gives the node's estimator something to go by: many payments over many blocks.
fn busy(node: &Knots) {
    let address = node.new_address();
    for _ in 0..30 {
        for payment in 0..12 {
            let rate = 20 + payment % 4;
            let terms = json!([address, 0.01, "", "", false, true, null, "unset", null, rate]);
            node.call("sendtoaddress", terms);
        }
        node.mine(1);
    }
}

#[test]
fn a_payment_takes_the_nodes_rate_for_a_target_and_says_which() {
    let Some(node) = Knots::start(&["-zmqpubhashblock={zmq}"]) else { return };
    node.make_wallet();
    node.mine(150);
    let folder = Folder::new();
    let daemon = start(&node, &folder, None);
    let wallet = json!({ "name": "alice", "descriptor": descriptor() });
    daemon.admin().post("/api/v1/wallets", &wallet).ok();
    let next = daemon.admin().post("/api/v1/wallets/alice/addresses", &json!({})).ok();
    node.send(next["address"].as_str().unwrap(), 700_000);
    node.mine(1);
    wait_for_sats(&daemon, "confirmed", 700_000);
    let outputs = json!([{ "address": node.new_address(), "value": "50000" }]);
    let policy = json!({ "target_blocks": 6 });
    let body = json!({ "outputs": outputs, "dry_run": true, "policy": policy });
    let pay = |key: &str| daemon.admin().keyed("/api/v1/wallets/alice/pay", key, &body);
    // The node's own words for a chain that is too young.
    let young = pay("too-early");
    assert_eq!(young.refused(409), "refused");
    let told = young.json()["error"]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("Insufficient data"), "{}", young.text);
    busy(&node);
    wait_for_tip(&node, &daemon);
    let theirs = node.call("estimatesmartfee", json!([6]));
    let btc = theirs["feerate"].as_f64().unwrap_or_else(|| panic!("no estimate: {theirs}"));
    let paid = pay("now").ok();
    assert_eq!(paid["target_blocks"], theirs["blocks"], "{paid}");
    let rate: f64 = paid["fee_rate"].as_str().unwrap().parse().unwrap();
    let wanted = btc * 1e5;
    assert!(rate >= wanted && rate < wanted + 0.011, "{rate} sat/vB for the node's {wanted}");
    let (fee, weight) = (paid["fee"].as_str().unwrap(), paid["weight"].as_f64().unwrap());
    assert!(fee.parse::<f64>().unwrap() >= wanted * weight / 4.0, "{paid}");
    let select = json!({ "value": "50000", "dry_run": true, "policy": policy });
    let chosen = daemon.admin().keyed("/api/v1/wallets/alice/select", "chosen", &select).ok();
    assert_eq!(chosen["target_blocks"], theirs["blocks"]);
    let named = json!({ "outputs": outputs, "dry_run": true, "policy": { "fee_rate": 3 } });
    let plain = daemon.admin().keyed("/api/v1/wallets/alice/pay", "named", &named).ok();
    assert_eq!((&plain["fee_rate"], &plain["target_blocks"]), (&json!("3"), &Value::Null));
}

#[test]
fn a_daemon_on_a_node_survives_a_kill_and_a_reorganisation() {
    paid_killed_and_reorganised(None);
}

#[test]
fn a_daemon_with_wallets_in_postgresql_survives_a_kill_and_a_reorganisation() {
    let Some(url) = postgres::database() else { return };
    paid_killed_and_reorganised(Some(&url));
}
