//! A room as small as one can be that does everything a room may do: it counts blocks and payments,
//! on SQLite. ARCHITECTURE.md ("Adding a room") walks through it.
//!
//! | a room has | here |
//! |---|---|
//! | settings, and how it is opened | [`CountingRoom`] |
//! | a side of the road | [`Counter`] |
//! | what other threads see of it | [`OpenCounts`]: events, gauges |
//! | a job | [`REPORT`] |
//! | answers | [`figures`] |
//! | a section of the settings, a route, numbers in `/status` | [`CountingFace`] |
//!
//! It is plugged in by a line where rooms are listed: that of `main`, and `Config::with` in tests
//! of the engine.

mod face;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use unspent_engine::{
    Engine, EventLog, JobName, LogError, RoomName, StartError, event_kinds,
    events::NewEvent,
    jobs::{Job, Lane, Outcome},
    road::{Follower, SharedBlock, Trouble},
    room::{OnDisk, OpenRoom, Pace, Plug, Room, RoomShape},
    series::Series,
};
use unspent_model::{BlockHash, Network, Point};
use unspent_sql::{Arg, Door, Migration, Options, Row, Schema, SqlError, Tx, Url};
use utoipa::ToSchema;

pub use self::face::CountingFace;

/// The room's name.
pub const NAME: RoomName = RoomName::new("counting");
/// What is known of it without opening it.
pub const SHAPE: RoomShape =
    RoomShape { name: NAME, keeps: &[OnDisk::Database(DATABASE)], series: &SERIES, events: KINDS };
/// Its database in the data folder.
pub const DATABASE: &str = "counting.db";
const SERIES: [Series; 2] = [
    Series::gauge("unspent_counting_blocks", "Blocks counted"),
    Series::gauge("unspent_counting_payments", "Payments counted"),
];
/// Says how much has been counted.
pub const REPORT: JobName = JobName::new("report_counts");

event_kinds! {
    NAME.name();
    /// A block was counted.
    COUNTED: CountedBody = "block_counted";
    /// A block is no longer counted.
    UNCOUNTED: CountedBody = "block_uncounted";
}

/// What was counted.
#[derive(Debug, Serialize, ToSchema)]
pub struct CountedBody {
    height: i64,
    payments: i64,
}

/// Events written at once.
const EVENTS_AT_ONCE: i64 = 100;

const TABLES: &str = "
    CREATE TABLE blocks (
        height BIGINT NOT NULL PRIMARY KEY,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        payments BIGINT NOT NULL
    );
    -- What happened, in order: the outbox from which events are written.
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        height BIGINT NOT NULL,
        payments BIGINT NOT NULL,
        counted BIGINT NOT NULL CHECK (counted IN (0, 1))
    );";
const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS counting; SET search_path TO counting",
    migrations: &[Migration { version: 1, name: "counts", ddl: TABLES }],
    distribution: &[],
};
const HIGHEST: &str =
    "SELECT height, hash FROM blocks WHERE height <= $1 ORDER BY height DESC LIMIT 1";
const INSERT: &str = "INSERT INTO blocks (height, hash, payments) VALUES ($1, $2, $3)";
const NOTE: &str = "INSERT INTO changes (height, payments, counted) VALUES ($1, $2, 1)";
const NOTE_UNDONE: &str = "INSERT INTO changes (height, payments, counted)
    SELECT height, payments, 0 FROM blocks WHERE height > $1 ORDER BY height DESC";
const UNDO: &str = "DELETE FROM blocks WHERE height > $1";
const CHANGES: &str = "SELECT id, height, payments, counted FROM changes WHERE id > $1
    ORDER BY id LIMIT $2";
const SUM: &str = "SELECT COUNT(*) AS blocks, COALESCE(SUM(payments), 0) AS payments FROM blocks";

/// The room's settings.
#[derive(Clone, Debug)]
pub struct CountingRoom {
    /// Its database.
    pub database: PathBuf,
    /// Pause between two reports.
    pub report_every: Duration,
}

impl CountingRoom {
    /// The defaults, in a data folder.
    pub fn new(data_dir: &Path) -> Self {
        let database = data_dir.join(DATABASE);
        Self { database, report_every: Duration::from_millis(200) }
    }
}

impl Room for CountingRoom {
    fn shape(&self) -> &'static RoomShape {
        &SHAPE
    }

    fn open(&self, plug: &mut Plug<'_>) -> Result<Arc<dyn OpenRoom>, StartError> {
        let url = Url::Sqlite(self.database.clone());
        let door = Door::open(&url, &SCHEMA, Options::default());
        let door = Arc::new(door.map_err(|error| StartError::room(NAME, error))?);
        let reported = door.clone();
        plug.job(Job {
            name: REPORT,
            every: self.report_every,
            lane: Lane::Upkeep,
            is_woken: false,
            run: Box::new(move |_| {
                let (blocks, payments) = sum(&reported).map_err(|error| error.to_string())?;
                Ok(Outcome::Done(format!("{payments} payments in {blocks} blocks")))
            }),
        });
        plug.follow(Counter { door: door.clone() })?;
        Ok(Arc::new(OpenCounts { door: Mutex::new(Some(door)) }))
    }
}

