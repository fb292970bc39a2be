//! Ecash over REST, with a real mint behind it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use unspent_testkit::ecash::{Fault, FaultProxy, MintSettings, Nutshell};

use crate::{
    access,
    daemon::{Client, Daemon, Folder, ended, unspent},
};

/// Mints of these tests are on this machine.
pub(crate) const ON: [&str; 2] = ["ecash.enabled=true", "ecash.allow_private=true"];

fn payment(client: &Client, id: &Value) -> Value {
    client.get(&format!("/api/v1/ecash/payments/{}", id.as_str().unwrap())).ok()
}

fn wait_for(daemon: &Daemon, id: &Value, state: &str) -> Value {
    let mut last = Value::Null;
    daemon.wait_for(&format!("{id} is {state}"), |client| {
        last = payment(client, id);
        last["state"] == state
    });
    last
}

pub(crate) fn begin(client: &Client, what: &str, key: &str, body: &Value) -> Value {
    let answer = client.keyed(&format!("/api/v1/ecash/{what}"), key, body);
    assert_eq!(answer.status, 201, "{what}: {}", answer.text);
    answer.ok()
}

/// An account with 200 in it.
fn fund(daemon: &Daemon, mint: &str) {
    let client = daemon.admin();
    let account = client.post("/api/v1/ecash/accounts", &json!({ "mint": mint, "name": "purse" }));
    assert_eq!(account.status, 201, "{}", account.text);
    let received = begin(&client, "receive", "fund", &json!({ "amount": "200" }));
    assert!(received["invoice"].as_str().unwrap().starts_with("ln"), "{received}");
    wait_for(daemon, &received["id"], "COMPLETED");
}

#[test]
fn a_key_of_another_caller_begins_another_payment() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    let folder = Folder::new();
    let daemon = folder.start(&ON);
    let client = daemon.admin();
    client.post("/api/v1/ecash/accounts", &json!({ "mint": mint.url(), "name": "purse" })).ok();
    let new = json!({ "name": "till", "scope": "wallet" });
    let till = client.post("/api/v1/tokens", &new).ok()["token"].as_str().unwrap().to_owned();
    let till = daemon.with(&till);
    let ours = begin(&client, "receive", "order-1", &json!({ "amount": "20" }));
    let theirs = begin(&till, "receive", "order-1", &json!({ "amount": "30" }));
    assert_ne!(ours["id"], theirs["id"]);
    assert_eq!((&ours["amount"], &theirs["amount"]), (&json!("20"), &json!("30")));
    assert_eq!(begin(&till, "receive", "order-1", &json!({ "amount": "30" })), theirs);
    // The log of requests may be lost: the room knows its keys and whose they are.
    assert_eq!(daemon.end(), 0);
    std::fs::remove_file(folder.data().join("engine.db")).unwrap();
    let daemon = folder.start(&ON);
    let send = json!({ "amount": "1", "account": "purse" });
    let other = daemon.admin().keyed("/api/v1/ecash/send", "order-1", &send);
    assert_eq!(other.refused(422), "key_reused");
    let again = begin(&daemon.admin(), "receive", "order-1", &json!({ "amount": "20" }));
    assert_eq!(again["id"], ours["id"]);
}

