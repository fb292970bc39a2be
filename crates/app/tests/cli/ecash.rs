//! `unspent ecash` against a real mint.

use serde_json::{Value, json};
use unspent_testkit::ecash::{MintSettings, Nutshell};

use crate::run::{Ended, Folder, text};

/// Mints of these tests are on this machine.
fn ecash(folder: &Folder, arguments: &[&str]) -> Ended {
    folder.run(&[&["--json", "ecash", "--allow-private"], arguments].concat())
}

fn balance(folder: &Folder) -> Value {
    let shown = ecash(folder, &["balance"]).json();
    json!([shown["balances"][0]["unspent"], shown["balances"][0]["reserved"]])
}

#[test]
fn money_comes_in_is_sent_claimed_taken_back_and_paid_out() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    // Whoever is paid has an account elsewhere.
    let Some(other) = Nutshell::start(MintSettings::default()) else { return };
    let (alice, bob) = (Folder::new(), Folder::new());
    assert_eq!(ecash(&alice, &["mint", "check", &mint.url()]).json()["usable"], true);
    let account = ecash(&alice, &["account", "add", &mint.url(), "--name", "purse"]).json();
    assert_eq!((&account["unit"], &account["kind"]), (&json!("sat"), &json!("cashu")));
    let key = ["--idempotency-key", "in-1"];
    let received = ecash(&alice, &[&["receive", "200", "--wait", "90"], &key[..]].concat()).json();
    assert_eq!(received["state"], "COMPLETED", "{received}");
    assert_eq!(balance(&alice), json!(["200", "0"]));
    let again = ecash(&alice, &[&["receive", "200"], &key[..]].concat()).json();
    assert_eq!(again["id"], received["id"]);
    for other in [["send", "5"], ["receive", "5"], ["claim", "cashuBnothing"], ["reverse", "a"]] {
        let error = ecash(&alice, &[&other, &key[..]].concat()).error(1);
        let said = text(&error["message"]);
        let is_reused = said.contains("this idempotency key was used for another request");
        assert!(is_reused || (other[0] == "claim" && said.contains("no token")), "{error}");
    }
    let error = ecash(&alice, &["send", "5", "--idempotency-key", "token:bob in-1"]).error(2);
    assert!(text(&error["message"]).contains("can't be used"), "{error}");
    assert_eq!(balance(&alice), json!(["200", "0"]), "nothing was done");

    // Bob has never heard of the mint: his account is made by claiming.
    let sent = ecash(&alice, &["send", "50"]).json();
    let token = text(&sent["token"]);
    assert!(token.starts_with("cashu"), "{sent}");
    let blocked = ecash(&bob, &["claim", token, "--mint-blocklist", &mint.url()]).error(1);
    assert!(text(&blocked["message"]).contains("blocked"), "{blocked}");
    let claimed = ecash(&bob, &["claim", token]).json();
    assert_eq!(claimed["state"], "COMPLETED", "{claimed}");
    assert_eq!(balance(&bob)[0], "50");
    assert_eq!(ecash(&bob, &["claim", token]).code, 1, "a token is claimed once");

    let sent = ecash(&alice, &["send", "20"]).json();
    let reversed = ecash(&alice, &["reverse", text(&sent["id"])]).json();
    assert_eq!(reversed["state"], "COMPLETED", "{reversed}");
    let shown = ecash(&alice, &["show", text(&sent["id"])]).json();
    assert_eq!(shown["state"], "REVERSED", "{shown}");
    assert!(shown["journal"].as_array().unwrap().len() >= 3, "{shown}");

    let (invoice, _) = other.invoice(30);
    let paid = ecash(&alice, &["pay", &invoice, "--wait", "90"]).json();
    assert_eq!(paid["state"], "PAID", "{paid}");
    let recovered = ecash(&alice, &["recover"]).json();
    assert_eq!(recovered["unclear"], json!({}), "{recovered}");
    assert_eq!(ecash(&alice, &["balance"]).json()["balances"][0]["reserved"], "0");
    assert_eq!(ecash(&alice, &["quotes"]).json()["quotes"].as_array().unwrap().len(), 2);
    assert!(ecash(&alice, &["txs"]).json()["transactions"].as_array().unwrap().len() >= 4);
}

#[test]
fn a_key_is_made_for_its_owner_alone_and_another_opens_nothing() {
    let folder = Folder::new();
    let error = ecash(&folder, &["account", "list"]).error(1);
    assert!(text(&error["message"]).contains("there is no ecash database"), "{error}");
    assert!(!folder.data().exists(), "whoever only looks makes nothing");
    // Nobody listens there, but whoever adds an account begins with ecash.
    ecash(&folder, &["account", "add", "http://127.0.0.1:9"]).error(1);
    assert_eq!(ecash(&folder, &["account", "list"]).json(), json!({ "accounts": [] }));
    let key = folder.data().join("ecash.key");
    assert_eq!(std::fs::read(&key).unwrap().len(), 32);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let other = folder.beside("other.key");
    std::fs::write(&other, [7; 32]).unwrap();
    let other = other.to_str().unwrap();
    let error = ecash(&folder, &["account", "list", "--key-file", other]).error(1);
    assert!(text(&error["message"]).contains("doesn't open this database"), "{error}");
    std::fs::remove_file(&key).unwrap();
    let error = ecash(&folder, &["account", "list"]).error(1);
    assert!(text(&error["message"]).contains("there is no key file"), "{error}");
}

#[test]
fn a_mint_that_cannot_be_used_leaves_no_account() {
    let folder = Folder::new();
    let nowhere = "http://127.0.0.1:9";
    let checked = ecash(&folder, &["mint", "check", nowhere]);
    assert_eq!(checked.code, 3, "{}", checked.out);
    let error = ecash(&folder, &["account", "add", nowhere]).error(1);
    assert!(text(&error["message"]).contains("can't connect"), "{error}");
    let blocked = ["account", "add", nowhere, "--mint-blocklist", nowhere];
    let error = ecash(&folder, &blocked).error(1);
    assert!(text(&error["message"]).contains("blocked"), "{error}");
    let private = folder.run(&["--json", "ecash", "account", "add", nowhere]).error(1);
    assert!(text(&private["message"]).contains("allow_private"), "{private}");
    assert_eq!(ecash(&folder, &["account", "list"]).json(), json!({ "accounts": [] }));
    let error = ecash(&folder, &["send", "5"]).error(1);
    assert!(text(&error["message"]).contains("no account yet"), "{error}");
    let error = ecash(&folder, &["claim", "cashuAgarbage"]).error(1);
    assert!(!text(&error["message"]).contains("garbage"), "a token is money: {error}");
}