/// The room on the road. Every block is one transaction, with the place in it.
struct Counter {
    door: Arc<Door>,
}

/// A block made ready.
pub struct Counted {
    point: Point,
    parent: Option<BlockHash>,
    payments: i64,
}

impl Follower for Counter {
    type Ready = Counted;

    fn room(&self) -> RoomName {
        NAME
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        self.stored_at(i64::MAX as u64)
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        let height = height as i64;
        self.door.read(move |tx| highest(tx, height)).map_err(trouble)
    }

    fn prepare(_: Network, block: &Arc<SharedBlock>) -> Result<Counted, String> {
        // All but the coinbase. The block was parsed and checked once for all rooms.
        let payments = block.bitcoin()?.block().txdata.len() as i64 - 1;
        Ok(Counted { point: block.point, parent: block.parent, payments })
    }

    fn apply(&mut self, block: Counted) -> Result<(), Trouble> {
        let Counted { point, parent, payments } = block;
        let is_next = self.door.write(move |tx| -> Result<bool, SqlError> {
            if highest(tx, i64::MAX)?.map(|tip| tip.hash) != parent {
                return Ok(false);
            }
            let height = Arg::Int(point.height as i64);
            tx.execute(INSERT, &[height, Arg::Blob(&point.hash.0), Arg::Int(payments)])?;
            tx.execute(NOTE, &[height, Arg::Int(payments)])?;
            Ok(true)
        });
        match is_next.map_err(trouble)? {
            true => Ok(()),
            false => Err(Trouble::Lost("the block is not the child of the last one".into())),
        }
    }

    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let keep = to.map_or(-1, |to| to.height as i64);
        let undone = self.door.write(move |tx| -> Result<(), SqlError> {
            tx.execute(NOTE_UNDONE, &[Arg::Int(keep)])?;
            tx.execute(UNDO, &[Arg::Int(keep)])?;
            Ok(())
        });
        undone.map_err(trouble)
    }
}

fn highest(tx: &mut Tx<'_>, height: i64) -> Result<Option<Point>, SqlError> {
    let point = |row: Row| {
        let height = row.natural("height")?;
        Ok(Point { height, slot: height, hash: BlockHash(row.hash("hash")?) })
    };
    tx.maybe(HIGHEST, &[Arg::Int(height)])?.map(point).transpose()
}

fn trouble(error: SqlError) -> Trouble {
    Trouble::Busy(error.into())
}

/// The open room.
pub struct OpenCounts {
    door: Mutex<Option<Arc<Door>>>,
}

impl OpenCounts {
    fn door(&self) -> Option<Arc<Door>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl OpenRoom for OpenCounts {
    fn write_events(&self, log: &EventLog, _: Pace) -> Result<bool, LogError> {
        let Some(door) = self.door() else { return Ok(false) };
        let mark = log.mark(NAME, "changes")?;
        let rows = door.read(move |tx| -> Result<Vec<Row>, SqlError> {
            tx.query(CHANGES, &[Arg::Int(mark), Arg::Int(EVENTS_AT_ONCE)])
        })?;
        let Some(last) = rows.last().map(|row| row.int("id")).transpose()? else {
            return Ok(false);
        };
        let events = rows.iter().map(event).collect::<Result<Vec<_>, SqlError>>()?;
        log.write_marked(events, NAME, "changes", last)?;
        Ok(rows.len() as i64 == EVENTS_AT_ONCE)
    }

    fn measure(&self) -> Result<(), String> {
        let Some(door) = self.door() else { return Ok(()) };
        let (blocks, payments) = sum(&door).map_err(|error| error.to_string())?;
        metrics::gauge!("unspent_counting_blocks").set(blocks as f64);
        metrics::gauge!("unspent_counting_payments").set(payments as f64);
        Ok(())
    }

    fn close(&self) {
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn event(row: &Row) -> Result<NewEvent, SqlError> {
    let body = CountedBody { height: row.int("height")?, payments: row.int("payments")? };
    let kind = if row.int("counted")? == 1 { COUNTED } else { UNCOUNTED };
    Ok(NewEvent::new(kind, &body))
}

fn sum(door: &Door) -> Result<(i64, i64), SqlError> {
    door.read(|tx| {
        let row = tx.one(SUM, &[])?;
        Ok((row.int("blocks")?, row.int("payments")?))
    })
}

/// Blocks and payments counted; `None` when the room is off.
pub fn figures(engine: &Engine) -> Option<(i64, i64)> {
    sum(&*engine.room::<OpenCounts>()?.door()?).ok()
}
