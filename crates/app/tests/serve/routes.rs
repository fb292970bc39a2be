//! Every documented route answers as documented; the description and this file name the same ones.

use std::{cell::RefCell, collections::BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    daemon::{Answer, Client, Daemon},
    world::{self, SEED_SETTING, address, funded, signed},
};

/// A client that notes which routes it has asked.
struct Walk {
    client: Client,
    seen: RefCell<BTreeSet<(String, String)>>,
    keys: RefCell<u32>,
}

impl Walk {
    fn path(&self, method: &str, template: &str, values: &[&str]) -> String {
        self.seen.borrow_mut().insert((method.to_lowercase(), format!("/api/v1{template}")));
        let mut values = values.iter();
        let parts = template.split('/').map(|part| match part.starts_with('{') {
            true => (*values.next().unwrap()).to_owned(),
            false => part.to_owned(),
        });
        let path = format!("/api/v1{}", parts.collect::<Vec<_>>().join("/"));
        assert_eq!(values.next(), None, "{template}");
        path
    }

    fn get(&self, template: &str, values: &[&str], query: &str) -> Answer {
        let path = self.path("get", template, values);
        self.client.get(&format!("{path}{query}"))
    }

    fn send(&self, method: &str, template: &str, values: &[&str], body: Option<&Value>) -> Answer {
        let path = self.path(method, template, values);
        let body = body.map(|body| body.to_string().into_bytes());
        self.client.send(method, &path, &[("content-type", "application/json")], body.as_deref())
    }

    /// Whether an answer comes to hold a text: events are written a moment later.
    fn finds(&self, path: &str, text: &str) -> bool {
        (0..200).any(|_| {
            let found = self.client.get(path).text.contains(text);
            if !found {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            found
        })
    }

    fn post(&self, template: &str, values: &[&str], body: &Value) -> Answer {
        *self.keys.borrow_mut() += 1;
        let key = format!("walk-{}", self.keys.borrow());
        self.client.keyed(&self.path("post", template, values), &key, body)
    }
}

fn documented(client: &Client) -> BTreeSet<(String, String)> {
    let document = client.get("/api/v1/openapi.json").ok();
    let paths = document["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| -> Vec<(String, String)> {
        item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())).collect()
    };
    paths.iter().flat_map(methods).collect()
}

#[test]
fn every_documented_route_answers() {
    let folder = funded();
    let rooms = ["txstore.enabled=true", "ecash.enabled=true", "utxo.store=mmr"];
    let daemon = folder.start(&[&[SEED_SETTING], &rooms[..]].concat());
    world::make_wallet(&daemon, "alice");
    let (client, seen, keys) = (daemon.admin(), RefCell::default(), RefCell::default());
    let walk = Walk { client, seen, keys };
    chain(&walk);
    lookups(&walk);
    transactions(&walk, &daemon);
    ecash(&walk);
    operator(&walk, &daemon);
    wallets(&walk);
    reading(&walk);
    looking_closer(&walk);
    paying(&walk);
    labels(&walk);
    managing(&walk);
    hooks(&walk);
    simulated(&walk);
    let documented = documented(&walk.client);
    let seen = walk.seen.borrow();
    let missing: Vec<_> = documented.difference(&seen).collect();
    assert!(missing.is_empty(), "no test asks {missing:?}");
    let unknown: Vec<_> = seen.difference(&documented).collect();
    assert!(unknown.is_empty(), "not documented: {unknown:?}");
    assert_eq!(daemon.end(), 0);
}

#[test]
fn the_page_about_the_interface_names_every_route() {
    let folder = crate::daemon::Folder::new();
    let daemon = folder.start(&[]);
    let page = include_str!("../../../../docs/api.md");
    let mut written = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let method = cells[1].trim_end_matches(" K").to_lowercase();
        let path = cells[2].trim_matches('`');
        if path.starts_with("/api/v1/") && path != "/api/v1/openapi.json" {
            written.insert((method, path.to_owned()));
        }
    }
    let documented = documented(&daemon.admin());
    let difference: Vec<_> = documented.symmetric_difference(&written).collect();
    assert!(difference.is_empty(), "{difference:?}");
}

