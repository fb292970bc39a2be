//! The engine: opens the rooms, starts the threads, and ends them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use bitcoin::Txid;
use crossbeam_channel::{Sender, bounded};
use unspent_chain::Reader;
use unspent_model::{Family, Network};
use unspent_wallet::{Room, WalletId};

use crate::{
    board::Board,
    broadcast,
    config::Config,
    error::{BroadcastError, JobError, ResumeError, StartError},
    events::{EventLog, Teller},
    follow::{
        Follower, cache::BlockCache, chain, chain::ChainFollower, wallet::WalletFollower,
        worker::Worker,
    },
    jobs::{self, Ask, Job, Lane, Line, Tools},
    lock::FolderLock,
    pulse::hold,
    requests::RequestLog,
    shared::Shared,
    source::{Answer, Node},
    status::{JobKind, RoomName, RoomState, Status},
    store,
};

/// Orders that may wait for a room's thread.
const ORDERS_WAITING: usize = 4;
/// Requests for a job that may wait for its thread.
const ASKS_WAITING: usize = 16;
/// How long somebody who asked for a job waits for its end.
const JOB_PATIENCE: Duration = Duration::from_secs(30);

/// To the threads of the jobs.
type Asks = Vec<(JobKind, Sender<Ask>)>;

/// A running engine. Cheap to clone; the last handle that goes ends it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    requests: RequestLog,
    node: Option<Arc<dyn Node>>,
    resumes: Vec<(RoomName, Arc<AtomicBool>)>,
    asks: Asks,
    workers: Mutex<Vec<JoinHandle<()>>>,
    teller: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<FolderLock>>,
}

