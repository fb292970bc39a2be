//! The room as the engine opens it, and what it is asked.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics::gauge;
use unspent_engine::{
    Engine,
    error::StartError,
    events::{EventLog, LogError},
    jobs::{Job, JobName, Lane},
    road::Trouble,
    room::{OnDisk, OpenRoom, Pace, Plug, Room, RoomShape, handle::StoreHandle},
};
use unspent_model::{Family, Network};
use unspent_source::wakeup::lock;
use unspent_sql::Url;
use unspent_txstore::{Settings, StoreStatus, TxStore, TxStoreError};

use crate::{cleaner::CleanerJob, events, follower::trouble, series, unmined::MempoolReader};

pub use crate::name::NAME;

pub use crate::{
    cleaner::KeptCounts,
    follower::{StoredCounts, TxStoreFollower},
};

/// What is known of it without opening it.
pub const SHAPE: RoomShape = RoomShape {
    name: NAME,
    keeps: &[OnDisk::Database(DATABASE)],
    series: &series::SERIES,
    events: events::KINDS,
};
/// Its database in the data folder, unless it is told of another.
pub const DATABASE: &str = "txstore.db";
/// Deletes what nobody can need any more.
pub const CLEAN: JobName = JobName::new("clean_transactions");
/// Reads the node's mempool into the store.
pub const READ_UNMINED: JobName = JobName::new("read_unmined");

/// Pauses between two runs of the room's jobs, unless said otherwise.
pub const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// See [`CLEAN_EVERY`].
pub const UNMINED_EVERY: Duration = Duration::from_secs(30);

/// The room's settings.
#[derive(Clone, Debug)]
pub struct TxStoreRoom {
    /// Its database.
    pub url: Url,
    /// How its door behaves under load.
    pub options: unspent_sql::Options,
    /// When records may go.
    pub settings: Settings,
    /// Pause between two passes of the cleaner.
    pub clean_every: Duration,
    /// Pause between two readings of the mempool.
    pub unmined_every: Duration,
    /// Transactions that one reading of the mempool fetches at most.
    pub unmined_fetch: usize,
}

impl TxStoreRoom {
    /// The defaults, in a data folder.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            url: Url::Sqlite(data_dir.join(DATABASE)),
            options: unspent_sql::Options::default(),
            settings: Settings::default(),
            clean_every: CLEAN_EVERY,
            unmined_every: UNMINED_EVERY,
            unmined_fetch: 5_000,
        }
    }

    fn jobs(&self, plug: &mut Plug<'_>, room: &Arc<OpenTxStore>) {
        let mut cleaner = CleanerJob::new(room.clone(), plug.context());
        plug.job(Job {
            name: CLEAN,
            every: self.clean_every,
            lane: Lane::Upkeep,
            is_woken: false,
            run: Box::new(move |_| cleaner.run()),
        });
        // Blocks from files come without a mempool.
        let Some(node) = plug.node() else { return };
        let mut unmined = MempoolReader::new(node, room.clone(), plug.context());
        let most = self.unmined_fetch;
        plug.job(Job {
            name: READ_UNMINED,
            every: self.unmined_every,
            lane: Lane::Node,
            is_woken: true,
            run: Box::new(move |is_asked_for| {
                // Somebody may have dropped or changed records by hand: what was known is no proof
                // any more.
                if is_asked_for {
                    unmined.forget();
                }
                unmined.read(most)
            }),
        });
    }
}

impl Room for TxStoreRoom {
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
        let opened = TxStore::open(&self.url, plug.network(), self.settings, self.options);
        let store = Arc::new(opened.map_err(|error| StartError::room(NAME, error))?);
        let room = Arc::new(OpenTxStore {
            handle: StoreHandle::new(store.clone()),
            kept: Mutex::default(),
        });
        self.jobs(plug, &room);
        plug.follow(TxStoreFollower::serving(store, room.clone()))?;
        Ok(room)
    }
}

/// The open room.
pub struct OpenTxStore {
    handle: StoreHandle<TxStore>,
    /// Verdicts of the cleaner since the start.
    pub(crate) kept: Mutex<KeptCounts>,
}

impl OpenTxStore {
    pub(crate) fn store(&self) -> Option<Arc<TxStore>> {
        self.handle.get()
    }

    /// Tells the room's thread of an error that a job met; returns what to say of it.
    pub(crate) fn report(&self, error: TxStoreError) -> String {
        self.handle.report(error, trouble)
    }

    pub(crate) fn take_trouble(&self) -> Option<Trouble> {
        self.handle.take_trouble()
    }
}

impl OpenRoom for OpenTxStore {
    fn write_events(&self, log: &EventLog, _: Pace) -> Result<bool, LogError> {
        match self.store() {
            Some(store) => events::write(log, &store),
            None => Ok(false),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) -> Result<(), String> {
        let Some(store) = self.store() else { return Ok(()) };
        let found = store.status().map_err(|error| error.to_string())?;
        // A gauge for people: what is due above the tip has no age.
        let age = |height: u64, oldest: u64| height.saturating_sub(oldest);
        let oldest = found.oldest_due.map_or(0, |oldest| age(found.height.unwrap_or(0), oldest));
        let gauges = [
            ("unspent_txstore_records", found.records),
            ("unspent_txstore_unmined", found.unmined),
            ("unspent_txstore_due_backlog", found.due_backlog),
            ("unspent_txstore_oldest_due_blocks", oldest),
            ("unspent_txstore_queued", found.queued),
            ("unspent_txstore_absent_inputs", found.absent_inputs),
            ("unspent_txstore_deleted", found.deleted),
            ("unspent_txstore_losers_deleted", found.losers_deleted),
            ("unspent_txstore_bytes", found.bytes),
        ];
        for (name, value) in gauges {
            gauge!(name).set(value as f64);
        }
        let waiting = [found.kept_by_unmined_child, found.kept_by_unknown_child];
        for (reason, count) in series::WAITING.into_iter().zip(waiting) {
            gauge!("unspent_txstore_waiting", "reason" => reason).set(count as f64);
        }
        Ok(())
    }

    fn close(&self) {
        self.handle.close();
    }
}

/// The store. `None` when the room is off or ended.
pub fn store(engine: &Engine) -> Option<Arc<TxStore>> {
    engine.room::<OpenTxStore>()?.store()
}

/// The store in figures, and what the cleaner kept since the start, by reason. `None` when the room
/// is off, ended or can't be asked.
pub fn figures(engine: &Engine) -> Option<(StoreStatus, KeptCounts)> {
    let room = engine.room::<OpenTxStore>()?;
    let status = room.store()?.status().ok()?;
    let kept = lock(&room.kept).clone();
    Some((status, kept))
}