#[test]
fn money_comes_in_is_sent_claimed_taken_back_and_paid_out() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    // Whoever is paid has an account elsewhere.
    let Some(other) = Nutshell::start(MintSettings::default()) else { return };
    let folder = Folder::new();
    let daemon = folder.start(&ON);
    let client = daemon.admin();
    fund(&daemon, &mint.url());
    // The same key again is the same payment, and nothing is begun anew.
    let sent = begin(&client, "send", "one", &json!({ "amount": "50" }));
    assert_eq!(begin(&client, "send", "one", &json!({ "amount": "50" })), sent);
    let pending = wait_for(&daemon, &sent["id"], "PENDING");
    assert!(pending["journal"].as_array().unwrap().len() >= 2, "{pending}");
    let path = format!("/api/v1/ecash/payments/{}/token", sent["id"].as_str().unwrap());
    let answer = client.get(&path);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let shown = answer.ok();
    let token = shown["token"].as_str().unwrap();
    assert!(token.starts_with("cashu"), "{shown}");
    assert!(shown["qr"]["size"].as_u64().unwrap() > 40, "{shown}");

    // Whoever only reads gets no token, and can begin nothing.
    let reader = daemon.with(&access::token(&folder, "reader", "read"));
    assert_eq!(reader.get("/api/v1/ecash/payments").status, 200);
    reader.get(&path).refused(403);
    reader.keyed("/api/v1/ecash/send", "two", &json!({ "amount": "1" })).refused(403);

    let claimed = begin(&client, "claim", "three", &json!({ "token": token }));
    wait_for(&daemon, &claimed["id"], "COMPLETED");
    wait_for(&daemon, &sent["id"], "COMPLETED");
    client.get(&path).refused(422);
    let sent = begin(&client, "send", "four", &json!({ "amount": "20", "account": "purse" }));
    wait_for(&daemon, &sent["id"], "PENDING");
    begin(&client, "reverse", "five", &json!({ "id": sent["id"] }));
    wait_for(&daemon, &sent["id"], "REVERSED");
    let (invoice, _) = other.invoice(30);
    let price = json!({ "invoice": invoice, "dry_run": true });
    let price = client.keyed("/api/v1/ecash/pay", "six", &price).ok();
    assert_eq!((&price["amount"], &price["max_fee"]), (&json!("30"), &json!("10")), "{price}");
    let paid = begin(&client, "pay", "six", &json!({ "invoice": invoice }));
    let paid = wait_for(&daemon, &paid["id"], "PAID");
    let fee: u64 = paid["fee"].as_str().unwrap().parse().unwrap();
    let most: u64 = price["most"].as_str().unwrap().parse().unwrap();
    assert!(fee > 0 && 30 + fee <= most, "{paid} {price}");
    assert_eq!((&paid["fee_reserve"], &paid["reason"]), (&price["fee_reserve"], &Value::Null));

    let status = client.get("/api/v1/ecash").ok();
    assert_eq!(status["balances"][0]["reserved"], "0", "{status}");
    let page = client.get("/api/v1/ecash/payments?limit=2").ok();
    let next = page["next"].as_str().unwrap();
    let rest = client.get(&format!("/api/v1/ecash/payments?after={next}")).ok();
    let (first, rest) =
        (page["payments"].as_array().unwrap(), rest["payments"].as_array().unwrap());
    assert_eq!((first.len(), rest.len()), (2, 4), "{rest:?}");
    assert!(first.iter().all(|one| !rest.contains(one)));
    let proofs = client.get("/api/v1/ecash/accounts/purse/proofs?state=unspent").ok();
    let proofs = proofs["proofs"].as_array().unwrap();
    let sum: u64 =
        proofs.iter().map(|p| p["amount"].as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(json!(sum.to_string()), status["balances"][0]["unspent"]);
    told_without_secrets(&daemon, token);
    assert_eq!(daemon.end(), 0);
    copied_and_audited(&folder);
}

/// Every change is an event, and none of them tells a secret.
fn told_without_secrets(daemon: &Daemon, token: &str) {
    daemon.wait_for("all is told", |client| {
        let told = client.get("/api/v1/events?limit=500").ok();
        let told = told["events"].as_array().unwrap().iter();
        told.filter(|event| event["body"]["to"] == "PAID").count() >= 2
    });
    let told = daemon.admin().get("/api/v1/events?limit=500").text;
    assert!(!told.contains(token), "an event holds a token");
    let metrics = daemon.admin().get("/metrics").text;
    assert!(metrics.contains("unspent_ecash_open 0"), "{metrics}");
}

/// The database goes elsewhere, and everything in it agrees.
fn copied_and_audited(folder: &Folder) {
    let from = format!("sqlite:{}", folder.data().join("ecash.db").display());
    let to = format!("sqlite:{}", folder.beside("copy.db").display());
    let mut command = unspent(&folder.data());
    command.args(["--json", "db", "copy", "--room", "ecash", &from, &to]);
    let (code, out, told) = ended(command);
    assert_eq!(code, 0, "{told}{out}");
    let copied: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(copied["differences"], json!([]), "{copied}");
}