impl Engine {
    /// Takes the folder's lock, opens the rooms, lets them recover and starts the threads.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing runs then.
    pub fn start(config: Config) -> Result<Self, StartError> {
        check(&config)?;
        let lock = FolderLock::take(&config.data_dir)?;
        let door = Arc::new(store::open(&config.data_dir).map_err(crate::events::LogError::from)?);
        let log = Arc::new(EventLog::open(door.clone(), config.events_kept)?);
        let is_on = |room| match room {
            RoomName::Chain => config.chain.is_some(),
            RoomName::Wallet => config.wallet.is_some(),
        };
        let board = Board::new(config.network, config.origin.name(), is_on);
        let requests = RequestLog::new(door, board.started_at());
        let cache = BlockCache::new(config.follow.cache_blocks, config.follow.cache_bytes);
        let shared = Arc::new(Shared::new(config.origin.clone(), board, log, cache));
        let mut starting = Starting { config, shared, workers: Vec::new(), resumes: Vec::new() };
        let node = starting.config.origin.node();
        let (asks, teller) = starting.all(node.clone()).inspect_err(|_| starting.give_up())?;
        let Starting { shared, workers, resumes, .. } = starting;
        tracing::info!(network = shared.network.name(), source = shared.origin.name(), "started");
        let inner = Inner {
            shared,
            requests,
            node,
            resumes,
            asks,
            workers: Mutex::new(workers),
            teller: Mutex::new(Some(teller)),
            lock: Mutex::new(Some(lock)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The chain that is followed.
    pub fn network(&self) -> Network {
        self.inner.shared.network
    }

    /// What the engine is doing. Waits for no room.
    pub fn status(&self) -> Status {
        self.inner.shared.board.status()
    }

    /// Questions to the chain room. `None` when it is off, being opened again, or ended.
    pub fn chain(&self) -> Option<Reader> {
        self.inner.shared.reader()
    }

    /// The wallet room. `None` when it is off or ended.
    pub fn wallets(&self) -> Option<Arc<Room>> {
        self.inner.shared.wallets()
    }

    /// What happened.
    pub fn events(&self) -> &EventLog {
        &self.inner.shared.log
    }

    /// Requests by their idempotency key.
    pub fn requests(&self) -> &RequestLog {
        &self.inner.requests
    }

    /// Hands a live, unconfirmed transaction of a wallet to the node. The answer is an event too.
    ///
    /// # Errors
    ///
    /// [`BroadcastError`]; a refusal by the node is an [`Answer`].
    pub fn broadcast(&self, wallet: WalletId, txid: Txid) -> Result<Answer, BroadcastError> {
        let room = self.wallets().ok_or(BroadcastError::NoWallets)?;
        let node = self.inner.node.as_ref().ok_or(BroadcastError::NoNode)?;
        broadcast::send(&self.inner.shared, node, &room, wallet, txid)
    }

    /// Runs a job now and waits for its end.
    ///
    /// # Errors
    ///
    /// [`JobError`].
    pub fn run_job(&self, job: JobKind) -> Result<(), JobError> {
        let asks = self.inner.asks.iter().find(|(kind, _)| *kind == job);
        let (_, asks) = asks.ok_or(JobError::Absent(job))?;
        let (reply, answer) = bounded(1);
        asks.try_send(Ask { job, reply }).map_err(|_| JobError::Late(job))?;
        match answer.recv_timeout(JOB_PATIENCE) {
            Ok(outcome) => outcome.map_err(|reason| JobError::Failed { job, reason }),
            Err(_) => Err(JobError::Late(job)),
        }
    }

    /// Starts a stopped room again, after somebody has mended what stopped it.
    ///
    /// # Errors
    ///
    /// [`ResumeError`]; nothing changed then.
    pub fn resume(&self, room: RoomName) -> Result<(), ResumeError> {
        let found = self.inner.resumes.iter().find(|(name, _)| *name == room);
        let (_, resume) = found.ok_or(ResumeError::Off(room))?;
        match self.inner.shared.board.state(room) {
            RoomState::Stopped { .. } => {
                resume.store(true, Ordering::Release);
                self.inner.shared.pulse.wake();
                Ok(())
            }
            RoomState::Off => Err(ResumeError::Off(room)),
            RoomState::Starting
            | RoomState::CatchingUp
            | RoomState::Following
            | RoomState::Waiting { .. } => Err(ResumeError::Running(room)),
        }
    }

    /// Has everybody look for news now: rooms that wait for their source, the reading of the
    /// mempool, and the events, which so follow at once on what a caller wrote.
    pub fn wake(&self) {
        self.inner.shared.pulse.wake();
        self.inner.shared.news.wake();
    }

    /// Ends all threads at a block boundary, waits for them, closes the rooms and frees the folder.
    /// Doing it twice is harmless.
    pub fn shutdown(&self) {
        self.inner.end();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("network", &self.network()).finish_non_exhaustive()
    }
}

impl Inner {
    fn end(&self) {
        self.shared.pulse.stop();
        join(std::mem::take(&mut *hold(&self.workers)));
        // The teller looks once more after the rooms have ended.
        self.shared.news.stop();
        join(hold(&self.teller).take());
        self.shared.log.close();
        self.shared.set_reader(None);
        self.shared.set_wallets(None);
        if hold(&self.lock).take().is_some() {
            tracing::info!("ended");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread of the engine died of a fault in the program");
        }
    }
}

fn check(config: &Config) -> Result<(), StartError> {
    let found = config.origin.network();
    if found != config.network {
        return Err(StartError::Network { found, wanted: config.network });
    }
    if config.wallet.is_some() && config.network.family() != Family::Bitcoin {
        return Err(StartError::NoWallets(config.network));
    }
    Ok(())
}

/// An engine whose threads are being started.
struct Starting {
    config: Config,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    resumes: Vec<(RoomName, Arc<AtomicBool>)>,
}

impl Starting {
    fn all(&mut self, node: Option<Arc<dyn Node>>) -> Result<(Asks, JoinHandle<()>), StartError> {
        let orders = self.chain()?;
        self.wallet()?;
        let asks = self.jobs(orders, node)?;
        Ok((asks, self.teller()?))
    }

    fn spawn(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, StartError> {
        let builder = std::thread::Builder::new().name(format!("unspent-{name}"));
        builder.spawn(run).map_err(StartError::Thread)
    }

    fn follow<F: Follower + 'static>(&mut self, follower: F) -> Result<(), StartError> {
        let (room, resume) = (follower.room(), Arc::new(AtomicBool::new(false)));
        self.resumes.push((room, resume.clone()));
        let worker = Worker::new(follower, self.shared.clone(), self.config.follow, resume);
        let thread = self.spawn(room.name(), move || worker.run())?;
        self.workers.push(thread);
        Ok(())
    }

    fn chain(&mut self) -> Result<Option<Sender<chain::Order>>, StartError> {
        let Some(settings) = self.config.chain.clone() else { return Ok(None) };
        let index = chain::open(self.config.network, &settings)?;
        let (orders, inbox) = bounded(ORDERS_WAITING);
        self.follow(ChainFollower::new(index, settings, inbox, self.shared.clone()))?;
        Ok(Some(orders))
    }

    fn wallet(&mut self) -> Result<(), StartError> {
        let Some(settings) = self.config.wallet.clone() else { return Ok(()) };
        let opened = Room::open(&settings.url, self.config.network, settings.options);
        self.follow(WalletFollower::new(Arc::new(opened?), self.shared.clone()))
    }

    fn jobs(
        &mut self,
        chain: Option<Sender<chain::Order>>,
        node: Option<Arc<dyn Node>>,
    ) -> Result<Asks, StartError> {
        let tools = Tools { chain, has_wallets: self.config.wallet.is_some(), node };
        let table = jobs::table(self.config.jobs, tools);
        for job in &table {
            self.shared.board.add_job(job.kind, job.every);
        }
        let (upkeep, node): (Vec<Job>, Vec<Job>) =
            table.into_iter().partition(|job| job.line == Line::Upkeep);
        let mut asks = Vec::new();
        for (name, jobs) in [("upkeep", upkeep), ("node", node)] {
            let (ask, inbox) = bounded(ASKS_WAITING);
            asks.extend(jobs.iter().map(|job| (job.kind, ask.clone())));
            let lane = Lane::new(jobs, inbox, self.shared.clone());
            let thread = self.spawn(name, move || lane.run())?;
            self.workers.push(thread);
        }
        Ok(asks)
    }

    fn teller(&self) -> Result<JoinHandle<()>, StartError> {
        let teller = Teller::new(self.shared.clone());
        self.spawn("teller", move || teller.run())
    }

    /// Ends what was started, since the rest can't be.
    fn give_up(&mut self) {
        self.shared.pulse.stop();
        join(std::mem::take(&mut self.workers));
    }
}
