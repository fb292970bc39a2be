//! Deliveries to a real, small HTTP server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use unspent_model::Micros;

use super::{SECRET_BYTES, Webhook, WebhookError, WebhookOptions, Webhooks};
use crate::{
    clock,
    events::{EventLog, NewEvent, kind::EventKind},
    store,
    tenant::Tenant,
};

const SECRET: [u8; SECRET_BYTES] = [7; SECRET_BYTES];

/// A message as the receiver saw it.
#[derive(Clone, Debug)]
struct Got {
    headers: HashMap<String, String>,
    body: String,
}

impl Got {
    fn event(&self) -> u64 {
        serde_json::from_str::<Value>(&self.body).unwrap()["id"].as_u64().unwrap()
    }
}

/// What the receiver does with a message, by its number.
type Answer = Box<dyn Fn(usize) -> Reply + Send + Sync>;

#[derive(Clone, Copy)]
enum Reply {
    Status(u16),
    /// Takes it and hangs up, so that the sender can't know.
    HangUp,
    /// Takes it and says nothing for so long.
    Silent(Duration),
}

struct Receiver {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (got, closing) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (into, stop) = (got.clone(), closing.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                serve(&stream.unwrap(), &into, &answer);
            }
        });
        Self { url, got, closing, thread: Some(thread) }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<u64> {
        self.got().iter().map(Got::event).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        let address = self.url.trim_start_matches("http://").trim_end_matches("/hook");
        let _ = TcpStream::connect(address);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// One request on one connection.
fn serve(mut stream: &TcpStream, got: &Mutex<Vec<Got>>, answer: &Answer) {
    let mut reader = BufReader::new(stream);
    let (mut headers, mut line) = (HashMap::new(), String::new());
    reader.read_line(&mut line).unwrap();
    if line.is_empty() {
        return;
    }
    assert!(line.starts_with("POST /hook HTTP/1.1"), "{line}");
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let number = {
        let mut got = got.lock().unwrap();
        got.push(Got { headers, body: String::from_utf8(body).unwrap() });
        got.len() - 1
    };
    match answer(number) {
        Reply::Status(code) => {
            let answer =
                format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
        Reply::HangUp => {}
        Reply::Silent(span) => std::thread::sleep(span),
    }
}

fn always(reply: Reply) -> Answer {
    Box::new(move |_| reply)
}

fn options() -> WebhookOptions {
    WebhookOptions {
        allow_private: true,
        timeout: Duration::from_secs(5),
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        ..WebhookOptions::default()
    }
}

/// A wallet as its room would name it: a new name doesn't change its id.
fn tenant(wallet: &str) -> Tenant {
    Tenant::new("wallet", if wallet == "other" { 2 } else { 1 }, wallet)
}

struct Bench {
    hooks: Webhooks,
    log: Arc<EventLog>,
}

impl Bench {
    fn open(folder: &std::path::Path, options: WebhookOptions, kept: u64) -> Self {
        let door = Arc::new(store::open(folder).unwrap());
        let log = Arc::new(EventLog::open(door, kept).unwrap());
        Self { hooks: Webhooks::new(log.clone(), options), log }
    }

    fn write(&self, wallet: &str, count: u64) {
        let kind = EventKind::<Value>::new("wallet", "confirmed");
        let events = (0..count).map(|n| {
            let event = NewEvent::new(kind, &json!({ "n": n })).about(Some(format!("tx {n}")));
            event.of(tenant(wallet))
        });
        self.log.write(events.collect()).unwrap();
    }

    fn add(&self, wallet: &str, url: &str) -> Webhook {
        self.hooks.add(&tenant(wallet), url, SECRET, Micros(1)).unwrap().0
    }

    fn hook(&self, id: u64) -> Webhook {
        self.hooks.list().unwrap().into_iter().find(|hook| hook.id == id).unwrap()
    }

    /// Looks as the job does, until something holds.
    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(60), "waited too long for: {what}");
            self.hooks.look(clock::now()).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.hooks.end();
    }
}

/// HMAC-SHA256 by its definition, apart from the code that signs.
fn hmac(secret: &[u8], text: &[u8]) -> [u8; 32] {
    let mut key = [0_u8; 64];
    key[..secret.len()].copy_from_slice(secret);
    let padded = |pad: u8| key.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5C)).chain_update(inner).finalize().into()
}

