//! Nodes that lie: typed errors, no panic, bounded memory.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bitcoin::{
    Block, Network as Wire, consensus::encode::serialize_hex, constants::genesis_block,
    hashes::Hash,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use unspent_engine::source::{
    Node, Origin, Source, SourceError, Step,
    core::{Auth, CoreConfig, CoreNode},
};
use unspent_model::Network;
use unspent_networks::decode_block;

/// What the fake node says to one call: a result or an error object.
pub(crate) type Answer = Result<Value, Value>;
pub(crate) type Rule = Box<dyn FnMut(&str, &Value) -> Option<Answer> + Send>;

/// How the fake sends its answers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Manner {
    Proper,
    NotJson,
    HalfJson,
    EmptyBody,
    EndlessBody,
    HangsUp,
    OneForMany,
    MixedUpIds,
    Status(u16),
}

/// A node of two blocks, whose answers can be bent.
pub(crate) struct Fake {
    url: String,
    stop: Arc<AtomicBool>,
    address: std::net::SocketAddr,
}

impl Fake {
    pub(crate) fn start(manner: Manner, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, rule) = (stop.clone(), Arc::new(Mutex::new(rule)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let rule = rule.clone();
                thread::spawn(move || serve(stream, manner, &rule));
            }
        });
        Self { url: format!("http://{address}"), stop, address }
    }

    pub(crate) fn core(&self) -> CoreNode {
        CoreNode::new(CoreConfig {
            url: self.url.clone(),
            roots: None,
            auth: Auth::None,
            network: Network::BitcoinRegtest,
            zmq: None,
            poll: Duration::from_millis(20),
        })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, manner: Manner, rule: &Mutex<Rule>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_request(&mut reader) {
        let body = match &request {
            Value::Array(calls) => {
                let replies: Vec<_> = calls.iter().map(|call| reply(call, rule)).collect();
                match manner {
                    Manner::OneForMany => replies[0].to_string(),
                    Manner::MixedUpIds => {
                        json!([replies[0].clone(), replies[0].clone()]).to_string()
                    }
                    _ => Value::Array(replies).to_string(),
                }
            }
            call => reply(call, rule).to_string(),
        };
        let body = match manner {
            Manner::NotJson => "<html>hello</html>".to_owned(),
            Manner::HalfJson => body[..body.len() / 2].to_owned(),
            Manner::EmptyBody => String::new(),
            Manner::HangsUp => return,
            Manner::EndlessBody => return endless(stream),
            _ => body,
        };
        let status = if let Manner::Status(status) = manner { status } else { 200 };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn endless(mut stream: TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[");
    while stream.write_all(&[b' '; 65_536]).is_ok() {}
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn reply(call: &Value, rule: &Mutex<Rule>) -> Value {
    let (method, params) = (call["method"].as_str().unwrap(), &call["params"]);
    let bent = rule.lock().unwrap()(method, params);
    match bent.unwrap_or_else(|| honest(method, params)) {
        Ok(result) => json!({ "result": result, "error": null, "id": call["id"] }),
        Err(error) => json!({ "result": null, "error": error, "id": call["id"] }),
    }
}

/// The first block and a child of it.
fn blocks() -> [Block; 2] {
    let first = genesis_block(Wire::Regtest);
    let mut second = first.clone();
    second.header.prev_blockhash = first.block_hash();
    [first, second]
}

fn honest(method: &str, params: &Value) -> Answer {
    let blocks = blocks();
    let refuse = |code: i64, message: &str| Err(json!({ "code": code, "message": message }));
    let by_hash = |hash: &Value| {
        let found = blocks
            .iter()
            .position(|block| Some(block.block_hash().to_string().as_str()) == hash.as_str());
        found.map(|at| (at, &blocks[at]))
    };
    match method {
        "getblockchaininfo" => {
            let tip = blocks[1].block_hash().to_string();
            Ok(json!({ "chain": "regtest", "blocks": 1, "bestblockhash": tip }))
        }
        "getbestblockhash" => Ok(json!(blocks[1].block_hash().to_string())),
        "getblockhash" => match params[0].as_u64().and_then(|at| blocks.get(at as usize)) {
            Some(block) => Ok(json!(block.block_hash().to_string())),
            None => refuse(-8, "Block height out of range"),
        },
        "getblock" => match by_hash(&params[0]) {
            Some((_, block)) => Ok(json!(serialize_hex(block))),
            None => refuse(-5, "Block not found"),
        },
        "getblockheader" => match by_hash(&params[0]) {
            Some((at, _)) => Ok(json!({ "height": at, "confirmations": 2 - at as i64 })),
            None => refuse(-5, "Block not found"),
        },
        "getrawmempool" => Ok(json!([])),
        _ => refuse(-32601, "Method not found"),
    }
}

fn bend(method: &'static str, answer: Answer) -> Rule {
    Box::new(move |asked, _| (asked == method).then(|| answer.clone()))
}

fn straight() -> Rule {
    Box::new(|_, _| None)
}

/// Opens, intersects at the origin and steps until an error or the tip.
fn run(core: &CoreNode) -> Result<usize, SourceError> {
    let mut source = core.open()?;
    source.intersect(&[])?;
    steps(&mut *source)
}

fn steps(source: &mut dyn Source) -> Result<usize, SourceError> {
    let mut blocks = 0;
    while let Step::Forward(_) = source.next(Duration::ZERO)? {
        blocks += 1;
    }
    Ok(blocks)
}

fn malformed(result: Result<usize, SourceError>) -> String {
    match result {
        Err(SourceError::Malformed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_fake_node_is_good_enough_to_be_read() {
    let fake = Fake::start(Manner::Proper, straight());
    assert_eq!(run(&fake.core()), Ok(2));
}

#[test]
fn answers_that_are_not_the_json_expected() {
    for manner in [Manner::NotJson, Manner::HalfJson, Manner::EmptyBody] {
        malformed(run(&Fake::start(manner, straight()).core()));
    }
    for wrong in [json!(7), json!(null), json!("zz"), json!({}), json!([1, [2]]), json!(-1)] {
        for method in ["getblockchaininfo", "getblockhash", "getblock"] {
            let fake = Fake::start(Manner::Proper, bend(method, Ok(wrong.clone())));
            malformed(run(&fake.core()));
        }
    }
    let deep = "[".repeat(100_000);
    let fake = Fake::start(Manner::Proper, bend("getblock", Ok(json!(deep))));
    malformed(run(&fake.core()));
    for manner in [Manner::OneForMany, Manner::MixedUpIds] {
        malformed(run(&Fake::start(manner, straight()).core()));
    }
}

#[test]
fn a_node_that_hangs_up_is_busy_or_denies() {
    let away = run(&Fake::start(Manner::HangsUp, straight()).core()).unwrap_err();
    assert!(away.is_passing(), "{away}");
    let busy = run(&Fake::start(Manner::Status(503), straight()).core()).unwrap_err();
    assert!(busy.is_passing(), "{busy}");
    for status in [401, 403] {
        let denied = run(&Fake::start(Manner::Status(status), straight()).core()).unwrap_err();
        assert!(matches!(denied, SourceError::Denied { .. }), "{denied}");
    }
    let starting = json!({ "code": -28, "message": "Loading block index…" });
    for method in ["getblockchaininfo", "getblockhash", "getblock"] {
        let fake = Fake::start(Manner::Proper, bend(method, Err(starting.clone())));
        let error = run(&fake.core()).unwrap_err();
        assert!(error.is_passing() && error.to_string().contains("Loading"), "{error}");
    }
}

#[test]
fn an_endless_answer_is_cut() {
    let fake = Fake::start(Manner::EndlessBody, straight());
    let started = Instant::now();
    let reason = malformed(fake.core().mempool().map(|view| view.txids.len()));
    assert!(reason.contains("more than"), "{reason}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn another_chain_is_refused() {
    let named = json!({ "chain": "main", "blocks": 1, "bestblockhash": "00".repeat(32) });
    let other_first = Ok(json!("11".repeat(32)));
    for rule in [bend("getblockchaininfo", Ok(named)), bend("getblockhash", other_first)] {
        let error = run(&Fake::start(Manner::Proper, rule).core()).unwrap_err();
        assert!(matches!(error, SourceError::WrongNetwork { .. }), "{error}");
    }
}

#[test]
fn a_block_with_another_hash_is_refused() {
    let mut other = genesis_block(Wire::Regtest);
    other.header.nonce += 1;
    let fake = Fake::start(Manner::Proper, bend("getblock", Ok(json!(serialize_hex(&other)))));
    assert!(malformed(run(&fake.core())).contains("hash"));
}

#[test]
fn a_block_that_is_no_child_of_the_place_is_refused() {
    let mut stranger = blocks()[1].clone();
    stranger.header.prev_blockhash = bitcoin::BlockHash::from_byte_array([9; 32]);
    let hash = stranger.block_hash().to_string();
    let rule = move |method: &str, params: &Value| match method {
        "getblockhash" if params[0] == json!(1) => Some(Ok(json!(hash))),
        "getblock" if params[0] == json!(hash) => Some(Ok(json!(serialize_hex(&stranger)))),
        _ => None,
    };
    let fake = Fake::start(Manner::Proper, Box::new(rule));
    let core = fake.core();
    let mut source = core.open().unwrap();
    source.intersect(&[]).unwrap();
    assert!(matches!(source.next(Duration::ZERO), Ok(Step::Forward(_))), "the first is good");
    assert!(malformed(steps(&mut *source)).contains("child"));
}

#[test]
fn a_short_block_is_refused_here_or_by_the_decoder() {
    let whole = serialize_hex(&genesis_block(Wire::Regtest));
    for length in [0, 2, 158, 159] {
        let short = whole[..length].to_owned();
        let fake = Fake::start(Manner::Proper, bend("getblock", Ok(json!(short))));
        malformed(run(&fake.core()));
    }
    let cut = whole[..whole.len() - 20].to_owned();
    let rule = move |method: &str, params: &Value| {
        let first = params[0] == json!(blocks()[0].block_hash().to_string());
        (method == "getblock" && first).then(|| Ok(json!(cut)))
    };
    let fake = Fake::start(Manner::Proper, Box::new(rule));
    let mut source = fake.core().open().unwrap();
    source.intersect(&[]).unwrap();
    let Step::Forward(block) = source.next(Duration::ZERO).unwrap() else { panic!("no block") };
    assert!(decode_block(Network::BitcoinRegtest, &block.bytes, Some(0)).is_err());
}

#[test]
fn a_block_that_is_gone_names_its_height() {
    let gone = json!({ "code": -1, "message": "Block not available (pruned data)" });
    let fake = Fake::start(Manner::Proper, bend("getblock", Err(gone)));
    let error = run(&fake.core()).unwrap_err();
    assert!(matches!(error, SourceError::Missing { height: 0, .. }), "{error}");
    let later = json!({ "code": -1, "message": "Block not available (not fully downloaded)" });
    let fake = Fake::start(Manner::Proper, bend("getblock", Err(later)));
    assert!(run(&fake.core()).unwrap_err().is_passing());
}

#[test]
fn a_header_with_absurd_heights_is_refused() {
    let left = json!({
        "height": u64::MAX, "confirmations": -1,
        "previousblockhash": blocks()[0].block_hash().to_string(),
    });
    let mut first = true;
    let rule = move |method: &str, _: &Value| match method {
        // The place is good until it was given out.
        "getblockheader" => Some(Ok(left.clone())),
        "getblockchaininfo" if !std::mem::take(&mut first) => Some(Ok(json!({
            "chain": "regtest", "blocks": u64::MAX, "bestblockhash": "ab".repeat(32),
        }))),
        _ => None,
    };
    let fake = Fake::start(Manner::Proper, Box::new(rule));
    malformed(run(&fake.core()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever value stands in place of an answer, the source ends with blocks or an error.
    #[test]
    fn no_answer_panics(
        which in 0_usize..6,
        value in prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[0-9a-f]{0,200}".prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            Just(json!({ "height": 5, "confirmations": -1, "previousblockhash": "00".repeat(32) })),
            Just(json!({ "chain": "regtest", "blocks": 7, "bestblockhash": "01".repeat(32) })),
        ],
        refuse: bool,
    ) {
        let methods = ["getblockchaininfo", "getblockhash", "getblock", "getblockheader",
            "getrawmempool", "getzmqnotifications"];
        let answer = if refuse {
            Err(json!({ "code": value.as_i64().unwrap_or(-1), "message": value.to_string() }))
        } else {
            Ok(value)
        };
        let fake = Fake::start(Manner::Proper, bend(methods[which], answer));
        let core = fake.core();
        let _ = core.mempool();
        if let Ok(mut source) = core.open() {
            let _ = source.intersect(&[]);
            for _ in 0..10 {
                if source.next(Duration::ZERO).is_err() {
                    break;
                }
            }
        }
    }
}
