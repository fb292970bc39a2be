//! What is read equals what the library answers about its own files.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};
use unspent_btcwallet::{
    WalletFile,
    bolt::{self, Bucket, Item},
    history::SourceTx,
    keys::{AddressType, Keys, PublicKeys},
};

use super::{FILES, file};

/// A time at which the leases of the files hold or have run out as the answers say.
const NOW: u64 = 1_800_000_000;

fn with_files(test: impl Fn(&str, &[u8], &Value)) {
    for name in FILES {
        let Some(bytes) = file(&format!("{name}/wallet.db")) else { return };
        let expected = file(&format!("{name}/expected.json")).unwrap();
        test(name, &bytes, &serde_json::from_slice(&expected).unwrap());
    }
}

fn lines(bucket: &Bucket<'_>, path: &str, out: &mut String) {
    for (key, item) in bucket.entries() {
        let name = hex::encode(key);
        match item {
            Item::Value(value) => writeln!(out, "{path}\t{name}\t{}", hex::encode(value)).unwrap(),
            Item::Bucket(inner) => {
                writeln!(out, "{path}\t{name}\tB").unwrap();
                let below = if path.is_empty() { name } else { format!("{path}/{name}") };
                lines(inner, &below, out);
            }
        }
    }
}

#[test]
fn every_bucket_and_key_is_read_as_bbolt_iterates_them() {
    with_files(|name, bytes, expected| {
        let mut found = String::new();
        lines(&bolt::read(bytes).unwrap(), "", &mut found);
        let sum = bitcoin::hashes::Hash::hash(found.as_bytes());
        let sum: bitcoin::hashes::sha256::Hash = sum;
        assert_eq!(sum.to_string(), expected["meta"]["kv_tsv_sha256"], "{name}");
    });
}

#[test]
fn pages_of_another_size_hold_the_same() {
    let Some(plain) = file("a/wallet.db") else { return };
    let large = file("a/wallet-16k-pages.db").unwrap();
    let text = |bytes: &[u8]| {
        let mut found = String::new();
        lines(&bolt::read(bytes).unwrap(), "", &mut found);
        found
    };
    assert_eq!(text(&plain), text(&large));
}

fn tx_json(tx: &SourceTx, labels: &BTreeMap<String, String>) -> Value {
    let txid = tx.txid.to_string();
    let block = tx.block.map(
        |block| json!({"hash": block.hash.to_string(), "height": block.height, "time": block.time}),
    );
    let credits = tx.credits.iter().map(|credit| {
        json!({"amount": credit.amount, "change": credit.is_change, "index": credit.index,
            "spent": credit.is_spent})
    });
    let debits = tx.debits.iter().map(|d| json!({"amount": d.amount, "index": d.index}));
    json!({"block": block, "credits": credits.collect::<Vec<_>>(),
        "debits": debits.collect::<Vec<_>>(), "label": labels.get(&txid).cloned().unwrap_or_default(),
        "raw": bitcoin::consensus::encode::serialize_hex(&tx.tx), "received": tx.received,
        "txid": txid})
}

/// By name, so that two lists can be compared whatever their order.
fn by<'v>(list: &'v Value, keys: &[&str]) -> BTreeMap<String, &'v Value> {
    let name = |item: &Value| keys.iter().map(|key| item[key].to_string()).collect::<String>();
    let found: BTreeMap<_, _> =
        list.as_array().unwrap().iter().map(|item| (name(item), item)).collect();
    assert_eq!(found.len(), list.as_array().unwrap().len());
    found
}

#[test]
fn transactions_credits_debits_and_labels_are_those_of_the_library() {
    with_files(|name, bytes, expected| {
        let file = WalletFile::read(bytes).unwrap();
        let labels = file.history.labels.iter();
        let labels: BTreeMap<String, String> = labels
            .map(|(txid, label)| (txid.to_string(), label.clone().unwrap()))
            .filter(|(_, label)| !label.is_empty())
            .collect();
        assert_eq!(json!(labels), expected["wtxmgr"]["labels"], "{name}");
        let found = file.history.txs.iter().map(|tx| tx_json(tx, &labels)).collect();
        let found = Value::Array(found);
        let wanted = &expected["wtxmgr"]["transactions"];
        assert_eq!(by(&found, &["txid"]), by(wanted, &["txid"]), "{name}");
    });
}

#[test]
fn unspent_outputs_leases_and_balances_are_those_of_the_library() {
    with_files(|name, bytes, expected| {
        let history = WalletFile::read(bytes).unwrap().history;
        let unspent = history.unspent(NOW);
        let found = unspent.iter().map(|(tx, credit)| {
            json!({"txid": tx.txid.to_string(), "vout": credit.index, "amount": credit.amount,
                "height": tx.block.map_or(-1, |block| i64::from(block.height)),
                "pk_script": tx.tx.output[credit.index as usize].script_pubkey.to_hex_string()})
        });
        let found = Value::Array(found.collect());
        let found = by(&found, &["txid", "vout"]);
        let wanted = by(&expected["wtxmgr"]["unspent"], &["txid", "vout"]);
        assert!(found.keys().eq(wanted.keys()), "{name}");
        for (coin, found) in found {
            for (field, value) in found.as_object().unwrap() {
                assert_eq!(*value, wanted[&coin][field], "{name} {coin} {field}");
            }
        }
        let held = history.leases.iter().filter(|lease| lease.expires > NOW);
        let held = held.map(|lease| {
            json!({"txid": lease.coin.txid.to_string(), "vout": lease.coin.vout,
                "id": hex::encode(lease.id), "expiration": lease.expires})
        });
        let held = Value::Array(held.collect());
        let wanted = &expected["wtxmgr"]["locked_outputs"];
        assert_eq!(by(&held, &["txid", "vout"]), by(wanted, &["txid", "vout"]), "{name}");
        let tip = expected["meta"]["balances_at_height"].as_u64().unwrap() as u32;
        let balances = expected["wtxmgr"]["balance_by_minconf"].as_object().unwrap();
        for (minconf, wanted) in balances {
            let found = history.balance(minconf.parse().unwrap(), tip, NOW);
            assert_eq!(json!(found), *wanted, "{name} at {minconf}");
        }
    });
}

