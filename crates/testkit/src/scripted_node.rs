//! A Bitcoin node of two blocks that says what a script tells it, over JSON-RPC.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use bitcoin::{Block, Network as Wire, consensus::encode::serialize_hex, constants::genesis_block};
use serde_json::{Value, json};

/// What the fake node says to one call: a result or an error object.
pub type ScriptedAnswer = Result<Value, Value>;
/// Decides what is answered to a method and its parameters; `None` leaves it to the honest node.
pub type Rule = Box<dyn FnMut(&str, &Value) -> Option<ScriptedAnswer> + Send>;

/// How the fake sends its answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    /// As a node does.
    Proper,
    /// A page of HTML.
    NotJson,
    /// Cut in the middle.
    HalfJson,
    /// Nothing.
    EmptyBody,
    /// Bytes without end.
    EndlessBody,
    /// Closes the connection.
    HangsUp,
    /// One answer to a batch.
    OneForMany,
    /// The first answer for every call of a batch.
    MixedUpIds,
    /// With this HTTP status.
    Status(u16),
}

/// A node of two blocks, whose answers can be bent.
pub struct ScriptedNode {
    url: String,
    stop: Arc<AtomicBool>,
    address: std::net::SocketAddr,
}

impl ScriptedNode {
    /// Starts it on a port of its own.
    pub fn start(manner: Manner, rule: Rule) -> Self {
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

    /// Where it listens.
    pub fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for ScriptedNode {
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
pub fn blocks() -> [Block; 2] {
    let first = genesis_block(Wire::Regtest);
    let mut second = first.clone();
    second.header.prev_blockhash = first.block_hash();
    [first, second]
}

fn honest(method: &str, params: &Value) -> ScriptedAnswer {
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
        "getblockhash" => {
            match params[0].as_u64().and_then(|at| blocks.get(usize::try_from(at).ok()?)) {
                Some(block) => Ok(json!(block.block_hash().to_string())),
                None => refuse(-8, "Block height out of range"),
            }
        }
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