fn chain(walk: &Walk) {
    let owner = address(0);
    let page = walk.get("/addresses/{address}/utxos", &[&owner], "?limit=1&order=desc").ok();
    let coin = &page["utxos"][0];
    assert_eq!(coin["value"], "70000");
    assert_eq!(coin["address"], *owner);
    let text = page.to_string();
    assert!(!text.contains("lovelace") && !text.contains("tx_hash"), "{text}");
    assert_eq!(page["next"], Value::Null);
    let sum = walk.get("/addresses/{address}/balance", &[&owner], "").ok();
    assert_eq!((&sum["utxos"], &sum["value"]), (&json!(1), &json!("70000")));
    let script = hex::decode(coin["script"].as_str().unwrap()).unwrap();
    let by_hash = format!("scripthash:{}", hex::encode(Sha256::digest(script)));
    let same = walk.get("/addresses/{address}/utxos", &[&by_hash], "?limit=1&order=desc").ok();
    assert_eq!(same, page);
    walk.get("/addresses/{address}/utxos", &["nonsense"], "").refused(400);
    walk.get("/addresses/{address}/utxos", &["scripthash:00"], "").refused(400);
    // Bitcoin has no credentials.
    let credential = "00".repeat(28);
    walk.get("/credentials/{credential}/utxos", &[&credential], "").refused(400);
    walk.get("/credentials/{credential}/balance", &[&credential], "").refused(400);
    let (hash, name) = (coin["txid"].as_str().unwrap(), coin["outpoint"].as_str().unwrap());
    assert_eq!(*name, format!("{hash}:{}", coin["vout"]));
    let one = walk.get("/utxos/{outpoint}", &[name], "").ok();
    assert_eq!(one["state"], "unspent");
    let by_hash_sign = walk.get("/utxos/{outpoint}", &[&name.replace(':', "%23")], "").ok();
    assert_eq!(by_hash_sign, one);
    walk.get("/utxos/{outpoint}", &[&format!("{hash}:77")], "").refused(404);
    walk.get("/utxos/{outpoint}", &[&format!("{hash}:4294967296")], "").refused(400);
    let tip = walk.get("/blocks/tip", &[], "").ok();
    assert_eq!((&tip["height"], &tip["confirmations"]), (&json!(113), &json!(1)));
    let same = walk.get("/blocks/{block}", &[tip["block_hash"].as_str().unwrap()], "").ok();
    assert_eq!(same["height"], 113);
    let block = coin["height"].to_string();
    assert!(walk.get("/blocks/{block}", &[&block], "").ok()["spent"].as_u64().unwrap() > 0);
    walk.get("/blocks/{block}", &["9999"], "").refused(404);
    assert_eq!(walk.get("/blocks/{block}/detail", &[&block], "").ok()["height"], coin["height"]);
    assert_eq!(walk.get("/txs/{txid}", &[hash], "").ok()["state"], "confirmed");
    let blocks = walk.get("/blocks", &[], "?limit=60").ok();
    assert_eq!(blocks["blocks"][0]["height"], 113);
    let next = blocks["next"].as_str().unwrap();
    let rest = walk.get("/blocks", &[], &format!("?limit=500&after={next}")).ok();
    assert_eq!(rest["blocks"].as_array().unwrap().len(), 54);
    assert_eq!(rest["next"], Value::Null);
    let delta = walk.get("/deltas/{height}", &[&block], "").ok();
    let created = delta["deltas"][0]["created"].as_array().unwrap();
    assert!(created.iter().any(|made| made["txid"] == hash));
    walk.get("/deltas/{height}", &["9999"], "").refused(404);
    proofs(walk, hash, &coin["vout"].to_string());
    let timeline = walk.get("/coins/{outpoint}/timeline", &[name], "").ok();
    let kinds: Vec<_> = timeline["events"].as_array().unwrap().iter().map(|e| &e["kind"]).collect();
    let is_whole = kinds.contains(&&json!("created")) && kinds.contains(&&json!("confirmed"));
    assert!(is_whole, "{timeline}");
    assert_eq!((&timeline["value"], &timeline["wallets"]), (&json!("70000"), &json!(["alice"])));
    walk.get("/coins/{outpoint}/timeline", &[&format!("{hash}:99")], "").refused(404);
    let kinds = |q: &str| -> Vec<String> {
        let found = walk.get("/search", &[], &format!("?q={q}")).ok();
        let found = found["matches"].as_array().unwrap().iter();
        found.map(|found| found["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&owner), ["address"]);
    assert_eq!(kinds(hash), ["transaction"]);
    assert_eq!(kinds(&format!("{hash}:0")), ["coin"]);
    assert_eq!(kinds(tip["block_hash"].as_str().unwrap()), ["block"]);
    assert_eq!(kinds("113"), ["block"]);
    assert_eq!(kinds("alice"), ["wallet"]);
    assert!(kinds("nothing-at-all").is_empty());
}

fn proofs(walk: &Walk, txid: &str, index: &str) {
    let root = walk.get("/roots", &[], "").ok();
    assert_eq!(root["block"]["height"], 113);
    let older = walk.get("/roots", &[], "?height=112").ok();
    assert_ne!(older["root"], root["root"]);
    walk.get("/roots", &[], "?height=9999").refused(404);
    let proven = walk.get("/proofs/{txid}/{index}", &[txid, index], "").ok();
    assert_eq!((&proven["root"], &proven["coins"][0]["state"]), (&root["root"], &json!("unspent")));
    let then = walk.get("/proofs/{txid}/{index}", &[txid, index], "?height=112").ok();
    assert_eq!(then["root"], older["root"]);
    walk.get("/proofs/{txid}/{index}", &[txid, "77"], "").refused(404);
    walk.get("/proofs/{txid}/{index}", &["ab", "0"], "").refused(400);
    for place in ["/api/v1/status", "/api/v1/events?limit=500"] {
        assert!(walk.finds(place, root["root"].as_str().unwrap()), "{place} has no root");
    }
    let path = format!("/api/v1/proofs/{txid}/{index}");
    let bytes = walk.client.bytes(&path, "application/cbor");
    let proof = unspent_verify::Proof::from_bytes(&bytes).unwrap();
    let mut trusted = [0; 32];
    hex::decode_to_slice(root["root"].as_str().unwrap(), &mut trusted).unwrap();
    assert_eq!(proof.check(&trusted).unwrap(), [unspent_verify::Verdict::Unspent]);
}

fn transactions(walk: &Walk, daemon: &Daemon) {
    // The payment that waits in the mempool spends an output of one that is mined.
    daemon.wait_for("the mempool is in the store", |client| {
        let status = client.get("/api/v1/transactions").ok();
        status["unmined"] == 1 && status["tip"]["height"] == 113
    });
    let status = walk.get("/transactions", &[], "").ok();
    assert!(status["records"].as_u64().unwrap() > 114, "{status}");
    assert_eq!((&status["deleted"], &status["windows"]["safety"]), (&json!(0), &json!(288)));
    assert!(status["sizes"][0]["bytes"].as_u64().unwrap() > 10_000);
    let waiting = walk.get("/wallets/{wallet}/txs", &["alice"], "?unconfirmed=true").ok();
    let child = waiting["txs"][0]["txid"].as_str().unwrap();
    let pool = walk.get("/wallets/{wallet}/mempool", &["alice"], "?limit=5").ok();
    assert_eq!(pool["txs"][0]["txid"], child);
    let record = walk.get("/transactions/{txid}", &[child], "?raw=true").ok();
    assert_eq!((&record["state"], &record["unmined_since"]), (&json!("unmined"), &json!(113)));
    assert_eq!((&record["height"], &record["coinbase"]), (&Value::Null, &json!(false)));
    let raw = hex::decode(record["raw"].as_str().unwrap()).unwrap();
    let tx: bitcoin::Transaction = bitcoin::consensus::deserialize(&raw).unwrap();
    assert_eq!(tx.compute_txid().to_string(), child);
    let coin = tx.input[0].previous_output;
    assert_eq!(record["inputs"][0], coin.to_string());
    let parent = coin.txid.to_string();
    let mined = walk.get("/transactions/{txid}", &[&parent], "").ok();
    assert_eq!((&mined["state"], &mined["raw"]), (&json!("mined"), &Value::Null));
    let page = format!("?limit=1&after={}", coin.vout);
    let outputs = walk.get("/transactions/{txid}/outputs", &[&parent], &page).ok();
    let slot = &outputs["outputs"][0];
    assert_eq!((&slot["outpoint"], &slot["state"]), (&json!(coin.to_string()), &json!("spent")));
    assert_eq!((&slot["spent_by"], &slot["spent_vin"]), (&json!(child), &json!(0)));
    let why = walk.get("/transactions/{txid}/why", &[&parent], "").ok();
    assert_eq!((&why["verdict"], &why["height"]), (&json!("keep"), &json!(113)));
    let blockers = why["blockers"].as_array().unwrap();
    let of_child = blockers.iter().find(|found| found["child"] == child).unwrap();
    assert_eq!(of_child["reason"], "child_unmined");
    for path in ["/transactions/{txid}", "/transactions/{txid}/outputs", "/transactions/{txid}/why"]
    {
        walk.get(path, &[&"00".repeat(32)], "").refused(404);
        walk.get(path, &["nonsense"], "").refused(400);
    }
    let found = walk.get("/search", &[], &format!("?q={parent}")).ok();
    let hrefs = found["matches"].as_array().unwrap().iter().map(|found| found["href"].clone());
    assert!(
        hrefs.into_iter().any(|href| href == format!("/api/v1/transactions/{parent}")),
        "{found}"
    );
}

/// Without a mint; what one is needed for is in `ecash`.
fn ecash(walk: &Walk) {
    let status = walk.get("/ecash", &[], "").ok();
    assert_eq!((&status["balances"], &status["open_payments"]), (&json!([]), &json!(0)));
    assert!(status["sizes"][0]["bytes"].as_u64().unwrap() > 1_000, "{status}");
    assert_eq!(walk.get("/ecash/accounts", &[], "").ok(), json!({ "accounts": [] }));
    let nowhere = json!({ "mint": "http://127.0.0.1:9" });
    let answer = walk.post("/ecash/accounts", &[], &nowhere);
    assert!(answer.text.contains("allow_private"), "{}", answer.text);
    assert_eq!(answer.refused(422), "invalid");
    walk.post("/ecash/accounts", &[], &json!({})).refused(422);
    let checked = walk.post("/ecash/mints/check", &[], &json!({ "mint": "http://127.0.0.1:9" }));
    assert_eq!(checked.ok()["usable"], false);
    let account = "/ecash/accounts/{account}";
    walk.send("PATCH", account, &["purse"], Some(&json!({ "name": "till" }))).refused(422);
    walk.send("DELETE", account, &["purse"], None).refused(422);
    walk.post("/ecash/accounts/{account}/scan", &["purse"], &json!({})).refused(422);
    walk.get("/ecash/accounts/{account}/proofs", &["purse"], "?state=spent").refused(422);
    let hook = json!({ "url": "https://shop.example/hook" });
    walk.post("/ecash/accounts/{account}/webhooks", &["purse"], &hook).refused(404);
    let page = walk.get("/ecash/payments", &[], "?group=swaps&limit=5").ok();
    assert_eq!(page, json!({ "payments": [], "next": null }));
    walk.get("/ecash/payments", &[], "?after=nonsense").refused(400);
    walk.get("/ecash/payments/{id}", &["none"], "").refused(404);
    walk.get("/ecash/payments/{id}/token", &["none"], "").refused(404);
    let page = walk.get("/ecash/transactions", &[], "").ok();
    assert_eq!(page, json!({ "transactions": [], "next": null }));
    walk.post("/ecash/receive", &[], &json!({ "amount": "5" })).refused(422);
    walk.post("/ecash/pay", &[], &json!({ "invoice": "lnbc1" })).refused(422);
    walk.post("/ecash/send", &[], &json!({ "amount": 0 })).refused(422);
    let refused = walk.post("/ecash/claim", &[], &json!({ "token": "cashuAgarbage" }));
    assert!(!refused.text.contains("garbage"), "a token is money: {}", refused.text);
    refused.refused(422);
    walk.post("/ecash/reverse", &[], &json!({ "id": "none" })).refused(404);
    walk.post("/ecash/cancel", &[], &json!({ "id": "none" })).refused(404);
}

fn operator(walk: &Walk, daemon: &Daemon) {
    let status = walk.get("/status", &[], "").ok();
    assert_eq!(status["network"], "bitcoin-regtest");
    assert_eq!(status["rooms"].as_array().unwrap().len(), 4);
    // Figures that take time may be a little old.
    daemon.wait_for("the store's figures", |client| {
        client.get("/api/v1/status").ok()["txstore"]["records"].as_u64() > Some(110)
    });
    assert!(status["chain"]["utxos"].as_u64().unwrap() > 100);
    assert!(status["wallet"]["tables"].as_array().unwrap().len() > 5);
    let rooms = walk.get("/rooms", &[], "").ok();
    assert_eq!(rooms["rooms"][0]["state"], "following");
    walk.post("/rooms/{room}/resume", &["chain"], &json!({})).refused(409);
    walk.post("/rooms/{room}/resume", &["attic"], &json!({})).refused(404);
    assert!(walk.get("/jobs", &[], "").ok()["jobs"].as_array().unwrap().len() >= 4);
    let of_rooms = ["prune_chain", "purge_leases", "read_mempool", "rebroadcast"];
    for job in of_rooms.into_iter().chain(["clean_transactions", "read_unmined", "measure"]) {
        assert_eq!(walk.post("/jobs/{job}/run", &[job], &json!({})).status, 202, "{job}");
    }
    walk.post("/jobs/{job}/run", &["sweep"], &json!({})).refused(404);
    // Made and brought back in `backup`.
    walk.post("/backup", &[], &json!({ "folder": "saved" })).refused(422);
    assert_eq!(walk.get("/backup", &[], "").ok()["state"], "none");
    // Every way in which they are used: in `tokens`.
    let made = walk.post("/tokens", &[], &json!({ "name": "walker" }));
    assert_eq!((made.status, &made.ok()["scope"]), (201, &json!("read")));
    assert_eq!(walk.get("/tokens", &[], "").ok()["tokens"][0]["name"], "walker");
    assert_eq!(walk.send("DELETE", "/tokens/{name}", &["walker"], None).status, 204);
    assert!(!walk.get("/history", &[], "").ok()["samples"].as_array().unwrap().is_empty());
    let events = walk.get("/events", &[], "?limit=2").ok();
    assert_eq!(events["events"][0]["id"], 1);
    walk.get("/events", &[], "?limit=501").refused(400);
    // Read in `stream`; here only that it is asked for with the right to.
    walk.path("get", "/events/stream", &[]);
    daemon.nobody().get("/api/v1/events/stream").refused(401);
    assert_eq!(walk.get("/session", &[], "").ok()["scope"], "admin");
    let log_in = walk.post("/session", &[], &json!({ "token": daemon.cookie }));
    assert_eq!(log_in.ok()["scope"], "wallet", "a session never has all rights");
    let out = walk.client.send("DELETE", &walk.path("delete", "/session", &[]), &[], None);
    assert_eq!(out.status, 204);
}

fn wallets(walk: &Walk) {
    let list = walk.get("/wallets", &[], "").ok();
    assert_eq!(list["wallets"][0]["name"], "alice");
    let single = json!({ "name": "bob & co/1", "watch": [address(5)], "gap_limit": 5 });
    let made = walk.post("/wallets", &[], &single);
    assert_eq!((made.status, &made.ok()["chains"][0]["purpose"]), (201, &json!("imported")));
    walk.post("/wallets", &[], &single).refused(409);
    walk.post("/wallets", &[], &json!({ "name": "x" })).refused(422);
    walk.post("/wallets", &[], &json!({ "name": "x", "nmae": 1 })).refused(422);
    let bob = "bob%20%26%20co%2F1";
    assert_eq!(walk.get("/wallets/{wallet}", &[bob], "").ok()["name"], "bob & co/1");
    walk.get("/wallets/{wallet}", &["carol"], "").refused(404);
    walk.get("/wallets/{wallet}", &["a%00b"], "").refused(404);
    let account =
        json!({ "name": "more", "descriptor": world::descriptor().replace("<0;1>", "7") });
    assert_eq!(walk.post("/wallets/{wallet}/accounts", &[bob], &account).status, 201);
    walk.post("/wallets/{wallet}/accounts", &[bob], &account).refused(422);
    let script = json!({ "script": address(6) });
    assert_eq!(walk.post("/wallets/{wallet}/scripts", &[bob], &script).status, 201);
    walk.post("/wallets/{wallet}/scripts", &[bob], &script).refused(409);
    let page = walk.get("/wallets/{wallet}/addresses", &["alice"], "?limit=2").ok();
    assert_eq!(page["addresses"][0]["address"], address(0));
    let next = page["next"].as_str().unwrap();
    let more = walk.get("/wallets/{wallet}/addresses", &["alice"], &format!("?after={next}")).ok();
    assert_eq!(more["addresses"][0]["address"], address(2));
    let fresh = walk.post("/wallets/{wallet}/addresses", &["alice"], &json!({}));
    assert_eq!((fresh.status, &fresh.ok()["purpose"]), (201, &json!("receive")));
    let change = json!({ "purpose": "change" });
    assert_eq!(walk.post("/wallets/{wallet}/addresses", &["alice"], &change).status, 201);
}

fn reading(walk: &Walk) {
    let now = walk.get("/wallets/{wallet}/balance", &["alice"], "?minconf=1").ok();
    assert_eq!(now["value"], "145000");
    let past = walk.get("/wallets/{wallet}/balance", &["alice"], "?as_of=100").ok();
    assert_eq!(past, json!({ "height": 100, "value": "0", "coins": 0 }));
    walk.get("/wallets/{wallet}/balance", &["alice"], "?as_of=9999").refused(422);
    let coins = walk.get("/wallets/{wallet}/coins", &["alice"], "?limit=1").ok();
    assert_eq!(coins["coins"][0]["value"], "25000");
    let next = coins["next"].as_str().unwrap();
    let more = walk.get("/wallets/{wallet}/coins", &["alice"], &format!("?after={next}")).ok();
    assert_eq!(more["coins"].as_array().unwrap().len(), 2);
    let all = walk.get("/wallets/{wallet}/coins", &["alice"], "?all=true").ok();
    assert_eq!(all["coins"].as_array().unwrap().len(), 3);
    let name = all["coins"][0]["outpoint"].as_str().unwrap();
    let one = walk.get("/wallets/{wallet}/coins/{outpoint}", &["alice", name], "").ok();
    assert_eq!(one["outpoint"], *name);
    let txs = walk.get("/wallets/{wallet}/txs", &["alice"], "?limit=2").ok();
    assert_eq!(txs["txs"].as_array().unwrap().len(), 2);
    let next = txs["next"].as_str().unwrap();
    let rest = walk.get("/wallets/{wallet}/txs", &["alice"], &format!("?after={next}")).ok();
    assert_eq!(rest["txs"].as_array().unwrap().len(), 1);
    let by_height = walk.get("/wallets/{wallet}/txs", &["alice"], "?from=0&to=200").ok();
    assert_eq!(by_height["txs"].as_array().unwrap().len(), 2);
    let loose = walk.get("/wallets/{wallet}/txs", &["alice"], "?unconfirmed=true").ok();
    assert_eq!(loose["txs"].as_array().unwrap().len(), 1);
    let path = "/wallets/{wallet}/txs";
    let start = walk.get(path, &["alice"], "?from=0&limit=1").ok();
    let next = format!("?from=0&after={}", start["next"].as_str().unwrap());
    let rest = walk.get(path, &["alice"], &next).ok();
    assert_eq!(rest["txs"][0], by_height["txs"][1]);
    assert!(rest["txs"][0]["block_time"].is_string() && rest["next"].is_null());
    walk.get(path, &["alice"], "?from=0&unconfirmed=true").refused(422);
    let txid = loose["txs"][0]["txid"].as_str().unwrap();
    let tx = walk.get("/wallets/{wallet}/txs/{txid}", &["alice", txid], "").ok();
    assert_eq!(tx["credit"], "25000");
    let journal = walk.get("/wallets/{wallet}/journal", &["alice"], "?limit=1").ok();
    assert_eq!(journal["lines"][0]["number"], 1);
    assert!(journal["next"].is_string());
    let of = walk.get("/wallets/{wallet}/journal", &["alice"], &format!("?txid={txid}")).ok();
    assert_eq!(of["lines"][0]["cause"], "mempool");
    let audit = walk.get("/wallets/{wallet}/audit", &["alice"], "").ok();
    assert_eq!(audit, json!({ "differences": [] }));
}

fn looking_closer(walk: &Walk) {
    let by_account = walk.get("/wallets/{wallet}/balance", &["alice"], "?by_account=true").ok();
    assert_eq!(by_account["accounts"][0]["value"], "145000");
    let coins = |query: &str| walk.get("/wallets/{wallet}/coins", &["alice"], query);
    let open = coins("?state=unconfirmed").ok();
    assert_eq!((&open["coins"][0]["value"], &open["next"]), (&json!("25000"), &Value::Null));
    assert_eq!(coins("?min=30000&max=60000").ok()["coins"].as_array().unwrap().len(), 1);
    coins("?state=rusty").refused(422);
    let name = open["coins"][0]["outpoint"].clone();
    let body = json!({ "outpoints": [name] });
    assert_eq!(walk.post("/wallets/{wallet}/freeze", &["alice"], &body).ok()["changed"], 1);
    assert_eq!(coins("?state=frozen").ok()["coins"][0]["outpoint"], name);
    assert_eq!(walk.post("/wallets/{wallet}/unfreeze", &["alice"], &body).ok()["changed"], 1);
    let find = "/wallets/{wallet}/addresses/{address}";
    let mine = walk.get(find, &["alice", &address(0)], "").ok();
    assert_eq!((&mine["mine"], &mine["found"]["index"]), (&json!(true), &json!(0)));
    let theirs = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    assert_eq!(walk.get(find, &["alice", theirs], "").ok()["mine"], false);
    let history = walk.get("/wallets/{wallet}/history", &["alice"], "").ok();
    assert_eq!(history["lines"][1]["balance"], "120000");
    let csv = walk.get("/wallets/{wallet}/history", &["alice"], "?csv=true");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<&str> = csv.text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "date,txid,label,amount,fee,balance"));
    assert!(lines[2].ends_with(",120000"), "{}", csv.text);
}

fn paying(walk: &Walk) {
    let coins = walk.get("/wallets/{wallet}/coins", &["alice"], "").ok();
    let large = coins["coins"][2]["outpoint"].clone();
    let held = walk.post("/wallets/{wallet}/leases", &["alice"], &json!({ "outpoints": [large] }));
    assert_eq!(held.status, 201);
    let lock = held.ok()["lock"].clone();
    let leases = walk.get("/wallets/{wallet}/leases", &["alice"], "").ok();
    assert_eq!(leases["leases"][0]["lock"], lock);
    let again = json!({ "outpoints": [large] });
    walk.post("/wallets/{wallet}/leases", &["alice"], &again).refused(409);
    let release = json!({ "outpoints": [large], "lock": lock });
    walk.post("/wallets/{wallet}/leases/release", &["alice"], &release).ok();
    let look = json!({ "value": "60000", "dry_run": true });
    let chosen = walk.post("/wallets/{wallet}/select", &["alice"], &look).ok();
    let first = &chosen["coins"][0]["value"];
    assert_eq!((first, &chosen["lock"]), (&json!("70000"), &Value::Null));
    let outputs = json!([{ "address": address(9), "value": "30000" }]);
    let policy = json!({ "fee_rate": 2.5, "strategy": "largest" });
    let payment = json!({ "outputs": outputs, "policy": policy });
    let look = json!({ "outputs": outputs, "policy": policy, "dry_run": true });
    let looked = walk.post("/wallets/{wallet}/pay", &["alice"], &look).ok();
    assert_eq!((&looked["lock"], &looked["expires_at"]), (&Value::Null, &Value::Null));
    assert_eq!((&looked["fee_rate"], &looked["account"]), (&json!("2.50"), &json!("main")));
    let guess = json!({ "outputs": outputs, "policy": { "target_blocks": 6 } });
    walk.post("/wallets/{wallet}/pay", &["alice"], &guess).refused(409);
    let paid = walk.post("/wallets/{wallet}/pay", &["alice"], &payment);
    assert_eq!(paid.status, 201, "{}", paid.text);
    let paid = paid.ok();
    let psbts = json!({ "psbts": [paid["psbt"], signed(paid["psbt"].as_str().unwrap())] });
    let whole = walk.post("/wallets/{wallet}/psbt", &["alice"], &psbts).ok();
    assert_eq!((&whole["complete"], &whole["fee"]), (&json!(true), &paid["fee"]), "{whole}");
    assert_eq!(whole["pays_others"], "0", "the address is the wallet's own");
    let back = json!({ "signed": signed(paid["psbt"].as_str().unwrap()), "lock": paid["lock"] });
    let done = walk.post("/wallets/{wallet}/finalize", &["alice"], &back);
    assert_eq!((done.status, &done.ok()["status"]), (201, &json!("pending")));
    let txid = done.ok()["txid"].clone();
    let sent = walk.post("/wallets/{wallet}/broadcast", &["alice"], &json!({ "txid": txid })).ok();
    assert_eq!((&sent["accepted"], &sent["status"]), (&json!(true), &json!("published")), "{sent}");
    let lift = json!({ "txid": txid, "policy": { "fee_rate": 20.0 } });
    let child = walk.post("/wallets/{wallet}/cpfp", &["alice"], &lift);
    assert_eq!(child.status, 201, "{}", child.text);
    let inputs = child.ok()["coins"].clone();
    let bump = json!({ "txid": txid, "policy": { "fee_rate": 10.0 } });
    assert!(inputs[0]["outpoint"].as_str().unwrap().starts_with(txid.as_str().unwrap()));
    let bumped = walk.post("/wallets/{wallet}/bump", &["alice"], &bump);
    assert_eq!(bumped.status, 201, "{}", bumped.text);
    let bumped = bumped.ok();
    let again = signed(bumped["psbt"].as_str().unwrap());
    let back = json!({ "signed": again, "lock": bumped["lock"], "broadcast": true });
    let replaced = walk.post("/wallets/{wallet}/finalize", &["alice"], &back).ok();
    assert_eq!(replaced["broadcast"]["accepted"], true, "{replaced}");
    let old = walk.get("/wallets/{wallet}/txs/{txid}", &["alice", txid.as_str().unwrap()], "").ok();
    assert_eq!(old["status"], "replaced");
    // The coin's life shows both attempts to spend it.
    let coin = paid["coins"][0]["outpoint"].as_str().unwrap();
    let timeline = walk.get("/coins/{outpoint}/timeline", &[coin], "").ok();
    let kinds: Vec<_> = timeline["events"].as_array().unwrap().iter().map(|e| &e["kind"]).collect();
    for kind in ["created", "confirmed", "spending", "replaced"] {
        assert!(kinds.contains(&&json!(kind)), "{kind} is missing: {timeline}");
    }
    assert_eq!(timeline["state"], "spent");
    let raw = json!({ "how": "mempool", "raw": replaced["raw"] });
    walk.post("/wallets/{wallet}/record", &["alice"], &raw).ok();
    let wrong = json!({ "how": "sent", "raw": "00" });
    walk.post("/wallets/{wallet}/record", &["alice"], &wrong).refused(422);
    let sent = json!({ "txid": replaced["txid"] });
    walk.post("/wallets/{wallet}/invalidate", &["alice"], &sent).refused(409);
    let rewound = walk.post("/wallets/{wallet}/rewind", &["alice"], &json!({ "height": 105 })).ok();
    assert_eq!(rewound["txs"], 2);
    let pruned = walk.post("/wallets/{wallet}/prune", &["alice"], &json!({ "up_to": 5 })).ok();
    assert_eq!(pruned, json!({ "pruned": [] }));
    walk.post("/wallets/{wallet}/prune", &["alice"], &json!({})).refused(422);
}

fn labels(walk: &Walk) {
    let label = json!({ "type": "addr", "ref": address(0), "label": "first \u{1F600}" });
    let path = walk.path("put", "/wallets/{wallet}/labels", &["alice"]);
    let kind = [("content-type", "application/json")];
    let body = label.to_string();
    assert_eq!(walk.client.send("PUT", &path, &kind, Some(body.as_bytes())).ok(), label);
    let zero = r#"{"type":"addr","ref":"a\u0000","label":"x"}"#;
    walk.client.send("PUT", &path, &kind, Some(zero.as_bytes())).refused(422);
    let page = walk.get("/wallets/{wallet}/labels", &["alice"], "?limit=1").ok();
    assert_eq!(page["labels"][0], label);
    let lines = walk.get("/wallets/{wallet}/labels/export", &["alice"], "");
    assert_eq!(lines.header("content-type"), Some("application/jsonl"));
    assert_eq!(serde_json::from_str::<Value>(lines.text.trim()).unwrap(), label);
    let path = walk.path("post", "/wallets/{wallet}/labels/import", &["alice"]);
    let kind = [("content-type", "application/jsonl")];
    let taken = walk.client.send("POST", &path, &kind, Some(lines.text.as_bytes()));
    assert_eq!(taken.ok(), json!({ "imported": 1, "left_out": 0, "bad": [] }));
    let kind = [("content-type", "application/json")];
    walk.client.send("POST", &path, &kind, Some(b"{}")).refused(415);
}

fn managing(walk: &Walk) {
    let single = json!({ "name": "dora", "watch": [address(40), address(41)], "birthday": 5 });
    walk.post("/wallets", &[], &single).ok();
    let change = json!({ "name": "dorothy", "gap_limit": 30, "archived": true });
    let path = "/wallets/{wallet}";
    let changed = walk.send("PATCH", path, &["dora"], Some(&change)).ok();
    assert_eq!((&changed["name"], &changed["gap_limit"]), (&json!("dorothy"), &json!(30)));
    assert!(changed["archived_at"].is_string(), "{changed}");
    walk.send("PATCH", path, &["dorothy"], Some(&json!({ "name": "alice" }))).refused(409);
    walk.send("PATCH", path, &["dorothy"], Some(&json!({}))).refused(422);
    let back = json!({ "archived": false });
    assert!(walk.send("PATCH", path, &["dorothy"], Some(&back)).ok()["archived_at"].is_null());
    let path = "/wallets/{wallet}/scripts/{script}";
    let fewer = walk.send("DELETE", path, &["dorothy", &address(41)], None).ok();
    assert_eq!(fewer["chains"].as_array().unwrap().len(), 1);
    walk.send("DELETE", path, &["dorothy", &address(41)], None).refused(422);
    // Stopped and mended in the engine's tests; here nothing is wrong.
    let resumed = walk.send("POST", "/wallets/{wallet}/resume", &["dorothy"], None).ok();
    assert_eq!(resumed["stopped"], Value::Null);
    let list = json!({ "wallet_name": "core", "descriptors": [{
        "desc": world::descriptor().replace("<0;1>", "9"), "timestamp": 0, "active": true,
        "internal": false, "range": [0, 999], "next_index": 3 }] });
    let taken = walk.post("/imports/core", &[], &json!({ "name": "core", "list": list }));
    assert!(taken.status == 201 || taken.status == 200, "{}", taken.text);
}

fn lookups(walk: &Walk) {
    let asked = json!({ "addresses": [address(0)] });
    let found = walk.send("POST", "/addresses/lookup", &[], Some(&asked)).ok();
    assert_eq!(found["addresses"][0]["value"], "70000");
    let asked = json!({ "outpoints": [format!("{}:0", "ab".repeat(32))] });
    let found = walk.send("POST", "/utxos/lookup", &[], Some(&asked)).ok();
    assert_eq!(found["utxos"][0]["state"], "unknown");
}

fn simulated(walk: &Walk) {
    let pay = json!({ "address": address(0), "value": "1000" });
    assert_eq!(walk.send("POST", "/sim/pay", &[], Some(&pay)).status, 200);
    for (path, body) in
        [("/sim/mine", json!({ "blocks": 2 })), ("/sim/reorganise", json!({ "depth": 1 }))]
    {
        walk.send("POST", path, &[], Some(&body)).ok();
    }
}

fn hooks(walk: &Walk) {
    let add = "/wallets/{wallet}/webhooks";
    walk.post(add, &["alice"], &json!({ "url": "http://127.0.0.1:9/" })).refused(422);
    let made = walk.post(add, &["alice"], &json!({ "url": "https://shop.example/hook" }));
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.ok()["webhook"]["id"].to_string();
    let listed = walk.get("/webhooks", &[], "").ok();
    assert_eq!(listed["webhooks"][0]["wallet"], "alice");
    let name = json!({ "name": "alison" });
    walk.send("PATCH", "/wallets/{wallet}", &["alice"], Some(&name)).ok();
    assert_eq!(walk.get("/webhooks", &[], "").ok()["webhooks"][0]["wallet"], "alison");
    let back = json!({ "name": "alice" });
    walk.send("PATCH", "/wallets/{wallet}", &["alison"], Some(&back)).ok();
    let resumed = walk.send("POST", "/webhooks/{webhook}/resume", &[&id], None);
    assert_eq!(resumed.status, 204, "{}", resumed.text);
    // Nobody of that name answers.
    assert_eq!(walk.send("POST", "/webhooks/{webhook}/test", &[&id], None).status, 409);
    assert_eq!(walk.send("DELETE", "/webhooks/{webhook}", &[&id], None).status, 204);
    walk.send("DELETE", "/webhooks/{webhook}", &[&id], None).refused(404);
}
