//! What every handler has at hand.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::watch;
use unspent_engine::Engine;
use unspent_model::Network;

use super::{
    figures::Figures,
    history::History,
    pool::{BlockingPool, PoolLimits},
    streams::Streams,
};
use crate::{
    auth::{Auth, SessionTimes},
    config::Config,
};

/// Requests that wait for others at the same time, such as mints.
const OUTWARD: usize = 8;

/// The server's state. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

/// What the state is made of.
pub struct Inner {
    /// What runs the rooms.
    pub engine: Engine,
    /// The settings that hold.
    pub config: Config,
    /// Who may call.
    pub auth: Auth,
    /// Work on our own files and databases.
    pub pool: BlockingPool,
    /// Work that waits for others, such as mints: they may take as long as they like.
    pub outward: BlockingPool,
    /// What is plotted.
    pub history: History,
    /// The figures of the rooms.
    pub figures: Figures,
    /// Places for live streams.
    pub streams: Arc<Streams>,
    /// Turns true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// How answers are given.
    pub settings: Settings,
}

/// What the configuration says about answers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A request that takes longer is given up.
    pub timeout: Duration,
    /// The largest body taken in.
    pub body_bytes: usize,
    /// Names under which the server may be called; empty: loopback and its own address alone.
    pub hosts: Vec<String>,
    /// The dashboard may read without a login.
    pub dashboard_read: bool,
    /// It listens on this machine alone.
    pub is_loopback: bool,
    /// It speaks TLS.
    pub is_tls: bool,
    /// Where it listens.
    pub port: u16,
    /// How long a login lasts.
    pub session: Duration,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Where one server stands: what its settings alone don't say.
pub struct ServerPlace {
    /// The file with the secret of this machine's user.
    pub cookie: PathBuf,
    /// Where it listens.
    pub port: u16,
    /// It listens on this machine alone.
    pub is_loopback: bool,
    /// It speaks TLS.
    pub is_tls: bool,
    /// Turns true when it stops.
    pub stopping: watch::Receiver<bool>,
}

impl App {
    /// The state of one server.
    pub fn start(engine: Engine, config: Config, place: ServerPlace) -> anyhow::Result<Self> {
        let ServerPlace { cookie, port, is_loopback, is_tls, stopping } = place;
        let (http, auth) = (&config.http, &config.auth);
        let session = Duration::from_secs(auth.session_minutes * 60);
        let settings = Settings {
            timeout: Duration::from_secs(http.timeout_seconds),
            body_bytes: http.body_bytes,
            hosts: http.allowed_hosts.clone(),
            dashboard_read: auth.dashboard_read.unwrap_or(is_loopback),
            is_loopback,
            is_tls,
            port,
            session,
        };
        let times = SessionTimes { session, admin: Duration::from_secs(auth.admin_seconds) };
        let tokens = config.tokens_file();
        Ok(Self(Arc::new(Inner {
            auth: Auth::start(cookie, tokens, times, auth.failures_per_minute)?,
            pool: BlockingPool::new(PoolLimits {
                concurrency: http.concurrency,
                queue: http.queue,
            }),
            outward: BlockingPool::new(PoolLimits { concurrency: OUTWARD, queue: 4 * OUTWARD }),
            history: History::new(),
            figures: Figures::default(),
            streams: Arc::new(Streams::new(http.streams)),
            stopping,
            settings,
            engine,
            config,
        })))
    }

    /// The network that the engine follows.
    pub fn network(&self) -> Network {
        self.engine.network()
    }
}
