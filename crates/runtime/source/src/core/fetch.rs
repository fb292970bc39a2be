//! Some blocks from a place on.
//!
//! Blocks come in batches whose size follows the size of the blocks.

use serde_json::{Value, json};
use unspent_model::{BlockHash, Point};
use unspent_networks::bitcoin_header;

use super::{
    CoreState,
    rpc::{BATCH, Refusal, RpcError},
    shapes::{HexBytes, WireHash, point},
};
use crate::{RawBlock, SourceError};

/// Bytes that a batch should have.
const BATCH_BYTES: usize = 4 << 20;
/// The node has no block at that height.
pub(super) const OUT_OF_RANGE: i64 = -8;

/// A height and the block that the best chain has there.
pub(super) type Wanted = (u64, BlockHash);
/// The node's answers, in the order of the questions.
pub(super) type Bodies = Vec<Result<HexBytes, Refusal>>;

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

    /// Adapts to the mean size of blocks, growing slowly.
    pub(super) fn learn(&mut self, block_bytes: usize) {
        let fitting = BATCH_BYTES / block_bytes.max(1);
        self.0 = fitting.clamp(1, BATCH).min(self.0.saturating_mul(2));
    }

    /// As a count.
    pub(super) fn blocks(self) -> usize {
        self.0
    }
}

/// Fetches the blocks that follow `place`.
pub(super) fn fetch(
    state: &CoreState,
    place: Option<Point>,
    size: BatchSize,
) -> Result<Batch, SourceError> {
    let tip = state.tip()?;
    // Bodies are then asked for by hash: a reorganisation in between can't put a block of another
    // branch in the place of one.
    let wanted = hashes(state, above(place), size)?;
    let blocks = link(state, place, &wanted, bodies(state, &wanted)?)?;
    Ok(Batch { tip, blocks })
}

/// The height above a place.
pub(super) fn above(place: Option<Point>) -> u64 {
    place.map_or(0, |place| place.height.saturating_add(1))
}

/// Asks for blocks; only for the first when all together are too large.
pub(super) fn bodies(state: &CoreState, wanted: &[Wanted]) -> Result<Bodies, SourceError> {
    let question = |(_, hash): &Wanted| json!([state.network.show_hash(&hash.0), 0]);
    let questions: Vec<Value> = wanted.iter().map(question).collect();
    let ask = |questions: &[Value]| state.rpc.batch::<HexBytes>("getblock", questions);
    let answers = match ask(&questions) {
        // One block always fits: an answer may have several times the largest size of one.
        Err(RpcError::TooLarge) => ask(questions.get(..1).unwrap_or_default()),
        answers => answers,
    };
    answers.map_err(|fault| state.rpc.explain("getblock", fault))
}

/// Makes blocks of the answers, as long as each is the child of the one before.
pub(super) fn link(
    state: &CoreState,
    place: Option<Point>,
    wanted: &[Wanted],
    bodies: Bodies,
) -> Result<Vec<RawBlock>, SourceError> {
    let mut blocks: Vec<RawBlock> = Vec::with_capacity(bodies.len());
    for ((height, hash), body) in wanted.iter().zip(bodies) {
        let HexBytes(bytes) = match body {
            Ok(body) => body,
            // What came before it is good; the next look begins with it.
            Err(_) if !blocks.is_empty() => break,
            Err(refusal) => return Err(missing(state, *height, &refusal)),
        };
        let parent = blocks.last().map(|block| block.point).or(place);
        match check(state, *height, *hash, parent, bytes)? {
            Some(block) => blocks.push(block),
            None => break,
        }
    }
    Ok(blocks)
}

/// Heights and hashes of the best chain from `first` on.
pub(super) fn hashes(
    state: &CoreState,
    first: u64,
    size: BatchSize,
) -> Result<Vec<Wanted>, SourceError> {
    let heights = first..first.saturating_add(size.0 as u64);
    let params: Vec<Value> = heights.clone().map(|height| json!([height])).collect();
    let explain = |fault| state.rpc.explain("getblockhash", fault);
    let found = state.rpc.batch::<WireHash>("getblockhash", &params).map_err(explain)?;
    let mut hashes = Vec::with_capacity(found.len());
    for (height, hash) in heights.zip(found) {
        match hash {
            Ok(WireHash(hash)) => hashes.push((height, hash)),
            Err(refusal) if refusal.code == OUT_OF_RANGE => break,
            Err(refusal) => return Err(explain(RpcError::Refused(refusal))),
        }
    }
    Ok(hashes)
}

/// The block, when it is the one asked for; `None` when it isn't the child of `place`.
fn check(
    state: &CoreState,
    height: u64,
    hash: BlockHash,
    place: Option<Point>,
    bytes: Vec<u8>,
) -> Result<Option<RawBlock>, SourceError> {
    let malformed = |reason: String| SourceError::Malformed {
        name: state.rpc.name().to_owned(),
        reason: format!("block {height}: {reason}"),
    };
    let header = bitcoin_header(&bytes).map_err(|error| malformed(error.to_string()))?;
    if header.hash != hash {
        return Err(malformed("its hash is not the one asked for".into()));
    }
    let parent = place.map(|place| place.hash);
    // The first block of a network names zeros. A mismatch is no fault of the node: its chain moved
    // between two answers, and the next look finds where it left ours.
    if header.parent != parent.unwrap_or_default() {
        return Ok(None);
    }
    Ok(Some(RawBlock::new(point(height, hash), parent, bytes)))
}

/// A pruned node says so in its words; other reasons may pass.
fn missing(state: &CoreState, height: u64, refusal: &Refusal) -> SourceError {
    // Core has the same code for pruned blocks and for those not downloaded yet; only words differ.
    if refusal.message.contains("pruned") {
        return SourceError::Missing { name: state.rpc.name().to_owned(), height };
    }
    state.rpc.unreachable(&format!("it doesn't serve block {height}: {}", refusal.message))
}
