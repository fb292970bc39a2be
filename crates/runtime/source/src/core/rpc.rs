//! One call, or a batch of calls of one method, over HTTP.
//!
//! Every call has a deadline and every answer a largest size. A connection that broke is tried once
//! more at once, since nodes close idle ones; every method used here may be repeated.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, error::Category, json};

use super::Auth;
use crate::{
    SourceError,
    roots::{self, TrustedRoots},
};

/// A node that takes longer over one answer counts as away.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// So long a node may take to pick up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Largest answer: six blocks of the largest size in hex, or the names of 700,000 transactions.
const ANSWER_BYTES: u64 = 48 << 20;
/// Largest cookie file; real ones have about 75 bytes.
const COOKIE_BYTES: u64 = 4096;
/// Of a node's own words, no more than this is passed on.
const WORDS: usize = 200;
/// Calls of one batch.
pub(super) const BATCH: usize = 100;

/// The node is starting; in its words it says what it does.
const IN_WARMUP: i64 = -28;

/// An error that the node itself names.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum RpcError {
    /// The node refuses this call.
    Refused(Refusal),
    /// The answer is larger than any may be.
    TooLarge,
    /// The node can't be asked.
    Source(SourceError),
}

/// A client of one node.
pub(super) struct Rpc {
    agent: ureq::Agent,
    url: String,
    name: String,
    auth: Auth,
    /// The header that let us in last.
    header: Mutex<Option<String>>,
}

#[derive(Deserialize)]
struct Reply<T> {
    result: Option<T>,
    error: Option<Refusal>,
    id: Option<u64>,
}

impl Rpc {
    /// A client; nothing is sent yet.
    pub(super) fn new(url: &str, roots: Option<&TrustedRoots>, auth: Auth) -> Self {
        let (url, given) = without_password(url);
        let auth = match (auth, given) {
            (Auth::None, Some(given)) => given,
            (auth, _) => auth,
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(CALL_DEADLINE))
            .timeout_connect(Some(CONNECT_DEADLINE))
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(roots::tls(roots))
            // A proxy of the environment would be sent the node's password.
            .proxy(None);
        let name =
            format!("the node at {}", url.split_once("://").map_or(url.as_str(), |(_, rest)| rest));
        Self { agent: config.build().new_agent(), url, name, auth, header: Mutex::new(None) }
    }

