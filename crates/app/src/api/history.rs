//! Samples of how the coin set and the storage grew, for plots. In memory, bounded.

use std::{sync::Mutex, time::Duration};

use serde::Serialize;
use unspent_engine::Engine;
use utoipa::ToSchema;

use super::figures::Figures;

/// Samples kept; when full, every second one goes and the pace halves.
const MAX_SAMPLES: usize = 1_440;
/// The first pace.
const EVERY: Duration = Duration::from_secs(5);

/// One sample; what a room that is off can't say is null.
#[derive(Serialize, ToSchema, Clone)]
pub(crate) struct SampleJson {
    at: i64,
    height: Option<u64>,
    utxos: Option<u64>,
    lovelace_amount: Option<String>,
    chain_bytes: Option<u64>,
    wallet_bytes: Option<u64>,
    active_leases: Option<u64>,
    lag: Option<u64>,
}

/// The samples.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryJson {
    every_seconds: u64,
    samples: Vec<SampleJson>,
}

struct Kept {
    every: Duration,
    samples: Vec<SampleJson>,
}

/// What was sampled so far.
pub(crate) struct History(Mutex<Kept>);

impl History {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Kept { every: EVERY, samples: Vec::new() }))
    }

    pub(crate) fn shown(&self) -> HistoryJson {
        let Ok(kept) = self.0.lock() else {
            return HistoryJson { every_seconds: 0, samples: Vec::new() };
        };
        HistoryJson { every_seconds: kept.every.as_secs(), samples: kept.samples.clone() }
    }

    /// Keeps a sample and says when to take the next.
    pub(crate) fn put(&self, sample: SampleJson) -> Duration {
        let Ok(mut kept) = self.0.lock() else { return EVERY };
        kept.samples.push(sample);
        if kept.samples.len() >= MAX_SAMPLES {
            let mut at = 0;
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
pub(crate) fn sample(engine: &Engine, figures: &Figures, now: i64) -> SampleJson {
    let chain = engine.chain().and_then(|reader| reader.status().ok());
    let wallet = engine.wallets().and_then(|room| figures.of(&room, now));
    let lag = engine.status().rooms.iter().filter_map(|room| room.lag).max();
    SampleJson {
        at: now,
        height: chain.as_ref().and_then(|s| s.cursor.point()).map(|point| point.height),
        utxos: chain.as_ref().map(|status| status.cursor.coins),
        lovelace_amount: chain.as_ref().map(|status| status.cursor.value.to_string()),
        chain_bytes: chain.as_ref().map(|s| s.sizes.iter().map(|(_, bytes)| bytes).sum()),
        wallet_bytes: wallet.as_ref().map(|w| w.tables.iter().map(|table| table.bytes).sum()),
        active_leases: wallet.as_ref().map(|wallet| wallet.active_leases),
        lag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_when_there_are_too_many() {
        let history = History::new();
        for at in 0..10_000 {
            let none = SampleJson {
                at,
                height: None,
                utxos: None,
                lovelace_amount: None,
                chain_bytes: None,
                wallet_bytes: None,
                active_leases: None,
                lag: None,
            };
            history.put(none);
        }
        let shown = history.shown();
        assert!(shown.samples.len() < MAX_SAMPLES, "{}", shown.samples.len());
        assert!(shown.every_seconds > EVERY.as_secs());
        assert!(shown.samples.windows(2).all(|pair| pair[0].at < pair[1].at));
    }
}
