//! What may be configured, section by section, with the defaults.

use std::{net::SocketAddr, path::PathBuf};

use serde::Deserialize;
use unspent_model::Network;

/// The whole configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) network: Network,
    pub(crate) data_dir: PathBuf,
    pub(crate) source: SourceSection,
    pub(crate) utxo: UtxoSection,
    pub(crate) wallet: WalletSection,
    pub(crate) http: HttpSection,
    pub(crate) auth: AuthSection,
    pub(crate) jobs: JobsSection,
    pub(crate) log: LogSection,
    pub(crate) events: EventsSection,
}

/// Where blocks come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SourceKind {
    /// The built-in simulated network.
    #[default]
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

/// `[source]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SourceSection {
    pub(crate) kind: SourceKind,
    /// bitcoin-node: where its JSON-RPC listens.
    pub(crate) url: Option<String>,
    pub(crate) cookie_file: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    /// bitcoin-node: where it publishes blocks and transactions.
    pub(crate) zmq: Option<String>,
    /// bitcoin-files, immutable-db: the folder.
    pub(crate) path: Option<PathBuf>,
    /// cardano-node: HOST:PORT.
    pub(crate) address: Option<String>,
    /// cardano-socket: the socket.
    pub(crate) socket: Option<PathBuf>,
    /// Cardano's genesis files.
    pub(crate) genesis: Vec<PathBuf>,
    pub(crate) sim: SimSection,
    pub(crate) poll_seconds: u64,
    pub(crate) retry_seconds: u64,
}

/// `[source.sim]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SimSection {
    /// The same seed makes the same chain.
    pub(crate) seed: u64,
    /// Blocks mined before the daemon follows.
    pub(crate) blocks: u64,
    /// A block each so many seconds; 0 for none.
    pub(crate) block_seconds: u64,
    /// Random payments in each of these blocks.
    pub(crate) payments: u32,
    /// Each so many blocks the chain is reorganised; 0 for never.
    pub(crate) reorg_every: u64,
    /// Blocks that a reorganisation replaces.
    pub(crate) reorg_depth: u32,
}

/// `[utxo]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UtxoSection {
    pub(crate) enabled: bool,
    pub(crate) store: String,
    pub(crate) prune_depth: Option<u64>,
    pub(crate) rollback_window: Option<u64>,
    pub(crate) prune_batch_size: Option<usize>,
    pub(crate) indexing_strategy: Option<String>,
    pub(crate) index: IndexSection,
    pub(crate) delta: DeltaSection,
    pub(crate) block_cache_mb: Option<usize>,
    pub(crate) bulk_blocks: Option<usize>,
}

/// `[utxo.index]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IndexSection {
    pub(crate) address_hash: Option<bool>,
    pub(crate) payment_credential: Option<bool>,
}

/// `[utxo.delta]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DeltaSection {
    pub(crate) self_contained: Option<bool>,
}

/// `[wallet]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WalletSection {
    /// Absent: on for Bitcoin, off for Cardano.
    pub(crate) enabled: Option<bool>,
    pub(crate) url: Option<String>,
    /// A file that holds the URL, for one with a password.
    pub(crate) url_file: Option<PathBuf>,
    pub(crate) lease_seconds: u32,
}

/// `[http]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpSection {
    pub(crate) listen: SocketAddr,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    /// Names under which the server may be called, besides loopback's and its own address.
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) body_bytes: usize,
    pub(crate) timeout_seconds: u64,
    /// Requests that work at a time.
    pub(crate) concurrency: usize,
    /// Requests that may wait.
    pub(crate) queue: usize,
    /// Live streams at a time.
    pub(crate) streams: usize,
    /// Connections at a time.
    pub(crate) connections: usize,
}

/// `[auth]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuthSection {
    pub(crate) cookie_file: Option<PathBuf>,
    pub(crate) tokens_file: Option<PathBuf>,
    /// Whether the dashboard may read without a login; absent: on loopback only.
    pub(crate) dashboard_read: Option<bool>,
    /// Wrong credentials that one address may send in a minute.
    pub(crate) failures_per_minute: u32,
    pub(crate) session_minutes: u64,
}

/// `[jobs]`: seconds between two runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct JobsSection {
    pub(crate) prune_seconds: u64,
    pub(crate) purge_leases_seconds: u64,
    pub(crate) mempool_seconds: u64,
    pub(crate) rebroadcast_seconds: u64,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[events]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventsSection {
    /// How many events are kept.
    pub(crate) keep: u64,
}

impl Default for SourceSection {
    fn default() -> Self {
        Self {
            kind: SourceKind::Sim,
            url: None,
            cookie_file: None,
            user: None,
            password_file: None,
            zmq: None,
            path: None,
            address: None,
            socket: None,
            genesis: Vec::new(),
            sim: SimSection::default(),
            poll_seconds: 1,
            retry_seconds: 5,
        }
    }
}

impl Default for SimSection {
    fn default() -> Self {
        Self {
            seed: 21,
            blocks: 110,
            block_seconds: 5,
            payments: 0,
            reorg_every: 0,
            reorg_depth: 2,
        }
    }
}

impl Default for UtxoSection {
    fn default() -> Self {
        Self {
            enabled: true,
            store: "classic".into(),
            prune_depth: None,
            rollback_window: None,
            prune_batch_size: None,
            indexing_strategy: None,
            index: IndexSection::default(),
            delta: DeltaSection::default(),
            block_cache_mb: None,
            bulk_blocks: None,
        }
    }
}

impl Default for WalletSection {
    fn default() -> Self {
        Self { enabled: None, url: None, url_file: None, lease_seconds: 600 }
    }
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8480)),
            tls_cert: None,
            tls_key: None,
            allowed_hosts: Vec::new(),
            body_bytes: 1 << 20,
            timeout_seconds: 30,
            concurrency: 16,
            queue: 256,
            streams: 256,
            connections: 1024,
        }
    }
}

impl Default for AuthSection {
    fn default() -> Self {
        Self {
            cookie_file: None,
            tokens_file: None,
            dashboard_read: None,
            failures_per_minute: 30,
            session_minutes: 720,
        }
    }
}

impl Default for JobsSection {
    fn default() -> Self {
        Self {
            prune_seconds: 60,
            purge_leases_seconds: 60,
            mempool_seconds: 30,
            rebroadcast_seconds: 600,
        }
    }
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Text }
    }
}

impl Default for EventsSection {
    fn default() -> Self {
        Self { keep: 100_000 }
    }
}
