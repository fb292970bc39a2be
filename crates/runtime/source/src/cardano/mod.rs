//! Cardano nodes: node-to-node over TCP, or the local socket.
//!
//! | module | does |
//! |---|---|
//! | `wire` | one mini-protocol's messages, with a largest size |
//! | `session` | connects, shakes hands, finds the intersection |
//! | `stream` | chain-sync (and block-fetch between nodes) as a stream of events |
//! | `line` | the thread that async code is confined to, and the bounded way out of it |
//! | `reader` | the reader's place |
//!
//! A reader has a connection of its own. When it breaks, the caller intersects anew, which connects
//! anew. Between nodes headers are announced and blocks fetched in ranges; the local socket gives
//! whole blocks. Both are asked for ahead of the reader, up to a limit of bytes.

mod line;
mod reader;
mod session;
mod stream;
mod wire;

use std::{path::PathBuf, sync::Arc};

use unspent_model::Network;
use unspent_networks::cardano::magic;

use self::{line::Line, reader::CardanoSource};
use super::{Node, Origin, Source, SourceError};

/// Where a node listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `host:port` of any node that serves others.
    Tcp(String),
    /// The socket of a node on this machine.
    Socket(PathBuf),
}

/// Which node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardanoConfig {
    /// Where it listens.
    pub address: Address,
    /// The chain it has to serve.
    pub network: Network,
}

/// A node.
#[derive(Clone, Debug)]
pub struct CardanoNode {
    shared: Arc<Shared>,
}

/// What readers of one node share.
#[derive(Debug)]
struct Shared {
    address: Address,
    network: Network,
    name: String,
}

impl CardanoNode {
    /// A node that is not spoken to yet.
    pub fn new(config: CardanoConfig) -> Self {
        let CardanoConfig { address, network } = config;
        let name = match &address {
            Address::Tcp(host) => format!("the node at {host}"),
            Address::Socket(path) => format!("the node at {}", path.display()),
        };
        Self { shared: Arc::new(Shared { address, network, name }) }
    }
}

impl Shared {
    /// The number that the node must agree to; Bitcoin has none, and no node agrees to 0.
    fn magic(&self) -> u64 {
        magic(self.network).map_or(0, u64::from)
    }

    fn unreachable(&self, reason: impl ToString) -> SourceError {
        SourceError::Unreachable { name: self.name.clone(), reason: reason.to_string() }
    }

    fn malformed(&self, reason: impl ToString) -> SourceError {
        SourceError::Malformed { name: self.name.clone(), reason: reason.to_string() }
    }
}

impl Origin for CardanoNode {
    fn network(&self) -> Network {
        self.shared.network
    }

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    /// Shakes hands once; the reader's own connection begins with its first intersection.
    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        Line::greet(self.shared.clone())?;
        Ok(Box::new(CardanoSource::new(self.shared.clone())))
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        None
    }
}
