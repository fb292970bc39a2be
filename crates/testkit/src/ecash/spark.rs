//! A scripted Spark wallet in a process of its own. It is no Spark: it keeps a balance, payments by
//! the caller's key, invoices that verify, and says of each the status that a test wants.
//!
//! It outlives whoever talks to it and can be killed itself, since its state is a file that is
//! replaced before every answer. It ends with the test that started it.
//!
//! The process is the test's own binary: a test named by the caller that does nothing but call
//! [`serve_if_asked`].
#![allow(clippy::expect_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bitcoin::{
    hashes::{Hash, sha256},
    secp256k1::{Secp256k1, SecretKey},
};
use lightning_invoice::{Bolt11Invoice, Currency, InvoiceBuilder, PaymentSecret};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::Message;
use crate::crash;

const ROLE: &str = "scripted-spark";
const START_PATIENCE: Duration = Duration::from_secs(60);
const FEE: u64 = 3;
const FIRST_BALANCE: u64 = 100_000;
const DEFAULT_EXPIRY: u64 = 3_600;

/// The process. Dropping it ends it.
pub struct ScriptedSpark {
    worker: String,
    folder: TempDir,
    child: Option<Child>,
    port: u16,
}

impl ScriptedSpark {
    /// Starts the process; `worker` is the path of the test that calls [`serve_if_asked`].
    ///
    /// # Panics
    ///
    /// When it doesn't start.
    pub fn start(worker: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut spark = Self { worker: worker.to_owned(), folder, child: None, port: 0 };
        spark.start_again();
        spark
    }

    /// Starts it again after [`Self::kill`], with its state, at the same address.
    ///
    /// # Panics
    ///
    /// When it doesn't start.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "it is running");
        let ready = self.folder.path().join("ready");
        let _ = fs::remove_file(&ready);
        let command = crash::worker(&self.worker, ROLE, self.folder.path());
        let child = command.and_then(|mut command| command.spawn());
        self.child = Some(child.expect("this binary can be started"));
        let until = Instant::now() + START_PATIENCE;
        while !ready.exists() {
            assert!(Instant::now() < until, "the scripted wallet doesn't start");
            thread::sleep(Duration::from_millis(10));
        }
        let port = fs::read_to_string(self.folder.path().join("port"));
        self.port = port.ok().and_then(|port| port.parse().ok()).expect("it noted its port");
    }

    /// Ends the process as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where it answers.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The status of payments that come from now on.
    pub fn next_status(&self, status: &str) {
        self.control("next_status", &json!({ "status": status }));
    }

    /// Sets the status of the payment under a key, with its preimage or without.
    pub fn set_send(&self, key: &str, status: &str, preimage: Option<&str>) {
        self.control("set_send", &json!({ "key": key, "status": status, "preimage": preimage }));
    }

    /// Sets the status of an invoice; `TRANSFER_COMPLETED` brings its money.
    pub fn set_receive(&self, request_id: &str, status: &str) {
        self.control("set_receive", &json!({ "request_id": request_id, "status": status }));
    }

    /// All it knows, for a test to look at.
    pub fn state(&self) -> Value {
        self.control("state", &json!({}))
    }

    /// How many payments it made.
    ///
    /// # Panics
    ///
    /// When it doesn't answer.
    pub fn payments(&self) -> usize {
        let state = self.state();
        state.get("sends").and_then(Value::as_object).expect("payments").len()
    }

    fn control(&self, name: &str, body: &Value) -> Value {
        let sent = ureq::post(format!("{}/{name}", self.url())).send_json(body);
        let read = sent.and_then(|mut answer| answer.body_mut().read_json());
        read.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for ScriptedSpark {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Serves, when this process was started for it, until its parent is gone.
///
/// # Panics
///
/// When it can't serve.
pub fn serve_if_asked() {
    let Some((role, folder)) = crash::role() else { return };
    if role != ROLE {
        return;
    }
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(Duration::from_millis(200));
        }
        std::process::exit(0);
    });
    serve(&folder).expect("the scripted wallet can serve");
}

fn serve(folder: &Path) -> io::Result<()> {
    let port_file = folder.join("port");
    let port = fs::read_to_string(&port_file).ok().and_then(|port| port.parse::<u16>().ok());
    let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))?;
    fs::write(&port_file, listener.local_addr()?.port().to_string())?;
    let mut wallet = Wallet::open(folder)?;
    fs::write(folder.join("ready"), "")?;
    for stream in listener.incoming() {
        // Who hangs up in the middle has lost the answer, not stopped the wallet.
        let _ = answer(&mut wallet, stream?);
    }
    Ok(())
}

