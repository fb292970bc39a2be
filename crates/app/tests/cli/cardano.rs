//! Real blocks of the preview network.

use std::path::PathBuf;

use serde_json::Value;
use unspent_testkit::data;

use crate::run::{Folder, text};

const PREVIEW: &[&str] = &["--network", "cardano-preview"];

struct Preview {
    genesis: String,
    files: Vec<PathBuf>,
    expected: Value,
}

/// Genesis, chunk 0, three single blocks, chunks 150 to 299.
fn preview() -> Option<Preview> {
    let names = [
        "00000.chunk",
        "block-04330.cbor",
        "block-08645.cbor",
        "block-13065.cbor",
        "chunks-00150-00199.zst",
        "chunks-00200-00249.zst",
        "chunks-00250-00299.zst",
    ];
    let files = names.iter().map(|name| data::path(&format!("cardano/preview/{name}")));
    let genesis = data::path("cardano/genesis/preview-byron-genesis.json")?;
    let expected = data::bytes("cardano/preview/expected.json")?;
    Some(Preview {
        genesis: genesis.to_str()?.to_owned(),
        files: files.collect::<Option<_>>()?,
        expected: serde_json::from_slice(&expected).unwrap(),
    })
}

fn import(folder: &Folder, preview: &Preview, more: &[&str]) -> Value {
    let genesis = ["--genesis", &preview.genesis, "--allow-holes"];
    let options = [PREVIEW, genesis.as_slice(), more].concat();
    let files: Vec<_> = preview.files.iter().map(PathBuf::as_path).collect();
    folder.import(&options, &files).json()
}

fn assert_checkpoint(folder: &Folder, preview: &Preview, height: &str) {
    let expected = &preview.expected["checkpoints"][height];
    let digest = folder.digest();
    for field in ["slot", "block_hash", "utxos", "asset_entries", "sha256"] {
        assert_eq!(digest[field], expected[field], "{field} at {height}");
    }
    assert_eq!(text(&digest["value"]), expected["lovelace"].to_string(), "{height}");
    assert_eq!(digest["value"], digest["lovelace_amount"]);
}

#[test]
fn the_preview_chain_has_its_digests_at_several_heights_in_every_mode() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    // One folder that grows from stop to stop, switching modes.
    let stops: [(&str, &[&str]); 6] = [
        ("3", &[]),
        ("16", &["--no-bulk"]),
        ("13065", &[]),
        ("32356", &["--delta-self-contained", "true"]),
        ("40000", &["--bulk-memory-mb", "1"]),
        ("52578", &[]),
    ];
    for (height, more) in stops {
        let summary = import(&folder, &preview, &[&["--stop-at", height], more].concat());
        assert_eq!(summary["missing_inputs"], 0);
        assert_checkpoint(&folder, &preview, height);
    }
    // However far the files go, the window below the stop can be undone.
    let status = folder.chain(&["status"]).json();
    assert_eq!(status["rollback_blocks"], 4_320);
    let summary = import(&folder, &preview, &["--stop-at", "58000"]);
    assert_eq!(summary["tip"]["height"], 58000);
    assert_checkpoint(&folder, &preview, "58000");
    folder.assert_consistent();
    let undone = folder.chain(&["rollback", "--to", "54000"]).json();
    assert_eq!(undone["blocks"], 4000);
    assert_checkpoint(&folder, &preview, "54000");
    import(&folder, &preview, &["--stop-at", "58000"]);
    assert_checkpoint(&folder, &preview, "58000");
}

#[test]
fn the_whole_preview_chain_has_its_counts_addresses_and_credentials() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    let summary = import(&folder, &preview, &[]);
    let totals = &preview.expected["totals"];
    assert_eq!(summary["blocks"], 27_179);
    assert_eq!(summary["txs"], totals["tx"]);
    assert_eq!(summary["created"], totals["created"]);
    assert_eq!(summary["spent"], totals["spent"]);
    assert_eq!(summary["same_block_spends"], totals["intrablock_spend"]);
    assert_eq!(summary["total_missing_inputs"], 0);
    assert_eq!(summary["utxos"], 32_662);
    assert_eq!(summary["holes"], 4);
    let again = import(&folder, &preview, &[]);
    assert_eq!((&again["blocks"], &again["already_applied"]), (&0.into(), &27_179.into()));
    let status = folder.chain(&["status"]).json();
    assert_eq!((&status["utxos"], &status["rollback_blocks"]), (&32_662.into(), &4_320.into()));
    assert_owners(&folder, &preview.expected);
    folder.assert_consistent();
}

