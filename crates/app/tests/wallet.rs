//! `unspent wallet` from nothing to a payment, on real blocks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;
use unspent_testkit::data;

/// The output script of block 9's coinbase, spent piece by piece from block 170 on.
const BLOCK_9: &str = "410411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7b148a6909a5cb2e0eadd\
                       fb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3ac";
/// A watch-only account (the test vector of BIP 32, chain m).
const DESCRIPTOR: &str = "wpkh(xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoC\
                          u1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8/<0;1>/*)";

struct Folder(TempDir);

impl Folder {
    fn run(&self, args: &[&str]) -> assert_cmd::assert::Assert {
        let mut command = Command::cargo_bin("unspent").unwrap();
        command.env_clear().arg("--data-dir").arg(self.0.path()).args(["--json", "wallet"]);
        command.args(args).assert()
    }

    fn json(&self, args: &[&str]) -> Value {
        let done = self.run(args).success();
        serde_json::from_slice(&done.get_output().stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> Value {
        let done = self.run(args).failure();
        serde_json::from_slice(&done.get_output().stdout).unwrap()
    }
}

#[test]
fn the_help_alone_shows_the_way() {
    let done = Command::cargo_bin("unspent").unwrap().args(["wallet", "--help"]).assert().success();
    let text = String::from_utf8(done.get_output().stdout.clone()).unwrap();
    for word in ["create", "scan", "balance", "lease", "pay", "finalize", "audit", "satoshis"] {
        assert!(text.contains(word), "{word}");
    }
}

#[test]
fn from_nothing_to_a_payment_on_the_first_blocks_of_bitcoin() {
    let Some(blocks) = data::path("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    let folder = Folder(tempfile::tempdir().unwrap());
    let early = folder.refused(&["balance", "mine"]);
    assert!(early["error"]["message"].as_str().unwrap().contains("create"), "{early}");
    let create = ["create", "mine", "--network", "bitcoin", "--descriptor", DESCRIPTOR];
    let made = folder.json(&[&create[..], &["--watch", BLOCK_9]].concat());
    assert_eq!(made["chains"].as_array().unwrap().len(), 3);
    let path = blocks.to_str().unwrap();
    let first = folder.json(&["scan", path, "--stop-at", "200"]);
    assert_eq!((&first["blocks"], &first["tip"]), (&201.into(), &200.into()));
    assert_eq!(folder.json(&["balance", "mine"])["confirmed"]["value"], "2800000000");
    let rest = folder.json(&["scan", path]);
    assert_eq!((&rest["blocks"], &rest["lagging"]), (&4112.into(), &serde_json::json!([])));
    let balance = folder.json(&["balance", "mine"]);
    assert_eq!(balance["confirmed"]["value"], "1800000000");
    assert_eq!(balance["value"], "1800000000");
    let past = folder.json(&["balance", "mine", "--at", "169"]);
    assert_eq!(past["value"], "5000000000");
    let txs = folder.json(&["txs", "mine", "--from", "0"]);
    let heights: Vec<_> =
        txs["txs"].as_array().unwrap().iter().map(|tx| tx["height"].as_u64().unwrap()).collect();
    assert_eq!(heights, [9, 170, 181, 182, 183, 248]);
    let detail = folder.json(&["tx", "mine", txs["txs"][1]["txid"].as_str().unwrap()]);
    assert_eq!(detail["net"], "-1000000000");
    let coins = folder.json(&["coins", "mine"]);
    let coin = coins["coins"][0]["outpoint"].as_str().unwrap().to_owned();
    assert_eq!(folder.json(&["audit", "mine"])["differences"], serde_json::json!([]));

    let leased = folder.json(&["lease", "mine", &coin, "--for", "30m"]);
    let lock = leased["lock"].as_str().unwrap();
    assert_eq!(folder.json(&["leases", "mine"])["leases"][0]["value"], "1800000000");
    assert_eq!(folder.json(&["coin", "mine", &coin])["state"], "leased");
    let short = folder.refused(&["select", "mine", "1000"]);
    assert!(short["error"]["message"].as_str().unwrap().contains("missing"), "{short}");
    folder.json(&["release", "mine", &coin, "--lock", lock]);
    let looked = folder.json(&["select", "mine", "0.5 BTC", "--dry-run", "--rate", "2.5"]);
    assert_eq!(looked["coins"][0]["outpoint"], coin);
    let address = folder.json(&["address", "mine"]);
    let to = format!("{}=150000", address["address"].as_str().unwrap());
    let file = folder.0.path().join("payment.psbt");
    // Nobody here knows a key to that coin; it is taken only when it is asked for.
    let pay = ["pay", "mine", "--to", &to, "--psbt", file.to_str().unwrap()];
    let unasked = folder.refused(&pay);
    assert!(unasked["error"]["message"].as_str().unwrap().contains("missing"), "{unasked}");
    let paid = folder.json(&[&pay[..], &["--require", &coin]].concat());
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("cHNidP"));
    assert!(paid["why"].as_str().unwrap().contains("waste"));
    let unsigned = format!("@{}", file.display());
    let refused = folder.refused(&["finalize", "mine", &unsigned]);
    assert!(refused["error"]["message"].as_str().is_some());
    assert_eq!(folder.json(&["balance", "mine"])["leased"]["coins"], 1);

    folder.json(&["label", "mine", &coin, "first money"]);
    assert_eq!(folder.json(&["labels", "mine"])[0]["label"], "first money");
    let lines = folder.json(&["journal", "mine"]);
    assert_eq!(lines["lines"].as_array().unwrap().len(), 6);
    let rewound = folder.json(&["rewind", "mine", "175"]);
    assert_eq!(rewound["txs"], 4);
    folder.json(&["scan", path]);
    let again = folder.json(&["balance", "mine"]);
    assert_eq!(again["value"], "1800000000");
    let pruned = folder.json(&["prune", "mine", "--up-to", "4000"]);
    assert_eq!(pruned["pruned"].as_array().unwrap().len(), 5);
    assert_eq!(folder.json(&["audit", "mine"])["differences"], serde_json::json!([]));
    assert_eq!(folder.json(&["list"])["wallets"][0]["scanned_height"], 4312);
    folder.json(&["addresses", "mine", "--limit", "5"]);
}

#[test]
fn a_birthday_may_be_a_date_that_block_files_turn_into_a_height() {
    let Some(blocks) = data::path("bitcoin/mainnet-blocks-00000-04312.blk.zst") else { return };
    let path = blocks.to_str().unwrap();
    // Block 1 came five days after the first one, on 9 January.
    for (date, height, sats) in [("2009-01-09", 1, "1800000000"), ("2009-02-01", 2406, "0")] {
        let folder = Folder(tempfile::tempdir().unwrap());
        let create = ["create", "mine", "--network", "bitcoin", "--watch", BLOCK_9];
        let made = folder.json(&[&create[..], &["--birthday", date]].concat());
        assert_eq!((&made["birthday"], &made["birthday_date"]), (&Value::Null, &date.into()));
        assert_eq!(made["scan"], Value::Null, "no chain is known yet");
        folder.json(&["scan", path]);
        let shown = folder.json(&["show", "mine"]);
        assert_eq!((&shown["birthday"], &shown["birthday_date"]), (&height.into(), &date.into()));
        assert_eq!(shown["balance"]["value"], sats, "coins of before {date} aren't looked for");
        assert_eq!((&shown["scanned_height"], &shown["scan"]), (&4312.into(), &Value::Null));
        folder.json(&["rewind", "mine", "2999"]);
        let scan = &folder.json(&["show", "mine"])["scan"];
        assert_eq!((&scan["from"], &scan["to"]), (&3000.into(), &4312.into()));
    }
    let folder = Folder(tempfile::tempdir().unwrap());
    let wrong = folder.refused(&["create", "x", "--watch", BLOCK_9, "--birthday", "2009-02-30"]);
    assert!(wrong["error"]["message"].as_str().unwrap().contains("2023-05-01"), "{wrong}");
}

#[test]
fn a_dry_run_of_an_import_makes_no_database() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let other = tempfile::tempdir().unwrap();
    let list = other.path().join("list.json");
    let descriptor = serde_json::json!({ "desc": DESCRIPTOR, "timestamp": 1_700_000_000,
        "active": true, "internal": false, "range": [0, 999], "next": 3 });
    let document = serde_json::json!({ "wallet_name": "core", "descriptors": [descriptor] });
    std::fs::write(&list, document.to_string()).unwrap();
    let list = format!("@{}", list.display());
    let import = ["import-core", &list, "--name", "shop", "--network", "bitcoin"];
    let looked = folder.json(&[&import[..], &["--dry-run"]].concat());
    assert_eq!((&looked["accounts"], &looked["dry_run"]), (&1.into(), &true.into()));
    assert_eq!(looked["birthday"], Value::Null, "only the date is known");
    let left = |folder: &TempDir| std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left(&folder.0), 0, "nothing was made");
    folder.json(&import);
    assert_eq!(folder.json(&["show", "shop"])["birthday_date"], "2023-11-14");
    let again = folder.json(&[&import[..], &["--dry-run"]].concat());
    assert_eq!(again["accounts"], 0, "the wallet that is there was looked at");
}

