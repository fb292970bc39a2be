//! The block files of a real node.

use serde_json::json;
use unspent_testkit::peers::Knots;

use crate::run::{Folder, text};

#[test]
fn obfuscated_files_of_a_node_are_imported_and_its_coin_set_comes_out() {
    let Some(node) = Knots::start(&[]) else { return };
    assert!(node.blocks_folder().join("xor.dat").exists(), "the files are obfuscated");
    node.make_wallet();
    node.mine(110);
    let compare = |folder: &Folder| {
        let digest = folder.chain(&["digest", "--muhash"]).json();
        let theirs = node.call("gettxoutsetinfo", json!(["muhash"]));
        assert_eq!(digest["block_hash"], theirs["bestblock"]);
        assert_eq!(digest["utxos"], theirs["txouts"]);
        assert_eq!(digest["muhash"], theirs["muhash"]);
        assert!(digest["muhash"].is_string());
        let total = theirs["total_amount"].as_f64().unwrap() * 1e8;
        assert_eq!(text(&digest["value"]), format!("{total:.0}"));
    };
    let folder = Folder::new();
    for _ in 0..5 {
        node.send(&node.new_address(), 12_345_678);
        node.mine(2);
    }
    let summary = folder.import(&["--network", "bitcoin-regtest"], &[&node.blocks_folder()]).json();
    assert_eq!((&summary["blocks"], &summary["missing_inputs"]), (&121.into(), &0.into()));
    compare(&folder);
    // A longer branch takes over.
    let hash = node.call("getblockhash", json!([117]));
    node.invalidate(hash.as_str().unwrap());
    node.mine(6);
    let summary = folder.import(&[], &[&node.blocks_folder()]).json();
    assert_eq!(summary["rolled_back"]["blocks"], 4);
    compare(&folder);
    folder.assert_consistent();
}
