//! Idempotency: a repeat gets the first answer and does nothing.

use serde_json::{Value, json};

use crate::{
    daemon::{Client, Daemon},
    world::{self, SEED_SETTING, address, funded},
};

fn leases(client: &Client) -> Vec<Value> {
    client.get("/api/v1/wallets/alice/leases").ok()["leases"].as_array().unwrap().clone()
}

fn payment(value: u64) -> Value {
    json!({ "outputs": [{ "address": address(9), "value": value.to_string() }] })
}

/// The same, which only looks.
fn look(value: u64) -> Value {
    let outputs = json!([{ "address": address(9), "value": value.to_string() }]);
    json!({ "outputs": outputs, "dry_run": true, "policy": { "fee_rate": 2 } })
}

const PAY: &str = "/api/v1/wallets/alice/pay";

#[test]
fn a_repeated_idempotency_key_gives_the_stored_answer_and_another_request_is_refused() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let client = daemon.admin();
    for path in
        ["pay", "leases", "leases/release", "select", "finalize", "bump", "cpfp", "broadcast"]
    {
        let path = format!("/api/v1/wallets/alice/{path}");
        assert_eq!(client.post(&path, &json!({})).refused(400), "malformed", "{path}");
    }
    for bad in ["", " ", "a b", &"x".repeat(129)] {
        let answer = client.keyed(PAY, bad, &payment(10_000));
        assert_eq!(answer.status, 400, "{bad:?}");
    }
    let first = client.keyed(PAY, "one", &payment(10_000));
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let again = client.keyed(PAY, "one", &payment(10_000));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!((again.status, &again.text), (201, &first.text));
    assert_eq!(leases(&client).len(), 1, "the repeat held nothing");
    assert_eq!(client.keyed(PAY, "one", &payment(10_001)).refused(422), "key_reused");
    let elsewhere = client.keyed("/api/v1/wallets/alice/select", "one", &json!({ "value": "1" }));
    assert_eq!(elsewhere.refused(422), "key_reused");
    // It is remembered by the next daemon, whose cookie is another: the owner is the same.
    assert_eq!(daemon.end(), 0);
    let daemon = folder.start(&[SEED_SETTING]);
    let later = daemon.admin().keyed(PAY, "one", &payment(10_000));
    assert_eq!((later.status, &later.text), (201, &first.text));
    assert_eq!(leases(&daemon.admin()).len(), 1);
}

#[test]
fn a_refused_request_can_be_corrected_under_its_idempotency_key() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let client = daemon.admin();
    assert_eq!(client.keyed(PAY, "rent", &payment(10_000_000)).status, 422);
    let nowhere = json!({ "outputs": [{ "address": "nowhere", "value": "10000" }] });
    let unknown = json!({ "txid": "00".repeat(32) });
    client.keyed(PAY, "rent", &nowhere);
    let broadcast = "/api/v1/wallets/alice/broadcast";
    assert_eq!(client.keyed(broadcast, "rent", &unknown).refused(404), "not_found");
    let paid = client.keyed(PAY, "rent", &payment(10_000));
    assert_eq!((paid.status, paid.header("idempotency-replayed")), (201, None), "{}", paid.text);
    assert_eq!(client.keyed(PAY, "rent", &payment(10_000)).text, paid.text);
    assert_eq!(client.keyed(PAY, "rent", &payment(10_000_000)).refused(422), "key_reused");
    assert_eq!(leases(&client).len(), 1);
    // What was recorded before it was refused is no refusal: the answer stays with the key.
    let signed = world::signed(paid.ok()["psbt"].as_str().unwrap());
    let finalize = "/api/v1/wallets/alice/finalize";
    let body = json!({ "signed": signed, "lock": paid.ok()["lock"], "broadcast": true });
    let sent = client.keyed(finalize, "send", &body);
    assert_eq!(sent.status, 201, "{}", sent.text);
    assert_eq!(client.keyed(finalize, "send", &body).header("idempotency-replayed"), Some("true"));
}

/// What an interrupted run holds is found again by the key, which a lock of the caller's own would
/// hide. A bump takes over coins that somebody holds already, and may name him.
#[test]
fn of_keyed_payments_a_bump_alone_takes_the_callers_lock() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let client = daemon.admin();
    let paid = client.keyed(PAY, "first", &payment(10_000)).ok();
    let psbt = world::signed(paid["psbt"].as_str().unwrap());
    let body = json!({ "signed": psbt, "lock": paid["lock"], "broadcast": true });
    let sent = client.keyed("/api/v1/wallets/alice/finalize", "second", &body).ok();
    let raise = json!({ "txid": sent["txid"], "policy": { "fee_rate": 20 } });
    let named = |path: &str, mut request: Value| {
        request["lease"] = json!({ "lock": paid["lock"] });
        client.keyed(&format!("/api/v1/wallets/alice/{path}"), path, &request)
    };
    assert_eq!(named("cpfp", raise.clone()).refused(422), "invalid");
    assert_eq!(named("select", json!({ "value": "1000" })).refused(422), "invalid");
    assert_eq!(named("pay", payment(1_000)).refused(422), "invalid");
    assert_eq!(named("bump", raise).ok()["lock"], paid["lock"]);
}

