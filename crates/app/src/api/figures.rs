//! The wallet room's figures, measured no more often than they are worth.
//!
//! Counting the rows of large tables takes time, and the dashboard asks every few seconds. So an
//! answer is kept for some seconds, and for longer the more it cost.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use unspent_wallet::{Room, metrics::Metrics};

/// Figures are at least this old before they are measured again.
const FRESH: Duration = Duration::from_secs(2);
/// And at least this many times as old as they took to measure: at most 2 % of the time.
const WORTH: u32 = 50;

struct Kept {
    measured: Instant,
    cost: Duration,
    metrics: Metrics,
}

/// The last figures.
#[derive(Default)]
pub(crate) struct Figures {
    kept: Mutex<Option<Kept>>,
    measuring: AtomicBool,
}

impl Figures {
    /// The figures, new or a little old; `None` when the room can't be asked.
    pub(crate) fn of(&self, room: &Room, now: i64) -> Option<Metrics> {
        if let Some(known) = self.kept(false) {
            return Some(known);
        }
        if self.measuring.swap(true, Ordering::AcqRel) {
            // Somebody is at it; what was known before will do.
            return self.kept(true);
        }
        let started = Instant::now();
        let found = room.metrics(now);
        let cost = started.elapsed();
        self.measuring.store(false, Ordering::Release);
        let metrics = found.ok()?;
        let kept = Kept { measured: Instant::now(), cost, metrics: metrics.clone() };
        if let Ok(mut place) = self.kept.lock() {
            *place = Some(kept);
        }
        Some(metrics)
    }

    fn kept(&self, however_old: bool) -> Option<Metrics> {
        let kept = self.kept.lock().ok()?;
        let is_fresh =
            |kept: &&Kept| kept.measured.elapsed() < FRESH.max(kept.cost.saturating_mul(WORTH));
        kept.as_ref().filter(|kept| however_old || is_fresh(kept)).map(|kept| kept.metrics.clone())
    }
}