    /// What to call the node.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The node's host, for addresses that it gives relative to itself.
    pub(super) fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or(rest);
        authority.rsplit_once(':').map_or(authority, |(host, _)| host)
    }

    /// Calls a method; a refusal is an error.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<T, SourceError> {
        self.ask(method, params).map_err(|fault| self.explain(method, fault))
    }

    /// Calls a method.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<T, RpcError> {
        let request = json!({ "jsonrpc": "1.0", "id": 0, "method": method, "params": params });
        let reply: Reply<T> = self.parse(method, &self.post(&request)?)?;
        self.settle(method, reply)?.map_err(RpcError::Refused)
    }

    /// Calls a method once for each of `params`; the answers are in their order.
    pub(super) fn batch<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &[Value],
    ) -> Result<Vec<Result<T, Refusal>>, RpcError> {
        if params.is_empty() {
            return Ok(Vec::new());
        }
        let calls = params.iter().enumerate().map(
            |(id, params)| json!({ "jsonrpc": "1.0", "id": id, "method": method, "params": params }),
        );
        let body = self.post(&Value::Array(calls.collect()))?;
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
            // One answer for all: the node has not looked at the calls.
            let reply: Reply<Value> = self.parse(method, &body)?;
            return match self.settle(method, reply)? {
                Err(refusal) => Err(RpcError::Refused(refusal)),
                Ok(_) => Err(self.malformed(method, "one answer to several calls")),
            };
        }
        let mut replies: Vec<Reply<T>> = self.parse(method, &body)?;
        // JSON-RPC leaves it to the server in which order it answers a batch.
        replies.sort_by_key(|reply| reply.id);
        let in_order = replies.iter().map(|reply| reply.id).eq((0..params.len() as u64).map(Some));
        if !in_order {
            return Err(self.malformed(method, "answers are missing or come twice"));
        }
        replies.into_iter().map(|reply| self.settle(method, reply)).collect()
    }

    fn parse<T: DeserializeOwned>(&self, method: &str, body: &[u8]) -> Result<T, RpcError> {
        serde_json::from_slice(body).map_err(|error| {
            // Not the error's own words: they may quote the answer.
            let what = match error.classify() {
                Category::Io => "unreadable",
                Category::Syntax => "not JSON",
                Category::Data => "not the JSON expected",
                Category::Eof => "JSON that ends too early",
            };
            self.malformed(method, &format!("{what}, at byte {}", error.column()))
        })
    }

    /// The outer error is about us and the node, the inner one about this call.
    fn settle<T>(&self, method: &str, reply: Reply<T>) -> Result<Result<T, Refusal>, RpcError> {
        match (reply.result, reply.error) {
            (_, Some(refusal)) if refusal.code == IN_WARMUP => {
                Err(RpcError::Source(self.unreachable(&refusal.message)))
            }
            (_, Some(refusal)) => Ok(Err(refusal)),
            (Some(result), None) => Ok(Ok(result)),
            (None, None) => Err(self.malformed(method, "neither a result nor an error")),
        }
    }

    /// Sends a request; once more with a fresh cookie or a fresh connection where that may help.
    fn post(&self, request: &Value) -> Result<Vec<u8>, RpcError> {
        let body = request.to_string();
        let mut fresh = false;
        loop {
            let header = self.authorization(fresh).map_err(RpcError::Source)?;
            let sent = self.send(&body, header.as_deref());
            let (status, body) = match sent {
                Ok(answer) => answer,
                // No second attempt: the same question gets the same answer. The caller can ask for
                // less.
                Err(ureq::Error::BodyExceedsLimit(_)) => return Err(RpcError::TooLarge),
                // After a timeout a repeat would load a slow node once more and double the wait.
                Err(error) if fresh || matches!(error, ureq::Error::Timeout(_)) => {
                    return Err(RpcError::Source(self.unreachable(&error.to_string())));
                }
                Err(_) => {
                    fresh = true;
                    continue;
                }
            };
            match status {
                401 if !fresh => fresh = true,
                401 | 403 => return Err(RpcError::Source(self.denied(status))),
                503 => return Err(RpcError::Source(self.unreachable("it is too busy (HTTP 503)"))),
                _ if body.is_empty() => {
                    let said = format!("an empty answer (HTTP {status})");
                    return Err(self.malformed("HTTP", &said));
                }
                // Core sends refusals with HTTP 404 or 500 and a body that says more than the
                // status.
                _ => return Ok(body),
            }
        }
    }

    fn send(&self, body: &str, header: Option<&str>) -> Result<(u16, Vec<u8>), ureq::Error> {
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/json");
        if let Some(header) = header {
            request = request.header("Authorization", header);
        }
        let mut answer = request.send(body)?;
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES).read_to_vec()?;
        Ok((answer.status().as_u16(), bytes))
    }

    /// What lets us in; read anew when `fresh`, since a node writes another cookie at each start.
    fn authorization(&self, fresh: bool) -> Result<Option<String>, SourceError> {
        let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh || header.is_none() {
            *header = match &self.auth {
                Auth::None => None,
                Auth::Password { user, password } => Some(basic(&format!("{user}:{password}"))),
                Auth::Cookie(path) => Some(basic(self.read_cookie(path)?.trim())),
            };
        }
        Ok(header.clone())
    }

    fn read_cookie(&self, path: &Path) -> Result<String, SourceError> {
        let mut cookie = String::new();
        let read = File::open(path)
            .and_then(|file| file.take(COOKIE_BYTES).read_to_string(&mut cookie))
            .map(|_| cookie);
        read.map_err(|error| {
            let reason = format!("can't read the cookie file {}: {error}", path.display());
            let name = self.name.clone();
            // A node that is not running has none.
            if error.kind() == io::ErrorKind::NotFound {
                SourceError::Unreachable { name, reason }
            } else {
                SourceError::Denied { name, reason }
            }
        })
    }

    /// A fault as the port names it.
    pub(super) fn explain(&self, method: &str, fault: RpcError) -> SourceError {
        let reason = match fault {
            RpcError::Source(error) => return error,
            RpcError::TooLarge => format!("{method}: more than {ANSWER_BYTES} bytes"),
            RpcError::Refused(Refusal { code, message }) => {
                format!("{method}: {} (error {code})", short(&message))
            }
        };
        SourceError::Malformed { name: self.name.clone(), reason }
    }

    fn malformed(&self, method: &str, reason: &str) -> RpcError {
        RpcError::Source(SourceError::Malformed {
            name: self.name.clone(),
            reason: format!("{method}: {reason}"),
        })
    }

    pub(super) fn unreachable(&self, reason: &str) -> SourceError {
        SourceError::Unreachable { name: self.name.clone(), reason: short(reason) }
    }

    fn denied(&self, status: u16) -> SourceError {
        SourceError::Denied { name: self.name.clone(), reason: format!("HTTP {status}") }
    }
}

fn basic(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}

/// Somebody else's words, on one line and not too many.
pub(super) fn short(words: &str) -> String {
    let clean = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(WORDS).collect()
}

/// Takes user and password out of an address, so that nobody who shows it shows them.
fn without_password(url: &str) -> (String, Option<Auth>) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (given, host) = match authority.rsplit_once('@') {
        Some((given, host)) => (Some(given), host),
        None => (None, authority),
    };
    let auth = given.map(|given| {
        let (user, password) = given.split_once(':').unwrap_or((given, ""));
        Auth::Password { user: user.to_owned(), password: password.to_owned() }
    });
    (format!("{scheme}://{host}{path}"), auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_the_address_is_used_and_never_shown() {
        let rpc = Rpc::new("http://me:se@cret@host:8332/wallet/x", None, Auth::None);
        assert_eq!(rpc.url, "http://host:8332/wallet/x");
        assert_eq!(rpc.name(), "the node at host:8332/wallet/x");
        assert_eq!(rpc.host(), "host");
        assert_eq!(rpc.authorization(false).unwrap(), Some(basic("me:se@cret")));
        assert_eq!(format!("{:?}", rpc.auth), "Password");
        assert_eq!(Rpc::new("http://[::1]:1", None, Auth::None).host(), "[::1]");
    }

    #[test]
    fn words_of_a_node_are_cut_and_cleaned() {
        assert_eq!(short("a\nb\u{7}c"), "a b c");
        assert_eq!(short(&"x".repeat(1000)).len(), WORDS);
    }
}
