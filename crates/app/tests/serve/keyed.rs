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

const PAY: &str = "/api/v1/wallets/alice/pay";

#[test]
fn a_repeated_key_gives_the_stored_answer_and_another_request_is_refused() {
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
    // A refusal is an answer too.
    let poor = client.keyed(PAY, "poor", &payment(10_000_000));
    assert_eq!(poor.status, 422);
    let poor_again = client.keyed(PAY, "poor", &payment(10_000_000));
    assert_eq!(poor_again.header("idempotency-replayed"), Some("true"));
    assert_eq!(poor_again.text, poor.text);
    // And it is remembered by the next daemon.
    assert_eq!(daemon.end(), 0);
    let daemon = folder.start(&[SEED_SETTING]);
    let later = daemon.admin().keyed(PAY, "one", &payment(10_000));
    assert_eq!((later.status, &later.text), (201, &first.text));
    assert_eq!(leases(&daemon.admin()).len(), 1);
}

#[test]
fn many_at_once_with_one_key_hold_the_coins_once() {
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
