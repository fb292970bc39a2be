//! What may be configured besides the rooms, section by section.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use unspent_engine::{
    config::{EVENTS_KEPT, Follow},
    requests::KEPT_PER_CALLER,
    webhooks::WebhookOptions,
};

use crate::section;

/// A default of the engine in the whole seconds that the configuration counts in.
fn seconds(span: Duration) -> u64 {
    span.as_secs().max(1)
}

/// Where blocks come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The built-in simulated network.
    Sim,
    /// A Bitcoin Core compatible node, by JSON-RPC.
    BitcoinNode,
    /// A folder of block files.
    BitcoinFiles,
    /// A Cardano node, node to node.
    CardanoNode,
    /// A Cardano node's local socket.
    CardanoSocket,
    /// A folder of a Cardano node's ImmutableDB.
    ImmutableDb,
}

/// As the configuration writes it.
impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::BitcoinNode => "bitcoin-node",
            Self::BitcoinFiles => "bitcoin-files",
            Self::CardanoNode => "cardano-node",
            Self::CardanoSocket => "cardano-socket",
            Self::ImmutableDb => "immutable-db",
        })
    }
}

section! {
    /// Where blocks come from.
    pub struct SourceSection in "source" {
        /// sim: the built-in simulated network, for trying things out.
        /// bitcoin-node: a Bitcoin Core compatible node by JSON-RPC.
        /// bitcoin-files: a folder of block files.
        /// cardano-node: node to node. cardano-socket: the node's local socket.
        /// immutable-db: a Cardano node's folder.
        kind: SourceKind = SourceKind::Sim;
        /// bitcoin-node: where its JSON-RPC listens
        url: Option<String>, example "\"http://127.0.0.1:8332\"";
        /// bitcoin-node behind https://: PEM file with the certificates to trust instead of the
        /// usual ones
        root_certificate: Option<PathBuf>, example "\"/etc/unspent/node-root.pem\"";
        /// bitcoin-node: the node's cookie file; or user and password_file
        cookie_file: Option<PathBuf>, example "\"/var/lib/bitcoind/.cookie\"";
        user: Option<String>, example "\"unspent\"";
        password_file: Option<PathBuf>, example "\"/etc/unspent/rpc-password\"";
        /// bitcoin-node: where it publishes blocks
        zmq: Option<String>, example "\"tcp://127.0.0.1:28332\"";
        /// bitcoin-files, immutable-db: the folder
        path: Option<PathBuf>, example "\"/var/lib/bitcoind/blocks\"";
        /// cardano-node: HOST:PORT
        address: Option<String>, example "\"127.0.0.1:3001\"";
        /// cardano-socket: the socket
        socket: Option<PathBuf>, example "\"/run/cardano/node.socket\"";
        /// Cardano's Byron and Shelley genesis files
        genesis: Vec<PathBuf>, example "[]", flag list "FILE", was "UNSPENT_GENESIS";
        /// How often the source is polled
        poll_seconds: u64 = seconds(Follow::default().poll);
        /// How long to wait after a failure
        retry_seconds: u64 = seconds(Follow::default().retry);
    } with {
        sim: SimSection,
    }
}

section! {
    /// The simulated network.
    pub struct SimSection in "source.sim" {
        /// The same seed makes the same chain
        seed: u64 = 21;
        /// Blocks that are there at the start
        blocks: u64 = 110;
        /// Seconds between new blocks; 0 for none
        block_seconds: u64 = 5;
        /// Random payments in each of these blocks
        payments: u32 = 0;
        /// Blocks between reorganisations, which replace the last `reorg_depth` blocks; 0 for never
        reorg_every: u64 = 0;
        reorg_depth: u32 = 2;
    }
}

section! {
    /// The server.
    pub struct HttpSection in "http" {
        /// An address other than loopback needs tokens and TLS, or the server refuses to start
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8480)), flag value "ADDRESS:PORT";
        tls_cert: Option<PathBuf>, example "\"/etc/unspent/cert.pem\"";
        tls_key: Option<PathBuf>, example "\"/etc/unspent/key.pem\"";
        /// Host names that browsers may use, besides localhost and the address itself
        allowed_hosts: Vec<String> = Vec::new();
        body_bytes: usize = 1 << 20;
        timeout_seconds: u64 = 30;
        /// Requests handled at a time
        concurrency: usize = 16;
        /// Requests that may wait
        queue: usize = 256;
        /// Live streams at a time
        streams: usize = 256;
        /// Connections at a time; one more is closed at once
        connections: usize = 1024;
        /// Requests with an idempotency key that one caller may make in a day; further ones are
        /// refused until the oldest is a day old
        keys_per_caller: u64 = KEPT_PER_CALLER;
    }
}

section! {
    /// Who may call.
    pub struct AuthSection in "auth" {
        /// Created at each start, readable by its owner only; DATA_DIR/.cookie by default
        cookie_file: Option<PathBuf>, example "\"/run/unspent/cookie\"";
        /// Written by `unspent token add`; DATA_DIR/tokens.json by default
        tokens_file: Option<PathBuf>, example "\"/etc/unspent/tokens.json\"", flag value "FILE", was "--file";
        /// Let the dashboard read without a login; by default on loopback only
        dashboard_read: Option<bool>, example "true";
        /// Wrong credentials that one address may send per minute
        failures_per_minute: u32 = 30;
        session_minutes: u64 = 720;
        /// Seconds after an administrator's login in which the dashboard may run jobs and resume
        /// rooms
        admin_seconds: u64 = 300;
    }
}

section! {
    /// Log lines, on standard error.
    pub struct LogSection in "log" {
        /// error, warn, info, debug, trace, or filters such as "info,unspent_chain=debug"
        level: String = "info".into();
        /// text or json
        format: LogFormat = LogFormat::Text;
    }
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

section! {
    /// The log of events.
    pub struct EventsSection in "events" {
        /// How many events are kept for clients that come back
        keep: u64 = EVENTS_KEPT;
    }
}

section! {
    /// URLs that events are posted to.
    pub struct WebhooksSection in "webhooks" {
        /// Also allow addresses of this machine and private networks, and URLs without TLS
        allow_private: bool = false, flag switch;
        /// PEM file with the certificates to trust for receivers, instead of the usual ones
        root_certificate: Option<PathBuf>, example "\"/etc/unspent/our-root.pem\"", flag value "PEM";
        /// How long a receiver may take to answer
        timeout_seconds: u64 = seconds(WebhookOptions::default().timeout);
    }
}