#[test]
fn a_reorganisation_in_the_files_is_followed() {
    let path = |name: &str| data::path(&format!("bitcoin/armory-reorg-blk_{name}.blk"));
    let (Some(main), Some(a), Some(b), Some(c)) =
        (path("0_to_4"), path("3A"), path("4A"), path("5A"))
    else {
        return;
    };
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.json(&["create", "w", "--network", "bitcoin", "--watch", BLOCK_9]);
    let first = folder.json(&["scan", main.to_str().unwrap()]);
    assert_eq!(first["tip"], 4);
    let all = [&main, &a, &b, &c].map(|path| path.to_str().unwrap());
    let second = folder.json(&[&["scan"][..], &all].concat());
    assert_eq!((&second["disconnected"], &second["tip"]), (&2.into(), &5.into()));
}

#[test]
fn bad_arguments_are_told_and_nothing_is_written() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let cases: [&[&str]; 6] = [
        &["create", "x"],
        &["create", "x", "--network", "dogecoin", "--watch", "51"],
        &["create", "x", "--network", "cardano-mainnet", "--watch", "51"],
        &["create", "x", "--network", "regtest", "--descriptor", "wpkh(nonsense)"],
        &["--url", "mysql://x", "list"],
        &["lease", "x", "nonsense"],
    ];
    for args in cases {
        let told = folder.refused(args);
        assert!(told["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{args:?}");
    }
}