#[test]
fn a_wallets_events_come_in_order_once_each_and_signed() {
    let (folder, receiver) =
        (tempfile::tempdir().unwrap(), Receiver::start(always(Reply::Status(204))));
    let bench = Bench::open(folder.path(), options(), 10_000);
    bench.write("shop", 3); // before the hook: not its business
    let (hook, secret) =
        bench.hooks.add(&tenant("shop"), &receiver.url, SECRET, Micros(1)).unwrap();
    assert_eq!(secret, format!("whsec_{}", STANDARD.encode(SECRET)));
    for _ in 0..100 {
        bench.write("other", 2);
        bench.write("shop", 1);
    }
    let wanted: Vec<u64> = (0..100).map(|n| 3 + 3 * n + 3).collect();
    bench.until("all deliveries", || receiver.got().len() >= 100);
    bench.until("the cursor", || bench.hook(hook.id).cursor == 303);
    assert_eq!(receiver.events(), wanted);
    let shown = bench.hook(hook.id);
    assert_eq!((shown.delivered, shown.attempts, shown.last_error), (100, 0, None));
    for got in receiver.got() {
        let header = |name: &str| got.headers[name].clone();
        assert_eq!(header("webhook-id"), format!("{}.{}", hook.id, got.event()));
        let signed = [header("webhook-id"), header("webhook-timestamp"), got.body.clone()];
        let code = STANDARD.encode(hmac(&SECRET, signed.join(".").as_bytes()));
        assert_eq!(header("webhook-signature"), format!("v1,{code}"));
        let age = clock::now().0 / 1_000_000 - header("webhook-timestamp").parse::<i64>().unwrap();
        assert!((0..60).contains(&age));
        assert_eq!(header("content-type"), "application/json");
    }
}

#[test]
fn what_is_refused_is_tried_again_and_nothing_overtakes_it() {
    let folder = tempfile::tempdir().unwrap();
    let fail = |n: usize| Reply::Status(if (1..5).contains(&n) { 500 } else { 200 });
    let receiver = Receiver::start(Box::new(fail));
    let bench = Bench::open(folder.path(), options(), 10_000);
    let hook = bench.add("shop", &receiver.url);
    bench.write("shop", 3);
    bench.until("the first failure", || bench.hook(hook.id).attempts > 0);
    let failing = bench.hook(hook.id);
    assert_eq!(failing.cursor, 1);
    assert!(failing.last_error.unwrap().contains("500"));
    assert!(failing.failing_since.is_some() && failing.next_attempt_at.is_some());
    bench.until("all deliveries", || bench.hook(hook.id).delivered == 3);
    assert_eq!(receiver.events(), [1, 2, 2, 2, 2, 2, 3]);
    let names: Vec<_> =
        receiver.got().iter().map(|got| got.headers["webhook-id"].clone()).collect();
    assert_eq!((&names[1], &names[5]), (&names[2], &names[4]));
    let well = bench.hook(hook.id);
    assert_eq!((well.attempts, well.failing_since, well.last_error), (0, None, None));
}

#[test]
fn an_answer_that_was_lost_brings_the_same_event_again_with_the_same_id() {
    let folder = tempfile::tempdir().unwrap();
    let lose = |n: usize| if n == 0 { Reply::HangUp } else { Reply::Status(200) };
    let receiver = Receiver::start(Box::new(lose));
    {
        let bench = Bench::open(folder.path(), options(), 10_000);
        let hook = bench.add("shop", &receiver.url);
        bench.write("shop", 1);
        bench.until("the first attempt", || bench.hook(hook.id).attempts > 0);
        // The process ends here, not knowing whether the message was taken.
    }
    let bench = Bench::open(folder.path(), options(), 10_000);
    bench.write("shop", 2);
    bench.until("all deliveries", || bench.hook(1).delivered == 3);
    assert_eq!(receiver.events(), [1, 1, 2, 3]);
    let got = receiver.got();
    assert_eq!(got[0].headers["webhook-id"], got[1].headers["webhook-id"]);
}

