//! The room as the engine opens it, and what it is asked.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics::gauge;
use unspent_ecash::{EcashAccount, EcashBalance, EcashError, EcashStore, KeySource, ScanLine};
use unspent_engine::{
    Engine, RoomState,
    context::Context,
    error::StartError,
    events::{EventLog, LogError},
    room::{OnDisk, OpenRoom, Pace, Plug, Room, RoomName, RoomShape, handle::StoreHandle},
};
use unspent_model::ecash::{EntityKind, EntityState};
use unspent_source::wakeup::lock;
use unspent_sql::Url;

use super::{
    events,
    mint::MintOptions,
    spark::{SparkBackend, SparkRemote},
    work::{
        ask::PaymentBackends,
        book::MintBook,
        counters::{COUNTERS_FILE, CounterFile},
        executor::PaymentExecutor,
        worker::{PassReport, PaymentWorker, WorkerOptions},
    },
};

/// The room's name.
pub const NAME: RoomName = RoomName::new("ecash");
/// What is known of it without opening it.
pub const SHAPE: RoomShape = RoomShape {
    name: NAME,
    keeps: &[OnDisk::Database(DATABASE)],
    series: &super::series::SERIES,
    events: events::KINDS,
};
/// Its database in the data folder, unless it is told of another.
pub const DATABASE: &str = "ecash.db";
/// Scans that the figures tell of.
const SHOWN_SCANS: u32 = 20;
/// Between two looks at what is due, when no mint gives notice.
const PAUSE: Duration = Duration::from_millis(500);

/// The room's settings.
#[derive(Clone, Debug)]
pub struct EcashRoom {
    /// Its database.
    pub url: Url,
    /// How its door behaves under load.
    pub options: unspent_sql::Options,
    /// What its secrets are sealed with.
    pub key: Arc<KeySource>,
    /// How mints are spoken to.
    pub mints: MintOptions,
    /// How the worker behaves.
    pub worker: WorkerOptions,
    /// A Spark wallet in another process.
    pub spark_url: Option<String>,
    /// Reserved proofs are swapped to ourselves before a send is called failed.
    pub fence: bool,
    /// Where it is written how far counters were used, the best place first; in no backup.
    pub counters: Vec<PathBuf>,
}

impl EcashRoom {
    /// The defaults, in a data folder.
    pub fn new(data_dir: &Path, key: Arc<KeySource>) -> Self {
        Self {
            url: Url::Sqlite(data_dir.join(DATABASE)),
            options: unspent_sql::Options::default(),
            key,
            mints: MintOptions::default(),
            worker: WorkerOptions::default(),
            spark_url: None,
            fence: false,
            counters: vec![data_dir.join(COUNTERS_FILE)],
        }
    }

    /// Opens the store, with whoever can be asked. For the daemon and for single commands.
    ///
    /// # Errors
    ///
    /// [`EcashError`]; nothing is changed.
    pub fn executor(&self) -> Result<PaymentExecutor, EcashError> {
        self.executor_of(EcashStore::open(&self.url, &self.key, None, self.options)?)
    }

    /// The same on a database that is there; another one is never made.
    ///
    /// # Errors
    ///
    /// [`EcashError`]; nothing is changed.
    pub fn existing_executor(&self) -> Result<PaymentExecutor, EcashError> {
        self.executor_of(EcashStore::open_existing(&self.url, &self.key, self.options)?)
    }

    fn executor_of(&self, store: EcashStore) -> Result<PaymentExecutor, EcashError> {
        let spark = self
            .spark_url
            .as_deref()
            .map(|url| -> Arc<dyn SparkBackend> { Arc::new(SparkRemote::new(url)) });
        let backends = PaymentBackends { mints: MintBook::new(self.mints), spark };
        let counters = counters_of(&store, &self.counters)?;
        Ok(PaymentExecutor { store: Arc::new(store), backends, fence: self.fence, counters })
    }
}

/// The file of a database's counters, both brought to the higher of the two. `None` where it can't
/// be written: then the first answer of a mint that shows a copy has it looked for.
///
/// # Errors
///
/// [`EcashError`]; a file that can't be read is one.
pub fn counters_of(
    store: &EcashStore,
    places: &[PathBuf],
) -> Result<Option<CounterFile>, EcashError> {
    let file = match CounterFile::open(places, store.identity()?) {
        Ok(file) => file,
        Err(error) if is_damage(&error) => {
            let what = format!("{error}; move it away, and copies are found by mints' answers");
            return Err(EcashError::Argument(what));
        }
        Err(error) => {
            tracing::warn!(%error, "how far counters are used can't be written down");
            return Ok(None);
        }
    };
    let behind = store.catch_up(file.used())?;
    if behind > 0 {
        tracing::warn!(
            keysets = behind,
            file = %file.path().display(),
            "this database is older than what was done with it: its mints are asked what it lacks"
        );
    }
    if let Err(error) = file.cover_all(store.counters()?) {
        tracing::warn!(%error, "how far counters are used can't be written down");
    }
    Ok(Some(file))
}

fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | Other | UnexpectedEof)
}

impl Room for EcashRoom {
    fn shape(&self) -> &'static RoomShape {
        &SHAPE
    }

    fn open(&self, plug: &mut Plug<'_>) -> Result<Arc<dyn OpenRoom>, StartError> {
        let failed = |error: &dyn std::fmt::Display| StartError::room(NAME, error.to_string());
        let executor = Arc::new(self.executor().map_err(|error| failed(&error))?);
        let worker = PaymentWorker::new(executor.clone(), self.worker);
        let worker = worker.map_err(|error| failed(&error))?;
        let room =
            Arc::new(OpenEcash { handle: StoreHandle::new(executor), last: Mutex::default() });
        let (context, shared) = (plug.context(), room.clone());
        plug.thread(NAME, move || work(worker, &shared, &context))?;
        Ok(room)
    }
}

/// Gives payments their turns until the engine ends.
fn work(mut worker: PaymentWorker, room: &OpenEcash, context: &Context) {
    while !context.is_stopping() {
        match worker.step() {
            Ok(report) => {
                if report.moved > 0 {
                    context.changed();
                }
                *lock(&room.last) = report;
                context.set_state(NAME, RoomState::Working);
            }
            Err(error) => {
                tracing::warn!(%error, "payments could not be looked at");
                let reason = error.to_string();
                context.set_state(NAME, RoomState::Waiting { reason });
            }
        }
        worker.rest(PAUSE);
    }
}

/// The open room.
pub struct OpenEcash {
    handle: StoreHandle<PaymentExecutor>,
    /// What the last pass found.
    last: Mutex<PassReport>,
}

impl OpenRoom for OpenEcash {
    fn write_events(&self, log: &EventLog, _: Pace) -> Result<bool, LogError> {
        match self.handle.get() {
            Some(executor) => events::write(log, &executor.store),
            None => Ok(false),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) -> Result<(), String> {
        let last = lock(&self.last).clone();
        gauge!("unspent_ecash_open").set(last.open as f64);
        gauge!("unspent_ecash_unclear").set(last.unclear.len() as f64);
        Ok(())
    }

    fn close(&self) {
        self.handle.close();
    }
}

/// What moves payments. `None` when the room is off or ended.
pub fn executor(engine: &Engine) -> Option<Arc<PaymentExecutor>> {
    engine.room::<OpenEcash>()?.handle.get()
}

/// The room in figures.
#[derive(Clone, Debug)]
pub struct EcashFigures {
    /// Every account with its money.
    pub accounts: Vec<(EcashAccount, EcashBalance)>,
    /// How many payments of each kind are in each state.
    pub payments: Vec<(EntityKind, EntityState, u64)>,
    /// Scans for what another copy of the database has got, the newest first.
    pub scans: Vec<ScanLine>,
    /// Keysets that are to be scanned.
    pub scans_due: usize,
    /// Bytes of the database that are in use.
    pub bytes: u64,
    /// What the last pass of the worker found.
    pub last: PassReport,
}

/// The room in figures. `None` when it is off, ended or can't be asked.
pub fn figures(engine: &Engine) -> Option<EcashFigures> {
    let room = engine.room::<OpenEcash>()?;
    let executor = room.handle.get()?;
    let accounts = executor.store.accounts().ok()?.into_iter();
    let accounts = accounts.map(|account| {
        let balance = executor.store.balance(&account.id)?;
        Ok::<_, EcashError>((account, balance))
    });
    let accounts = accounts.collect::<Result<_, _>>().ok()?;
    let payments = executor.store.entities_by_state().ok()?;
    let bytes = executor.store.bytes().ok()?;
    let scans = executor.store.scans(SHOWN_SCANS).ok()?;
    let scans_due = executor.store.due_scans().ok()?.len();
    let last = lock(&room.last).clone();
    Some(EcashFigures { accounts, payments, scans, scans_due, bytes, last })
}
