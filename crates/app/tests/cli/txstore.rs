//! `unspent txstore` on block files: real ones and simulated ones.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{
    Block,
    consensus::{Decodable as _, encode::serialize},
    hashes::Hash as _,
};
use serde_json::{Value, json};
use unspent_model::{
    TxId,
    txstore::{DeletionWindows, RetentionBlocks, TxRecord},
};
use unspent_sim::ChainSim;
use unspent_sql::{Options, Url};
use unspent_testkit::data;
use unspent_txstore::{Settings, TxStore};

use crate::run::{Ended, Folder, text};

const REGTEST: &[&str] = &["--network", "bitcoin-regtest"];
const SMALL: u64 = 10;
const SMALL_WINDOWS: [&str; 6] = ["--retention", "10", "--safety", "10", "--rollback", "10"];

fn txstore(folder: &Folder, arguments: &[&str]) -> Ended {
    folder.run(&[&["--json", "txstore"], arguments].concat())
}

fn import(folder: &Folder, options: &[&str], file: &std::path::Path) -> Ended {
    txstore(folder, &[&["import"], options, &[file.to_str().unwrap()]].concat())
}

fn open(folder: &Folder) -> TxStore {
    let windows =
        DeletionWindows { retention: RetentionBlocks(SMALL), safety: SMALL, rollback: SMALL };
    let url = Url::Sqlite(folder.data().join("txstore.db"));
    TxStore::open_existing(&url, Settings { windows }, Options::default()).unwrap()
}

fn blk_file(magic: [u8; 4], blocks: &[Block]) -> Vec<u8> {
    let mut file = Vec::new();
    for block in blocks {
        let raw = serialize(block);
        file.extend(magic);
        file.extend((raw.len() as u32).to_le_bytes());
        file.extend(raw);
    }
    file
}

/// Blocks in the order of a blk file.
fn blocks_in(mut file: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    while file.len() > 8 {
        file = &file[8..];
        blocks.push(Block::consensus_decode(&mut file).unwrap());
    }
    blocks
}

/// What must be in the store after these blocks, by the rule alone: coins, and whatever lies, or
/// has a child that lies, less deep than the window.
fn live_set(blocks: &[Block]) -> BTreeSet<TxId> {
    let tip = blocks.len() as u64 - 1;
    // For each transaction when it is settled, and its coins.
    let mut settled: BTreeMap<TxId, (u64, BTreeSet<u32>)> = BTreeMap::new();
    for (height, block) in (0_u64..).zip(blocks) {
        for tx in &block.txdata {
            for input in tx.input.iter().filter(|_| !tx.is_coinbase()) {
                let coin = input.previous_output;
                let parent = settled.get_mut(&TxId(coin.txid.to_byte_array())).unwrap();
                assert!(parent.1.remove(&coin.vout), "{coin} is spent twice");
                parent.0 = height;
            }
            // The first block's coinbase is no coin.
            let outputs = tx
                .output
                .iter()
                .enumerate()
                .filter(|(_, output)| height > 0 && !output.script_pubkey.is_op_return());
            let coins = outputs.map(|(vout, _)| vout as u32).collect();
            settled.insert(TxId(tx.compute_txid().to_byte_array()), (height, coins));
        }
    }
    let stays =
        settled.into_iter().filter(|(_, (at, coins))| !coins.is_empty() || at + SMALL > tip);
    stays.map(|(txid, _)| txid).collect()
}

fn records(store: &TxStore, blocks: &[Block]) -> Vec<TxRecord> {
    let txids = blocks.iter().flat_map(|block| &block.txdata);
    let txids: Vec<TxId> = txids.map(|tx| TxId(tx.compute_txid().to_byte_array())).collect();
    let found = txids.chunks(500).flat_map(|some| store.records(some.to_vec()).unwrap());
    found.flatten().collect()
}

