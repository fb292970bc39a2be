//! Bitcoin Core compatible nodes, by JSON-RPC.
//!
//! | module | does |
//! |---|---|
//! | `rpc` | one call or a batch of one method, with deadlines, size limits and the password |
//! | `shapes` | the answers, as far as we read them |
//! | `fetch` | some blocks from a place on |
//! | `ahead` | threads that fetch for a reader that is far behind |
//! | `reader` | the reader's place: where the chain has left it, what follows |
//! | `waker` | wakes a waiting reader when the node publishes a block (ZMQ) |
//! | `tx_bell` | hears which transactions come into the mempool (ZMQ) |
//! | `pool` | the mempool and broadcasting |
//!
//! Invariant: a password is in no error, no `Debug` and no log line.
//!
//! What a node says is checked as far as its headers go: a block has the hash that was asked for
//! and is the child of the reader's place. Whoever decodes a block checks its body.

mod ahead;
mod fetch;
mod pool;
mod reader;
mod rpc;
mod shapes;
mod tx_bell;
mod waker;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;
use unspent_model::{Network, Point};
use unspent_networks::genesis_hash;

use self::{
    reader::CoreSource,
    rpc::Rpc,
    shapes::{ChainInfo, WireHash},
    tx_bell::TxBell,
    waker::BlockWaker,
};
use super::{Node, Origin, Source, SourceError};
use crate::{roots::TrustedRoots, wakeup::lock};

/// How a node lets us in.
#[derive(Clone)]
pub enum Auth {
    /// The file that a node writes at each start.
    Cookie(PathBuf),
    /// `rpcauth` or `rpcuser` and `rpcpassword`.
    Password {
        /// Who we are.
        user: String,
        /// How we show it.
        password: String,
    },
    /// Nothing is asked for, as behind a proxy.
    None,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cookie(path) => f.debug_tuple("Cookie").field(path).finish(),
            Self::Password { .. } => f.write_str("Password"),
            Self::None => f.write_str("None"),
        }
    }
}

/// Which node, and how to talk with it.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// `http://host:port` or `https://host:port`, also with `/wallet/…`, without user and password.
    pub url: String,
    /// Who may vouch for it behind `https://`; the usual roots when nobody is named.
    pub roots: Option<TrustedRoots>,
    /// How it lets us in.
    pub auth: Auth,
    /// The chain it has to serve.
    pub network: Network,
    /// Where it publishes blocks (`tcp://host:port`); without it the node is asked.
    pub zmq: Option<String>,
    /// How often a reader at the tip asks for news.
    pub poll: Duration,
}

/// A node. Cheap to clone: all clones share connections.
#[derive(Clone)]
pub struct CoreNode {
    state: Arc<CoreState>,
}

/// What readers of one node share.
struct CoreState {
    rpc: Rpc,
    network: Network,
    zmq: Option<String>,
    poll: Duration,
    waker: Mutex<Option<Arc<BlockWaker>>>,
    tx_bell: Mutex<Option<TxBell>>,
}

impl CoreNode {
    /// A node that is not spoken to yet.
    pub fn new(config: CoreConfig) -> Self {
        let CoreConfig { url, roots, auth, network, zmq, poll } = config;
        let rpc = Rpc::new(&url, roots.as_ref(), auth);
        let (waker, tx_bell) = (Mutex::new(None), Mutex::new(None));
        Self { state: Arc::new(CoreState { rpc, network, zmq, poll, waker, tx_bell }) }
    }
}

impl fmt::Debug for CoreNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CoreState { network, poll, .. } = &*self.state;
        let name = self.name();
        f.debug_struct("CoreNode")
            .field("name", &name)
            .field("network", network)
            .field("poll", poll)
            .finish_non_exhaustive()
    }
}

impl Origin for CoreNode {
    fn network(&self) -> Network {
        self.state.network
    }

    fn name(&self) -> String {
        self.state.rpc.name().to_owned()
    }

    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        let tip = self.state.check_chain()?;
        Ok(Box::new(CoreSource::new(self.state.clone(), tip)))
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        Some(Arc::new(self.clone()))
    }
}

impl CoreState {
    /// Makes sure that the node serves our chain; says where its tip is.
    fn check_chain(&self) -> Result<Point, SourceError> {
        self.hang_bell();
        let info: ChainInfo = self.rpc.call("getblockchaininfo", json!([]))?;
        let wrong = |found: String| SourceError::WrongNetwork {
            name: self.rpc.name().to_owned(),
            found,
            wanted: self.network,
        };
        if Some(info.chain.as_str()) != chain_name(self.network) {
            return Err(wrong(rpc::short(&info.chain)));
        }
        let first: WireHash = self.rpc.call("getblockhash", json!([0]))?;
        if Some(first.0) != genesis_hash(self.network) {
            return Err(wrong(format!("{} with another first block", rpc::short(&info.chain))));
        }
        Ok(info.tip())
    }

    /// Where the tip is now.
    fn tip(&self) -> Result<Point, SourceError> {
        Ok(self.rpc.call::<ChainInfo>("getblockchaininfo", json!([]))?.tip())
    }

    /// What rings when the node publishes a block, where it does.
    fn waker(&self) -> Option<Arc<BlockWaker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks for the waker unless there is one. Done whenever a reader sets its place, since a node
    /// that was away couldn't say where it publishes.
    fn hang_bell(&self) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if waker.is_none() {
            *waker = BlockWaker::listen_to(&self.rpc, self.zmq.as_deref()).map(Arc::new);
        }
        let mut bell = lock(&self.tx_bell);
        if bell.is_none() {
            *bell = TxBell::listen_to(&self.rpc, self.zmq.as_deref());
        }
    }
}

/// A network as nodes name it.
fn chain_name(network: Network) -> Option<&'static str> {
    match network {
        Network::Bitcoin => Some("main"),
        Network::BitcoinTestnet4 => Some("testnet4"),
        Network::BitcoinSignet => Some("signet"),
        Network::BitcoinRegtest => Some("regtest"),
        Network::CardanoMainnet | Network::CardanoPreprod | Network::CardanoPreview => None,
    }
}