/// Every file of a folder and of those below it.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_of(&path) } else { vec![path] }).collect()
}

fn assert_hidden(folder: &Folder, secrets: &[(&str, String)]) {
    let files = files_of(&folder.data());
    assert!(files.iter().any(|path| path.ends_with("engine.db")), "{files:?}");
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        for (what, secret) in secrets {
            assert!(secret.len() > 15, "{what} `{secret}` would be found by chance");
            let is_there = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_there, "{} holds {what}", path.display());
        }
    }
}

#[test]
fn no_file_of_the_folder_holds_an_invoice_or_a_token_and_a_repeat_is_answered_as_before() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    let Some(other) = Nutshell::start(MintSettings::default()) else { return };
    let folder = Folder::new();
    let daemon = folder.start(&ON);
    let client = daemon.admin();
    fund(&daemon, &mint.url());
    let received = begin(&client, "receive", "in", &json!({ "amount": "7" }));
    let (invoice, _) = other.invoice(30);
    let paid = begin(&client, "pay", "out", &json!({ "invoice": invoice }));
    wait_for(&daemon, &paid["id"], "PAID");
    let sent = begin(&client, "send", "token", &json!({ "amount": "50" }));
    wait_for(&daemon, &sent["id"], "PENDING");
    let shown = client.get(&format!("/api/v1/ecash/payments/{}/token", text_of(&sent["id"]))).ok();
    let claimed = begin(&client, "claim", "back", &json!({ "token": shown["token"] }));
    wait_for(&daemon, &claimed["id"], "COMPLETED");
    let secrets = [
        ("the invoice of a receive quote", text_of(&received["invoice"])),
        ("the invoice that was paid", invoice),
        ("the token", text_of(&shown["token"])),
    ];
    // While it runs, with what lies in the write-ahead log; and after its end.
    assert_hidden(&folder, &secrets);
    assert_eq!(daemon.end(), 0);
    assert_hidden(&folder, &secrets);
    let daemon = folder.start(&ON);
    let again = begin(&daemon.admin(), "receive", "in", &json!({ "amount": "7" }));
    assert_eq!(again, received);
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn a_mint_that_never_answers_holds_up_nobody_else() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    let folder = Folder::new();
    let daemon = folder.start(&ON);
    fund(&daemon, &mint.url());
    let proxy = FaultProxy::start(&mint.url());
    let silent = (0..40).map(|_| Fault::Delay(Duration::from_secs(25)));
    proxy.script("/v1/info", silent);
    // More of them than there are places for requests that wait for others.
    let waiting: Vec<_> = (0..12)
        .map(|_| {
            let (client, url) = (daemon.admin(), proxy.url());
            std::thread::spawn(move || {
                client.post("/api/v1/ecash/mints/check", &json!({ "mint": url })).status
            })
        })
        .collect();
    let began = Instant::now();
    daemon.wait_for("they wait", |_| proxy.count("/v1/info") >= 4);
    for _ in 0..20 {
        assert_eq!(daemon.admin().get("/api/v1/ecash").status, 200);
        assert_eq!(daemon.admin().get("/api/v1/blocks").status, 200);
    }
    assert!(!waiting.iter().all(|one| one.is_finished()), "after {:?}", began.elapsed());
    daemon.kill();
    drop(waiting);
}

#[test]
fn a_room_that_is_off_says_so() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    assert_eq!(daemon.admin().get("/api/v1/ecash").refused(404), "room_off");
    let answer = daemon.admin().keyed("/api/v1/ecash/send", "k", &json!({ "amount": "1" }));
    assert_eq!(answer.refused(404), "room_off");
    let rooms = daemon.admin().get("/api/v1/rooms").ok();
    let ecash = rooms["rooms"].as_array().unwrap().iter().find(|room| room["room"] == "ecash");
    assert_eq!(ecash.unwrap()["state"], "off");
}
