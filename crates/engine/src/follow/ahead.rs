//! Reading and decoding ahead, on a second thread, while many blocks are to come.
//!
//! Invariant: what is in flight is bounded in blocks and bytes. When the reading ends because it
//! has come far enough, the source stands exactly at the last block handed over.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use unspent_model::Network;

use super::{Follower, Trouble, cache::SharedBlock};
use crate::{
    pulse::Pulse,
    source::{RawBlock, Source, SourceError, Step},
};

/// Blocks handed over together at most.
const BATCH_BLOCKS: usize = 64;
/// A batch is full with this many raw bytes. Made ready, they take up to about ten times as much.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that wait to be applied at most.
const BATCHES_AHEAD: usize = 6;

/// Why the reading ended.
pub(super) enum End {
    /// It came far enough, or all should end.
    Reached,
    /// The source said something else than forward.
    Step(Step),
    /// The source failed, or gave a block that can't be read.
    Failed(SourceError),
    /// Nobody takes the blocks any more.
    Dropped,
}

pub(super) struct Ahead<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) network: Network,
    pub(super) name: String,
    /// No block above this height.
    pub(super) until: u64,
    pub(super) poll: Duration,
    pub(super) pulse: &'a Pulse,
}

impl Ahead<'_> {
    fn read<F: Follower>(&mut self, to: &Sender<Vec<F::Ready>>) -> End {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let end = loop {
            if self.pulse.is_stopping() {
                break End::Reached;
            }
            let raw = match self.source.next(self.poll) {
                Ok(Step::Forward(raw)) => raw,
                Ok(step) => break End::Step(step),
                Err(error) => break End::Failed(error),
            };
            let height = raw.point.height;
            bytes += raw.bytes.len();
            match self.ready::<F>(raw) {
                Ok(ready) => batch.push(ready),
                Err(error) => break End::Failed(error),
            }
            if height >= self.until {
                break End::Reached;
            }
            if batch.len() >= BATCH_BLOCKS || bytes >= BATCH_BYTES {
                bytes = 0;
                if to.send(std::mem::take(&mut batch)).is_err() {
                    return End::Dropped;
                }
            }
        };
        if !batch.is_empty() && to.send(batch).is_err() {
            return End::Dropped;
        }
        end
    }

    fn ready<F: Follower>(&self, raw: RawBlock) -> Result<F::Ready, SourceError> {
        ready::<F>(self.network, &self.name, &SharedBlock::new(raw))
    }
}

/// Makes a block ready; the source is to blame when that fails.
pub(super) fn ready<F: Follower>(
    network: Network,
    name: &str,
    block: &SharedBlock,
) -> Result<F::Ready, SourceError> {
    F::ready(network, block).map_err(|reason| SourceError::Malformed {
        name: name.to_owned(),
        reason: format!(
            "block {} at height {}: {reason}",
            shown(network, block),
            block.point.height
        ),
    })
}

fn shown(network: Network, block: &SharedBlock) -> String {
    network.show_hash(&block.point.hash.0)
}

/// Batches as they come.
struct Batches<T>(Receiver<Vec<T>>);

impl<T> Iterator for Batches<T> {
    type Item = Vec<T>;

    #[allow(clippy::cast_precision_loss)]
    fn next(&mut self) -> Option<Vec<T>> {
        metrics::gauge!("unspent_engine_batches_waiting").set(self.0.len() as f64);
        self.0.recv().ok()
    }
}

/// Feeds the room from a thread that reads ahead. The outcomes of both are told apart.
pub(super) fn feed<F: Follower>(
    follower: &mut F,
    mut ahead: Ahead<'_>,
    coming: u64,
    moved: &mut dyn FnMut(Option<unspent_model::Point>, u64),
) -> (Result<(), Trouble>, End) {
    let (to, from) = bounded(BATCHES_AHEAD);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || ahead.read::<F>(&to));
        let mut batches = Batches(from);
        let applied = follower.apply_many(&mut batches, coming, moved);
        // Without a taker the reader ends at its next batch.
        drop(batches);
        let end = reading.join().unwrap_or(End::Dropped);
        (applied, end)
    })
}