fn kind(found: AddressType) -> &'static str {
    match found {
        AddressType::Legacy => "PubKeyHash",
        AddressType::Nested => "NestedWitnessPubKey",
        AddressType::Segwit => "WitnessPubKey",
        AddressType::Taproot => "TaprootPubKey",
    }
}

fn fingerprint(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes)
}

fn accounts(public: &PublicKeys) -> Value {
    let accounts = public.accounts.iter().map(|account| {
        let stored = account.fingerprint.filter(|_| account.is_watch_only).map_or(0, fingerprint);
        json!({"purpose": account.scope.purpose, "coin": account.scope.coin,
            "number": account.number, "name": account.name,
            "xpub_network_version": account.xpub.to_string(),
            "master_key_fingerprint": stored, "watch_only": account.is_watch_only,
            "external_count": account.next_external, "internal_count": account.next_internal})
    });
    Value::Array(accounts.collect())
}

fn check_accounts(name: &str, public: &PublicKeys, expected: &Value) {
    let mut wanted = Vec::new();
    for scope in expected["waddrmgr"]["scopes"].as_array().unwrap() {
        for account in scope["accounts"].as_array().unwrap() {
            if account["number"] == 2_147_483_647_u32 {
                continue;
            }
            let mut account = account.clone();
            let fields = account.as_object_mut().unwrap();
            fields.insert("purpose".into(), scope["purpose"].clone());
            fields.insert("coin".into(), scope["coin"].clone());
            wanted.push(account);
        }
    }
    let (found, wanted) = (accounts(public), Value::Array(wanted));
    let key = ["purpose", "coin", "number"];
    let (found, wanted) = (by(&found, &key), by(&wanted, &key));
    assert!(found.keys().eq(wanted.keys()), "{name}");
    for (account, found) in found {
        for (field, value) in found.as_object().unwrap() {
            assert_eq!(*value, wanted[&account][field], "{name} {account} {field}");
        }
    }
}

/// Every address: its path, its use and its script.
fn check_addresses(name: &str, keys: &Keys<'_>, public: &PublicKeys, expected: &Value) {
    let mut seen = 0;
    for scope in expected["waddrmgr"]["scopes"].as_array().unwrap() {
        for account in scope["accounts"].as_array().unwrap() {
            for address in account["addresses"].as_array().unwrap() {
                let script = address["pk_script"].as_str().unwrap();
                let script = bitcoin::ScriptBuf::from_hex(script).unwrap();
                if address["imported"] == true {
                    assert!(public.scripts.contains(&script), "{name}: {address}");
                    continue;
                }
                let found = keys.addresses.iter().find(|known| known.is(&script));
                let found = found.unwrap_or_else(|| panic!("{name}: {address}"));
                assert_eq!(json!(found.branch), address["branch"]);
                assert_eq!(json!(found.index), address["index"]);
                assert_eq!(json!(found.is_used), address["used"], "{name}: {address}");
                assert_eq!(json!(found.account), account["number"]);
                let owner = public.accounts.iter().find(|account| {
                    account.number == found.account && account.scope == found.scope
                });
                let owner = owner.unwrap();
                let used_as = if found.branch == 1 { owner.internal } else { owner.external };
                assert_eq!(kind(used_as), address["type"], "{name}: {address}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, keys.addresses.len(), "{name}");
}

#[test]
fn accounts_addresses_and_the_sync_point_are_those_of_the_library() {
    with_files(|name, bytes, expected| {
        let keys = WalletFile::read(bytes).unwrap().keys;
        let said = &expected["waddrmgr"];
        let synced = json!({"hash": keys.synced.hash.to_string(), "height": keys.synced.height,
            "time": keys.synced.time});
        assert_eq!(synced, said["synced_to"], "{name}");
        assert_eq!(json!(keys.is_watch_only), said["watching_only"], "{name}");
        let (height, genesis) = keys.start.unwrap();
        let regtest = bitcoin::constants::genesis_block(bitcoin::Network::Regtest).block_hash();
        assert_eq!((height, genesis), (0, regtest), "{name}");
        let public = keys.open(&["wrong", "public"]).unwrap();
        check_accounts(name, &public, expected);
        check_addresses(name, &keys, &public, expected);
    });
}

#[test]
fn a_wrong_passphrase_is_told() {
    let Some(bytes) = file("a/wallet.db") else { return };
    let keys = WalletFile::read(&bytes).unwrap().keys;
    let error = keys.open(&["hello"]).unwrap_err();
    assert!(error.to_string().contains("--public-passphrase"), "{error}");
}
