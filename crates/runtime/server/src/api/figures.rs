//! The rooms' figures, measured no more often than they are worth.
//!
//! Counting the rows of large tables takes time, and the dashboard asks every few seconds. So an
//! answer is kept for some seconds, and for longer the more it cost.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use serde_json::Value;
use unspent_engine::Engine;

use crate::room::{RoomFace, Rooms};

/// Figures are at least this old before they are measured again.
const FRESH: Duration = Duration::from_secs(2);
/// And at least this many times as old as they took to measure: at most 2 % of the time.
const WORTH: u32 = 50;

/// A room's figures when they were last measured.
#[derive(Default)]
struct Measured {
    at: Option<Instant>,
    cost: Duration,
    figures: Value,
    /// Somebody is measuring; what was known before will do for others.
    is_under_way: bool,
}

impl Measured {
    fn is_fresh(&self) -> bool {
        let enough = FRESH.max(self.cost.saturating_mul(WORTH));
        self.at.is_some_and(|at| at.elapsed() < enough)
    }
}

/// The last figures of each room; null for one that can't be asked.
#[derive(Default)]
pub struct Figures(Mutex<BTreeMap<&'static str, Measured>>);

impl Figures {
    /// The figures of all rooms by name; those that take time may be a little old. May block.
    pub fn all(&self, engine: &Engine, rooms: Rooms) -> BTreeMap<&'static str, Value> {
        rooms.iter().map(|room| (room.name(), self.of(room, engine))).collect()
    }

    fn of(&self, room: &dyn RoomFace, engine: &Engine) -> Value {
        let measure = || room.figures(engine).unwrap_or_default();
        if room.has_slow_figures() { self.kept(room.name(), measure) } else { measure() }
    }

    /// What is known, or is measured now.
    fn kept(&self, room: &'static str, measure: impl FnOnce() -> Value) -> Value {
        if let Some(known) = self.begin(room) {
            return known;
        }
        // Also when the measuring panics: what is known would be shown for ever.
        let _under_way = UnderWay { figures: self, room };
        let started = Instant::now();
        let figures = measure();
        if let Ok(mut all) = self.0.lock() {
            let (at, cost) = (Some(Instant::now()), started.elapsed());
            let measured = Measured { at, cost, figures: figures.clone(), is_under_way: false };
            all.insert(room, measured);
        }
        figures
    }

    /// What is known, or `None` when the caller is to measure.
    fn begin(&self, room: &'static str) -> Option<Value> {
        let mut all = self.0.lock().ok()?;
        let known = all.entry(room).or_default();
        // Before the first measurement nothing is known: then several may measure, and nobody gets
        // null.
        if known.is_fresh() || known.is_under_way && known.at.is_some() {
            return Some(known.figures.clone());
        }
        known.is_under_way = true;
        None
    }
}

/// A measurement that has begun; when it ends, however it does, others may measure.
struct UnderWay<'a> {
    figures: &'a Figures,
    room: &'static str,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Ok(mut all) = self.figures.0.lock()
            && let Some(known) = all.get_mut(self.room)
        {
            known.is_under_way = false;
        }
    }
}

/// One number of a room's figures, by its JSON pointer; null when it isn't there.
pub fn value_at(figures: &Value, pointer: &str) -> Value {
    figures.pointer(pointer).cloned().unwrap_or_default()
}

/// The `bytes` of all members of a list of the figures.
pub fn sum_of_bytes(figures: &Value, list: &str) -> Value {
    let parts = figures.pointer(list).and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("bytes")?.as_u64()).sum::<u64>().into()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn figures_are_measured_again_after_a_measurement_that_panicked() {
        let figures = Figures::default();
        let age = || {
            let mut all = figures.0.lock().unwrap();
            all.get_mut("wallet").unwrap().at = Instant::now().checked_sub(2 * FRESH);
        };
        assert_eq!(figures.kept("wallet", || Value::from(1)), 1);
        assert_eq!(figures.kept("wallet", || Value::from(2)), 1, "still fresh");
        age();
        let panicked = AssertUnwindSafe(|| figures.kept("wallet", || panic!("a fault")));
        assert!(catch_unwind(panicked).is_err());
        assert_eq!(figures.kept("wallet", || Value::from(3)), 3);
        age();
        let outer = figures.kept("wallet", || figures.kept("wallet", || Value::from(4)));
        assert_eq!(outer, 3, "while one measures, others get what is known");
    }
}
