//! What is wrong is said clearly, with the right exit code, and nothing is written.

use std::path::Path;

use crate::run::{Folder, text};

/// Regtest's first block as a raw file: the smallest chain there is.
fn first_block(folder: &Folder) -> std::path::PathBuf {
    let block = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    let path = folder.beside("first.blk");
    std::fs::write(&path, bitcoin::consensus::encode::serialize(&block)).unwrap();
    path
}

fn imported() -> Folder {
    let folder = Folder::new();
    let file = first_block(&folder);
    let summary = folder.import(&["--network", "bitcoin-regtest"], &[&file]).json();
    assert_eq!(summary["blocks"], 1);
    folder
}

#[test]
fn unknown_networks_and_bad_options_are_usage_errors() {
    let folder = Folder::new();
    let file = first_block(&folder);
    let regtest = ["--network", "bitcoin-regtest"];
    let cases: [(&[&str], &str); 6] = [
        (&["--network", "dogecoin"], "unknown network"),
        (&["--network", "bitcoin-regtest", "--store", "mmmr"], "mmmr"),
        (&["--network", "bitcoin-regtest", "--stop-at", "x"], "invalid"),
        (&["--network", "bitcoin-regtest", "--bulk-memory-mb", "0"], "at least 1"),
        (&["--network", "bitcoin-regtest", "--indexing-strategy", "all"], "unknown indexing"),
        (&[], "needs a network"),
    ];
    for (options, message) in cases {
        let error = folder.import(options, &[&file]).error(2);
        assert!(text(&error["message"]).contains(message), "{options:?}: {error}");
    }
    for strategy in ["address_hash", "payment_credential", "both"] {
        for (switch, conflicts_with) in [
            ("--index-address-hash", "payment_credential"),
            ("--index-payment-credential", "address_hash"),
        ] {
            for value in ["true", "false"] {
                let folder = Folder::new();
                let options =
                    [&regtest[..], &["--indexing-strategy", strategy, switch, value]].concat();
                let ended = folder.import(&options, &[&file]);
                let agrees = (strategy != conflicts_with) == (value == "true");
                if agrees {
                    ended.json();
                } else {
                    assert!(text(&ended.error(2)["message"]).contains("contradicts"));
                    assert!(!folder.data().exists());
                }
            }
        }
    }
    assert!(!folder.data().exists());
}

#[test]
fn missing_files_and_folders_are_named() {
    let folder = Folder::new();
    let nowhere = folder.beside("nowhere");
    let error = folder.import(&["--network", "bitcoin"], &[&nowhere]).error(1);
    assert!(text(&error["message"]).contains("nowhere"), "{error}");
    std::fs::create_dir(&nowhere).unwrap();
    std::fs::write(nowhere.join("README.md"), "no blocks here").unwrap();
    let error = folder.import(&["--network", "bitcoin"], &[&nowhere]).error(1);
    assert!(text(&error["message"]).contains("no block files"), "{error}");
    assert!(error["hint"].is_string());
    for command in [
        vec!["status"],
        vec!["verify"],
        vec!["digest"],
        vec!["prune"],
        vec!["rollback", "--to", "1"],
    ] {
        let error = folder.chain(&command).error(1);
        assert!(text(&error["message"]).contains("no chain data"), "{command:?}: {error}");
    }
    assert!(!folder.data().exists());
}

#[test]
fn files_that_hold_no_blocks_are_refused() {
    let folder = Folder::new();
    let junk = folder.beside("junk.blk");
    std::fs::write(&junk, b"this is not a block, whatever its name says").unwrap();
    for network in ["bitcoin", "cardano-preview"] {
        let error = folder.import(&["--network", network], &[&junk]).error(1);
        assert!(text(&error["message"]).contains("junk.blk"), "{error}");
    }
    let not_packed = folder.beside("junk.blk.zst");
    std::fs::write(&not_packed, b"not zstd").unwrap();
    let error = folder.import(&["--network", "bitcoin"], &[&not_packed]).error(1);
    assert!(text(&error["message"]).contains("unpack"), "{error}");
    let first = first_block(&folder);
    let error = folder.import(&["--network", "bitcoin-signet"], &[&first]).error(1);
    assert!(text(&error["message"]).contains("not the first block of bitcoin-signet"), "{error}");
    assert!(!folder.data().exists());
}

