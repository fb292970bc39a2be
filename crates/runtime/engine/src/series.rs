//! The figures that Prometheus reads: what each means, and that it is there from the start.
//!
//! A figure that appears with its first event can't be told from one that nobody counts, and the
//! first increase of a counter is lost to `rate()`. So whoever installs a recorder calls [`begin`]
//! before the engine starts. Figures by room or job begin when the room or the job does, and sizes
//! by table or family with the first measurement.

use metrics::{
    Label, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::room::RoomShape;

/// How a figure behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriesKind {
    /// It grows until the process ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Many values in buckets.
    Histogram,
}

/// Labels of a figure's values, one list for each value that exists from the start.
pub type LabelSets = Vec<Vec<Label>>;

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// As Prometheus knows it: `unspent_ROOM_…`, with its unit, and `_total` where it counts.
    pub name: &'static str,
    /// How it behaves.
    pub kind: SeriesKind,
    /// What it means, in one line.
    pub help: &'static str,
    /// The values that exist from the start.
    sets: fn() -> LabelSets,
}

impl Series {
    /// A counter without labels.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: SeriesKind::Counter, help, sets: one }
    }

    /// A gauge without labels.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: SeriesKind::Gauge, help, sets: one }
    }

    /// A histogram without labels.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: SeriesKind::Histogram, help, sets: one }
    }

    /// The same with labels.
    pub const fn by(self, sets: fn() -> LabelSets) -> Self {
        Self { sets, ..self }
    }

    /// The same with labels that somebody else begins with.
    pub const fn later(self) -> Self {
        self.by(Vec::new)
    }

    /// Says what it means, and has its values exist.
    pub fn begin(&self) {
        match self.kind {
            SeriesKind::Counter => describe_counter!(self.name, self.help),
            SeriesKind::Gauge => describe_gauge!(self.name, self.help),
            SeriesKind::Histogram => describe_histogram!(self.name, self.help),
        }
        for labels in (self.sets)() {
            match self.kind {
                SeriesKind::Counter => counter!(self.name, labels).increment(0),
                SeriesKind::Gauge => gauge!(self.name, labels).increment(0.0),
                // To be known is enough.
                SeriesKind::Histogram => drop(histogram!(self.name, labels)),
            }
        }
    }
}

fn one() -> LabelSets {
    vec![Vec::new()]
}

/// One list for each value of one label.
pub fn each(label: &'static str, values: impl IntoIterator<Item = &'static str>) -> LabelSets {
    values.into_iter().map(|value| vec![Label::new(label, value)]).collect()
}

/// What the engine itself counts.
const ENGINE: [Series; 13] = [
    Series::counter("unspent_engine_blocks_applied_total", "Blocks applied by a room").later(),
    Series::gauge("unspent_engine_lag_blocks", "Blocks that a room is behind the source").later(),
    Series::counter("unspent_engine_reorgs_total", "Reorganisations followed by a room").later(),
    Series::histogram("unspent_engine_reorg_depth", "Blocks undone by reorganisations").later(),
    Series::counter("unspent_engine_source_errors_total", "Failures of the source").later(),
    Series::histogram("unspent_engine_apply_seconds", "Time to apply one block at the tip").later(),
    Series::counter("unspent_engine_job_runs_total", "Runs of a job").later(),
    Series::histogram("unspent_engine_job_seconds", "Duration of a job's run").later(),
    Series::gauge("unspent_engine_cache_blocks", "Blocks in memory, shared by rooms"),
    Series::gauge("unspent_engine_cache_bytes", "Bytes of blocks in memory, shared by rooms"),
    Series::gauge("unspent_engine_batches_waiting", "Batches of blocks read ahead"),
    Series::counter("unspent_engine_events_total", "Events written"),
    Series::counter("unspent_engine_webhook_attempts_total", "Messages sent to webhooks")
        .by(|| each("result", ["delivered", "failed"])),
];

/// Begins with everything that the engine and these rooms count. The recorder must be there.
pub fn begin(rooms: &[&'static RoomShape]) {
    ENGINE.iter().for_each(Series::begin);
    rooms.iter().flat_map(|shape| shape.series).for_each(Series::begin);
}

/// Begins with what is counted for each room that follows the chain. Its lag isn't known yet.
pub(crate) fn begin_room(room: &'static str) {
    for name in [
        "unspent_engine_blocks_applied_total",
        "unspent_engine_reorgs_total",
        "unspent_engine_source_errors_total",
    ] {
        counter!(name, "room" => room).increment(0);
    }
    for name in ["unspent_engine_reorg_depth", "unspent_engine_apply_seconds"] {
        drop(histogram!(name, "room" => room));
    }
    // A zero would say that the room stands at the tip.
    gauge!("unspent_engine_lag_blocks", "room" => room).set(f64::NAN);
}

/// Begins with what is counted for each job.
pub(crate) fn begin_job(job: &'static str) {
    counter!("unspent_engine_job_runs_total", "job" => job).increment(0);
    drop(histogram!("unspent_engine_job_seconds", "job" => job));
}
