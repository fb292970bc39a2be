//! The simulated network behind a source that fails on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use unspent_model::{Network, Point};
use unspent_source::{Node, Origin, Source, SourceError, Step, sim::SimNetwork};

/// What is wrong with the source at the moment.
#[derive(Default)]
pub struct Faults {
    pub is_down: AtomicBool,
    /// No block at or below this height can be read; 0 switches it off.
    pub pruned_to: AtomicU64,
    /// Blocks from this height on arrive damaged; 0 switches it off.
    pub damaged_from: AtomicU64,
    /// Sources opened so far.
    pub opened: AtomicU64,
}

#[derive(Clone)]
pub struct Faulty {
    pub sim: SimNetwork,
    pub faults: Arc<Faults>,
}

impl Faulty {
    pub fn new(sim: &SimNetwork) -> Self {
        Self { sim: sim.clone(), faults: Arc::default() }
    }

    fn up(&self) -> Result<(), SourceError> {
        if self.faults.is_down.load(Ordering::SeqCst) {
            return Err(SourceError::Unreachable {
                name: self.name(),
                reason: "it is down".into(),
            });
        }
        Ok(())
    }
}

impl Origin for Faulty {
    fn network(&self) -> Network {
        self.sim.network()
    }

    fn name(&self) -> String {
        "a faulty node".into()
    }

    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        self.faults.opened.fetch_add(1, Ordering::SeqCst);
        self.up()?;
        Ok(Box::new(FaultySource { origin: self.clone(), inner: self.sim.open()? }))
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        self.sim.node()
    }
}

struct FaultySource {
    origin: Faulty,
    inner: Box<dyn Source>,
}

impl Source for FaultySource {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        self.origin.up()?;
        self.inner.intersect(points)
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        self.origin.up()?;
        let step = self.inner.next(patience)?;
        let Step::Forward(mut raw) = step else { return Ok(step) };
        let height = raw.point.height;
        let faults = &self.origin.faults;
        if height > 0 && height <= faults.pruned_to.load(Ordering::SeqCst) {
            return Err(SourceError::Missing { name: self.origin.name(), height });
        }
        let damaged = faults.damaged_from.load(Ordering::SeqCst);
        if damaged > 0 && height >= damaged {
            let mut bytes = raw.bytes.to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            raw.bytes = bytes.into();
        }
        Ok(Step::Forward(raw))
    }

    fn tip(&self) -> Option<Point> {
        self.inner.tip()
    }

    fn point_at(&mut self, height: u64) -> Result<Option<Point>, SourceError> {
        self.origin.up()?;
        self.inner.point_at(height)
    }
}