fn answer(wallet: &mut Wallet, mut stream: TcpStream) -> io::Result<()> {
    let mut from = BufReader::new(stream.try_clone()?);
    let Some(mut request) = Message::read_head(&mut from)? else { return Ok(()) };
    request.read_body(&mut from, false)?;
    let question = request.target().1.trim_start_matches('/').to_owned();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let (status, said) = match wallet.ask(&question, &body) {
        Ok(said) => (200, said),
        Err(error) => (400, json!({ "error": error, "detail": question })),
    };
    wallet.save()?;
    stream.write_all(&Message::answer(status, &said.to_string()).bytes())
}

struct Wallet {
    file: PathBuf,
    balance: u64,
    next_status: String,
    /// By the caller's key.
    sends: BTreeMap<String, Value>,
    /// By our name for the request.
    receives: BTreeMap<String, Value>,
}

impl Wallet {
    fn open(folder: &Path) -> io::Result<Self> {
        let file = folder.join("state.json");
        let kept = fs::read(&file).unwrap_or_else(|_| b"{}".to_vec());
        let kept: Value = serde_json::from_slice(&kept)?;
        let list = |name: &str| {
            let map = kept.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
            map.into_iter().collect()
        };
        Ok(Self {
            file,
            balance: kept.get("balance").and_then(Value::as_u64).unwrap_or(FIRST_BALANCE),
            next_status: text(&kept, "next_status")
                .unwrap_or_else(|| "LIGHTNING_PAYMENT_INITIATED".into()),
            sends: list("sends"),
            receives: list("receives"),
        })
    }

    fn state(&self) -> Value {
        json!({
            "balance": self.balance,
            "next_status": self.next_status,
            "sends": self.sends,
            "receives": self.receives,
        })
    }

