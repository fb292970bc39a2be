//! Webhooks from a running daemon: to receivers that fail, hang, and speak TLS, through a kill and
//! a new name.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver as Inbox, Sender, channel},
    },
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    daemon::{Client, Daemon, Folder, PATIENCE},
    world::{self, SEED_SETTING, funded},
};

pub(crate) const PRIVATE: &str = "webhooks.allow_private=true";
/// A message that isn't answered within it counts as lost.
const TIMEOUT: &str = "webhooks.timeout_seconds=2";

/// A message as it came.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    headers: HashMap<String, String>,
    pub(crate) body: String,
    /// Whether it was answered with 200.
    taken: bool,
}

impl Message {
    pub(crate) fn event(&self) -> u64 {
        serde_json::from_str::<Value>(&self.body).unwrap()["id"].as_u64().unwrap()
    }

    /// Checks the signature as the specification tells a receiver to, with code of its own.
    pub(crate) fn check(&self, secret: &str) {
        let header = |name: &str| self.headers[name].as_str();
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let signed = [header("webhook-id"), header("webhook-timestamp"), &self.body].join(".");
        let code = STANDARD.encode(hmac(&key, signed.as_bytes()));
        assert_eq!(header("webhook-signature"), format!("v1,{code}"));
        let forged = STANDARD.encode(hmac(&key, (signed + " ").as_bytes()));
        assert_ne!(header("webhook-signature"), format!("v1,{forged}"));
        assert!(header("webhook-id").ends_with(&format!(".{}", self.event())));
    }
}

/// HMAC-SHA256 by its definition, on another library than the daemon's.
fn hmac(secret: &[u8], text: &[u8]) -> [u8; 32] {
    let mut key = [0_u8; 64];
    key[..secret.len()].copy_from_slice(secret);
    let padded = |pad: u8| key.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5C)).chain_update(inner).finalize().into()
}

/// What is done with a message.
pub(crate) enum Reply {
    Status(u16),
    /// Nothing is said until the sender hangs up.
    Silence,
}

/// By the number of the message.
type Decide = Box<dyn Fn(usize) -> Reply + Send + Sync>;

/// An HTTP server that keeps every message.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<Message>>>,
}

impl Receiver {
    pub(crate) fn start(tls: Option<Arc<ServerConfig>>, decide: Decide) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, got) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (kept, decide) = (got.clone(), Arc::new(decide));
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept, decide) = (stream.unwrap(), kept.clone(), decide.clone());
                let tls = tls.clone();
                std::thread::spawn(move || match tls {
                    Some(tls) => {
                        let connection = ServerConnection::new(tls).unwrap();
                        serve(StreamOwned::new(connection, stream), &kept, &decide)
                    }
                    None => serve(stream, &kept, &decide),
                });
            }
        });
        Self { address, got }
    }

    pub(crate) fn got(&self) -> Vec<Message> {
        self.got.lock().unwrap().clone()
    }

    fn taken(&self) -> usize {
        self.got().iter().filter(|message| message.taken).count()
    }
}

/// One message on a connection. A sender that is killed meanwhile is no fault.
fn serve<S: Read + Write>(stream: S, got: &Mutex<Vec<Message>>, decide: &Decide) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut headers, mut line) = (HashMap::new(), String::new());
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    assert!(line.starts_with("POST /hook HTTP/1.1"), "{line}");
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    let place = {
        let mut got = got.lock().unwrap();
        got.push(Message { headers, body: String::from_utf8(body).unwrap(), taken: false });
        got.len() - 1
    };
    match decide(place) {
        Reply::Status(code) => {
            got.lock().unwrap()[place].taken = code == 200;
            let answer =
                format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).ok()?;
            reader.get_mut().flush().ok()?;
        }
        Reply::Silence => {
            let _ = reader.read(&mut [0]);
        }
    }
    Some(())
}

fn add_hook(client: &Client, wallet: &str, url: &str) -> (u64, String, u64) {
    let made = client.post(&format!("/api/v1/wallets/{wallet}/webhooks"), &json!({ "url": url }));
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.json();
    let hook = &made["webhook"];
    let secret = made["secret"].as_str().unwrap().to_owned();
    (hook["id"].as_u64().unwrap(), secret, hook["cursor"].as_u64().unwrap())
}