#[test]
fn the_first_blocks_of_bitcoin_leave_exactly_what_can_still_matter() {
    let name = "bitcoin/mainnet-blocks-00000-04312.blk.zst";
    let (Some(path), Some(bytes)) = (data::path(name), data::bytes(name)) else { return };
    let Some(expected) = data::bytes("bitcoin/expected-00000-04312.json") else { return };
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let blocks = blocks_in(&bytes);
    assert_eq!(blocks.len(), 4313);
    let folder = Folder::new();
    let mut before = 0;
    for height in [1000_usize, 2000, 4312] {
        let stop = height.to_string();
        let options =
            [&["--network", "bitcoin", "--stop-at", &stop], SMALL_WINDOWS.as_slice()].concat();
        let summary = import(&folder, &options, &path).json();
        assert_eq!(summary["tip"]["height"], height);
        assert_eq!(summary["absent_inputs"], 0);
        assert_eq!(summary["blocks"], height + 1 - before);
        before = height + 1;
        let applied = &blocks[..=height];
        let store = open(&folder);
        let found = records(&store, applied);
        let stored: BTreeSet<TxId> = found.iter().map(|record| record.txid).collect();
        assert_eq!(stored, live_set(applied), "at {height}");
        assert_eq!(summary["records"], stored.len(), "at {height}");
        let coins: u64 = found.iter().map(|record| u64::from(record.slots.open())).sum();
        if let Some(known) = expected["checkpoints"].get(&stop) {
            assert_eq!(Value::from(coins), known["utxos"], "at {height}");
        }
    }
    let status = txstore(&folder, &["status"]).json();
    assert_eq!((&status["backlog"]["due"], &status["unmined"]), (&json!(0), &json!(0)));
    let again = import(&folder, SMALL_WINDOWS.as_slice(), &path).json();
    assert_eq!((&again["blocks"], &again["deleted"]), (&json!(0), &json!(0)));
}

#[test]
fn real_blocks_spend_inside_themselves_and_count_absent_parents() {
    for (height, inside) in [(702_861_u64, 327), (866_342, 4_036)] {
        let name = format!("bitcoin/mainnet-{height}.blk.zst");
        let (Some(path), Some(bytes)) = (data::path(&name), data::bytes(&name)) else { return };
        let block: Block =
            bitcoin::consensus::deserialize(&bytes).unwrap_or_else(|_| blocks_in(&bytes).remove(0));
        let inputs: usize = block.txdata.iter().skip(1).map(|tx| tx.input.len()).sum();
        let folder = Folder::new();
        let summary = import(&folder, &["--network", "bitcoin"], &path).json();
        assert_eq!(summary["tip"]["height"], height);
        assert_eq!(summary["created"], block.txdata.len());
        assert_eq!(
            (&summary["spent"], &summary["spent_in_block"]),
            (&json!(inside), &json!(inside))
        );
        assert_eq!(summary["absent_inputs"], inputs - inside);
        let cleaned = txstore(&folder, &["clean"]).json();
        assert_eq!(cleaned["deleted"], 0, "nothing is deep enough");
    }
}

/// A store of a simulated chain, its blocks, and the file they are in.
fn simulated(seed: u64) -> (Folder, ChainSim, std::path::PathBuf) {
    let mut sim = ChainSim::new(seed);
    sim.mine(101);
    sim.mine_busy(40, 6);
    let folder = Folder::new();
    let file = folder.beside("blk00000.dat");
    write(&sim, &file);
    (folder, sim, file)
}

fn write(sim: &ChainSim, file: &std::path::Path) {
    let blocks: Vec<Block> = sim.active_blocks().map(|block| block.block.clone()).collect();
    std::fs::write(file, blk_file([0xfa, 0xbf, 0xb5, 0xda], &blocks)).unwrap();
}

#[test]
fn a_record_says_who_spends_it_and_why_it_stays() {
    let (folder, sim, file) = simulated(31);
    let summary = import(&folder, REGTEST, &file).json();
    assert_eq!((&summary["tip"]["height"], &summary["deleted"]), (&json!(141), &json!(0)));
    let child = sim.active_blocks().last().unwrap().block.txdata[1].clone();
    let coin = child.input[0].previous_output;
    let parent = coin.txid.to_string();
    let found = txstore(&folder, &["get", &parent, "--outputs", "--raw"]).json();
    assert_eq!(found["transaction"]["txid"], parent);
    assert_eq!(found["transaction"]["state"], "mined");
    assert!(found["transaction"]["raw"].as_str().unwrap().len() > 100);
    let slot = &found["outputs"][coin.vout as usize];
    assert_eq!((&slot["state"], &slot["spent_vin"]), (&json!("spent"), &json!(0)));
    assert_eq!(slot["spent_by"], child.compute_txid().to_string());
    let why = txstore(&folder, &["why", &parent]).json();
    assert_eq!((&why["verdict"], &why["height"]), (&json!("keep"), &json!(141)));
    let blockers = why["blockers"].as_array().unwrap();
    let shallow = blockers.iter().find(|found| found["vout"] == coin.vout).unwrap();
    assert_eq!((&shallow["reason"], &shallow["depth"]), (&json!("child_shallow"), &json!(0)));
    assert_eq!(shallow["again_at"], 141 + 288);
    for (question, code) in [("zz", 2), (&*"00".repeat(32), 1)] {
        txstore(&folder, &["get", question]).error(code);
        txstore(&folder, &["why", question]).error(code);
    }
    // The same for people.
    let table = folder.run(&["txstore", "why", &parent]);
    assert!(table.out.contains("child_shallow") && table.out.contains("keep"), "{}", table.out);
    let table = folder.run(&["txstore", "get", &parent, "--outputs"]);
    assert!(table.out.contains(&child.compute_txid().to_string()), "{}", table.out);
}

