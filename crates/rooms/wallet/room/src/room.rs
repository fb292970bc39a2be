//! The room as the engine opens it, and what it is asked.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bitcoin::{Transaction, Txid};
use metrics::gauge;
use unspent_engine::{
    Engine, clock,
    context::Context,
    error::StartError,
    events::{EventLog, LogError},
    jobs::{Job, JobName, Lane, Outcome},
    road::Trouble,
    room::{OnDisk, OpenRoom, Pace, Plug, Room, RoomName, RoomShape, handle::StoreHandle},
    status::RoomState,
};
use unspent_model::{Family, Network};
use unspent_source::{Answer, FeeEstimate, MempoolTx, Node, SourceError, dates, wakeup::lock};
use unspent_sql::Url;
use unspent_wallet::{Room as Wallets, WalletError, WalletId, pay::PooledTx};

use crate::{events, series};
use crate::{follower::trouble, mempool::Mempool};

pub use crate::{
    broadcast::BroadcastError,
    follower::{Found, WalletFollower},
};

/// The room's name.
pub const NAME: RoomName = RoomName::new("wallet");
/// What is known of it without opening it.
pub const SHAPE: RoomShape = RoomShape {
    name: NAME,
    keeps: &[OnDisk::Database(DATABASE)],
    series: &series::SERIES,
    events: events::KINDS,
};
/// Its database in the data folder, unless it is told of another.
pub const DATABASE: &str = "wallet.db";
/// Takes expired leases away.
pub const PURGE_LEASES: JobName = JobName::new("purge_leases");
/// Reads the node's mempool into the wallets.
pub const READ_MEMPOOL: JobName = JobName::new("read_mempool");
/// Sends own transactions that the node doesn't have.
pub const REBROADCAST: JobName = JobName::new("rebroadcast");

/// Pauses between two runs of the room's jobs, unless said otherwise.
pub const PURGE_LEASES_EVERY: Duration = Duration::from_secs(60);
/// See [`PURGE_LEASES_EVERY`].
pub const MEMPOOL_EVERY: Duration = Duration::from_secs(2);
/// See [`PURGE_LEASES_EVERY`].
pub const REBROADCAST_EVERY: Duration = Duration::from_secs(600);

/// The room's settings.
#[derive(Clone, Debug)]
pub struct WalletRoom {
    /// Its database.
    pub url: Url,
    /// How its door behaves under load.
    pub options: unspent_sql::Options,
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
}

impl WalletRoom {
    /// The defaults, in a data folder.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            url: Url::Sqlite(data_dir.join(DATABASE)),
            options: unspent_sql::Options::default(),
            purge_leases_every: PURGE_LEASES_EVERY,
            mempool_every: MEMPOOL_EVERY,
            mempool_fetch: 5_000,
            rebroadcast_every: REBROADCAST_EVERY,
            rebroadcast_limit: 1_000,
        }
    }

    fn jobs(&self, plug: &mut Plug<'_>, room: &Arc<OpenWallets>) {
        let (purged, context) = (room.clone(), plug.context());
        plug.job(Job {
            name: PURGE_LEASES,
            every: self.purge_leases_every,
            lane: Lane::Upkeep,
            is_woken: false,
            run: Box::new(move |_| purge_leases(&context, &purged)),
        });
        if let Some(node) = plug.node() {
            self.node_jobs(plug, room, node);
        }
    }

    fn node_jobs(&self, plug: &mut Plug<'_>, room: &Arc<OpenWallets>, node: Arc<dyn Node>) {
        let mempool = Mempool::new(node, room.clone(), plug.context());
        let mempool = Arc::new(Mutex::new(mempool));
        let (sending, limit) = (mempool.clone(), self.rebroadcast_limit);
        plug.job(Job {
            name: REBROADCAST,
            every: self.rebroadcast_every,
            lane: Lane::Node,
            is_woken: false,
            run: Box::new(move |_| lock(&sending).send(limit)),
        });
        let fetch = self.mempool_fetch;
        plug.job(Job {
            name: READ_MEMPOOL,
            every: self.mempool_every,
            lane: Lane::Node,
            is_woken: true,
            run: Box::new(move |is_asked_for| {
                let mut mempool = lock(&mempool);
                if is_asked_for {
                    mempool.forget();
                }
                mempool.read(fetch)
            }),
        });
    }
}

impl Room for WalletRoom {
    fn shape(&self) -> &'static RoomShape {
        &SHAPE
    }

    fn check(&self, network: Network) -> Result<(), StartError> {
        match network.family() {
            Family::Bitcoin => Ok(()),
            Family::Cardano => Err(StartError::Unsupported { room: NAME, network }),
        }
    }

    fn open(&self, plug: &mut Plug<'_>) -> Result<Arc<dyn OpenRoom>, StartError> {
        let opened = Wallets::open(&self.url, plug.network(), self.options);
        let wallets = Arc::new(opened.map_err(|error| StartError::room(NAME, error))?);
        let room = Arc::new(OpenWallets {
            handle: StoreHandle::new(wallets.clone()),
            events_written: Mutex::default(),
        });
        self.jobs(plug, &room);
        plug.follow(WalletFollower::serving(wallets, room.clone(), plug.context()))?;
        Ok(room)
    }
}

