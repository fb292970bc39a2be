//! Blocks on their way to a reader that is far behind.
//!
//! One thread asks which blocks come next, some others fetch them, and they come out in order.
//! Invariant: at most [`BATCHES_AHEAD`] batches wait, and each answer of the node is smaller than
//! the largest allowed, so memory is bounded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crossbeam_channel::{Receiver, Sender, bounded};
use unspent_model::Point;

use super::{
    CoreState,
    fetch::{Batch, BatchSize, Bodies, Wanted, above, bodies, hashes, link},
};
use crate::SourceError;

/// Batches that are fetched or wait for the reader.
const BATCHES_AHEAD: usize = 4;
/// Threads that fetch; a node answers several callers at once.
const FETCHERS: usize = 3;

/// A batch that somebody fetches.
struct Ordered {
    tip: Point,
    wanted: Arc<[Wanted]>,
    bodies: Receiver<Result<Bodies, SourceError>>,
}

struct FetchJob {
    wanted: Arc<[Wanted]>,
    reply: Sender<Result<Bodies, SourceError>>,
}

/// Dropping it ends the threads after what they are fetching.
pub(super) struct FetchAhead {
    state: Arc<CoreState>,
    place: Option<Point>,
    ordered: Receiver<Result<Ordered, SourceError>>,
    is_over: bool,
}

impl FetchAhead {
    /// Starts fetching what follows `place`; `None` when there are no threads to be had.
    pub(super) fn start(state: Arc<CoreState>, place: Option<Point>) -> Option<Self> {
        let (out, ordered) = bounded(BATCHES_AHEAD);
        let (jobs, inbox) = bounded::<FetchJob>(BATCHES_AHEAD);
        let block_bytes = Arc::new(AtomicUsize::new(0));
        for _ in 0..FETCHERS {
            let (state, inbox, seen) = (state.clone(), inbox.clone(), block_bytes.clone());
            spawn(move || fetch_all(&state, &inbox, &seen))?;
        }
        let asking = state.clone();
        spawn(move || order_all(&asking, place, &block_bytes, &jobs, &out))?;
        Some(Self { state, place, ordered, is_over: false })
    }

    /// The next batch; `None` when there is nothing more ahead.
    pub(super) fn next(&mut self) -> Option<Result<Batch, SourceError>> {
        if self.is_over {
            return None;
        }
        let batch = self.ordered.recv().ok()?.and_then(|ordered| self.take(&ordered));
        self.is_over |= batch.is_err();
        Some(batch)
    }

    fn take(&mut self, ordered: &Ordered) -> Result<Batch, SourceError> {
        let bodies = ordered.bodies.recv();
        let bodies = bodies
            .map_err(|_| self.state.rpc.unreachable("a fetching thread ended unexpectedly"))??;
        let blocks = link(&self.state, self.place, &ordered.wanted, bodies)?;
        // What was ordered after a batch that breaks off has lost its parent.
        self.is_over = blocks.len() < ordered.wanted.len();
        self.place = blocks.last().map(|block| block.point).or(self.place);
        Ok(Batch { tip: ordered.tip, blocks })
    }
}

fn spawn(run: impl FnOnce() + Send + 'static) -> Option<()> {
    thread::Builder::new().name("blocks ahead".into()).spawn(run).ok().map(drop)
}

fn fetch_all(state: &CoreState, inbox: &Receiver<FetchJob>, block_bytes: &AtomicUsize) {
    for FetchJob { wanted, reply } in inbox {
        let bodies = bodies(state, &wanted);
        if let Ok(bodies) = &bodies {
            let bytes: usize = bodies.iter().flatten().map(|body| body.0.len()).sum();
            block_bytes.store(bytes / bodies.len().max(1), Ordering::Relaxed);
        }
        // Nobody waits any more when the reader has gone elsewhere.
        let _ = reply.send(bodies);
    }
}

/// Orders batch after batch, up to the tip.
fn order_all(
    state: &CoreState,
    place: Option<Point>,
    block_bytes: &AtomicUsize,
    jobs: &Sender<FetchJob>,
    out: &Sender<Result<Ordered, SourceError>>,
) {
    let (mut next, mut size) = (above(place), BatchSize::default());
    loop {
        // Only a hint for the size of batches: an older value costs nothing.
        let seen = block_bytes.load(Ordering::Relaxed);
        if seen > 0 {
            size.learn(seen);
        }
        let asked = state.tip().and_then(|tip| Ok((tip, hashes(state, next, size)?)));
        let (tip, wanted) = match asked {
            Ok((_, wanted)) if wanted.is_empty() => return,
            Ok(asked) => asked,
            Err(error) => {
                let _ = out.send(Err(error));
                return;
            }
        };
        next = next.saturating_add(wanted.len() as u64);
        // This was the tip. What comes after it is the business of the reader, who also sees
        // branches.
        let is_last = wanted.len() < size.blocks();
        let wanted: Arc<[Wanted]> = wanted.into();
        let (reply, bodies) = bounded(1);
        let ordered = Ordered { tip, wanted: wanted.clone(), bodies };
        // Ordered before it is fetched: batches come out in this order, whichever thread is done
        // first.
        let is_wanted =
            out.send(Ok(ordered)).is_ok() && jobs.send(FetchJob { wanted, reply }).is_ok();
        if is_last || !is_wanted {
            return;
        }
    }
}
