//! What people look at: a transaction with amounts and owners, a block with totals, the mempool of
//! a wallet with fee rates, the journal newest first, an address as a QR code.

use serde_json::{Value, json};

use crate::{
    daemon::{Client, Daemon, Folder},
    world::{self, SEED_SETTING, address, funded},
};

fn started(settings: &[&str]) -> (Folder, Daemon) {
    let folder = funded();
    let daemon = folder.start(&[&[SEED_SETTING], settings].concat());
    world::make_wallet(&daemon, "alice");
    (folder, daemon)
}

fn get(client: &Client, path: &str) -> Value {
    client.get(&format!("/api/v1{path}")).ok()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no {name}: {value}"))
}

fn sats(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("no amount: {value}")).parse().unwrap()
}

fn paid_to(client: &Client, owner: &str) -> String {
    let coins = get(client, &format!("/addresses/{owner}/utxos"));
    coins["utxos"][0]["txid"].as_str().unwrap().to_owned()
}

#[test]
fn a_transaction_has_amounts_owners_sizes_and_a_fee_that_agree() {
    let (_folder, daemon) = started(&[]);
    let client = daemon.admin();
    let txid = paid_to(&client, &address(0));
    let tx = get(&client, &format!("/txs/{txid}"));
    // The network pays 300 sat for it, which nobody tells us: inputs less outputs.
    let sum = |side: &str| list(&tx, side).iter().map(|end| sats(&end["value"])).sum::<u64>();
    assert_eq!(sum("inputs") - sum("outputs"), 300, "{tx}");
    assert_eq!((&tx["fee"], &tx["state"]), (&json!("300"), &json!("confirmed")));
    let raw = hex::decode(tx["raw"].as_str().unwrap()).unwrap();
    let parsed: bitcoin::Transaction = bitcoin::consensus::deserialize(&raw).unwrap();
    assert_eq!(parsed.compute_txid().to_string(), txid);
    let size = json!({
        "size": raw.len(), "vsize": parsed.vsize(), "weight": parsed.weight().to_wu(),
    });
    assert_eq!(tx["size"], size);
    let rate: f64 = tx["fee_rate"].as_str().unwrap().parse().unwrap();
    assert!((rate - 300.0 / parsed.vsize() as f64).abs() < 0.01, "{rate}");
    let ours: Vec<_> =
        list(&tx, "outputs").iter().filter(|end| end["wallets"] == json!(["alice"])).collect();
    assert_eq!((ours.len(), &ours[0]["address"]), (1, &json!(address(0))), "{tx}");
    assert!(list(&tx, "inputs").iter().all(|end| end["address"].is_string()), "{tx}");
    let block = get(&client, &format!("/blocks/{}", tx["height"]));
    assert_eq!((&tx["block_hash"], &tx["block_time"]), (&block["block_hash"], &block["time"]));
    assert_eq!(tx["wallets"][0]["net"], "70000");
    client.get(&format!("/api/v1/txs/{}", "00".repeat(32))).refused(404);
    client.get("/api/v1/txs/nonsense").refused(400);
}

#[test]
fn a_transaction_of_nobody_here_is_shown_as_far_as_it_is_known() {
    let (_folder, daemon) = started(&[]);
    let client = daemon.admin();
    let first = get(&client, "/deltas/5")["deltas"][0]["created"][0].clone();
    let txid = first["txid"].as_str().unwrap();
    let tx = get(&client, &format!("/txs/{txid}"));
    let unknown = [&tx["inputs"], &tx["raw"], &tx["fee"], &tx["size"]];
    assert!(unknown.iter().all(|value| value.is_null()), "{tx}");
    assert_eq!((&tx["height"], &tx["wallets"]), (&json!(5), &json!([])));
    assert!(sats(&tx["outputs"][0]["value"]) > 0);
}

#[test]
fn a_block_has_totals_that_its_coins_sum_up_to() {
    for settings in [&[][..], &["utxo.delta.self_contained=true"][..]] {
        let (_folder, daemon) = started(settings);
        let client = daemon.admin();
        let height =
            get(&client, &format!("/txs/{}", paid_to(&client, &address(0))))["height"].clone();
        let block = get(&client, &format!("/blocks/{height}/detail"));
        for side in ["created_coins", "spent_coins"] {
            let side = &block[side];
            let first = list(side, "first");
            let sum: u64 = first.iter().map(|coin| sats(&coin["value"])).sum();
            assert_eq!((sats(&side["value"]), &side["coins"]), (sum, &json!(first.len())));
            assert!(!first.is_empty() && first.iter().all(|coin| coin["address"].is_string()));
        }
        assert!(list(&block["spent_coins"], "first").iter().all(|c| c["spent_by"].is_string()));
        let (size, weight) = (block["size"]["size"].as_u64(), block["size"]["weight"].as_u64());
        assert!(size > Some(80) && weight > size, "{}", block["size"]);
        // A coinbase and the two payments.
        assert_eq!(block["size"]["transactions"], 3);
        let by_hash = block["block_hash"].as_str().unwrap();
        assert_eq!(
            get(&client, &format!("/blocks/{by_hash}/detail"))["spent_coins"],
            block["spent_coins"]
        );
        client.get("/api/v1/blocks/9999/detail").refused(404);
        client.get("/api/v1/blocks/x/detail").refused(400);
    }
}

#[test]
fn what_a_wallet_waits_for_has_the_fee_that_the_node_knows() {
    let (_folder, daemon) = started(&[]);
    let client = daemon.admin();
    let pool = get(&client, "/wallets/alice/mempool");
    let [tx] = list(&pool, "txs") else { panic!("{pool}") };
    // Its sender's affair: no input is ours, so that only the node can tell.
    assert_eq!(
        (&tx["own"], &tx["fee"], &tx["net"]),
        (&json!(false), &json!("300"), &json!("25000"))
    );
    let rate: f64 = tx["fee_rate"].as_str().unwrap().parse().unwrap();
    assert!((rate - 300.0 / tx["vsize"].as_f64().unwrap()).abs() < 0.01, "{tx}");
    client.get("/api/v1/wallets/nobody/mempool").refused(404);
}

#[test]
fn the_journal_is_read_from_its_end_and_page_by_page() {
    let (_folder, daemon) = started(&[]);
    let client = daemon.admin();
    let numbers = |query: &str| -> (Vec<i64>, Option<String>) {
        let page = get(&client, &format!("/wallets/alice/journal?{query}"));
        let lines = list(&page, "lines").iter().map(|line| line["number"].as_i64().unwrap());
        (lines.collect(), page["next"].as_str().map(str::to_owned))
    };
    let (oldest, _) = numbers("limit=500");
    assert!(oldest.len() >= 3);
    let (mut newest, mut next) = numbers("newest_first=true&limit=2");
    while let Some(after) = next {
        let (more, further) = numbers(&format!("newest_first=true&limit=2&after={after}"));
        newest.extend(more);
        next = further;
    }
    newest.reverse();
    assert_eq!(newest, oldest);
}

#[test]
fn an_address_of_the_wallet_has_a_code_to_be_paid_by() {
    let (_folder, daemon) = started(&[]);
    let client = daemon.admin();
    let own = get(&client, &format!("/wallets/alice/addresses/{}", address(0)));
    assert!(own["qr"]["size"].as_u64() > Some(21) && own["qr"]["path"].is_string(), "{own}");
    let foreign = "bcrt1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqdku202";
    let foreign = get(&client, &format!("/wallets/alice/addresses/{foreign}"));
    assert_eq!((&foreign["mine"], &foreign["qr"]), (&json!(false), &Value::Null));
}
