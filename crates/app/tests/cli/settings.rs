//! What the configuration says of a room holds for its commands as for the daemon.

use serde_json::{Value, json};
use unspent_testkit::data;

use crate::{
    run::{Ended, Folder},
    simulated::block_file,
};

/// The folder's command with a configuration.
fn with(folder: &Folder, text: &str, arguments: &[&str]) -> Ended {
    let file = folder.beside("unspent.toml");
    std::fs::write(&file, text).unwrap();
    folder.run(&[&["--json", "--config", file.to_str().unwrap()], arguments].concat())
}

/// The windows of the daemon are those of the command: a transaction that a permitted
/// reorganisation may still bring back stays.
#[test]
fn the_configured_windows_hold_for_txstore_clean() {
    let name = "bitcoin/mainnet-blocks-00000-04312.blk.zst";
    let Some(path) = data::path(name) else { return };
    let folder = Folder::new();
    let windows = "[txstore]\nretention = 4000\nsafety = 4000\nrollback = 4000\n";
    let elsewhere = format!("url = \"sqlite:{}\"\n", folder.beside("elsewhere.db").display());
    let text =
        format!("network = \"bitcoin\"\n[source]\nkind = \"bitcoin-files\"\n{windows}{elsewhere}");
    let path = path.to_str().unwrap();
    let imported = with(&folder, &text, &["txstore", "import", "--no-clean", path]).json();
    assert_eq!(imported["tip"]["height"], 4312);
    assert!(!folder.data().join("txstore.db").exists(), "it lies where the configuration says");
    let cleaned = with(&folder, &text, &["txstore", "clean"]).json();
    assert_eq!(cleaned["deleted"], 4, "{cleaned}");
    // What the standard windows take, and that a flag counts more than the file.
    let text = text.replace("elsewhere.db", "other.db");
    let flags = ["--retention", "288", "--safety", "288", "--rollback", "288"];
    let txstore = |command: &[&str]| {
        with(&folder, &text, &[&["txstore"], command, flags.as_slice()].concat()).json()
    };
    txstore(&["import", "--no-clean", path]);
    assert_eq!(txstore(&["clean"])["deleted"], 226);
}

/// A list of coins that the configuration switches off isn't built by an import, which the daemon
/// would then refuse to open.
#[test]
fn the_configured_lists_hold_for_chain_import() {
    let folder = Folder::new();
    let file = folder.beside("blocks.dat");
    std::fs::write(&file, block_file(5)).unwrap();
    let text = "network = \"bitcoin-regtest\"\n[utxo]\nrollback_window = 77\nprune_depth = 33\n\
                [utxo.index]\naddress_hash = false\n";
    let file = file.to_str().unwrap();
    with(&folder, text, &["chain", "import", file]).json();
    let status: Value = with(&folder, text, &["chain", "status"]).json();
    let shown = status.to_string();
    assert_eq!(status["index"]["address_hash"], json!(false), "{shown}");
    assert_eq!(status["index"]["payment_credential"], json!(true), "{shown}");
    // As before it is possible to say so by a flag.
    let other = Folder::new();
    let flags = ["chain", "import", "--index-address-hash", "false", file];
    with(&other, "network = \"bitcoin-regtest\"", &flags).json();
    let flagged = with(&other, "", &["chain", "status"]).json();
    assert_eq!(flagged["index"], status["index"]);
}
