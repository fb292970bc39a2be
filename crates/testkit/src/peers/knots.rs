//! A node on a private chain (regtest), gone when the test is.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::fetch::{self, Program};

/// How long a node may take to answer after its start.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Free ports can be taken by somebody else before the node has them.
const START_TRIES: usize = 5;
const CALL_DEADLINE: Duration = Duration::from_secs(60);

/// A running node. Dropping it ends the node and removes its folder.
pub struct Knots {
    program: Program,
    folder: TempDir,
    extra: Vec<String>,
    rpc_port: u16,
    zmq_port: u16,
    child: Option<Child>,
    agent: ureq::Agent,
}

impl Knots {
    /// The program without arguments, for whoever runs it to its end; `None` after saying that this
    /// is skipped.
    pub fn program() -> Option<Command> {
        let Program { loader, libraries, bitcoind, .. } = fetch::knots()?;
        let mut command = Command::new(loader);
        command.arg("--library-path").arg(libraries).arg(bitcoind);
        Some(command)
    }

    /// Starts a node with these arguments besides the usual ones; `None` after saying that the test
    /// is skipped. `{zmq}` in an argument becomes the address for notifications.
    ///
    /// # Panics
    ///
    /// When the node is there but doesn't come up, or is absent though required.
    pub fn start(extra: &[&str]) -> Option<Self> {
        let program = fetch::knots()?;
        let folder = quick_folder();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(CALL_DEADLINE))
            .http_status_as_error(false)
            .proxy(None);
        let mut node = Self {
            program,
            folder,
            extra: extra.iter().map(|&arg| arg.to_owned()).collect(),
            rpc_port: 0,
            zmq_port: 0,
            child: None,
            agent: config.build().new_agent(),
        };
        for _ in 0..START_TRIES {
            (node.rpc_port, node.zmq_port) = (free_port(), free_port());
            if node.try_start() {
                return Some(node);
            }
        }
        panic!("the node doesn't start; its log: {}", node.log());
    }

    fn try_start(&mut self) -> bool {
        let zmq = self.zmq_address();
        let mut command = Command::new(&self.program.loader);
        command.arg("--library-path").arg(&self.program.libraries).arg(&self.program.bitcoind);
        command.arg(format!("-datadir={}", self.folder.path().display()));
        command.arg(format!("-rpcport={}", self.rpc_port));
        command.args(["-regtest", "-server", "-listen=0", "-connect=0", "-dnsseed=0"]);
        command.args(["-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1", "-fallbackfee=0.0001"]);
        command.args(self.extra.iter().map(|arg| arg.replace("{zmq}", &zmq)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the node's loader can be started"));
        let until = Instant::now() + START_PATIENCE;
        while Instant::now() < until {
            if self.try_call("getblockcount", &json!([])).is_ok_and(|reply| reply.is_ok()) {
                return true;
            }
            let child = self.child.as_mut().expect("it was started");
            if child.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            sleep(Duration::from_millis(50));
        }
        false
    }

    /// Ends the node; its folder stays.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let asked = self.try_call("stop", &json!([])).is_ok_and(|reply| reply.is_ok());
        let until = Instant::now() + START_PATIENCE;
        while asked && Instant::now() < until {
            if child.try_wait().expect("a child can be asked").is_some() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Starts a stopped node again, on the same ports and folder.
    ///
    /// # Panics
    ///
    /// When it doesn't come up.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "it is running");
        assert!(self.try_start(), "the node doesn't start again; its log: {}", self.log());
    }

    /// Its process, to read what it used; `None` while it is stopped.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Where its JSON-RPC is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.rpc_port)
    }

    /// Where it publishes, when it was told to.
    pub fn zmq_address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.zmq_port)
    }

    /// The file with its password, new at each start.
    pub fn cookie(&self) -> PathBuf {
        self.folder.path().join("regtest/.cookie")
    }

    /// The folder of its block files.
    pub fn blocks_folder(&self) -> PathBuf {
        self.folder.path().join("regtest/blocks")
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("regtest/debug.log"));
        let log = log.unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// What the node answers.
    ///
    /// # Panics
    ///
    /// When it doesn't answer or answers with an error.
    pub fn call(&self, method: &str, params: Value) -> Value {
        match self.try_call(method, &params) {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => panic!("{method} {params}: {error}"),
            Err(error) => panic!("{method} {params}: no answer: {error}"),
        }
    }

    /// The node's answer, or its error, or why there is neither.
    fn try_call(&self, method: &str, params: &Value) -> Result<Result<Value, Value>, String> {
        let cookie = std::fs::read_to_string(self.cookie()).map_err(|error| error.to_string())?;
        let request = json!({ "jsonrpc": "1.0", "id": 0, "method": method, "params": params });
        let authorization = format!("Basic {}", base64(cookie.trim().as_bytes()));
        let sent = self.agent.post(self.url()).header("Authorization", authorization);
        let mut reply = sent.send_json(&request).map_err(|error| error.to_string())?;
        let body = reply.body_mut().with_config().limit(1 << 30).read_to_vec();
        let body = body.map_err(|error| error.to_string())?;
        let reply: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        match reply.get("error") {
            Some(Value::Null) | None => Ok(Ok(reply["result"].clone())),
            Some(error) => Ok(Err(error.clone())),
        }
    }

    /// Makes the wallet that pays and mines.
    pub fn make_wallet(&self) {
        self.call("createwallet", json!(["tests"]));
    }

    /// A new address of the wallet.
    pub fn new_address(&self) -> String {
        text(&self.call("getnewaddress", json!([])))
    }

    /// Mines `count` blocks to a new address; their hashes as people read them.
    pub fn mine(&self, count: u64) -> Vec<String> {
        // Another address each time: after `invalidateblock` the same one would make the very same,
        // invalid, blocks again.
        self.mine_to(count, &self.new_address())
    }

    /// Mines `count` blocks to an address.
    pub fn mine_to(&self, count: u64, address: &str) -> Vec<String> {
        let mined = self.call("generatetoaddress", json!([count, address]));
        mined.as_array().into_iter().flatten().map(text).collect()
    }

    /// Sends satoshi to an address; the transaction's name.
    pub fn send(&self, address: &str, satoshi: u64) -> String {
        let amount = format!("{}.{:08}", satoshi / 100_000_000, satoshi % 100_000_000);
        text(&self.call("sendtoaddress", json!([address, amount])))
    }

    /// Raises the fee of a transaction; the name of what replaces it.
    pub fn bump_fee(&self, txid: &str) -> String {
        text(&self.call("bumpfee", json!([txid]))["txid"])
    }

    /// Takes a block, and what is above it, off the best chain.
    pub fn invalidate(&self, hash: &str) {
        self.call("invalidateblock", json!([hash]));
    }

    /// The hash of the best chain's last block.
    pub fn best_hash(&self) -> String {
        text(&self.call("getbestblockhash", json!([])))
    }
}

impl Drop for Knots {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map(str::to_owned).unwrap_or_default()
}

/// A folder in memory where there is one: a node writes every block through to the disk.
fn quick_folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary folder can be made")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    listener.local_addr().expect("a socket has an address").port()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_mines_stops_and_starts_again() {
        let Some(mut node) = Knots::start(&[]) else { return };
        node.make_wallet();
        let mined = node.mine(3);
        assert_eq!(node.best_hash(), mined[2]);
        node.stop();
        node.start_again();
        assert_eq!(node.best_hash(), mined[2]);
    }
}
