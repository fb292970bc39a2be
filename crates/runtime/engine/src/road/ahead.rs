//! Reading and decoding ahead of the thread that applies.
//!
//! One thread reads and gathers blocks into batches, some threads make them ready, and the batches
//! come out in the order in which they were read. Invariant: what is in flight is bounded, in
//! blocks and bytes. When the reading ends because it has come far enough, the source stands
//! exactly at the last block handed over.

use std::{num::NonZero, sync::Arc, thread, time::Duration};

use crossbeam_channel::{Receiver, Sender, bounded};
use unspent_model::{Network, Point};
use unspent_source::{Source, SourceError, Step};

use super::{Follower, Trouble, Watch, block::SharedBlock, cache::BlockCache};

/// Blocks handed over together at most.
const BATCH_BLOCKS: usize = 256;
/// A batch is full with this many raw bytes. Made ready, they take up to about ten times as much.
const BATCH_BYTES: usize = 1 << 20;
/// Batches in flight at most.
const BATCHES_AHEAD: usize = 6;
/// More threads than this only wait for the one that applies.
const MOST_DECODERS: usize = 8;

/// The next step, with its block in the form that rooms share.
pub(super) enum NextStep {
    /// The next block.
    Block(Arc<SharedBlock>),
    /// The chain has left the reader's place for this one.
    Backward(Option<Point>),
    /// The reader stands at the tip.
    Nothing,
}

/// Takes the child of the place from another room, or asks the source.
pub(super) fn next(
    source: &mut dyn Source,
    cache: Option<&BlockCache>,
    place: &mut Option<Option<Point>>,
    patience: Duration,
) -> Result<NextStep, SourceError> {
    if let (Some(cache), Some(at)) = (cache, *place)
        && let Some(block) = cache.child_of(at.map(|at| at.hash))
        // Only with the reader's consent: its next block would else not be the child of ours.
        && source.skip(block.point)
    {
        cache.taken(block.point);
        *place = Some(Some(block.point));
        return Ok(NextStep::Block(block));
    }
    match source.next(patience)? {
        Step::Forward(raw) => {
            *place = Some(Some(raw.point));
            Ok(NextStep::Block(match cache {
                Some(cache) => cache.share(raw),
                None => Arc::new(SharedBlock::new(raw)),
            }))
        }
        Step::Backward(to) => {
            *place = Some(to);
            // The other rooms would take these blocks from the cache just to undo them.
            if let Some(cache) = cache {
                cache.leave(to);
            }
            Ok(NextStep::Backward(to))
        }
        Step::Nothing => Ok(NextStep::Nothing),
    }
}

/// Makes a block ready; the source is to blame when that fails.
///
/// # Errors
///
/// [`SourceError::Malformed`].
pub fn prepare<F: Follower>(
    network: Network,
    name: &str,
    block: &Arc<SharedBlock>,
) -> Result<F::Ready, SourceError> {
    F::prepare(network, block).map_err(|reason| SourceError::Malformed {
        name: name.to_owned(),
        reason: format!("{}: {reason}", block.name(network)),
    })
}

/// Why the reading ended.
pub(super) enum Stopped {
    /// It came far enough, or all should end.
    FarEnough,
    /// The source said something else than forward.
    Step(NextStep),
    /// The source failed, or gave a block that can't be read.
    Failed(SourceError),
    /// Nobody takes the blocks any more.
    Dropped,
}

/// What is read, and how far.
pub(super) struct Reading<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) cache: Option<&'a BlockCache>,
    pub(super) place: &'a mut Option<Option<Point>>,
    pub(super) network: Network,
    pub(super) name: &'a str,
    /// No more blocks than this.
    pub(super) most: u64,
    pub(super) patience: Duration,
    pub(super) watch: &'a (dyn Watch + Sync),
}

/// Blocks made ready, or the first that could not be.
type ReadyBatch<T> = Vec<Result<T, SourceError>>;

/// A batch to be made ready, and where it goes then.
struct PrepareJob<T> {
    blocks: Vec<Arc<SharedBlock>>,
    reply: Sender<ReadyBatch<T>>,
}

/// Where batches go: to the threads that make them ready, their answers to the one that applies.
struct BatchSender<T> {
    jobs: Sender<PrepareJob<T>>,
    answers: Sender<Receiver<ReadyBatch<T>>>,
}

