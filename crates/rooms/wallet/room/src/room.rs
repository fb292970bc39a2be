//! The room as the engine opens it, and what it is asked.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bitcoin::{Transaction, Txid};
use unspent_engine::{
    Engine, clock,
    context::Context,
    error::StartError,
    jobs::{Job, Lane, Outcome},
    room::{OnDisk, OpenRoom, Plug, Room, RoomShape},
    status::RoomState,
};
use unspent_model::{Family, Network};
use unspent_source::{Answer, FeeEstimate, MempoolTx, Node, SourceError, dates, wakeup::lock};
use unspent_sql::Url;
use unspent_wallet::{WalletId, WalletStore, pay::PooledTx};

use crate::{
    broadcast::{self, BroadcastError},
    events,
    follower::WalletFollower,
    mempool::MempoolReader,
    names::{
        DATABASE, MEMPOOL_EVERY, NAME, PURGE_LEASES, PURGE_LEASES_EVERY, READ_MEMPOOL, REBROADCAST,
        REBROADCAST_EVERY,
    },
    open_wallets::{OpenWallets, wallets},
    series,
};

/// What is known of it without opening it.
pub const SHAPE: RoomShape = RoomShape {
    name: NAME,
    keeps: &[OnDisk::Database(DATABASE)],
    series: &series::SERIES,
    events: events::KINDS,
};

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
        let mempool = MempoolReader::new(node, room.clone(), plug.context());
        // Both jobs share what was sent and what was refused, so that a refusal is told once.
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
        let opened = WalletStore::open(&self.url, plug.network(), self.options);
        let wallets = Arc::new(opened.map_err(|error| StartError::room(NAME, error))?);
        let room = Arc::new(OpenWallets::new(wallets.clone()));
        self.jobs(plug, &room);
        plug.follow(WalletFollower::serving(wallets, room.clone(), plug.context()))?;
        Ok(room)
    }
}

/// Hands a live, unconfirmed transaction of a wallet to the node. The answer is an event too.
///
/// # Errors
///
/// [`BroadcastError`]; a refusal by the node is an [`Answer`].
pub fn broadcast(engine: &Engine, wallet: WalletId, txid: Txid) -> Result<Answer, BroadcastError> {
    let wallets = wallets(engine).ok_or(BroadcastError::NoWallets)?;
    let node = engine.context().origin().node().ok_or(BroadcastError::NoNode)?;
    broadcast::send(engine.context(), &node, &wallets, wallet, txid)
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
    let Some(wallets) = room.wallets() else {
        return Ok(Outcome::Later("the wallet room is not open".into()));
    };
    // Whoever is called to a stopped room should find it as it stopped.
    if matches!(context.state(NAME), RoomState::Stopped { .. }) {
        return Ok(Outcome::Later("the wallet room is stopped".into()));
    }
    match wallets.purge_leases(None, clock::now()) {
        Ok(count) => Ok(Outcome::Done(format!("{count} expired leases removed"))),
        Err(error) => Err(room.report(error)),
    }
}