/// Payments to the wallet itself that are sent: each makes several events.
fn pay(client: &Client, wallet: &str, key: &str) {
    let path = |what: &str| format!("/api/v1/wallets/{wallet}/{what}");
    let outputs = json!([{ "address": world::address(9), "value": "2000" }]);
    let paid = client.keyed(&path("pay"), &format!("pay-{key}"), &json!({ "outputs": outputs }));
    let paid = paid.ok();
    let psbt = world::signed(paid["psbt"].as_str().unwrap());
    let back = json!({ "signed": psbt, "lock": paid["lock"], "broadcast": true });
    client.keyed(&path("finalize"), &format!("finalize-{key}"), &back).ok();
}

/// The numbers of a wallet's events after one.
fn events_of(daemon: &Daemon, wallets: &[&str], mut after: u64) -> Vec<u64> {
    let mut found = Vec::new();
    loop {
        let page = daemon.admin().get(&format!("/api/v1/events?limit=500&after={after}")).ok();
        let events = page["events"].as_array().unwrap();
        let ours = |event: &&Value| event["wallet"].as_str().is_some_and(|w| wallets.contains(&w));
        found.extend(events.iter().filter(ours).map(|event| event["id"].as_u64().unwrap()));
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return found,
        }
    }
}

/// Waits until the hook has passed all events, and compares what came with them.
fn all_came_in_order(daemon: &Daemon, receiver: &Receiver, wallets: &[&str], hook: (u64, u64)) {
    let (id, cursor) = hook;
    // What was done is in the journals at once, and in the log of events soon.
    daemon.wait_for("every event is delivered", |client| {
        let last = client.get("/api/v1/status").ok()["events"]["last"].as_u64().unwrap();
        let hooks = client.get("/api/v1/webhooks").ok()["webhooks"].clone();
        let ours = hooks.as_array().unwrap().iter().find(|hook| hook["id"] == id).unwrap().clone();
        let is_done = ours["cursor"].as_u64().unwrap() == last;
        is_done && receiver.taken() >= events_of(daemon, wallets, cursor).len()
    });
    let wanted = events_of(daemon, wallets, cursor);
    let got = receiver.got();
    let mut tried: Vec<u64> = got.iter().map(Message::event).collect();
    tried.dedup();
    assert_eq!(tried, wanted, "each in its turn, again and again until it is taken");
    let mut taken: Vec<u64> = got.iter().filter(|one| one.taken).map(Message::event).collect();
    taken.dedup();
    assert_eq!(taken, wanted, "every event was taken");
}

#[test]
fn every_event_arrives_in_order_through_failures_and_a_kill() {
    let folder = funded();
    let settings = [SEED_SETTING, PRIVATE, TIMEOUT];
    let daemon = folder.start(&settings);
    world::make_wallet(&daemon, "alice");
    let (held, let_go): (Sender<()>, Inbox<()>) = channel();
    let held = Mutex::new(held);
    let receiver = Receiver::start(
        None,
        Box::new(move |number| match number {
            1 | 2 => Reply::Status(500),
            4 => Reply::Silence,
            6 => {
                held.lock().unwrap().send(()).unwrap();
                Reply::Silence
            }
            9 => Reply::Status(404),
            _ => Reply::Status(200),
        }),
    );
    let url = format!("http://{}/hook", receiver.address);
    let (id, secret, cursor) = add_hook(&daemon.admin(), "alice", &url);
    for n in 0..3 {
        pay(&daemon.admin(), "alice", &n.to_string());
    }
    let_go.recv_timeout(PATIENCE).expect("the seventh message comes");
    // The receiver has it, the daemon doesn't know.
    daemon.kill();
    let before = receiver.got().len();
    let daemon = folder.start(&settings);
    pay(&daemon.admin(), "alice", "after-the-kill");
    all_came_in_order(&daemon, &receiver, &["alice"], (id, cursor));
    let got = receiver.got();
    assert!(got.len() > before && before == 7, "{before} before the kill, {} in all", got.len());
    let name = |place: usize| got[place].headers["webhook-id"].clone();
    assert_eq!((name(1), name(2), name(4)), (name(2), name(3), name(5)), "tried again");
    assert_eq!(name(6), name(7), "after the kill it comes again, under the same name");
    for message in &got {
        message.check(&secret);
    }
    let shown = daemon.admin().get("/api/v1/webhooks").ok()["webhooks"][0].clone();
    assert_eq!((&shown["attempts"], &shown["missed"]), (&json!(0), &json!(0)), "{shown}");
}