#[test]
fn outputs_are_frozen_unfrozen_and_reassigned() {
    let (folder, sim, file) = simulated(32);
    import(&folder, REGTEST, &file).json();
    let coin = sim.coins().iter().next().map(|(at, _)| at.to_string()).unwrap();
    let refused = |arguments: &[&str], words: &str| {
        let error = txstore(&folder, arguments).error(1);
        assert!(text(&error["message"]).contains(words), "{error}");
    };
    refused(&["unfreeze", &coin], "not frozen");
    let to = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    refused(&["reassign", &coin, "--to", to], "not frozen");
    assert_eq!(txstore(&folder, &["freeze", &coin]).json()[0]["done"], true);
    refused(&["freeze", &coin], "already frozen");
    let unknown = format!("{}:9", "00".repeat(32));
    let held = |command: &str, outputs: [&str; 2]| {
        let ended = txstore(&folder, &[command, outputs[0], outputs[1]]);
        let answer: Value = serde_json::from_str(&ended.out).unwrap();
        let [first, second] = answer.as_array().unwrap().as_slice() else { panic!("{answer}") };
        (ended.code, first["code"].clone(), second["code"].clone())
    };
    let taken = json!("ALREADY_FROZEN");
    assert_eq!(held("freeze", [&coin, &unknown]), (3, taken.clone(), json!("TX_NOT_FOUND")));
    let other = sim.coins().iter().nth(1).map(|(at, _)| at.to_string()).unwrap();
    assert_eq!(held("freeze", [&other, &coin]), (3, Value::Null, taken), "what could be was held");
    assert_eq!(held("unfreeze", [&other, &unknown]), (3, Value::Null, json!("TX_NOT_FOUND")));
    let given = txstore(&folder, &["reassign", &coin, "--to", to]).json();
    assert_eq!(given["spendable_at"], 1_141);
    let (txid, vout) = coin.split_once(':').unwrap();
    let found = txstore(&folder, &["get", txid, "--outputs"]).json();
    let output = &found["outputs"][vout.parse::<usize>().unwrap()];
    assert_eq!((&output["state"], &output["reassigned_until"]), (&json!("unspent"), &json!(1_141)));
    txstore(&folder, &["freeze", "nonsense"]).error(2);
    txstore(&folder, &["reassign", &coin, "--to", "nonsense"]).error(2);
}