fn assert_owners(folder: &Folder, expected: &Value) {
    for owner in expected["addresses_at_tip"].as_array().unwrap() {
        let address = text(&owner["address_hex"]);
        let balance = folder.chain(&["balance", address]).json();
        assert_eq!(balance["utxos"], owner["utxo_count"], "{address}");
        assert_eq!(text(&balance["lovelace_amount"]), owner["lovelace"].to_string(), "{address}");
        let mut up = walk(folder, address, "asc");
        assert_eq!(up.len() as u64, owner["utxo_count"].as_u64().unwrap());
        if up.len() < 2_000 {
            let mut down = walk(folder, address, "desc");
            down.reverse();
            assert_eq!(up, down, "{address}");
        }
        assert!(up.is_sorted_by_key(|(slot, position, ..)| (*slot, *position)), "{address}");
        // The oracle orders coins of one slot by hash, we by their place in the block.
        up.sort_by(|a, b| (a.0, &a.2, a.3).cmp(&(b.0, &b.2, b.3)));
        let names: Vec<_> = up.iter().map(|(_, _, tx, index)| format!("{tx}#{index}")).collect();
        let first = owner["first_in_index_order"].as_array().unwrap();
        assert_eq!(names[..first.len()], first[..], "{address}");
        assert_eq!(names.last().unwrap(), text(&owner["last_in_index_order"]), "{address}");
    }
    for owner in expected["top_payment_credentials_at_tip"].as_array().unwrap() {
        let balance = folder.chain(&["balance", text(&owner["credential"])]).json();
        assert_eq!(balance["utxos"], owner["utxo_count"]);
    }
}

/// Slot, position of the transaction in its block, hash and index.
type Coin = (u64, u64, String, u64);

/// Every coin of an address, by following `next`.
fn walk(folder: &Folder, address: &str, order: &str) -> Vec<Coin> {
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let limit = if after.is_none() { "150" } else { "500" };
        let mut arguments = vec!["utxos", address, "--limit", limit, "--order", order];
        arguments.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
        let page = folder.chain(&arguments).json();
        let number = |value: &Value| value.as_u64().unwrap();
        all.extend(page["utxos"].as_array().unwrap().iter().map(|coin| {
            let name = (text(&coin["tx_hash"]).to_owned(), number(&coin["output_index"]));
            (number(&coin["slot"]), number(&coin["tx_index"]), name.0, name.1)
        }));
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return all,
        }
    }
}

#[test]
fn invalid_transactions_pay_with_their_collateral_and_get_change() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    let known = preview.expected["invalid_transactions"].as_array().unwrap();
    assert!(known.len() >= 8);
    let last = known.iter().map(|tx| tx["height"].as_u64().unwrap()).max().unwrap();
    import(&folder, &preview, &["--stop-at", &last.to_string()]);
    for tx in known {
        let coin = |index: &Value| folder.chain(&["utxo", &format!("{}#{index}", text(&tx["tx"]))]);
        let change = coin(&tx["return_index"]).json();
        assert_eq!(change["is_collateral_return"], true, "{tx}");
        assert_eq!(change["lovelace_amount"], tx["return_lovelace"].to_string());
        let is_last = tx["height"].as_u64() == Some(last);
        assert_eq!(change["state"], if is_last { "unspent" } else { "spent" });
        assert_eq!(coin(&0.into()).json()["state"], "unknown", "its outputs were never made");
        let [hash, index] = [&tx["collateral_inputs"][0][0], &tx["collateral_inputs"][0][1]];
        let collateral = folder.chain(&["utxo", &format!("{}#{index}", text(hash))]).json();
        assert_eq!(collateral["state"], "spent");
        assert_eq!(collateral["spent_tx_hash"], tx["tx"]);
        assert_eq!(collateral["spent_at_block"], tx["height"]);
        let delta = folder.chain(&["delta", &tx["height"].to_string()]).json();
        assert_eq!(delta["deltas"][0]["flags"]["containsInvalidTx"], true);
        // Compact deltas say too who spent.
        assert_eq!(delta["deltas"][0]["is_self_contained"], false);
        let spent = delta["deltas"][0]["spent"].as_array().unwrap();
        assert!(!spent.is_empty());
        for coin in spent {
            assert!(coin["spent_tx_hash"].is_string(), "{coin}");
            assert_eq!(coin["spent_tx_hash"], coin["spent_by"], "{coin}");
        }
        let ours = spent.iter().find(|coin| coin["tx_hash"] == *hash).unwrap();
        assert_eq!(ours["spent_tx_hash"], tx["tx"]);
        let flags = delta["deltas"][0]["tx_flags"].as_array().unwrap();
        let flags = flags.iter().find(|flags| flags["tx_hash"] == tx["tx"]).unwrap();
        assert_eq!(
            (&flags["is_invalid"], &flags["had_collateral_return"]),
            (&true.into(), &true.into())
        );
    }
}

#[test]
fn without_allow_holes_a_gap_is_refused_and_what_came_before_it_stays() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    let files = [preview.files[0].as_path(), preview.files[1].as_path()];
    let options = [PREVIEW, &["--genesis", &preview.genesis]].concat();
    let error = folder.import(&options, &files).error(1);
    assert!(text(&error["message"]).contains("block-04330.cbor"), "{error}");
    assert_eq!(folder.digest()["height"], 215);
    folder.assert_consistent();
}

