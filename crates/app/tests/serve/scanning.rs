//! Where a wallet begins to be scanned, and how far that has come, over REST.

use serde_json::{Value, json};
use unspent_engine::clock::Time;

use crate::{
    daemon::{Client, Folder},
    world::{self, SEED_SETTING, balance, funded, network},
};

fn show(client: &Client, wallet: &str) -> Value {
    client.get(&format!("/api/v1/wallets/{wallet}")).ok()
}

/// Two payments to each of two scripts, almost a week apart; the date of some block between.
fn two_ages() -> (Folder, String, u64) {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.data()).unwrap();
    let network = network(&folder);
    network.mine(110).unwrap();
    for sats in [1_000, 20_000] {
        network.pay(&world::script(0), sats, 300).unwrap();
        network.pay(&stranger(), sats, 300).unwrap();
        network.mine_mempool().unwrap();
        network.mine(900).unwrap();
    }
    let time = |height| network.look(|sim| sim.block_at(height).unwrap().block.header.time);
    let date = Time::seconds(time(800).into()).date();
    let day = Time::of_date(&date).unwrap().0 / 1_000_000 - 86_400;
    let first = (0..).find(|height| i64::from(time(*height)) >= day).unwrap();
    assert!(first > 112, "the first payments are older");
    (folder, date, first.into())
}

/// A script that no descriptor leads to.
fn stranger() -> bitcoin::ScriptBuf {
    bitcoin::ScriptBuf::from_bytes([&[0x00, 0x14][..], &[7; 20]].concat())
}

#[test]
fn a_birthday_may_be_a_date_for_a_wallet_and_for_what_comes_later() {
    let (folder, date, first) = two_ages();
    let daemon = folder.start(&[SEED_SETTING]);
    let client = daemon.admin();
    let body = json!({ "name": "alice", "descriptor": world::descriptor(), "birthday": date });
    let made = client.post("/api/v1/wallets", &body);
    assert_eq!((made.status, &made.json()["birthday_date"]), (201, &json!(date)), "{}", made.text);
    daemon.wait_for("the wallet is scanned from its date", |client| {
        balance(client, "alice")["value"] == "20000"
    });
    daemon.wait_for("the scan is over", |client| show(client, "alice")["scan"].is_null());
    let shown = show(&client, "alice");
    assert_eq!((&shown["birthday"], &shown["birthday_date"]), (&json!(first), &json!(date)));
    let late = json!({ "script": hex::encode(stranger().as_bytes()), "birthday": date });
    assert_eq!(client.post("/api/v1/wallets/alice/scripts", &late).status, 201);
    daemon.wait_for("the past of the script is read", |client| {
        show(client, "alice")["backfill"].is_null() && balance(client, "alice")["value"] == "40000"
    });
    for wrong in ["2023-02-30", "yesterday", "-5"] {
        let body = json!({ "name": "bob", "descriptor": "x", "birthday": wrong });
        let told = client.post("/api/v1/wallets", &body);
        assert!(told.text.contains("a date such as"), "{}", told.text);
    }
}

#[test]
fn a_wallet_says_how_far_its_scan_has_come() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let tip = daemon.admin().get("/api/v1/blocks/tip").ok()["height"].as_u64().unwrap();
    assert_eq!(show(&daemon.admin(), "alice")["scan"], Value::Null);
    assert_eq!(daemon.end(), 0);
    let run = |arguments: &[&str]| {
        let mut command = crate::daemon::unspent(&folder.data());
        command.args(["--json", "wallet"]).args(arguments);
        let (code, out, err) = crate::daemon::ended(command);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    run(&["rewind", "alice", "99"]);
    let wanted = json!({ "kind": "scan", "from": 100, "at": null, "to": tip, "fraction": 0.0 });
    assert_eq!(run(&["show", "alice"])["scan"], wanted);
    // A daemon whose node is away reads nothing, and says the same.
    let nowhere = ["source.kind=bitcoin-node", "source.url=http://127.0.0.1:1", "source.user=x"];
    let secret = folder.beside("password");
    std::fs::write(&secret, "x").unwrap();
    let file = format!("source.password_file={}", secret.display());
    let settings = ["network=bitcoin-regtest", nowhere[0], nowhere[1], nowhere[2], &file];
    let daemon = folder.start(&settings);
    assert_eq!(show(&daemon.admin(), "alice")["scan"], wanted);
    let listed = daemon.admin().get("/api/v1/wallets").ok();
    assert_eq!(listed["wallets"][0]["scan"], wanted);
    drop(daemon);
    let daemon = folder.start(&[SEED_SETTING]);
    daemon.wait_for("the wallet is scanned again", |client| {
        show(client, "alice")["scan"].is_null() && balance(client, "alice")["value"] == "145000"
    });
    // The same over REST: taken back, it is brought up again by itself.
    let back = json!({ "height": 50 });
    daemon.admin().keyed("/api/v1/wallets/alice/rewind", "again", &back).ok();
    daemon.wait_for("the wallet is scanned once more", |client| {
        show(client, "alice")["scan"].is_null() && balance(client, "alice")["value"] == "145000"
    });
}