#[test]
fn an_operator_preserves_cleans_and_drops() {
    let (folder, mut sim, file) = simulated(33);
    let options = [REGTEST, &["--no-clean"], SMALL_WINDOWS.as_slice()].concat();
    import(&folder, &options, &file).json();
    let with = |arguments: &[&str]| txstore(&folder, &[arguments, &SMALL_WINDOWS].concat());
    let blocks: Vec<Block> = sim.active_blocks().map(|block| block.block.clone()).collect();
    let all: usize = blocks.iter().map(|block| block.txdata.len()).sum();
    assert_eq!(with(&["status"]).json()["records"], all);
    // One that would go is kept, for a while.
    let live = live_set(&blocks);
    let mut txs = blocks.iter().flat_map(|block| &block.txdata).map(|tx| tx.compute_txid());
    let kept = txs.find(|txid| !live.contains(&TxId(txid.to_byte_array()))).unwrap().to_string();
    assert_eq!(with(&["why", &kept]).json()["verdict"], "delete");
    with(&["preserve", &kept, "--until", "1000"]).json();
    let why = with(&["why", &kept]).json();
    let mut blockers = why["blockers"].as_array().unwrap().iter();
    assert!(blockers.any(|found| found["reason"] == "preserved"), "{why}");
    with(&["preserve", &"00".repeat(32), "--until", "1000"]).error(1);
    let first = with(&["clean", "--most", "1"]).json();
    assert_eq!((&first["looked_at"], &first["cut"]), (&json!(1), &json!(true)));
    let rest = with(&["clean"]).json();
    let deleted = first["deleted"].as_u64().unwrap() + rest["deleted"].as_u64().unwrap();
    assert_eq!(deleted as usize, all - live.len() - 1);
    assert_eq!(with(&["clean"]).json()["deleted"], 0);
    assert_eq!(with(&["status"]).json()["records"], live.len() + 1);
    assert_eq!(with(&["repair"]).json(), json!({ "unknown": [], "repaired": 0 }));
    // A longer branch: what only the old one held is unmined, and may be dropped.
    let leaf = sim.active_blocks().last().unwrap().block.txdata[1].compute_txid().to_string();
    with(&["drop", &leaf]).error(1);
    sim.fork_of_length(4, 5).unwrap();
    write(&sim, &file);
    let undone = import(&folder, &options, &file).json();
    assert_eq!((&undone["undone"], &undone["blocks"]), (&json!(4), &json!(5)));
    let unmined = with(&["unmined", "--limit", "500"]).json();
    let names: Vec<&str> =
        unmined["unmined"].as_array().unwrap().iter().map(|tx| text(&tx["txid"])).collect();
    assert!(names.len() >= 4 && unmined["next"].is_null(), "four coinbases at least: {unmined}");
    let page = with(&["unmined", "--limit", "1"]).json();
    let next = with(&["unmined", "--limit", "1", "--after", text(&page["next"])]).json();
    let listed = [&page, &next].map(|page| text(&page["unmined"][0]["txid"]));
    assert_eq!(listed, names[..2]);
    let gone = names.iter().find(|name| with(&["drop", name]).code == 0).expect("a leaf");
    with(&["get", gone]).error(1);
    assert_eq!(with(&["status"]).json()["dropped"], 1);
    with(&["unmined", "--after", "nonsense"]).error(2);
}

#[test]
fn nonsense_is_refused_and_leaves_nothing_behind() {
    let (folder, _, file) = simulated(34);
    let name = file.to_str().unwrap();
    txstore(&folder, &["status"]).error(1);
    let error = txstore(&folder, &["import", name]).error(2);
    assert!(text(&error["message"]).contains("it needs a network"), "{error}");
    import(&folder, &["--network", "cardano-preview"], &file).error(1);
    import(&folder, &["--network", "bitcoin"], &file).error(1);
    let short = ["--safety", "5", "--rollback", "6"];
    import(&folder, &[REGTEST, short.as_slice()].concat(), &file).error(2);
    assert!(!folder.data().join("txstore.db").exists());
    let db = format!("sqlite:{}", folder.beside("other.db").display());
    let there = import(&folder, &[REGTEST, &["--url", &db]].concat(), &file).json();
    assert_eq!(there["tip"]["height"], 141);
    assert_eq!(txstore(&folder, &["status", "--url", &db]).json()["tip"]["height"], 141);
}

#[test]
fn the_stores_rows_are_copied_and_saved() {
    let (folder, _, file) = simulated(35);
    import(&folder, REGTEST, &file).json();
    let url = |name: &str| format!("sqlite:{}", folder.beside(name).display());
    let copied = folder.run(&[
        "--json",
        "db",
        "copy",
        "--room",
        "txstore",
        &url("data/txstore.db"),
        &url("copy.db"),
    ]);
    let copied = copied.json();
    let tables = copied["tables"].as_array().unwrap();
    let rows =
        |name: &str| tables.iter().find(|table| table["name"] == name).unwrap()["rows"].clone();
    let status = txstore(&folder, &["status"]).json();
    assert_eq!((&rows("transactions"), &copied["differences"]), (&status["records"], &json!([])));
    let there = txstore(&folder, &["status", "--url", &url("copy.db")]).json();
    assert_eq!((&there["records"], &there["tip"]), (&status["records"], &status["tip"]));
    let saved = folder.beside("saved");
    assert_eq!(folder.run(&["db", "backup", saved.to_str().unwrap()]).code, 0);
    assert!(saved.join("txstore.db").is_file());
    let error = folder.run(&["--json", "db", "copy", &url("data/txstore.db"), &url("third.db")]);
    assert!(text(&error.error(2)["message"]).contains("--room"), "two rooms have a database");
}