/// The first block tells, Byron's magic tells, and so do the addresses that later blocks pay to.
#[test]
fn blocks_of_another_network_are_refused_before_anything_is_written() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    let chunk = preview.files[0].as_path();
    for network in ["cardano-mainnet", "cardano-preprod"] {
        let error = folder.import(&["--network", network], &[chunk]).error(1);
        assert!(text(&error["message"]).contains("not a block of"), "{error}");
        assert!(!folder.data().exists(), "{network}");
    }
    folder.import(&[PREVIEW, &["--genesis", &preview.genesis]].concat(), &[chunk]).json();
    let before = folder.digest();
    for foreign in ["conway-mainnet-11544518", "byron-mainnet-4490505", "mary-mainnet-5616812"] {
        let path = data::path(&format!("cardano/eras/{foreign}.cbor")).unwrap();
        let error = folder.import(&["--allow-holes"], &[&path]).error(1);
        assert!(text(&error["message"]).contains("not a block of"), "{foreign}: {error}");
        assert_eq!(folder.digest(), before, "{foreign}");
    }
}

#[test]
fn a_torn_chunk_is_named_and_leaves_no_folder_behind() {
    let Some(chunk) = data::bytes("cardano/preview/00000.chunk") else { return };
    let folder = Folder::new();
    let torn = folder.beside("00000.chunk");
    std::fs::write(&torn, &chunk[..chunk.len() - 10]).unwrap();
    let error = folder.import(PREVIEW, &[&torn]).error(1);
    let message = text(&error["message"]);
    assert!(message.contains("00000.chunk") && message.contains("ends inside"), "{message}");
    assert!(!folder.data().exists());
    // A secondary index of the whole chunk does not hide that the chunk is torn.
    let index = data::bytes("cardano/preview/00000.secondary").unwrap();
    std::fs::write(folder.beside("00000.secondary"), index).unwrap();
    folder.import(PREVIEW, &[&torn]).error(1);
    assert!(!folder.data().exists());
}

#[test]
fn a_folder_of_chunks_is_read_in_natural_order_and_the_network_is_remembered() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    let chunk = std::fs::read(&preview.files[0]).unwrap();
    let blocks = folder.beside("immutable");
    std::fs::create_dir(&blocks).unwrap();
    let cuts = cut_points(&chunk);
    let (first, second) = (cuts[100], cuts[150]);
    std::fs::write(blocks.join("2.chunk"), &chunk[..first]).unwrap();
    std::fs::write(
        blocks.join("10.chunk.zst"),
        zstd::encode_all(&chunk[first..second], 1).unwrap(),
    )
    .unwrap();
    std::fs::write(blocks.join("11.chunk"), &chunk[second..]).unwrap();
    std::fs::write(blocks.join("2.primary"), b"junk").unwrap();
    let options = [PREVIEW, &["--genesis", &preview.genesis, "--stop-at", "50"]].concat();
    folder.import(&options, &[folder.beside("").as_path()]).json();
    // Neither network nor genesis has to be repeated.
    let summary = folder.import(&[], &[blocks.as_path()]).json();
    assert_eq!((&summary["blocks"], &summary["already_applied"]), (&165.into(), &51.into()));
    assert_eq!(summary["tip"]["height"], 215);
}

/// Where the blocks of a chunk start.
fn cut_points(chunk: &[u8]) -> Vec<usize> {
    let mut at = 0;
    let items = unspent_networks::cardano::framing::split_cbor_items(chunk);
    items
        .map(|item| {
            let start = at;
            at += item.unwrap().len();
            start
        })
        .collect()
}

#[test]
fn an_interrupted_import_stands_at_a_block_boundary_and_goes_on_later() {
    let Some(preview) = preview() else { return };
    let folder = Folder::new();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("unspent"));
    command.arg("--json").arg("--data-dir").arg(folder.data());
    command.args(["chain", "import", "--allow-holes", "--no-bulk"]).args(PREVIEW);
    command.args(["--genesis", &preview.genesis]).args(&preview.files);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    while !folder.data().join("chain/db/CURRENT").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    // Questions may be asked beside it; a second writer is refused.
    folder.chain(&["status"]).json();
    assert_eq!(folder.import(&[], &[&preview.files[0]]).error(1)["code"], "busy");
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "it was to be stopped before its end");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["interrupted"], true);
    assert_eq!(folder.digest()["height"], summary["tip"]["height"]);
    folder.assert_consistent();
    let rest = import(&folder, &preview, &[]);
    let sum = rest["blocks"].as_u64().unwrap() + summary["blocks"].as_u64().unwrap();
    assert_eq!((sum, &rest["utxos"]), (27_179, &32_662.into()));
}
