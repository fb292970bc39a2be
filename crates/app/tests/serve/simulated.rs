//! What can be done to the simulated network over REST, and by whom.

use serde_json::{Value, json};

use crate::{
    daemon::{Client, Folder},
    world::{SEED_SETTING, address, balance, descriptor},
};

fn height(client: &Client) -> Value {
    client.get("/api/v1/blocks/tip").ok()["height"].clone()
}

#[test]
fn a_wallet_is_funded_in_one_line_and_the_network_obeys() {
    let folder = Folder::new();
    let daemon = folder.start(&["source.sim.blocks=110", SEED_SETTING]);
    let client = daemon.admin();
    let wallet = json!({ "name": "alice", "descriptor": descriptor() });
    client.post("/api/v1/wallets", &wallet).ok();
    let waiting = json!({ "address": address(0), "value": "40000" });
    let paid = client.post("/api/v1/sim/pay", &waiting).ok();
    assert_eq!((&paid["mempool"], &paid["tip"]["height"]), (&json!(1), &json!(110)));
    assert_eq!(paid["txid"].as_str().unwrap().len(), 64);
    let deep = json!({ "address": address(1), "value": "60000", "confirmations": 2 });
    let paid = client.post("/api/v1/sim/pay", &deep).ok();
    assert_eq!((&paid["mempool"], &paid["tip"]["height"]), (&json!(0), &json!(112)));
    daemon.wait_for("the wallet is funded", |client| {
        balance(client, "alice")["confirmed"] == json!({ "value": "100000", "coins": 2 })
    });
    let mined = client.post("/api/v1/sim/mine", &json!({ "blocks": 3 })).ok();
    assert_eq!(mined["tip"]["height"], 115);
    daemon.wait_for("the blocks arrive", |client| height(client) == 115);
    let left = mined["tip"]["block_hash"].as_str().unwrap();
    let other = client.post("/api/v1/sim/reorganise", &json!({ "depth": 2 })).ok();
    assert_eq!((&other["tip"]["height"], &other["txid"]), (&json!(116), &Value::Null));
    daemon.wait_for("the chain is another", |client| height(client) == 116);
    client.get(&format!("/api/v1/blocks/{left}")).refused(404);
}

#[test]
fn what_the_network_can_not_do_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    let daemon = folder.start(&["source.sim.blocks=110", SEED_SETTING]);
    let client = daemon.admin();
    for blocks in [0, 1_001] {
        client.post("/api/v1/sim/mine", &json!({ "blocks": blocks })).refused(422);
    }
    for depth in [0, 101] {
        client.post("/api/v1/sim/reorganise", &json!({ "depth": depth })).refused(422);
    }
    let pay = |address: &str, value: &str, confirmations: u32| {
        let body = json!({ "address": address, "value": value, "confirmations": confirmations });
        client.post("/api/v1/sim/pay", &body)
    };
    pay("nonsense", "1000", 1).refused(400);
    pay(&address(0), "-1", 1).refused(422);
    pay(&address(0), "1000", 1_001).refused(422);
    assert_eq!(pay(&address(0), "2000000000000000", 1).refused(409), "refused");
    let mined = client.post("/api/v1/sim/mine", &json!({})).ok();
    assert_eq!((&mined["tip"]["height"], &mined["mempool"]), (&json!(111), &json!(0)));
}

#[test]
fn moving_the_network_needs_the_scope_wallet_and_all_wallets() {
    let folder = Folder::new();
    let daemon = folder.start(&["source.sim.blocks=1", SEED_SETTING]);
    let token = |body: &Value| {
        let made = daemon.admin().post("/api/v1/tokens", body).ok();
        daemon.with(made["token"].as_str().unwrap())
    };
    let mine = |client: &Client| client.post("/api/v1/sim/mine", &json!({}));
    mine(&daemon.nobody()).refused(401);
    mine(&token(&json!({ "name": "looks", "scope": "read" }))).refused(403);
    let narrow = json!({ "name": "narrow", "scope": "wallet", "wallet": "alice" });
    let wallet = json!({ "name": "alice", "descriptor": descriptor() });
    daemon.admin().post("/api/v1/wallets", &wallet).ok();
    mine(&token(&narrow)).refused(403);
    mine(&token(&json!({ "name": "shop", "scope": "wallet" }))).ok();
}

#[test]
fn another_source_has_no_such_routes() {
    let folder = Folder::new();
    let blocks = folder.beside("blocks");
    std::fs::create_dir_all(&blocks).unwrap();
    let path = format!("source.path={}", blocks.display());
    let daemon = folder.start(&["source.kind=bitcoin-files", "network=bitcoin-regtest", &path]);
    daemon.admin().post("/api/v1/sim/mine", &json!({})).refused(404);
    let document = daemon.admin().get("/api/v1/openapi.json").text;
    assert!(document.contains("/api/v1/wallets") && !document.contains("/api/v1/sim/"));
}
