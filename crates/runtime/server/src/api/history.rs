//! Samples of how the coin set and the storage grew, for plots. In memory, bounded.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use serde::Serialize;
use serde_json::Value;
use unspent_engine::Engine;
use unspent_model::Micros;
use utoipa::ToSchema;

use super::figures::Figures;
use crate::{
    json::Time,
    room::{RoomFace, Rooms},
};

/// Samples kept; when full, every second one goes and the pace halves.
const MAX_SAMPLES: usize = 1_440;
/// The first pace.
const EVERY: Duration = Duration::from_secs(5);

/// One sample; what a room that is off can't say is missing.
#[derive(Serialize, ToSchema, Clone)]
pub struct SampleJson {
    at: Time,
    /// Blocks that the room furthest behind is behind
    lag: Option<u64>,
    /// What the rooms have plotted
    #[serde(flatten)]
    #[schema(value_type = Object, additional_properties)]
    plotted: BTreeMap<&'static str, Value>,
}

/// The samples.
#[derive(Serialize, ToSchema)]
pub struct HistoryJson {
    every_seconds: u64,
    samples: Vec<SampleJson>,
}

struct Samples {
    every: Duration,
    samples: Vec<SampleJson>,
}

/// What was sampled so far.
pub struct History(Mutex<Samples>);

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// Nothing sampled yet.
    pub fn new() -> Self {
        Self(Mutex::new(Samples { every: EVERY, samples: Vec::new() }))
    }

    /// All samples, as they are answered.
    pub fn shown(&self) -> HistoryJson {
        let Ok(kept) = self.0.lock() else {
            return HistoryJson { every_seconds: 0, samples: Vec::new() };
        };
        HistoryJson { every_seconds: kept.every.as_secs(), samples: kept.samples.clone() }
    }

    /// Keeps a sample and says when to take the next.
    pub fn put(&self, sample: SampleJson) -> Duration {
        let Ok(mut kept) = self.0.lock() else { return EVERY };
        kept.samples.push(sample);
        if kept.samples.len() >= MAX_SAMPLES {
            let mut at = 0;
            // Old and new ones are thinned alike, so the plot keeps one pace over all of its time.
            kept.samples.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            kept.every *= 2;
        }
        kept.every
    }
}

/// Looks at the rooms; may block.
pub fn sample(engine: &Engine, rooms: Rooms, figures: &Figures, now: Micros) -> SampleJson {
    let found = figures.all(engine, rooms);
    let of = |room: &'static dyn RoomFace| {
        let figures = found.get(room.name()).filter(|figures| !figures.is_null());
        figures.map(|figures| room.plotted(figures)).unwrap_or_default()
    };
    let plotted = rooms.iter().flat_map(of).collect();
    let lag = engine.status().rooms.iter().filter_map(|room| room.lag).max();
    SampleJson { at: now.into(), lag, plotted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_when_there_are_too_many() {
        let history = History::new();
        for at in 0..10_000 {
            let none = SampleJson { at: Time(at), lag: None, plotted: BTreeMap::new() };
            history.put(none);
        }
        let shown = history.shown();
        assert!(shown.samples.len() < MAX_SAMPLES, "{}", shown.samples.len());
        assert!(shown.every_seconds > EVERY.as_secs());
        assert!(shown.samples.windows(2).all(|pair| pair[0].at < pair[1].at));
    }
}