#[test]
fn a_dead_and_a_silent_receiver_keep_nobody_else_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let dead = { TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let silent = Receiver::start(always(Reply::Silent(Duration::from_secs(3))));
    let receiver = Receiver::start(always(Reply::Status(200)));
    let bench = Bench::open(folder.path(), options(), 10_000);
    let gone = bench.add("shop", &format!("http://{dead}/hook"));
    let mute = bench.add("shop", &silent.url);
    let well = bench.add("shop", &receiver.url);
    let started = Instant::now();
    bench.write("shop", 50);
    bench.until("the silent one is asked", || !silent.got().is_empty());
    bench.until("the good receiver", || bench.hook(well.id).delivered == 50);
    assert_eq!(bench.hook(mute.id).cursor, 0, "{:?}", started.elapsed());
    assert_eq!(receiver.events(), (1..=50).collect::<Vec<_>>());
    bench.until("the dead one failed", || bench.hook(gone.id).attempts > 1);
    assert_eq!(bench.hook(gone.id).cursor, 0);
}

#[test]
fn a_receiver_that_stays_away_is_paused_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = Arc::new(AtomicBool::new(false));
    let health = healthy.clone();
    let receiver = Receiver::start(Box::new(move |_| {
        Reply::Status(if health.load(Ordering::Acquire) { 200 } else { 503 })
    }));
    let give_up = WebhookOptions { give_up_after: Duration::from_millis(50), ..options() };
    let bench = Bench::open(folder.path(), give_up, 10_000);
    let hook = bench.add("shop", &receiver.url);
    bench.write("shop", 2);
    bench.until("the pause", || bench.hook(hook.id).paused_at.is_some());
    healthy.store(true, Ordering::Release);
    let tried = receiver.got().len();
    for _ in 0..20 {
        assert_eq!(bench.hooks.look(clock::now()).unwrap(), 0);
    }
    assert_eq!(receiver.got().len(), tried);
    bench.hooks.resume(hook.id).unwrap();
    bench.until("all deliveries", || bench.hook(hook.id).delivered == 2);
    assert_eq!(bench.hook(hook.id).paused_at, None);
}

#[test]
fn events_that_were_forgotten_are_told_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(always(Reply::Status(200)));
    let bench = Bench::open(folder.path(), options(), 10);
    let hook = bench.add("shop", &receiver.url);
    bench.write("shop", 15);
    bench.until("all deliveries", || bench.hook(hook.id).cursor == 15);
    let got = receiver.got();
    let first: Value = serde_json::from_str(&got[0].body).unwrap();
    assert_eq!(
        (&first["kind"], &first["lost_after"], &first["lost_to"]),
        (&json!("reset"), &json!(0), &json!(5))
    );
    let rest: Vec<u64> = got[1..].iter().map(Got::event).collect();
    assert_eq!(rest, (6..=15).collect::<Vec<_>>());
    assert_eq!(bench.hook(hook.id).missed, 5);
}

#[test]
fn a_removed_hook_gets_nothing_more_and_its_number_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(always(Reply::Status(200)));
    let bench = Bench::open(folder.path(), options(), 10_000);
    let hook = bench.add("shop", &receiver.url);
    bench.write("shop", 1);
    bench.until("one delivery", || bench.hook(hook.id).delivered == 1);
    bench.hooks.remove(hook.id).unwrap();
    assert!(matches!(bench.hooks.remove(hook.id), Err(WebhookError::Unknown(1))));
    bench.write("shop", 5);
    assert_eq!(bench.hooks.look(clock::now()).unwrap(), 0);
    assert_eq!(receiver.got().len(), 1);
    assert_eq!(bench.add("shop", &receiver.url).id, hook.id + 1);
}

#[test]
fn a_test_message_is_sent_at_once_and_private_addresses_only_where_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(always(Reply::Status(200)));
    let id = {
        let bench = Bench::open(folder.path(), options(), 10_000);
        let hook = bench.add("shop", &receiver.url);
        bench.hooks.test(hook.id, clock::now()).unwrap();
        assert!(receiver.got()[0].body.contains("\"test\""));
        hook.id
    };
    let strict =
        Bench::open(folder.path(), WebhookOptions { allow_private: false, ..options() }, 9);
    let error = strict.hooks.add(&tenant("shop"), &receiver.url, SECRET, Micros(1));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("https://"), "{error}");
    // The hook that was made before isn't called either: the address is judged at each call.
    let error = strict.hooks.test(id, clock::now()).unwrap_err().to_string();
    assert!(error.contains("private network"), "{error}");
    assert_eq!(receiver.got().len(), 1);
}

