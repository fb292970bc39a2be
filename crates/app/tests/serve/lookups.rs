//! Many coins or addresses in one request: in order, from one moment, also while the chain changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    daemon::{Client, Folder, PATIENCE},
    world::{SEED_SETTING, address, funded},
};

/// Different tips that answers are wanted from while the chain changes.
const MOMENTS: usize = 15;

fn outpoints(coins: &[String]) -> Value {
    json!({ "outpoints": coins })
}

#[test]
fn coins_come_in_the_order_of_the_request_and_unknown_ones_are_said_so() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    daemon.wait_for("the chain is there", |client| {
        client.get("/api/v1/blocks/tip").ok()["height"] == 113
    });
    let client = daemon.admin();
    let coin = |index| {
        let page = client.get(&format!("/api/v1/addresses/{}/utxos", address(index))).ok();
        page["utxos"][0]["outpoint"].as_str().unwrap().to_owned()
    };
    let (first, second) = (coin(0), coin(1));
    let unknown = format!("{}:7", "ab".repeat(32));
    let asked = vec![second.clone(), unknown.clone(), first.clone(), second.clone()];
    let found = client.post("/api/v1/utxos/lookup", &outpoints(&asked)).ok();
    let names: Vec<_> = found["utxos"].as_array().unwrap().iter().map(|c| &c["outpoint"]).collect();
    assert_eq!(names, [&second, &unknown, &first, &second]);
    assert_eq!(found["utxos"][1]["state"], "unknown");
    assert_eq!(found["utxos"][0], client.get(&format!("/api/v1/utxos/{second}")).ok());
    assert_eq!(found["at"]["height"], 113);
    let addresses = json!({ "addresses": [address(1), address(9), address(0)] });
    let found = client.post("/api/v1/addresses/lookup", &addresses).ok();
    let shown = json!([
        { "address": address(1), "known": true, "utxos": 1, "value": "50000" },
        { "address": address(9), "known": false, "utxos": 0, "value": "0" },
        { "address": address(0), "known": true, "utxos": 1, "value": "70000" },
    ]);
    assert_eq!(found["addresses"], shown);
    assert_eq!(found["at"]["height"], 113);
}

#[test]
fn five_hundred_are_taken_and_one_more_is_not() {
    let folder = Folder::new();
    let daemon = folder.start(&[SEED_SETTING, "source.sim.blocks=3"]);
    let client = daemon.admin();
    daemon.wait_for("the chain is there", |client| {
        client.get("/api/v1/blocks/tip").json()["height"] == 3
    });
    let coins: Vec<String> = (0..501).map(|n| format!("{n:064x}:{n}")).collect();
    let addresses: Vec<String> = (0..501).map(|_| address(0)).collect();
    let found = client.post("/api/v1/utxos/lookup", &outpoints(&coins[..500])).ok();
    assert_eq!(found["utxos"].as_array().unwrap().len(), 500);
    assert_eq!(found["utxos"][499]["outpoint"], coins[499]);
    let some = json!({ "addresses": addresses[..500] });
    let found = client.post("/api/v1/addresses/lookup", &some).ok();
    assert_eq!(found["addresses"].as_array().unwrap().len(), 500);
    client.post("/api/v1/utxos/lookup", &outpoints(&coins)).refused(400);
    client.post("/api/v1/utxos/lookup", &outpoints(&[])).refused(400);
    client.post("/api/v1/addresses/lookup", &json!({ "addresses": addresses })).refused(400);
    let wrong = outpoints(&[coins[0].clone(), "nonsense".to_owned()]);
    let refused = client.post("/api/v1/utxos/lookup", &wrong);
    assert_eq!(refused.refused(400), "malformed");
    assert_eq!(refused.json()["error"]["detail"], "entry 2 of the list");
    daemon.nobody().post("/api/v1/utxos/lookup", &outpoints(&coins[..1])).refused(401);
}

/// Coins born in the last blocks.
fn newest(client: &Client) -> BTreeSet<String> {
    let tip = client.get("/api/v1/blocks/tip").ok()["height"].as_u64().unwrap();
    let mut names = BTreeSet::new();
    for height in tip.saturating_sub(4)..=tip {
        // The chain may have gone on meanwhile.
        let answer = client.get(&format!("/api/v1/deltas/{height}"));
        let found = if answer.status == 200 { answer.json() } else { Value::Null };
        for delta in found["deltas"].as_array().into_iter().flatten() {
            let created = delta["created"].as_array().into_iter().flatten();
            names.extend(created.map(|coin| coin["outpoint"].as_str().unwrap().to_owned()));
        }
    }
    names
}

/// Nothing in an answer is from another block than those below its tip.
fn check_one_moment(answer: &Value) {
    let at = &answer["at"];
    for coin in answer["utxos"].as_array().unwrap() {
        for (height, hash) in [("height", "block_hash"), ("spent_height", "spent_block_hash")] {
            let Some(found) = coin[height].as_u64() else { continue };
            assert!(found <= at["height"].as_u64().unwrap(), "{coin} is above {at}");
            if found == at["height"] {
                assert_eq!(coin[hash], at["block_hash"], "{coin} is beside {at}");
            }
        }
    }
}

/// Changes the tip in every way there is.
pub(crate) fn churn(client: &Client, round: u32) {
    let paid = json!({ "address": address(round), "value": "5000" });
    client.post("/api/v1/sim/pay", &paid).ok();
    client.post("/api/v1/sim/mine", &json!({ "blocks": 2 })).ok();
    client.post("/api/v1/sim/reorganise", &json!({ "depth": 1 + round % 4 })).ok();
}

#[test]
fn an_answer_is_from_one_moment_while_the_chain_is_reorganised() {
    let folder = Folder::new();
    let daemon = folder.start(&[SEED_SETTING, "source.sim.blocks=120"]);
    daemon.wait_for("the chain is there", |client| {
        client.get("/api/v1/blocks/tip").json()["height"] == 120
    });
    let (client, is_enough) = (daemon.admin(), AtomicBool::new(false));
    // What was answered of a coin at a tip.
    let mut known: BTreeMap<(String, String), Value> = BTreeMap::new();
    let (mut names, mut tips) = (BTreeSet::new(), BTreeSet::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rounds = 0..;
            while !is_enough.load(Ordering::SeqCst) {
                churn(&daemon.admin(), rounds.next().unwrap());
            }
        });
        let started = Instant::now();
        while tips.len() < MOMENTS && started.elapsed() < PATIENCE {
            names.extend(newest(&client));
            let asked: Vec<String> = names.iter().rev().take(500).cloned().collect();
            let answer = client.post("/api/v1/utxos/lookup", &outpoints(&asked)).ok();
            check_one_moment(&answer);
            let tip = answer["at"]["block_hash"].as_str().unwrap().to_owned();
            for coin in answer["utxos"].as_array().unwrap() {
                let key = (tip.clone(), coin["outpoint"].to_string());
                assert_eq!(known.entry(key).or_insert_with(|| coin.clone()), coin);
            }
            tips.insert(tip);
        }
        is_enough.store(true, Ordering::SeqCst);
    });
    assert!(tips.len() >= MOMENTS, "only {} moments were met", tips.len());
}
