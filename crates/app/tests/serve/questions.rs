//! Thousands of questions while the chain is reorganised without a pause: none is answered wrongly.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use serde_json::Value;

use crate::{
    daemon::{Client, Folder},
    lookups::churn,
    world::{SEED_SETTING, address},
};

/// Questions in the usual run; `UNSPENT_QUESTIONS` raises it.
const QUESTIONS: u64 = 10_000;
/// Who asks them.
const CLIENTS: u64 = 4;
/// Deeper than any reorganisation of [`churn`] reaches.
const FINAL: u64 = 12;

fn questions() -> u64 {
    std::env::var("UNSPENT_QUESTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(QUESTIONS)
}

/// Blocks that no reorganisation reaches any more, as they were first answered.
#[derive(Default)]
struct Settled(Mutex<BTreeMap<u64, Value>>);

impl Settled {
    /// The block is what it was, if it can't change any more.
    fn check(&self, block: &Value) {
        if block["confirmations"].as_u64().unwrap() < FINAL {
            return;
        }
        let mut known = self.0.lock().unwrap();
        let first = known.entry(block["height"].as_u64().unwrap());
        assert_eq!(*first.or_insert_with(|| block["block_hash"].clone()), block["block_hash"]);
    }
}

/// Asks one question of each kind; returns how many those were.
fn ask(client: &Client, settled: &Settled, round: u32) -> u64 {
    let tip = client.get("/api/v1/blocks/tip").ok();
    let height = tip["height"].as_u64().unwrap();
    assert!(height >= 100 && tip["confirmations"] == 1, "{tip}");
    let list = client.get("/api/v1/blocks?limit=30").ok();
    let list = list["blocks"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["confirmations"]), (30, &1.into()));
    for pair in list.windows(2) {
        assert_eq!(pair[0]["height"].as_u64().unwrap(), pair[1]["height"].as_u64().unwrap() + 1);
        settled.check(&pair[1]);
    }
    // Near the tip a block may have left since it was named; then it is not found, no more.
    for name in [tip["block_hash"].as_str().unwrap().to_owned(), height.to_string()] {
        let answer = client.get(&format!("/api/v1/blocks/{name}"));
        if answer.status != 404 {
            assert_eq!(answer.ok()["height"], height);
        }
    }
    let deep = height - FINAL - u64::from(round % 30);
    let block = client.get(&format!("/api/v1/blocks/{deep}")).ok();
    assert_eq!(block["height"], deep);
    settled.check(&block);
    let deltas = client.get(&format!("/api/v1/deltas/{deep}")).ok();
    assert_eq!(deltas["deltas"][0]["block_hash"], block["block_hash"]);
    let coins = client.get(&format!("/api/v1/addresses/{}/utxos", address(round % 8))).ok();
    for coin in coins["utxos"].as_array().unwrap() {
        assert!(coin["height"].as_u64() <= coins["at"]["height"].as_u64(), "{coins}");
    }
    let status = client.get("/api/v1/status").ok();
    let rooms = status["rooms"].as_array().unwrap();
    let chain = rooms.iter().find(|room| room["room"] == "chain").unwrap();
    assert!(chain["tip"]["height"].as_u64().unwrap() >= 100, "{chain}");
    8
}

#[test]
fn no_question_is_answered_wrongly_while_the_chain_is_reorganised() {
    let folder = Folder::new();
    let daemon = folder.start(&[SEED_SETTING, "source.sim.blocks=120"]);
    daemon.wait_for("the chain is there", |client| {
        client.get("/api/v1/blocks/tip").json()["height"] == 120
    });
    let (asked, rounds) = (AtomicU64::new(0), AtomicU32::new(0));
    let (is_enough, settled) = (AtomicBool::new(false), Settled::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_enough.load(Ordering::SeqCst) {
                churn(&daemon.admin(), rounds.fetch_add(1, Ordering::SeqCst));
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let client = daemon.admin();
                    for round in 0.. {
                        if asked.load(Ordering::Relaxed) >= questions() {
                            return;
                        }
                        asked.fetch_add(ask(&client, &settled, round), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_enough.store(true, Ordering::SeqCst);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    let (asked, rounds) = (asked.into_inner(), rounds.into_inner());
    eprintln!("{asked} questions, {rounds} reorganisations");
    assert!(asked >= questions() && rounds > 10, "{asked} questions, {rounds} reorganisations");
}