#[test]
fn a_wallet_that_is_renamed_keeps_its_hook_and_loses_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = Arc::new(AtomicBool::new(false));
    let health = healthy.clone();
    let receiver = Receiver::start(Box::new(move |_| {
        Reply::Status(if health.load(Ordering::Acquire) { 200 } else { 503 })
    }));
    let bench = Bench::open(folder.path(), options(), 10_000);
    let hook = bench.add("shop", &receiver.url);
    bench.write("shop", 2);
    bench.until("a failure", || bench.hook(hook.id).attempts > 0);
    bench.hooks.rename(&tenant("market")).unwrap();
    assert_eq!(bench.hook(hook.id).wallet.as_deref(), Some("market"));
    bench.write("other", 1);
    bench.write("market", 2);
    healthy.store(true, Ordering::Release);
    bench.until("all deliveries", || bench.hook(hook.id).delivered == 4);
    let mut seen = receiver.events();
    seen.dedup();
    assert_eq!(seen, [1, 2, 4, 5], "those of before the new name too");
}

#[test]
fn a_hook_gets_the_events_of_its_tenant_and_of_no_namesake_in_another_room() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(always(Reply::Status(200)));
    let bench = Bench::open(folder.path(), options(), 10_000);
    let account = Tenant::new("ecash", 1, "shop");
    let hook = bench.hooks.add(&account, &receiver.url, SECRET, Micros(1)).unwrap().0;
    assert_eq!((hook.wallet, &*hook.room, &*hook.tenant), (None, "ecash", "shop"));
    // The same id and the same name, in another room.
    bench.write("shop", 2);
    let kind = EventKind::<Value>::new("ecash", "ecash_moved");
    let moved = |tenant: &Tenant| NewEvent::new(kind, &json!({})).of(tenant.clone());
    bench.log.write(vec![moved(&account), moved(&Tenant::new("ecash", 2, "shop"))]).unwrap();
    bench.until("all deliveries", || bench.hook(hook.id).cursor == 4);
    assert_eq!(receiver.events(), [3]);
    let body: Value = serde_json::from_str(&receiver.got()[0].body).unwrap();
    assert_eq!(
        (&body["room"], &body["tenant_room"], &body["tenant"], &body["wallet"]),
        (&json!("ecash"), &json!("ecash"), &json!("shop"), &Value::Null)
    );
    bench.hooks.test(hook.id, clock::now()).unwrap();
    let test: Value = serde_json::from_str(&receiver.got()[1].body).unwrap();
    let wanted = json!({ "kind": "test", "room": "ecash", "tenant": "shop", "wallet": null });
    assert_eq!(test, wanted);
}

static PLANS: Mutex<Vec<(&'static str, String)>> = Mutex::new(Vec::new());

fn keep_plan(sql: &'static str, plan: &str) {
    PLANS.lock().unwrap().push((sql, plan.to_owned()));
}

/// There may be a hundred thousand events; hooks are a hundred at most, and found by their number.
#[test]
fn no_statement_of_a_webhook_walks_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(Box::new(|n| Reply::Status(if n == 1 { 500 } else { 200 })));
    let url = unspent_sql::Url::Sqlite(folder.path().join(store::STORE_FILE));
    let explained = unspent_sql::Options { on_plan: Some(keep_plan), ..Default::default() };
    let door = unspent_sql::Door::open(&url, &store::SCHEMA, explained).unwrap();
    let log = Arc::new(EventLog::open(Arc::new(door), 50).unwrap());
    let bench = Bench { hooks: Webhooks::new(log.clone(), options()), log };
    let hook = bench.add("shop", &receiver.url);
    bench.write("shop", 70);
    bench.write("other", 3);
    bench.until("all deliveries", || bench.hook(hook.id).cursor == 73);
    bench.hooks.rename(&tenant("market")).unwrap();
    bench.hooks.resume(hook.id).unwrap();
    bench.hooks.test(hook.id, clock::now()).unwrap();
    bench.hooks.remove(hook.id).unwrap();
    let plans = PLANS.lock().unwrap().clone();
    let told = |words: &str| plans.iter().filter(|(sql, _)| sql.contains(words)).count();
    for words in ["FROM events", "DELETE FROM webhooks", "failing_since = COALESCE"] {
        assert!(told(words) > 0, "{words} did not run");
    }
    for (sql, plan) in &plans {
        assert!(!plan.contains("SCAN events"), "{sql}\n{plan}");
        if sql.contains("webhooks") && sql.contains("WHERE id = $1") {
            assert!(plan.contains("SEARCH webhooks"), "{sql}\n{plan}");
        }
    }
}
