//! What an engine is told at its start: plain values, checked when it starts.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use unspent_model::{Network, chain::GenesisCoin};
use unspent_sql::Url;

use crate::source::Origin;

/// What runs, on which network, from which source, and where it is kept.
#[derive(Clone)]
pub struct Config {
    /// The chain that is followed.
    pub network: Network,
    /// Holds `LOCK` and `engine.db`, and the rooms unless they say otherwise.
    pub data_dir: PathBuf,
    /// Where blocks come from.
    pub origin: Arc<dyn Origin>,
    /// The chain room; `None` switches it off.
    pub chain: Option<ChainRoom>,
    /// The wallet room; `None` switches it off.
    pub wallet: Option<WalletRoom>,
    /// How the rooms follow the source.
    pub follow: Follow,
    /// What is done from time to time.
    pub jobs: Jobs,
    /// Events kept; older ones are forgotten.
    pub events_kept: u64,
}

/// The chain room.
#[derive(Clone, Debug)]
pub struct ChainRoom {
    /// Its folder.
    pub folder: PathBuf,
    /// Its options.
    pub options: unspent_chain::Options,
    /// Coins that exist before the first block.
    pub genesis: Vec<GenesisCoin>,
}

/// The wallet room.
#[derive(Clone, Debug)]
pub struct WalletRoom {
    /// Its database.
    pub url: Url,
    /// How its door behaves under load.
    pub options: unspent_sql::Options,
}

/// How the rooms follow the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// How long a room at the tip waits for news before it looks after itself.
    pub poll: Duration,
    /// More blocks than this to go: they are taken in bulk.
    pub bulk_threshold: u64,
    /// First pause before a source that is away is tried again; it doubles up to a minute.
    pub retry: Duration,
    /// Blocks that the rooms share at most.
    pub cache_blocks: usize,
    /// Bytes of blocks that the rooms share at most.
    pub cache_bytes: usize,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(500),
            bulk_threshold: 100,
            retry: Duration::from_secs(1),
            cache_blocks: 16,
            cache_bytes: 64 << 20,
        }
    }
}

/// What is done from time to time, and how much of it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// Pause between two prunings of the chain.
    pub prune_every: Duration,
    /// Passes of one pruning at most.
    pub prune_passes: u32,
    /// Pause between two purges of expired leases.
    pub purge_leases_every: Duration,
    /// Pause between two readings of the mempool.
    pub mempool_every: Duration,
    /// Transactions that one reading of the mempool fetches at most.
    pub mempool_fetch: usize,
    /// Pause between two attempts to send what the node doesn't have.
    pub rebroadcast_every: Duration,
    /// Transactions that one attempt sends at most.
    pub rebroadcast_limit: usize,
    /// Pause between two measurements of the rooms' sizes.
    pub measure_every: Duration,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            prune_every: Duration::from_secs(60),
            prune_passes: 100,
            purge_leases_every: Duration::from_secs(30),
            mempool_every: Duration::from_secs(5),
            mempool_fetch: 5_000,
            rebroadcast_every: Duration::from_secs(300),
            rebroadcast_limit: 1_000,
            measure_every: Duration::from_secs(300),
        }
    }
}

/// Events kept unless said otherwise.
pub const EVENTS_KEPT: u64 = 100_000;

impl Config {
    /// An engine with every room that its network can have, all in one folder.
    pub fn new(data_dir: PathBuf, origin: Arc<dyn Origin>) -> Self {
        let network = origin.network();
        let chain = ChainRoom {
            folder: data_dir.join("chain"),
            options: unspent_chain::Options::for_network(network),
            genesis: Vec::new(),
        };
        let wallet = WalletRoom {
            url: Url::Sqlite(data_dir.join("wallet.db")),
            options: unspent_sql::Options::default(),
        };
        let has_wallets = network.family() == unspent_model::Family::Bitcoin;
        Self {
            network,
            data_dir,
            origin,
            chain: Some(chain),
            wallet: has_wallets.then_some(wallet),
            follow: Follow::default(),
            jobs: Jobs::default(),
            events_kept: EVENTS_KEPT,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("network", &self.network)
            .field("data_dir", &self.data_dir)
            .field("origin", &self.origin.name())
            .field("chain", &self.chain.as_ref().map(|room| &room.folder))
            .field("wallet", &self.wallet.as_ref().map(|room| &room.url))
            .field("follow", &self.follow)
            .field("jobs", &self.jobs)
            .field("events_kept", &self.events_kept)
            .finish()
    }
}