    /// Replaces the file, so that a kill leaves the old or the new.
    fn save(&self) -> io::Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, self.state().to_string())?;
        fs::rename(new, &self.file)
    }

    fn ask(&mut self, question: &str, body: &Value) -> Result<Value, &'static str> {
        match question {
            "info" => Ok(json!({
                "online": true, "balance": self.balance, "identity_pubkey": "02".repeat(33),
            })),
            "quote_send" => {
                let (_, amount) = invoice_of(body)?;
                Ok(json!({ "amount": amount, "fee": FEE }))
            }
            "send" => self.send(body),
            "send_status" => Ok(self.find_send("request_id", &text(body, "request_id"))),
            "find_send" => Ok(match text(body, "key") {
                Some(key) => self.sends.get(&key).cloned().unwrap_or(Value::Null),
                None => self.find_send("payment_hash", &text(body, "payment_hash")),
            }),
            "create_invoice" => self.create_invoice(body),
            "receive_status" => {
                let id = text(body, "request_id").unwrap_or_default();
                Ok(self.receives.get(&id).cloned().unwrap_or(Value::Null))
            }
            "next_status" => {
                self.next_status = text(body, "status").ok_or("rejected")?;
                Ok(Value::Null)
            }
            "set_send" => self.set_send(body),
            "set_receive" => self.set_receive(body),
            "state" => Ok(self.state()),
            _ => Err("no such question"),
        }
    }

    fn find_send(&self, field: &str, value: &Option<String>) -> Value {
        let found = self.sends.values().find(|send| text(send, field) == *value);
        found.cloned().unwrap_or(Value::Null)
    }

    fn send(&mut self, body: &Value) -> Result<Value, &'static str> {
        let key = text(body, "key").ok_or("rejected")?;
        if let Some(known) = self.sends.get(&key) {
            return Ok(known.clone());
        }
        let (invoice, amount) = invoice_of(body)?;
        let hash = invoice.payment_hash().to_string();
        if !self.find_send("payment_hash", &Some(hash.clone())).is_null() {
            return Err("already_paid");
        }
        if body.get("max_fee").and_then(Value::as_u64).is_none_or(|most| most < FEE) {
            return Err("fee_too_high");
        }
        self.balance = self.balance.checked_sub(amount + FEE).ok_or("insufficient_balance")?;
        let number = self.sends.len() + 1;
        let send = json!({
            "request_id": format!("send-{number}"),
            "transfer_id": format!("transfer-out-{number}"),
            "fee": FEE,
            "amount": amount,
            "payment_hash": hash,
            "status": self.next_status,
            "preimage": null,
        });
        self.sends.insert(key, send.clone());
        Ok(send)
    }

    fn set_send(&mut self, body: &Value) -> Result<Value, &'static str> {
        let key = text(body, "key").ok_or("rejected")?;
        let (status, preimage) = (text(body, "status").ok_or("rejected")?, text(body, "preimage"));
        let send = self.sends.get_mut(&key).and_then(Value::as_object_mut).ok_or("no such")?;
        if status == "USER_SWAP_RETURNED" {
            let amount = send.get("amount").and_then(Value::as_u64).unwrap_or(0);
            self.balance += amount + FEE;
        }
        send.insert("status".into(), status.into());
        send.insert("preimage".into(), preimage.into());
        Ok(Value::Null)
    }

    fn create_invoice(&mut self, body: &Value) -> Result<Value, &'static str> {
        let amount = body.get("amount").and_then(Value::as_u64).ok_or("rejected")?;
        let expiry = body.get("expiry").and_then(Value::as_u64).unwrap_or(DEFAULT_EXPIRY);
        let number = self.receives.len() + 1;
        let seed = format!("{} {number}", self.file.display());
        let preimage = sha256::Hash::hash(seed.as_bytes());
        let hash = sha256::Hash::hash(preimage.as_byte_array());
        let memo = text(body, "memo").unwrap_or_default();
        let invoice = sign(hash, amount, expiry, memo)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let receive = json!({
            "request_id": format!("receive-{number}"),
            "invoice": invoice,
            "payment_hash": hash.to_string(),
            "expires_at": now + expiry,
            "amount": amount,
            "status": "INVOICE_CREATED",
            "transfer_id": null,
            "preimage": null,
            "secret": preimage.to_string(),
        });
        self.receives.insert(format!("receive-{number}"), receive.clone());
        Ok(receive)
    }

    fn set_receive(&mut self, body: &Value) -> Result<Value, &'static str> {
        let id = text(body, "request_id").ok_or("rejected")?;
        let status = text(body, "status").ok_or("rejected")?;
        let receive = self.receives.get_mut(&id).and_then(Value::as_object_mut).ok_or("no such")?;
        if status == "TRANSFER_COMPLETED" {
            self.balance += receive.get("amount").and_then(Value::as_u64).unwrap_or(0);
            let secret = receive.get("secret").cloned().unwrap_or(Value::Null);
            receive.insert("preimage".into(), secret);
            receive.insert("transfer_id".into(), format!("transfer-in-{id}").into());
        }
        receive.insert("status".into(), status.into());
        Ok(Value::Null)
    }
}

/// The invoice of a request, and what is to be paid in satoshis.
fn invoice_of(body: &Value) -> Result<(Bolt11Invoice, u64), &'static str> {
    let invoice: Bolt11Invoice =
        text(body, "invoice").and_then(|text| text.parse().ok()).ok_or("rejected")?;
    let named = invoice.amount_milli_satoshis().map(|msat| msat.div_ceil(1_000));
    let amount = named.or_else(|| body.get("amount").and_then(Value::as_u64)).ok_or("rejected")?;
    Ok((invoice, amount))
}

fn sign(
    hash: sha256::Hash,
    amount: u64,
    expiry: u64,
    memo: String,
) -> Result<String, &'static str> {
    let key = SecretKey::from_slice(&[7; 32]).map_err(|_| "no key")?;
    let built = InvoiceBuilder::new(Currency::Bitcoin)
        .description(memo)
        .payment_hash(hash)
        .payment_secret(PaymentSecret([9; 32]))
        .current_timestamp()
        .expiry_time(Duration::from_secs(expiry))
        .amount_milli_satoshis(amount * 1_000)
        .min_final_cltv_expiry_delta(144)
        .build_signed(|hash| Secp256k1::new().sign_ecdsa_recoverable(hash, &key));
    built.map(|invoice| invoice.to_string()).map_err(|_| "no invoice")
}

fn text(json: &Value, field: &str) -> Option<String> {
    json.get(field)?.as_str().map(str::to_owned)
}
