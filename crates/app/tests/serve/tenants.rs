//! Accounts of ecash as tenants: narrow tokens and webhooks, with two real mints behind them.

use serde_json::{Value, json};
use unspent_testkit::ecash::{MintSettings, Nutshell};

use crate::{
    daemon::{Client, Daemon, Folder},
    ecash::{ON, begin},
    webhooks::{PRIVATE, Receiver, Reply},
};

/// A daemon with two accounts, `till` and `purse`, and a token for the first.
struct TwoAccounts {
    _mints: [Nutshell; 2],
    _folder: Folder,
    daemon: Daemon,
    token: String,
}

impl TwoAccounts {
    fn start() -> Option<Self> {
        let mints =
            [Nutshell::start(MintSettings::default())?, Nutshell::start(MintSettings::default())?];
        let folder = Folder::new();
        let daemon = folder.start(&[&ON[..], &[PRIVATE]].concat());
        let admin = daemon.admin();
        for (mint, name) in mints.iter().zip(["till", "purse"]) {
            let account = json!({ "mint": mint.url(), "name": name });
            assert_eq!(admin.post("/api/v1/ecash/accounts", &account).status, 201);
        }
        let new = json!({ "name": "shop", "scope": "wallet", "room": "ecash", "tenant": "till" });
        let made = admin.post("/api/v1/tokens", &new);
        assert_eq!(made.status, 201, "{}", made.text);
        let made = made.json();
        assert_eq!(
            (&made["room"], &made["tenant"], &made["wallet"]),
            (&json!("ecash"), &json!("till"), &Value::Null)
        );
        let token = made["token"].as_str().unwrap().to_owned();
        Some(Self { _mints: mints, _folder: folder, daemon, token })
    }
}

/// The ids of what a list holds.
fn ids(client: &Client, path: &str, list: &str) -> Vec<Value> {
    let found = client.get(path).ok();
    found[list].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
}

