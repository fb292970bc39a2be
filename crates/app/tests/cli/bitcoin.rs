//! Real Bitcoin blocks and real reorganisations.

use std::path::{Path, PathBuf};

use serde_json::Value;
use unspent_testkit::data;

use crate::run::{Folder, text};

const MAIN: &[&str] = &["--network", "bitcoin"];
const REGTEST: &[&str] = &["--network", "bitcoin-regtest"];

#[test]
fn the_first_blocks_of_bitcoin_have_their_digests() {
    let Some(blocks) = data::path("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    let Some(expected) = data::bytes("bitcoin/expected-00000-04312.json") else { return };
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let folder = Folder::new();
    let modes: [(&str, &[&str]); 4] = [
        ("0", &[]),
        ("170", &["--delta-self-contained", "true"]),
        ("1000", &["--bulk-memory-mb", "1"]),
        ("2000", &[]),
    ];
    for (height, mode) in modes {
        let options = [MAIN, &["--stop-at", height], mode].concat();
        folder.import(&options, &[&blocks]).json();
        let (digest, expected) = (folder.digest(), &expected["checkpoints"][height]);
        for field in ["block_hash", "utxos", "sha256"] {
            assert_eq!(digest[field], expected[field], "{field} at {height}");
        }
        assert_eq!(text(&digest["value"]), expected["sats"].to_string());
    }
    let summary = folder.import(&[], &[&blocks]).json();
    assert_eq!((&summary["blocks"], &summary["already_applied"]), (&2312.into(), &2001.into()));
    assert_eq!(summary["total_missing_inputs"], 0);
    assert_eq!(summary["tip"]["height"], 4312);
    assert_eq!(summary["warnings"], serde_json::json!([]));
    folder.assert_consistent();
    assert!(
        !folder
            .data()
            .read_dir()
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("unpacked") })
    );
}

fn armory() -> Option<[PathBuf; 4]> {
    let path = |name: &str| data::path(&format!("bitcoin/armory-reorg-blk_{name}.blk"));
    Some([path("0_to_4")?, path("3A")?, path("4A")?, path("5A")?])
}