/// A root of our own and the configuration of a server that it vouches for.
pub(crate) fn own_root(folder: &Folder) -> (PathBuf, Arc<ServerConfig>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "a root of our own");
    let key = KeyPair::generate().unwrap();
    let file = folder.beside("root.pem");
    std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate: CertificateDer<'static> =
        names.signed_by(&key, &issuer).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (file, Arc::new(config))
}

#[test]
fn a_receiver_vouched_for_by_an_own_root_is_told() {
    let folder = funded();
    let (root, tls) = own_root(&folder);
    let receiver = Receiver::start(Some(tls), Box::new(|_| Reply::Status(200)));
    let url = format!("https://{}/hook", receiver.address);
    // Nobody whom everybody knows vouches for it.
    let daemon = folder.start(&[SEED_SETTING, PRIVATE]);
    world::make_wallet(&daemon, "alice");
    let (id, secret, cursor) = add_hook(&daemon.admin(), "alice", &url);
    let test = format!("/api/v1/webhooks/{id}/test");
    let refused = daemon.admin().send("POST", &test, &[], None);
    assert_eq!(refused.refused(409), "refused");
    assert!(receiver.got().is_empty(), "nothing is told to a stranger");
    assert_eq!(daemon.end(), 0);
    let trusted = format!("webhooks.root_certificate={}", root.display());
    let daemon = folder.start(&[SEED_SETTING, PRIVATE, &trusted]);
    pay(&daemon.admin(), "alice", "over-tls");
    all_came_in_order(&daemon, &receiver, &["alice"], (id, cursor));
    for message in receiver.got() {
        message.check(&secret);
    }
    assert_eq!(daemon.end(), 0);
    std::fs::write(&root, "no certificate").unwrap();
    let mut command = crate::daemon::unspent(&folder.data());
    command.args(["--json", "serve", "--listen", "127.0.0.1:0", "--set", &trusted]);
    command.args(["--set", SEED_SETTING]);
    let (code, _, err) = crate::daemon::ended(command);
    assert!(code != 0 && err.contains("it contains no certificate"), "{code}: {err}");
}

#[test]
fn a_hook_goes_with_a_wallet_that_is_renamed() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING, PRIVATE]);
    world::make_wallet(&daemon, "alice");
    let receiver = Receiver::start(None, Box::new(|_| Reply::Status(200)));
    let url = format!("http://{}/hook", receiver.address);
    let (id, secret, cursor) = add_hook(&daemon.admin(), "alice", &url);
    pay(&daemon.admin(), "alice", "old-name");
    let kind = [("content-type", "application/json")];
    let name = json!({ "name": "shop" }).to_string();
    let renamed =
        daemon.admin().send("PATCH", "/api/v1/wallets/alice", &kind, Some(name.as_bytes()));
    assert_eq!(renamed.ok()["name"], "shop");
    let shown = daemon.admin().get("/api/v1/webhooks").ok()["webhooks"][0].clone();
    assert_eq!((&shown["id"], &shown["wallet"]), (&json!(id), &json!("shop")));
    pay(&daemon.admin(), "shop", "new-name");
    all_came_in_order(&daemon, &receiver, &["alice", "shop"], (id, cursor));
    let got = receiver.got();
    let wallet = |message: &Message| -> Value {
        serde_json::from_str::<Value>(&message.body).unwrap()["wallet"].clone()
    };
    assert_eq!(wallet(got.last().unwrap()), "shop");
    for message in &got {
        message.check(&secret);
    }
}
