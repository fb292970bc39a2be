//! The engine: opens the rooms, starts the threads, and ends them.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::{Sender, bounded};
use unspent_model::Network;
use unspent_source::{sim::SimNetwork, wakeup::lock};

use crate::{
    config::Config,
    context::Context,
    error::{JobError, ResumeError, StartError},
    events::{EventLog, EventWriter, LogError},
    jobs::{self, Ask, Job, Lane, Outcome, Runner},
    lock::FolderLock,
    names::{JobName, RoomName},
    requests::RequestLog,
    road::cache::{BlockCache, CacheLimits},
    room::{OpenRoom, Plug, plug::spawn},
    status::{RoomState, Status},
    status_board::StatusBoard,
    store,
    webhooks::Webhooks,
};

/// Requests for a job that may wait for its thread.
const ASKS_WAITING: usize = 16;
/// How long somebody who asked for a job waits for its end.
const JOB_PATIENCE: Duration = Duration::from_secs(30);

/// To the threads of the jobs.
type Asks = Vec<(JobName, Sender<Ask>)>;

/// A running engine. Cheap to clone; the last handle that goes ends it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Running>,
}

struct Running {
    context: Arc<Context>,
    requests: RequestLog,
    webhooks: Arc<Webhooks>,
    resumes: Vec<(RoomName, Arc<AtomicBool>)>,
    asks: Asks,
    workers: Mutex<Vec<JoinHandle<()>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
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
        // Before any database is opened: two engines would both write to it.
        let lock = FolderLock::take(&config.data_dir)?;
        let door = Arc::new(store::open(&config.data_dir).map_err(LogError::from)?);
        let log = Arc::new(EventLog::open(door.clone(), config.events_kept)?);
        let board = StatusBoard::new(config.network, config.origin.name());
        let requests = RequestLog::new(door, board.started_at().0, config.keys_per_caller);
        let cache = BlockCache::new(CacheLimits {
            blocks: config.follow.cache_blocks,
            bytes: config.follow.cache_bytes,
        });
        let webhooks = Arc::new(Webhooks::new(log.clone(), config.webhooks.clone()));
        let context = Arc::new(Context::new(config.origin.clone(), board, log, cache));
        let mut starting = Starting::new(config, context);
        starting.jobs.push(webhooks.job());
        let (asks, writer) = starting.all().inspect_err(|_| starting.give_up())?;
        let Starting { context, threads, resumes, .. } = starting;
        tracing::info!(network = context.network.name(), source = context.origin.name(), "started");
        let inner = Running {
            context,
            requests,
            webhooks,
            resumes,
            asks,
            workers: Mutex::new(threads),
            writer: Mutex::new(Some(writer)),
            lock: Mutex::new(Some(lock)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The chain that is followed.
    pub fn network(&self) -> Network {
        self.inner.context.network
    }

    /// The simulated network that is followed, where it is one.
    pub fn simulated(&self) -> Option<SimNetwork> {
        self.inner.context.origin.simulated()
    }

    /// What the engine is doing. Waits for no room.
    pub fn status(&self) -> Status {
        self.inner.context.board.status()
    }

    /// An open room by its kind; `None` when it is off or ended. Rooms have functions that give
    /// what they are asked by.
    pub fn room<R: OpenRoom>(&self) -> Option<Arc<R>> {
        self.inner.context.room()
    }

    /// What the threads of the engine share: the source, the states of rooms.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// What happened.
    pub fn events(&self) -> &EventLog {
        &self.inner.context.log
    }

    /// Requests by their idempotency key.
    pub fn requests(&self) -> &RequestLog {
        &self.inner.requests
    }

    /// Hooks that are told of events.
    pub fn webhooks(&self) -> &Webhooks {
        &self.inner.webhooks
    }

    /// Runs a job now and waits for its end.
    ///
    /// # Errors
    ///
    /// [`JobError`].
    pub fn run_job(&self, job: JobName) -> Result<(), JobError> {
        let asks = self.inner.asks.iter().find(|(name, _)| *name == job);
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
        match self.inner.context.board.state(room) {
            RoomState::Stopped { .. } => {
                resume.store(true, Ordering::Release);
                self.inner.context.wakeup.wake();
                Ok(())
            }
            RoomState::Off => Err(ResumeError::Off(room)),
            RoomState::Starting
            | RoomState::CatchingUp
            | RoomState::Following
            | RoomState::Working
            | RoomState::Waiting { .. } => Err(ResumeError::Running(room)),
        }
    }

    /// Has an open room copy the folder that it keeps; see [`OpenRoom::copy_folder`]. `false` too
    /// when the room is off.
    ///
    /// # Errors
    ///
    /// Says why not.
    pub fn copy_folder(&self, room: RoomName, to: &Path) -> Result<bool, String> {
        let rooms = self.inner.context.rooms();
        let open = rooms.iter().find(|(name, _)| *name == room);
        open.map_or(Ok(false), |(_, open)| open.copy_folder(to))
    }

    /// Has everybody look for news now: rooms that wait for their source, the reading of the
    /// mempool, and the events, which so follow at once on what a caller wrote.
    pub fn wake(&self) {
        self.inner.context.wakeup.wake();
        self.inner.context.news.wake();
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

impl Running {
    fn end(&self) {
        self.context.wakeup.stop();
        join(std::mem::take(&mut *lock(&self.workers)));
        // Events are looked for once more after the rooms have ended.
        self.context.news.stop();
        join(lock(&self.writer).take());
        // Their job ended with the workers, so that no thread of a hook can start any more.
        self.webhooks.end();
        self.context.log.close();
        self.context.close_rooms();
        // Free only when every store is closed: whoever waits for the folder opens them at once.
        if lock(&self.lock).take().is_some() {
            tracing::info!("ended");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread of the engine ended because of a bug");
        }
    }
}

fn check(config: &Config) -> Result<(), StartError> {
    let found = config.origin.network();
    if found != config.network {
        return Err(StartError::Network { found, wanted: config.network });
    }
    config.rooms.iter().try_for_each(|room| room.check(config.network))
}

/// An engine whose threads are being started.
struct Starting {
    config: Config,
    context: Arc<Context>,
    threads: Vec<JoinHandle<()>>,
    resumes: Vec<(RoomName, Arc<AtomicBool>)>,
    jobs: Vec<Job>,
}

impl Starting {
    fn new(config: Config, context: Arc<Context>) -> Self {
        Self { config, context, threads: Vec::new(), resumes: Vec::new(), jobs: Vec::new() }
    }

    fn all(&mut self) -> Result<(Asks, JoinHandle<()>), StartError> {
        self.rooms()?;
        let asks = self.run_jobs()?;
        let writer = EventWriter::new(self.context.clone());
        Ok((asks, spawn("events", move || writer.run())?))
    }

    fn rooms(&mut self) -> Result<(), StartError> {
        let Self { config, context, threads, resumes, jobs } = self;
        // Status is whole from the start, before the first room is open.
        let on: Vec<RoomName> = config.rooms.iter().map(|room| room.shape().name).collect();
        let known: Vec<RoomName> = config.known.iter().map(|shape| shape.name).collect();
        for name in known.iter().chain(on.iter().filter(|name| !known.contains(name))) {
            let is_on = on.contains(name);
            let state = if is_on { RoomState::Starting } else { RoomState::Off };
            context.board.add_room(*name, state);
        }
        for room in &config.rooms {
            let follow = config.follow;
            let mut plug = Plug { context, follow, threads, resumes, jobs };
            let opened = room.open(&mut plug)?;
            context.add_room(room.shape().name, opened);
        }
        Ok(())
    }

    fn run_jobs(&mut self) -> Result<Asks, StartError> {
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.push(measure(self.context.clone(), self.config.measure_every));
        for job in &jobs {
            self.context.board.add_job(job.name, job.every);
        }
        let (upkeep, node): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.lane == Lane::Upkeep);
        let mut asks = Vec::new();
        for (name, jobs) in [("upkeep", upkeep), ("node", node)] {
            let (ask, inbox) = bounded(ASKS_WAITING);
            asks.extend(jobs.iter().map(|job| (job.name, ask.clone())));
            let runner = Runner::new(jobs, inbox, self.context.clone());
            self.threads.push(spawn(name, move || runner.run())?);
        }
        Ok(asks)
    }

    /// Ends what was started, since the rest can't be.
    fn give_up(&mut self) {
        self.context.wakeup.stop();
        join(std::mem::take(&mut self.threads));
        self.context.close_rooms();
    }
}

/// The engine's own job: sets the gauges of all rooms.
fn measure(context: Arc<Context>, every: Duration) -> Job {
    let run = move |_| {
        let rooms = context.rooms();
        rooms.iter().try_for_each(|(_, room)| room.measure())?;
        Ok(Outcome::Done("measured".into()))
    };
    Job { name: jobs::MEASURE, every, lane: Lane::Upkeep, is_woken: false, run: Box::new(run) }
}