#[test]
fn the_armory_reorganisation_ends_right_in_any_order_of_files() {
    let Some([main, a, b, c]) = armory() else { return };
    let orders = [[&main, &a, &b, &c], [&c, &b, &a, &main], [&b, &main, &c, &a]];
    let mut digests = Vec::new();
    for order in orders {
        let folder = Folder::new();
        let summary = folder.import(MAIN, &order.map(PathBuf::as_path)).json();
        assert_eq!((&summary["blocks"], &summary["stale_blocks"]), (&6.into(), &2.into()));
        assert_eq!(
            (&summary["missing_inputs"], &summary["rolled_back"]),
            (&0.into(), &Value::Null)
        );
        digests.push(folder.digest());
        folder.assert_consistent();
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    assert_eq!((&digests[0]["height"], &digests[0]["utxos"]), (&5.into(), &6.into()));
}

#[test]
fn the_armory_reorganisation_ends_right_across_imports_and_never_on_equal_work() {
    let Some([main, a, b, c]) = armory() else { return };
    let whole = Folder::new();
    whole.import(MAIN, &[&main, &a, &b, &c].map(PathBuf::as_path)).json();
    let folder = Folder::new();
    folder.import(MAIN, &[&main]).json();
    let before = folder.digest();
    let equal = folder.import(MAIN, &[&a, &b]).json();
    assert_eq!((&equal["blocks"], &equal["stale_blocks"]), (&0.into(), &2.into()));
    assert_eq!(folder.digest(), before);
    let more = folder.import(MAIN, &[&c, &b, &a]).json();
    assert_eq!((&more["blocks"], &more["rolled_back"]["blocks"]), (&3.into(), &2.into()));
    assert_eq!(more["rolled_back"]["to"]["height"], 2);
    assert_eq!(folder.digest(), whole.digest());
    // The old branch again, with all of its blocks: less work now.
    let old = folder.import(MAIN, &[&main]).json();
    assert_eq!((&old["blocks"], &old["stale_blocks"]), (&0.into(), &2.into()));
    assert_eq!(folder.digest(), whole.digest());
    folder.assert_consistent();
}

fn framed(magic: [u8; 4], blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for block in blocks {
        file.extend(magic);
        file.extend((block.len() as u32).to_le_bytes());
        file.extend(block);
    }
    file
}

fn floresta() -> Option<[Vec<Vec<u8>>; 2]> {
    let text = data::bytes("bitcoin/reorg-floresta.json")?;
    let chains: [Vec<String>; 2] = serde_json::from_slice(&text).unwrap();
    let bytes = |block: &String| hex::decode(block).unwrap();
    Some(chains.map(|chain| chain.iter().map(bytes).collect()))
}

#[test]
fn the_floresta_reorganisation_ends_on_the_longer_chain() {
    let Some([old, new]) = floresta() else { return };
    let magic = [0xfa, 0xbf, 0xb5, 0xda];
    let folder = Folder::new();
    let write = |name: &str, blocks: &[Vec<u8>]| {
        let path = folder.beside(name);
        std::fs::write(&path, framed(magic, blocks)).unwrap();
        path
    };
    let (first, second) = (write("blk00000.dat", &old), write("blk00001.dat", &new));
    let before = folder.import(REGTEST, &[&first]).json();
    // The network's first block is not in the file and comes from the program.
    assert_eq!((&before["blocks"], &before["tip"]["height"]), (&11.into(), &10.into()));
    let after = folder.import(REGTEST, &[&second]).json();
    let depth = after["rolled_back"]["blocks"].as_u64().unwrap();
    assert_eq!(after["rolled_back"]["to"]["height"].as_u64().unwrap() + depth, 10);
    assert!(after["tip"]["height"].as_u64() > Some(10), "{after}");
    folder.assert_consistent();
    let at_once = Folder::new();
    at_once.import(REGTEST, &[&second, &first]).json();
    assert_eq!(at_once.digest(), folder.digest());
    let back = folder.import(REGTEST, &[&first]).json();
    assert_eq!((&back["blocks"], &back["rolled_back"]), (&0.into(), &Value::Null));
}

#[test]
fn a_reorganisation_deeper_than_the_window_is_refused_and_changes_nothing() {
    let Some([old, new]) = floresta() else { return };
    let folder = Folder::new();
    let magic = [0xfa, 0xbf, 0xb5, 0xda];
    let paths = [("a.blk", &old), ("b.blk", &new)].map(|(name, blocks)| {
        let path = folder.beside(name);
        std::fs::write(&path, framed(magic, blocks)).unwrap();
        path
    });
    let windows = ["--rollback-window", "2", "--prune-depth", "2"];
    let options = [REGTEST, windows.as_slice()].concat();
    folder.import(&options, &[&paths[0]]).json();
    let before = folder.digest();
    let error = folder.import(&options, &[&paths[1]]).error(1);
    let message = text(&error["message"]);
    assert!(message.contains("a branch with more work leaves the stored chain"), "{message}");
    assert!(message.contains("only the last 2 can be undone"), "{message}");
    assert_eq!(folder.digest(), before);
    folder.assert_consistent();
}

#[test]
fn single_raw_blocks_follow_after_holes_by_the_height_they_name() {
    let names = ["227835.blk", "227836.blk", "702861.blk.zst"];
    let paths = names.map(|name| data::path(&format!("bitcoin/mainnet-{name}")));
    let [Some(a), Some(b), Some(c)] = paths else { return };
    let folder = Folder::new();
    let files: [&Path; 3] = [&c, &b, &a];
    let error = folder.import(MAIN, &files).error(1);
    assert!(text(&error["message"]).contains("none of the 3 blocks connects"), "{error}");
    assert!(!folder.data().exists());
    let options = [MAIN, &["--allow-holes"]].concat();
    let summary = folder.import(&options, &files).json();
    assert_eq!((&summary["blocks"], &summary["holes"]), (&3.into(), &2.into()));
    assert_eq!(summary["tip"]["height"], 702_861);
    let again = folder.import(&options, &files).json();
    assert_eq!((&again["blocks"], &again["already_applied"]), (&0.into(), &3.into()));
    let error = folder.chain(&["rollback", "--to", "227836"]).error(1);
    assert!(text(&error["message"]).contains("the import skipped blocks below"), "{error}");
}