#[test]
fn another_network_is_refused_and_the_folder_stays_as_it_was() {
    let folder = imported();
    let before = folder.digest();
    let file = folder.beside("first.blk");
    let error = folder.import(&["--network", "cardano-preview"], &[&file]).error(1);
    assert!(text(&error["message"]).contains("serves bitcoin-regtest"), "{error}");
    assert_eq!(folder.digest(), before);
}

#[test]
fn malformed_questions_are_usage_errors() {
    let folder = imported();
    let long = "ab".repeat(20_000);
    let coin = "00".repeat(32);
    let (coin_without_index, coin_with_sign) = (format!("{coin}#"), format!("{coin}#-1"));
    let commands: [&[&str]; 12] = [
        &["utxos", "not-an-address"],
        &["utxos", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"],
        &["utxos", ""],
        &["utxos", &long],
        &["balance", "stake1"],
        &["utxos", "51", "--limit", "0"],
        &["utxos", "51", "--limit", "501"],
        &["utxos", "51", "--after", "zz"],
        &["utxo", "abc"],
        &["utxo", &coin_without_index],
        &["utxo", &coin_with_sign],
        &["rollback", "--to", "yesterday"],
    ];
    for command in commands {
        let error = folder.chain(command).error(2);
        assert_eq!(error["code"], "usage", "{command:?}");
    }
    let unknown = folder.chain(&["utxo", &format!("{coin}#0")]).json();
    assert_eq!((&unknown["state"], &unknown["txid"]), (&"unknown".into(), &coin.into()));
    let error = folder.chain(&["rollback", "--to", "5"]).error(1);
    assert!(text(&error["message"]).contains("above the tip (height 0"), "{error}");
    let error = folder.chain(&["delta", "9"]).error(1);
    assert!(text(&error["message"]).contains("no delta is stored for height 9"), "{error}");
}

#[test]
fn settings_come_from_the_environment_too() {
    let folder = Folder::new();
    let file = first_block(&folder);
    let run = |name: &str, value: &str| {
        let mut command = assert_cmd::Command::cargo_bin("unspent").unwrap();
        command.env("UNSPENT_DATA_DIR", folder.data()).env("UNSPENT_NETWORK", "bitcoin-regtest");
        command.env(name, value).args(["chain", "import"]).arg(&file).output().unwrap()
    };
    assert_eq!(run("UNSPENT_UTXO_STORE", "mmmr").status.code(), Some(2));
    assert!(!folder.data().exists());
    let imported = run("UNSPENT_JSON", "true");
    assert_eq!(imported.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert_eq!(document["blocks"], 1);
    assert!(Path::new(&folder.data()).join("chain").exists());
}

#[test]
fn help_names_the_exit_codes_and_every_setting_of_an_import() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.out.contains("a check found problems: chain verify"), "{}", help.out);
    let help = folder.run(&["chain", "import", "--help"]).out;
    for option in [
        "enabled",
        "store",
        "prune-depth",
        "rollback-window",
        "prune-batch-size",
        "index-address-hash",
        "index-payment-credential",
        "indexing-strategy",
        "delta-self-contained",
        "block-cache-mb",
        "bulk-memory-mb",
        "allow-holes",
        "stop-at",
    ] {
        assert!(help.contains(&format!("--{option}")), "{option}");
    }
    assert!(help.contains("UNSPENT_UTXO__PRUNE_DEPTH"));
}

/// Sixty kilobytes that unpack to hundreds of megabytes of zeros.
#[test]
fn a_packed_file_that_is_larger_than_blocks_can_be_is_refused_and_leaves_nothing() {
    let folder = Folder::new();
    let bomb = folder.beside("blk00000.dat.zst");
    let zeros = std::io::Read::take(std::io::repeat(0), 600 << 20);
    std::fs::write(&bomb, zstd::encode_all(zeros, 1).unwrap()).unwrap();
    let error = folder.import(&["--network", "bitcoin-regtest"], &[&bomb]).error(1);
    assert_eq!(error["code"], "input", "{error}");
    assert!(!folder.data().exists());
    let error = folder.import(&["--network", "cardano-preview"], &[&bomb]).error(1);
    assert!(error["message"].as_str().unwrap().contains("not a block"), "{error}");
    assert!(!folder.data().exists());
}

#[test]
fn a_file_that_is_not_there_is_called_wrong_input() {
    let folder = Folder::new();
    let absent = folder.beside("blk00000.dat");
    let error = folder.import(&["--network", "bitcoin-regtest"], &[&absent]).error(1);
    assert_eq!(error["code"], "input", "{error}");
}
