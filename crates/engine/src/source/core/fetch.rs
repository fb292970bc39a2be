//! Some blocks from a place on, and a thread that fetches ahead of the reader.
//!
//! Blocks come in batches whose size follows the size of the blocks. Invariant: at most
//! [`BATCHES_AHEAD`] batches wait, and each answer of the node is smaller than the largest allowed,
//! so memory is bounded.

use std::{sync::Arc, thread};

use crossbeam_channel::{Receiver, bounded};
use serde_json::{Value, json};
use unspent_model::{BlockHash, Point};
use unspent_networks::bitcoin_header;

use super::{
    Shared,
    rpc::{BATCH, Fault, Refusal},
    shapes::{HexBytes, WireHash, point},
};
use crate::source::{RawBlock, SourceError};

/// Batches that wait for the reader.
const BATCHES_AHEAD: usize = 3;
/// Bytes that a batch should have.
const BATCH_BYTES: usize = 4 << 20;
/// The node has no block at that height.
pub(super) const OUT_OF_RANGE: i64 = -8;

/// What one look at the node brought.
pub(super) struct Batch {
    /// The node's tip.
    pub(super) tip: Point,
    /// The blocks after the place, each the child of the one before; none when there are none, or
    /// when the chain has left the place.
    pub(super) blocks: Vec<RawBlock>,
}

/// How many blocks to ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize(usize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(8)
    }
}

impl BatchSize {
    /// At most this many.
    pub(super) fn at_most(self, blocks: u64) -> Self {
        Self(self.0.min(usize::try_from(blocks).unwrap_or(usize::MAX)).max(1))
    }

    /// Adapts to the size of the blocks seen last, growing slowly.
    fn learn(&mut self, blocks: &[RawBlock]) {
        let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
        let fitting = BATCH_BYTES * blocks.len().max(1) / bytes.max(1);
        self.0 = fitting.clamp(1, BATCH).min(self.0.saturating_mul(2));
    }
}

/// Fetches the blocks that follow `place`.
pub(super) fn fetch(
    shared: &Shared,
    place: Option<Point>,
    size: &mut BatchSize,
) -> Result<Batch, SourceError> {
    let tip = shared.tip()?;
    let first = place.map_or(0, |place| place.height.saturating_add(1));
    let wanted = hashes(shared, first, *size)?;
    let bodies = loop {
        let wanted = wanted.get(..size.0.min(wanted.len())).unwrap_or_default();
        let params: Vec<Value> =
            wanted.iter().map(|(_, hash)| json!([shared.network.show_hash(&hash.0), 0])).collect();
        match shared.rpc.batch::<HexBytes>("getblock", &params) {
            Err(Fault::TooLarge) if size.0 > 1 => size.0 = 1,
            Err(fault) => return Err(shared.rpc.explain("getblock", fault)),
            Ok(bodies) => break bodies,
        }
    };
    let mut blocks: Vec<RawBlock> = Vec::with_capacity(bodies.len());
    for ((height, hash), body) in wanted.into_iter().zip(bodies) {
        let HexBytes(bytes) = match body {
            Ok(body) => body,
            // What came before it is good; the next look begins with it.
            Err(_) if !blocks.is_empty() => break,
            Err(refusal) => return Err(missing(shared, height, refusal)),
        };
        let parent = blocks.last().map(|block| block.point).or(place);
        match check(shared, height, hash, parent, bytes)? {
            Some(block) => blocks.push(block),
            None => break,
        }
    }
    size.learn(&blocks);
    Ok(Batch { tip, blocks })
}

/// Heights and hashes of the best chain from `first` on.
fn hashes(
    shared: &Shared,
    first: u64,
    size: BatchSize,
) -> Result<Vec<(u64, BlockHash)>, SourceError> {
    let heights = first..first.saturating_add(size.0 as u64);
    let params: Vec<Value> = heights.clone().map(|height| json!([height])).collect();
    let explain = |fault| shared.rpc.explain("getblockhash", fault);
    let found = shared.rpc.batch::<WireHash>("getblockhash", &params).map_err(explain)?;
    let mut hashes = Vec::with_capacity(found.len());
    for (height, hash) in heights.zip(found) {
        match hash {
            Ok(WireHash(hash)) => hashes.push((height, hash)),
            Err(refusal) if refusal.code == OUT_OF_RANGE => break,
            Err(refusal) => return Err(explain(Fault::Refused(refusal))),
        }
    }
    Ok(hashes)
}

/// The block, when it is the one asked for; `None` when it isn't the child of `place`.
fn check(
    shared: &Shared,
    height: u64,
    hash: BlockHash,
    place: Option<Point>,
    bytes: Vec<u8>,
) -> Result<Option<RawBlock>, SourceError> {
    let malformed = |reason: String| SourceError::Malformed {
        name: shared.rpc.name().to_owned(),
        reason: format!("block {height}: {reason}"),
    };
    let header = bitcoin_header(&bytes).map_err(|error| malformed(error.to_string()))?;
    if header.hash != hash {
        return Err(malformed("it has not the hash that was asked for".into()));
    }
    let parent = place.map(|place| place.hash);
    if header.parent != parent.unwrap_or_default() {
        return Ok(None);
    }
    Ok(Some(RawBlock { point: point(height, hash), parent, bytes: bytes.into() }))
}

/// A pruned node says so in its words; other reasons may pass.
fn missing(shared: &Shared, height: u64, refusal: Refusal) -> SourceError {
    if refusal.message.contains("pruned") {
        return SourceError::Missing { name: shared.rpc.name().to_owned(), height };
    }
    shared.rpc.unreachable(&format!("it doesn't give block {height}: {}", refusal.message))
}

/// Blocks on their way to a reader that is far behind. Dropping it ends the thread after the batch
/// under way.
pub(super) struct Ahead {
    batches: Receiver<Result<Batch, SourceError>>,
}

impl Ahead {
    /// Starts fetching what follows `place`; `None` when there is no thread to be had.
    pub(super) fn start(shared: Arc<Shared>, place: Option<Point>) -> Option<Self> {
        let (out, batches) = bounded(BATCHES_AHEAD);
        let fetch_all = move || {
            let (mut place, mut size) = (place, BatchSize::default());
            loop {
                let batch = fetch(&shared, place, &mut size);
                let last = batch.as_ref().ok().and_then(|batch| batch.blocks.last());
                let goes_on = last.is_some();
                place = last.map(|block| block.point);
                if out.send(batch).is_err() || !goes_on {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("blocks ahead".into()).spawn(fetch_all);
        thread.ok().map(|_| Self { batches })
    }

    /// The next batch; `None` when there is nothing more ahead.
    pub(super) fn next(&self) -> Option<Result<Batch, SourceError>> {
        self.batches.recv().ok()
    }
}
