//! What every handler has at hand.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use unspent_engine::Engine;
use unspent_model::Network;

use super::{figures::Figures, history::History, pool::BlockingPool, streams::Streams};
use crate::{auth::Auth, backup::running::Backups, config::Config};

/// The server's state. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

/// What the state is made of.
pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) config: Config,
    pub(crate) auth: Auth,
    /// Work on our own files and databases.
    pub(crate) pool: BlockingPool,
    /// Work that waits for others, such as mints: they may take as long as they like.
    pub(crate) outward: BlockingPool,
    pub(crate) history: History,
    pub(crate) figures: Figures,
    pub(crate) backups: Backups,
    /// Places for live streams.
    pub(crate) streams: Arc<Streams>,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) settings: Settings,
}

/// What the configuration says about answers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) body_bytes: usize,
    /// Names under which the server may be called; empty: loopback and its own address alone.
    pub(crate) hosts: Vec<String>,
    /// The dashboard may read without a login.
    pub(crate) dashboard_read: bool,
    pub(crate) is_loopback: bool,
    pub(crate) is_tls: bool,
    /// Where it listens.
    pub(crate) port: u16,
    pub(crate) session: Duration,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn network(&self) -> Network {
        self.engine.network()
    }
}
