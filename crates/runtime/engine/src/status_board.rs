//! Where every thread writes what it is doing, and where status is read: short locks, no waiting.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use metrics::{counter, gauge, histogram};
use unspent_model::{Micros, Network, Point};
use unspent_source::wakeup::lock;

use crate::{
    clock,
    names::{JobName, RoomName},
    series,
    status::{JobStatus, ReorgView, RoomState, RoomStatus, SourceStatus, Status, TipView},
};

/// Blocks are counted for this long before their rate is worked out.
const RATE_WINDOW: Duration = Duration::from_secs(2);

struct RoomEntry {
    room: RoomName,
    state: RoomState,
    /// It follows the chain.
    follows: bool,
    tip: Option<Point>,
    rate: Rate,
    last_reorg: Option<ReorgView>,
    reorgs: u64,
}

struct Rate {
    since: Instant,
    blocks: u64,
    last: f64,
}

impl Rate {
    fn new() -> Self {
        Self { since: Instant::now(), blocks: 0, last: 0.0 }
    }

    fn count(&mut self, blocks: u64) {
        self.blocks += blocks;
        if self.since.elapsed() >= RATE_WINDOW {
            *self = Self { last: self.now(), ..Self::new() };
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn now(&self) -> f64 {
        let elapsed = self.since.elapsed();
        if elapsed < RATE_WINDOW { self.last } else { self.blocks as f64 / elapsed.as_secs_f64() }
    }
}

struct BoardState {
    source: SourceStatus,
    source_tip: Option<Point>,
    /// The rooms that the source last failed, with what it said.
    away: BTreeMap<RoomName, String>,
    rooms: Vec<RoomEntry>,
    jobs: Vec<JobStatus>,
}

/// What the threads are doing.
pub(crate) struct StatusBoard {
    network: Network,
    started_at: Micros,
    inner: Mutex<BoardState>,
}

impl StatusBoard {
    pub(crate) fn new(network: Network, source: String) -> Self {
        let inner = BoardState {
            source: SourceStatus { name: source, ..SourceStatus::default() },
            source_tip: None,
            away: BTreeMap::new(),
            rooms: Vec::new(),
            jobs: Vec::new(),
        };
        Self { network, started_at: clock::now(), inner: Mutex::new(inner) }
    }

    /// A room takes its place, those that are off too.
    pub(crate) fn add_room(&self, room: RoomName, state: RoomState) {
        lock(&self.inner).rooms.push(RoomEntry {
            room,
            state,
            follows: false,
            tip: None,
            rate: Rate::new(),
            last_reorg: None,
            reorgs: 0,
        });
    }

    pub(crate) fn started_at(&self) -> Micros {
        self.started_at
    }

    pub(crate) fn status(&self) -> Status {
        let inner = lock(&self.inner);
        let view = |point: Point| TipView::new(self.network, point);
        let room = |entry: &RoomEntry| RoomStatus {
            room: entry.room,
            state: entry.state.clone(),
            tip: entry.tip.map(view),
            lag: lag(inner.source_tip, entry.tip).filter(|_| entry.follows),
            blocks_per_second: entry.rate.now(),
            last_reorg: entry.last_reorg.clone(),
            reorgs: entry.reorgs,
        };
        Status {
            network: self.network,
            source: SourceStatus {
                tip: inner.source_tip.map(view),
                error: inner.away.values().next().cloned(),
                ..inner.source.clone()
            },
            rooms: inner.rooms.iter().map(room).collect(),
            jobs: inner.jobs.clone(),
            started_at: self.started_at.into(),
        }
    }

    fn room<T>(&self, room: RoomName, with: impl FnOnce(&mut RoomEntry) -> T) -> Option<T> {
        let mut inner = lock(&self.inner);
        inner.rooms.iter_mut().find(|entry| entry.room == room).map(with)
    }

    pub(crate) fn state(&self, room: RoomName) -> RoomState {
        self.room(room, |entry| entry.state.clone()).unwrap_or(RoomState::Off)
    }

    /// The room follows the chain, so it can be behind.
    pub(crate) fn set_following(&self, room: RoomName) {
        series::begin_room(room.name());
        self.room(room, |entry| entry.follows = true);
    }

    /// Sets the state and returns the one before.
    pub(crate) fn set_state(&self, room: RoomName, state: RoomState) -> RoomState {
        let before = self.room(room, |entry| std::mem::replace(&mut entry.state, state));
        before.unwrap_or(RoomState::Off)
    }

    pub(crate) fn tip(&self, room: RoomName) -> Option<Point> {
        self.room(room, |entry| entry.tip).flatten()
    }

    /// The room stands here, after `blocks` more; says whether that is news.
    pub(crate) fn moved(&self, room: RoomName, tip: Option<Point>, blocks: u64) -> bool {
        let before = self.room(room, |entry| {
            entry.rate.count(blocks);
            std::mem::replace(&mut entry.tip, tip)
        });
        counter!("unspent_engine_blocks_applied_total", "room" => room.name()).increment(blocks);
        self.measure_lag(room);
        blocks > 0 || before != Some(tip)
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure_lag(&self, room: RoomName) {
        let (tip, source) = (self.tip(room), lock(&self.inner).source_tip);
        if let Some(lag) = lag(source, tip) {
            gauge!("unspent_engine_lag_blocks", "room" => room.name()).set(lag as f64);
        }
    }

    /// The room left `from` for `to`.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn rolled_back(&self, room: RoomName, from: Point, to: Option<Point>, depth: u64) {
        let view = |point: Point| TipView::new(self.network, point);
        let reorg =
            ReorgView { depth, from: view(from), to: to.map(view), at: clock::now().into() };
        tracing::info!(room = room.name(), depth, from = from.height, "reorganisation");
        self.room(room, |entry| {
            entry.tip = to;
            entry.reorgs += 1;
            entry.last_reorg = Some(reorg);
        });
        counter!("unspent_engine_reorgs_total", "room" => room.name()).increment(1);
        histogram!("unspent_engine_reorg_depth", "room" => room.name()).record(depth as f64);
    }

    /// The source answered a room; says whether it is back for all of them.
    pub(crate) fn source_is_here(&self, room: RoomName, tip: Option<Point>) -> bool {
        let mut inner = lock(&self.inner);
        if tip.is_some() {
            inner.source_tip = tip;
        }
        let was_away = inner.away.remove(&room).is_some();
        inner.source.connected = inner.away.is_empty();
        was_away && inner.away.is_empty()
    }

    /// The source failed a room; says whether it is the first.
    pub(crate) fn source_is_away(&self, room: RoomName, error: String) -> bool {
        counter!("unspent_engine_source_errors_total", "room" => room.name()).increment(1);
        let mut inner = lock(&self.inner);
        inner.source.connected = false;
        let is_first = inner.away.is_empty();
        inner.away.insert(room, error);
        is_first
    }

    pub(crate) fn add_job(&self, job: JobName, every: Duration) {
        series::begin_job(job.name());
        lock(&self.inner).jobs.push(JobStatus {
            job,
            every_seconds: every.as_secs_f64(),
            last_run: None,
            last_outcome: None,
            runs: 0,
            running: false,
        });
    }

    pub(crate) fn job_starts(&self, job: JobName) {
        self.job(job, |status| status.running = true);
    }

    pub(crate) fn job_ended(&self, job: JobName, outcome: &str) {
        self.job(job, |status| {
            status.running = false;
            status.runs += 1;
            status.last_run = Some(clock::now().into());
            status.last_outcome = Some(outcome.to_owned());
        });
    }

    fn job(&self, job: JobName, with: impl FnOnce(&mut JobStatus)) {
        let mut inner = lock(&self.inner);
        if let Some(status) = inner.jobs.iter_mut().find(|status| status.job == job) {
            with(status);
        }
    }
}

fn lag(source: Option<Point>, tip: Option<Point>) -> Option<u64> {
    Some(source?.height.saturating_sub(tip?.height))
}
