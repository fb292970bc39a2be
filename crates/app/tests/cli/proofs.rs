//! Roots and proofs: made from a folder, checked without one.

use std::fs;

use bitcoin::consensus::encode::serialize;
use serde_json::Value;
use unspent_sim::ChainSim;

use crate::run::{Ended, Folder, text};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// Imports a simulated chain whose last block has height 140.
fn imported(store: &str) -> Folder {
    let mut sim = ChainSim::new(5);
    sim.mine(101);
    sim.mine_busy(40, 6);
    let mut file = Vec::new();
    for block in sim.active_blocks() {
        let raw = serialize(&block.block);
        file.extend(MAGIC);
        file.extend((raw.len() as u32).to_le_bytes());
        file.extend(raw);
    }
    let folder = Folder::new();
    let path = folder.beside("blk00000.dat");
    fs::write(&path, file).unwrap();
    folder.import(&["--network", "bitcoin-regtest", "--store", store], &[&path]).json();
    folder
}

/// A coin that a block created, or one that it spent.
fn coin(folder: &Folder, height: u64, list: &str) -> String {
    let delta = folder.chain(&["delta", &height.to_string()]).json();
    text(&delta["deltas"][0][list][0]["outpoint"]).replace(':', "#")
}

fn check(folder: &Folder, file: &str, root: &str) -> Ended {
    folder.run_on(&folder.beside("nowhere"), &["verify-proof", file, "--root", root])
}

#[test]
fn a_proof_is_made_written_and_checked_without_a_folder() {
    let folder = imported("mmr");
    folder.assert_consistent();
    let root = folder.chain(&["root"]).json();
    let tip = folder.digest();
    assert_eq!((&root["block"]["height"], &root["live"]), (&tip["height"], &tip["utxos"]));
    let status = folder.chain(&["status"]).json();
    assert_eq!((&status["store"], &status["root"]), (&Value::from("mmr"), &root["root"]));
    let root = text(&root["root"]).to_owned();
    let height = tip["height"].as_u64().unwrap();
    let (unspent, spent) = (coin(&folder, height, "created"), coin(&folder, height, "spent"));
    let file = folder.beside("proof.cbor");
    let file = file.to_str().unwrap();
    for (name, said) in [(&unspent, "UNSPENT"), (&spent, "SPENT")] {
        let made = folder.run(&["chain", "prove", name, "--out", file]);
        assert_eq!(made.code, 0, "{}", made.err);
        let checked = check(&folder, file, &root);
        assert_eq!(checked.code, 0, "{}", checked.err);
        assert!(checked.out.contains(&format!(" {said} ")), "{}", checked.out);
    }
    assert!(!folder.beside("nowhere").exists(), "no data folder is needed, and none is made");
    // Before its spend the coin was unspent; the root of that block is another.
    let before = (height - 1).to_string();
    let older = folder.chain(&["root", "--at", &before]).json();
    let json = folder.beside("proof.json");
    let json = json.to_str().unwrap();
    let both = folder.chain(&["prove", &spent, "--at", &before, "--out", json]).json();
    assert_eq!(both["coins"][0]["state"], "unspent");
    assert!(check(&folder, json, text(&older["root"])).out.contains(" UNSPENT "));
    assert_eq!(check(&folder, json, &root).code, 1);
}

#[test]
fn what_proves_nothing_is_refused_with_a_status() {
    let folder = imported("mmr");
    let root = text(&folder.chain(&["root"]).json()["root"]).to_owned();
    let height = folder.digest()["height"].as_u64().unwrap();
    let unspent = coin(&folder, height, "created");
    let file = folder.beside("proof.cbor");
    let file = file.to_str().unwrap();
    assert_eq!(folder.run(&["chain", "prove", &unspent, "--out", file]).code, 0);
    let other = format!("{}{}", &root[..63], if root.ends_with('0') { "1" } else { "0" });
    let refused = check(&folder, file, &other);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("REFUSED"), "{}", refused.err);
    let mut bytes = fs::read(file).unwrap();
    bytes.push(0);
    fs::write(file, &bytes).unwrap();
    assert_eq!(check(&folder, file, &root).code, 1);
    assert_eq!(check(&folder, file, "abc").code, 2);
    let never = format!("{}#0", "ab".repeat(32));
    let error = folder.chain(&["prove", &never]).error(1);
    assert!(text(&error["message"]).contains("never existed"), "{error}");
    assert_eq!(folder.chain(&["root", "--at", "9999"]).code, 1);
}

#[test]
fn a_classic_folder_says_that_it_has_no_roots() {
    let folder = imported("classic");
    let error = folder.chain(&["root"]).error(1);
    assert!(text(&error["message"]).contains("store = mmr"), "{error}");
    assert_eq!(folder.chain(&["status"]).json()["root"], Value::Null);
}