#[test]
fn a_token_for_one_account_of_ecash_sees_no_other() {
    let Some(TwoAccounts { daemon, token, .. }) = &TwoAccounts::start() else { return };
    let (one, admin) = (daemon.with(token), daemon.admin());
    let receive = |account: &str| json!({ "amount": "20", "account": account });
    let others = begin(&admin, "receive", "purse-1", &receive("purse"));
    // Its account needs no name, however many others there are.
    let own = begin(&one, "receive", "till-1", &json!({ "amount": "30" }));
    let seen = one.get("/api/v1/session").ok();
    assert_eq!(
        (&seen["room"], &seen["tenant"], &seen["wallet"]),
        (&json!("ecash"), &json!("till"), &Value::Null)
    );
    let accounts = one.get("/api/v1/ecash/accounts").ok();
    assert_eq!(accounts["accounts"].as_array().unwrap().len(), 1, "{accounts}");
    let till = accounts["accounts"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!((&own["account"], &accounts["accounts"][0]["name"]), (&json!(till), &json!("till")));
    let id = |payment: &Value| payment["id"].as_str().unwrap().to_owned();
    for path in [
        "accounts/till/proofs".to_owned(),
        format!("accounts/{till}/proofs"),
        format!("payments/{}", id(&own)),
    ] {
        one.get(&format!("/api/v1/ecash/{path}")).ok();
    }
    assert_eq!(ids(&one, "/api/v1/ecash/payments", "payments"), [json!(id(&own))]);
    assert_eq!(ids(&admin, "/api/v1/ecash/payments", "payments").len(), 2);
    let transactions = |client: &Client| ids(client, "/api/v1/ecash/transactions", "transactions");
    assert_eq!((transactions(&one).len(), transactions(&admin).len()), (1, 2));
    assert!(transactions(&admin).contains(&transactions(&one)[0]));
    // Another's is as if it weren't there.
    let pairs = [
        ("accounts/purse/proofs", "accounts/nurse/proofs"),
        (&*format!("accounts/{}/proofs", others["account"].as_str().unwrap()), "accounts/x/proofs"),
        (&*format!("payments/{}", id(&others)), "payments/x"),
        (&*format!("payments/{}/token", id(&others)), "payments/x/token"),
    ];
    for (others, nobodys) in pairs {
        let [others, nobodys] =
            [others, nobodys].map(|path| (path, one.get(&format!("/api/v1/ecash/{path}"))));
        let name = |path: &str| path.split('/').nth(1).unwrap().to_owned();
        let told = others.1.text.replace(&name(others.0), &name(nobodys.0));
        assert_eq!((others.1.status, told), (404, nobodys.1.text), "{}", others.0);
    }
    let post = |what: &str, body: &Value| one.keyed(&format!("/api/v1/ecash/{what}"), what, body);
    for (what, body) in [
        ("receive", receive("purse")),
        ("send", json!({ "amount": "1", "account": "purse" })),
        ("pay", json!({ "invoice": "lnbc1", "account": "purse" })),
        ("claim", json!({ "token": "cashuA", "to": "purse" })),
        ("reverse", json!({ "id": id(&others) })),
    ] {
        assert_eq!(post(what, &body).refused(404), "not_found", "{what}");
    }
    assert_eq!(ids(&admin, "/api/v1/ecash/payments", "payments").len(), 2, "nothing was begun");
    // Whatever else there is, is shut.
    for path in ["ecash", "status", "rooms", "jobs", "history", "tokens", "webhooks", "backup"] {
        assert_eq!(one.get(&format!("/api/v1/{path}")).refused(403), "forbidden", "{path}");
    }
    let account = json!({ "mint": "https://mint.example", "name": "more" });
    assert_eq!(one.post("/api/v1/ecash/accounts", &account).refused(403), "forbidden");
    let hook = json!({ "url": "https://shop.example/hook" });
    one.post("/api/v1/ecash/accounts/till/webhooks", &hook).refused(403);
    assert_eq!(one.get("/api/v1/wallets").ok()["wallets"], json!([]));
    one.get("/api/v1/wallets/till").refused(404);
    one.get("/api/v1/blocks/tip").ok();
    // Its events are those of its account.
    let of = |client: &Client, query: &str| -> Vec<Value> {
        let found = client.get(&format!("/api/v1/events?limit=500{query}")).ok();
        found["events"].as_array().unwrap().clone()
    };
    daemon.wait_for("both are told", |client| of(client, "&room=ecash").len() >= 2);
    let is_tills = |event: &Value| {
        event["tenant"] == "till" && event["tenant_room"] == "ecash" && event["wallet"].is_null()
    };
    let all = of(&admin, "");
    let mut tills = all.iter().filter(|event| is_tills(event)).cloned();
    assert!(tills.all(|event| event["body"]["account"] == json!(till)));
    let seen = of(&one, "");
    assert!(!seen.is_empty() && seen.iter().all(is_tills) && seen.len() < all.len());
    assert_eq!(of(&admin, "&tenant=till"), seen);
    assert_eq!(of(&one, "&tenant=till&room=ecash"), seen);
    for query in ["tenant=purse", "tenant=nurse", "wallet=till"] {
        let refused = one.get(&format!("/api/v1/events?{query}")).refused(404);
        assert_eq!(refused, "not_found", "{query}");
    }
    assert_eq!(one.get("/api/v1/events?tenant=till&wallet=till").refused(400), "malformed");
    // A token for a wallet of the same name is another's.
    let new = json!({ "name": "namesake", "scope": "wallet", "wallet": "till" });
    let wallet = admin.post("/api/v1/tokens", &new).ok()["token"].as_str().unwrap().to_owned();
    let wallet = daemon.with(&wallet);
    assert_eq!(wallet.get("/api/v1/ecash/accounts").refused(403), "forbidden");
    assert_eq!(of(&wallet, ""), [] as [Value; 0]);
}

#[test]
fn a_webhook_of_an_account_of_ecash_gets_its_events_alone() {
    let Some(TwoAccounts { daemon, .. }) = &TwoAccounts::start() else { return };
    let admin = daemon.admin();
    let receiver = Receiver::start(None, Box::new(|_| Reply::Status(200)));
    let url = json!({ "url": format!("http://{}/hook", receiver.address) });
    let unknown = admin.post("/api/v1/ecash/accounts/nurse/webhooks", &url);
    assert_eq!(unknown.refused(404), "not_found");
    let made = admin.post("/api/v1/ecash/accounts/till/webhooks", &url);
    assert_eq!(made.status, 201, "{}", made.text);
    let (hook, secret) = (made.json()["webhook"].clone(), made.json()["secret"].clone());
    assert_eq!(
        (&hook["room"], &hook["tenant"], &hook["wallet"]),
        (&json!("ecash"), &json!("till"), &Value::Null)
    );
    for (key, account) in [("a", "purse"), ("b", "till"), ("c", "purse"), ("d", "till")] {
        begin(&admin, "receive", key, &json!({ "amount": "20", "account": account }));
    }
    let wanted = || -> Vec<u64> {
        let found = admin.get("/api/v1/events?limit=500&tenant=till").ok();
        let events = found["events"].as_array().unwrap().clone();
        events.iter().map(|event| event["id"].as_u64().unwrap()).collect()
    };
    daemon.wait_for("every event is delivered", |client| {
        let last = client.get("/api/v1/status").ok()["events"]["last"].as_u64().unwrap();
        let listed = client.get("/api/v1/webhooks").ok()["webhooks"][0].clone();
        wanted().len() >= 2 && listed["cursor"] == json!(last)
    });
    let got = receiver.got();
    assert_eq!(got.iter().map(|message| message.event()).collect::<Vec<_>>(), wanted());
    for message in got {
        message.check(secret.as_str().unwrap());
        let body: Value = serde_json::from_str(&message.body).unwrap();
        assert_eq!((&body["tenant"], &body["tenant_room"]), (&json!("till"), &json!("ecash")));
    }
}