/// The open room.
pub struct OpenWallets {
    handle: StoreHandle<Wallets>,
    /// How far each wallet's journal has become events, as far as this process knows.
    events_written: Mutex<events::Written>,
}

impl OpenWallets {
    pub(crate) fn wallets(&self) -> Option<Arc<Wallets>> {
        self.handle.get()
    }

    /// Tells the room's thread of an error that a job met; returns what to say of it.
    pub(crate) fn report(&self, error: WalletError) -> String {
        self.handle.report(error, trouble)
    }

    pub(crate) fn take_trouble(&self) -> Option<Trouble> {
        self.handle.take_trouble()
    }
}

impl OpenRoom for OpenWallets {
    fn write_events(&self, log: &EventLog, _: Pace) -> Result<bool, LogError> {
        match self.wallets() {
            Some(wallets) => events::write(log, &wallets, &mut lock(&self.events_written)),
            None => Ok(false),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) -> Result<(), String> {
        let Some(wallets) = self.wallets() else { return Ok(()) };
        let found = wallets.metrics(clock::now()).map_err(|error| error.to_string())?;
        for table in found.tables {
            gauge!("unspent_wallet_table_rows", "table" => table.name).set(table.rows as f64);
            gauge!("unspent_wallet_table_bytes", "table" => table.name).set(table.bytes as f64);
        }
        gauge!("unspent_wallet_active_leases").set(found.active_leases as f64);
        gauge!("unspent_wallet_expired_leases").set(found.expired_leases as f64);
        let latency = found.purge_latency as f64 / 1_000_000.0;
        gauge!("unspent_wallet_purge_latency_seconds").set(latency);
        Ok(())
    }

    fn close(&self) {
        self.handle.close();
    }
}

/// The wallets. `None` when the room is off or ended.
pub fn wallets(engine: &Engine) -> Option<Arc<Wallets>> {
    engine.room::<OpenWallets>()?.wallets()
}

/// Hands a live, unconfirmed transaction of a wallet to the node. The answer is an event too.
///
/// # Errors
///
/// [`BroadcastError`]; a refusal by the node is an [`Answer`].
pub fn broadcast(engine: &Engine, wallet: WalletId, txid: Txid) -> Result<Answer, BroadcastError> {
    let wallets = wallets(engine).ok_or(BroadcastError::NoWallets)?;
    let node = engine.context().origin().node().ok_or(BroadcastError::NoNode)?;
    crate::broadcast::send(engine.context(), &node, &wallets, wallet, txid)
}

/// What the node would say to a transaction, without taking it. `None` where there is no node, or
/// one that can't be asked that.
///
/// # Errors
///
/// [`SourceError`] when the node can't be reached.
pub fn test(engine: &Engine, tx: &Transaction) -> Result<Option<Answer>, SourceError> {
    engine.context().origin().node().map_or(Ok(None), |node| node.test(tx))
}

/// The fee rate at which the node expects a confirmation within so many blocks.
///
/// # Errors
///
/// [`SourceError`] when the node can't be reached.
pub fn fee_rate(engine: &Engine, blocks: u16) -> Result<FeeEstimate, SourceError> {
    let none = || FeeEstimate::Unknown { reason: "the daemon follows no node".into() };
    engine.context().origin().node().map_or_else(|| Ok(none()), |node| node.fee_rate(blocks))
}

/// A transaction in the node's mempool and what is unconfirmed below it. Empty where there is no
/// node, or the transaction isn't there.
///
/// # Errors
///
/// [`SourceError`] when the node can't be reached.
pub fn with_ancestors(engine: &Engine, txid: Txid) -> Result<Vec<PooledTx>, SourceError> {
    let Some(node) = engine.context().origin().node() else { return Ok(Vec::new()) };
    let pooled = |MempoolTx { txid, fee, virtual_size, parents }| PooledTx {
        txid,
        fee,
        virtual_size,
        parents,
    };
    Ok(node.with_ancestors(txid)?.into_iter().map(pooled).collect())
}

/// A height below which no block is of a time, in seconds, or later. `None` where the source can't
/// tell.
///
/// # Errors
///
/// [`SourceError`] when the source can't be reached.
pub fn height_of(engine: &Engine, seconds: u64) -> Result<Option<u64>, SourceError> {
    dates::height_of(&mut *engine.context().origin().open()?, seconds)
}

fn purge_leases(context: &Context, room: &OpenWallets) -> Result<Outcome, String> {
    let Some(wallets) = room.wallets() else { return Ok(Outcome::Later("no wallets".into())) };
    if matches!(context.state(NAME), RoomState::Stopped { .. }) {
        return Ok(Outcome::Later("the wallet room is stopped".into()));
    }
    match wallets.purge_leases(None, clock::now()) {
        Ok(count) => Ok(Outcome::Done(format!("{count} leases gone"))),
        Err(error) => Err(room.report(error)),
    }
}