impl<T> BatchSender<T> {
    /// `false` when nobody wants it any more.
    fn send(&self, blocks: Vec<Arc<SharedBlock>>) -> bool {
        if blocks.is_empty() {
            return true;
        }
        let (reply, answer) = bounded(1);
        // The places for the answers queue as the batches were read; decoders end in any order.
        self.jobs.send(PrepareJob { blocks, reply }).is_ok() && self.answers.send(answer).is_ok()
    }
}

impl Reading<'_> {
    fn read<T>(&mut self, to: &BatchSender<T>) -> Stopped {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut left = self.most;
        let stopped = loop {
            if left == 0 || self.watch.is_stopping() {
                break Stopped::FarEnough;
            }
            match next(self.source, self.cache, self.place, self.patience) {
                Ok(NextStep::Block(block)) => {
                    bytes += block.bytes.len();
                    batch.push(block);
                    left -= 1;
                }
                Ok(step) => break Stopped::Step(step),
                Err(error) => break Stopped::Failed(error),
            }
            if batch.len() >= BATCH_BLOCKS || bytes >= BATCH_BYTES {
                bytes = 0;
                if !to.send(std::mem::take(&mut batch)) {
                    return Stopped::Dropped;
                }
            }
        };
        // What was read before the end is good: it is applied before the end is told.
        if to.send(batch) { stopped } else { Stopped::Dropped }
    }
}

/// Batches as they come, up to the first block that can't be read.
struct Batches<T> {
    answers: Receiver<Receiver<ReadyBatch<T>>>,
    failed: Option<SourceError>,
}

impl<T> Iterator for Batches<T> {
    type Item = Vec<T>;

    #[allow(clippy::cast_precision_loss)]
    fn next(&mut self) -> Option<Vec<T>> {
        if self.failed.is_some() {
            return None;
        }
        metrics::gauge!("unspent_engine_batches_waiting").set(self.answers.len() as f64);
        let batch = self.answers.recv().ok()?.recv().ok()?;
        let mut good = Vec::with_capacity(batch.len());
        for block in batch {
            match block {
                Ok(block) => good.push(block),
                Err(error) => {
                    // Those before it are handed out, so that the next attempt begins at the bad
                    // block itself.
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Some(good)
    }
}

fn prepare_all<F: Follower>(
    network: Network,
    name: &str,
    cache: Option<&BlockCache>,
    jobs: &Receiver<PrepareJob<F::Ready>>,
) {
    for PrepareJob { blocks, reply } in jobs {
        let ready = blocks.iter().map(|block| {
            prepare::<F>(network, name, block).inspect_err(|_| {
                cache.inspect(|cache| cache.forget(block.point));
            })
        });
        // Nobody waits any more when the trip has ended early.
        let _ = reply.send(ready.collect());
    }
}

/// Feeds the room from threads that read ahead. The outcomes of both are told apart.
pub(super) fn feed<F: Follower>(
    room: &mut F,
    mut reading: Reading<'_>,
    coming: u64,
) -> (Result<(), Trouble>, Stopped) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let (network, name, cache) = (reading.network, reading.name, reading.cache);
    let watch = reading.watch;
    let (jobs, inbox) = bounded(BATCHES_AHEAD);
    let (answers, batches) = bounded(BATCHES_AHEAD);
    thread::scope(|scope| {
        // One core is for the thread that applies: all others wait for it in the end.
        for _ in 0..cores.saturating_sub(1).clamp(1, MOST_DECODERS) {
            let inbox = inbox.clone();
            scope.spawn(move || prepare_all::<F>(network, name, cache, &inbox));
        }
        // A receiver left here would let the reader wait for ever once all decoders have died.
        drop(inbox);
        let sender = BatchSender { jobs, answers };
        let reader = scope.spawn(move || reading.read(&sender));
        let mut batches = Batches { answers: batches, failed: None };
        let mut moved = |tip, blocks| watch.moved(tip, blocks);
        let applied = room.apply_many(&mut batches, coming, &mut moved);
        let failed = batches.failed.take();
        // Without a taker the reader ends at its next batch.
        drop(batches);
        let stopped = reader.join().unwrap_or(Stopped::Dropped);
        (applied, failed.map_or(stopped, Stopped::Failed))
    })
}