/// A token of that name that may work on all wallets.
fn token(client: &Client, name: &str) -> String {
    let new = json!({ "name": name, "scope": "wallet" });
    client.post("/api/v1/tokens", &new).ok()["token"].as_str().unwrap().to_owned()
}

#[test]
fn two_callers_may_use_one_idempotency_key_for_two_requests() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let admin = daemon.admin();
    let (shop, till) = (token(&admin, "shop"), token(&admin, "till"));
    let (shop, till) = (daemon.with(&shop), daemon.with(&till));
    let third = admin.keyed(PAY, "order-1", &look(1_000));
    let first = shop.keyed(PAY, "order-1", &payment(10_000));
    let second = till.keyed(PAY, "order-1", &payment(20_000));
    for answer in [&first, &second, &third] {
        let replayed = answer.header("idempotency-replayed");
        assert_eq!((answer.status, replayed), (201, None), "{}", answer.text);
    }
    assert_ne!(first.ok()["lock"], second.ok()["lock"]);
    assert_eq!(shop.keyed(PAY, "order-1", &payment(10_000)).text, first.text);
    assert_eq!(till.keyed(PAY, "order-1", &payment(20_000)).text, second.text);
    assert_eq!(till.keyed(PAY, "order-1", &payment(10_000)).refused(422), "key_reused");
    // A session of a token is that token, and a renewed one is what its name was.
    admin.send("DELETE", "/api/v1/tokens/shop", &[], None);
    let renewed = daemon.with(&token(&admin, "shop"));
    let again = renewed.keyed(PAY, "order-1", &payment(10_000));
    assert_eq!((again.header("idempotency-replayed"), &again.text), (Some("true"), &first.text));
    assert_eq!(leases(&admin).len(), 2);
}

#[test]
fn a_caller_with_too_many_keys_is_told_when_to_come_again() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING, "http.keys_per_caller=2"]);
    world::make_wallet(&daemon, "alice");
    let client = daemon.admin();
    let first = client.keyed(PAY, "one", &look(1_000));
    assert_eq!(client.keyed(PAY, "two", &look(2_000)).status, 201);
    let full = client.keyed(PAY, "three", &look(3_000));
    assert_eq!(full.refused(429), "too_many_keys");
    let seconds: u64 = full.header("retry-after").unwrap().parse().unwrap();
    assert!((80_000..=86_400).contains(&seconds), "{seconds}");
    assert_eq!(client.keyed(PAY, "one", &look(1_000)).text, first.text, "what is kept is kept");
    let till = daemon.with(&token(&client, "till"));
    assert_eq!(till.keyed(PAY, "three", &look(3_000)).status, 201, "others have their own");
}

#[test]
fn many_at_once_with_one_idempotency_key_lease_the_coins_once() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let threads: Vec<_> = (0..12)
        .map(|_| {
            let client = daemon.admin();
            std::thread::spawn(move || client.keyed(PAY, "race", &payment(10_000)))
        })
        .collect();
    let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert!(!made.is_empty());
    assert!(made.windows(2).all(|pair| pair[0].text == pair[1].text), "one answer for all");
    assert!(answers.iter().all(|answer| [201, 409].contains(&answer.status)));
    assert_eq!(leases(&daemon.admin()).len(), 1);
}

#[test]
fn a_payment_interrupted_by_a_crash_is_made_once() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let mut kept = Some(daemon);
    for round in 0..6 {
        let daemon: Daemon = kept.take().unwrap();
        let client = daemon.admin();
        let (key, body) = (format!("crash-{round}"), payment(5_000));
        let paying = {
            let (client, key, body) = (client.clone(), key.clone(), body.clone());
            std::thread::spawn(move || {
                let sent = std::panic::AssertUnwindSafe(|| client.keyed(PAY, &key, &body).status);
                // The daemon may die before it answers.
                std::panic::catch_unwind(sent).ok()
            })
        };
        std::thread::sleep(std::time::Duration::from_millis(3 * round));
        daemon.kill();
        let _ = paying.join().unwrap();
        let daemon = folder.start(&[SEED_SETTING]);
        let client = daemon.admin();
        let paid = client.keyed(PAY, &key, &body);
        assert_eq!(paid.status, 201, "{}", paid.text);
        let held = leases(&client);
        assert_eq!(held.len(), 1, "round {round}: one payment holds one coin");
        let coins: Vec<_> = held.iter().map(|lease| lease["outpoint"].clone()).collect();
        let release = json!({ "outpoints": coins, "lock": paid.ok()["lock"] });
        client.keyed("/api/v1/wallets/alice/leases/release", &format!("r{round}"), &release).ok();
        kept = Some(daemon);
    }
}
