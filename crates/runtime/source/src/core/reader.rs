//! The reader's place on a node's best chain.

use std::{
    collections::VecDeque,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use unspent_model::{BlockHash, Network, Point};

use super::{
    CoreState,
    ahead::FetchAhead,
    fetch::{Batch, BatchSize, OUT_OF_RANGE, fetch},
    rpc::{BATCH, RpcError},
    shapes::{HeaderInfo, HeaderTime, WireHash, point},
    waker::BlockWaker,
};
use crate::{RawBlock, Source, SourceError, Step};

/// So many blocks behind are worth a thread that fetches ahead.
const FAR_BEHIND: u64 = 24;
/// Points kept for a node that doesn't know the reader's block, such as one set up anew.
const POINTS_KEPT: usize = 512;
/// Blocks of a branch walked down to where it leaves the best chain.
const LONGEST_BRANCH: usize = 20_000;
/// Looks in one step without getting anywhere; a node whose chain changes that often is broken.
const FRUITLESS_LOOKS: usize = 20;
/// Between such looks: a node in the middle of a reorganisation needs a moment.
const FRUITLESS_PAUSE: Duration = Duration::from_millis(50);
/// The node doesn't know the block.
const UNKNOWN_BLOCK: i64 = -5;

/// A reader of one node.
pub(super) struct CoreSource {
    state: Arc<CoreState>,
    /// `None` is the origin.
    place: Option<Point>,
    tip: Option<Point>,
    /// Points passed, oldest first, ending with the place.
    passed: VecDeque<Point>,
    ready: VecDeque<RawBlock>,
    ahead: Option<FetchAhead>,
}

/// Where the place stands.
enum View {
    AtTip,
    /// So many blocks follow.
    Behind(u64),
    /// It isn't on the best chain; this point is.
    Left(Option<Point>),
}

impl CoreSource {
    pub(super) fn new(state: Arc<CoreState>, tip: Point) -> Self {
        Self {
            state,
            place: None,
            tip: Some(tip),
            passed: VecDeque::new(),
            ready: VecDeque::new(),
            ahead: None,
        }
    }

    /// Stands at `place`, with nothing fetched.
    fn stand(&mut self, place: Option<Point>) {
        self.place = place;
        self.ready.clear();
        self.ahead = None;
        let height = place.map(|place| place.height);
        self.passed.retain(|point| Some(point.height) < height);
        self.passed.extend(place);
    }

    fn forward(&mut self, block: RawBlock) -> Step {
        self.pass(block.point);
        Step::Forward(block)
    }

    fn pass(&mut self, point: Point) {
        self.place = Some(point);
        self.passed.push_back(point);
        if self.passed.len() > POINTS_KEPT {
            self.passed.pop_front();
        }
    }

    /// The next fetched block, waiting for the thread ahead where there is one.
    fn fetched(&mut self) -> Result<Option<RawBlock>, SourceError> {
        while self.ready.is_empty() {
            let Some(ahead) = &mut self.ahead else { return Ok(None) };
            match ahead.next() {
                Some(batch) => self.take(batch?),
                None => self.ahead = None,
            }
        }
        Ok(self.ready.pop_front())
    }

    fn take(&mut self, batch: Batch) {
        self.tip = Some(batch.tip);
        self.ready.extend(batch.blocks);
    }

    fn fetch(&mut self, behind: u64) -> Result<(), SourceError> {
        if behind > FAR_BEHIND {
            self.ahead = FetchAhead::start(self.state.clone(), self.place);
            if self.ahead.is_some() {
                return Ok(());
            }
        }
        let batch = fetch(&self.state, self.place, BatchSize::default().at_most(behind))?;
        self.take(batch);
        Ok(())
    }

    fn look(&mut self) -> Result<View, SourceError> {
        let tip = self.state.tip()?;
        self.tip = Some(tip);
        let Some(place) = self.place else { return Ok(View::Behind(tip.height.saturating_add(1))) };
        if place == tip {
            return Ok(View::AtTip);
        }
        match self.header(&place.hash)? {
            // Core says -1 of a block that it knows and that isn't on its best chain.
            Some(header) if header.confirmations >= 0 => {
                Ok(View::Behind(tip.height.saturating_sub(place.height)))
            }
            Some(header) => Ok(View::Left(self.walk_down(&header)?)),
            None => Ok(View::Left(self.last_passed_on_chain()?)),
        }
    }

    /// What the node knows of a block; `None` when it doesn't.
    fn header(&self, hash: &BlockHash) -> Result<Option<HeaderInfo>, SourceError> {
        let rpc = &self.state.rpc;
        match rpc.ask("getblockheader", json!([self.state.network.show_hash(&hash.0)])) {
            Ok(header) => Ok(Some(header)),
            Err(RpcError::Refused(refusal)) if refusal.code == UNKNOWN_BLOCK => Ok(None),
            Err(fault) => Err(rpc.explain("getblockheader", fault)),
        }
    }

    /// From a block off the best chain down to the first that is on it.
    fn walk_down(&self, from: &HeaderInfo) -> Result<Option<Point>, SourceError> {
        let (mut height, mut below) = (from.height, from.previousblockhash);
        for _ in 0..LONGEST_BRANCH {
            let Some(WireHash(hash)) = below else { return Ok(None) };
            let Some(header) = self.header(&hash)? else { break };
            if header.height.checked_add(1) != Some(height) {
                return Err(self.malformed("heights on a branch aren't in order".into()));
            }
            height = header.height;
            if header.confirmations >= 0 {
                return Ok(Some(point(header.height, hash)));
            }
            below = header.previousblockhash;
        }
        self.last_passed_on_chain()
    }

    fn last_passed_on_chain(&self) -> Result<Option<Point>, SourceError> {
        let newest_first: Vec<Point> = self.passed.iter().rev().copied().collect();
        first_on_chain(&self.state, &newest_first)
    }

    fn step(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let until = Instant::now() + patience;
        let mut fruitless = 0;
        loop {
            if let Some(block) = self.fetched()? {
                return Ok(self.forward(block));
            }
            let waker = self.state.waker();
            // Counted before the look: a block that comes in between then ends the wait at once.
            let heard = waker.as_deref().map(BlockWaker::count);
            match self.look()? {
                View::Left(point) => {
                    self.stand(point);
                    return Ok(Step::Backward(point));
                }
                View::Behind(blocks) => {
                    // A fetch without blocks is no error: the chain moved between the look and the
                    // answers.
                    if fruitless > 0 {
                        thread::sleep(FRUITLESS_PAUSE);
                    }
                    fruitless += 1;
                    if fruitless > FRUITLESS_LOOKS {
                        return Err(self.contradiction());
                    }
                    self.fetch(blocks)?;
                }
                View::AtTip => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(Step::Nothing);
                    }
                    wait(waker.as_deref().zip(heard), left.min(self.state.poll));
                }
            }
        }
    }

    fn malformed(&self, reason: String) -> SourceError {
        SourceError::Malformed { name: self.state.rpc.name().to_owned(), reason }
    }

    fn contradiction(&self) -> SourceError {
        let height = self.place.map_or(0, |place| place.height.saturating_add(1));
        self.malformed(format!("block {height} isn't the child of the block below it"))
    }
}

/// Waits for the waker, or for the time to pass.
fn wait(waker: Option<(&BlockWaker, u64)>, time: Duration) {
    match waker {
        Some((waker, heard)) => waker.wait(heard, time),
        None => thread::sleep(time),
    }
}

/// The first of `points` that the node has on its best chain.
fn first_on_chain(state: &CoreState, points: &[Point]) -> Result<Option<Point>, SourceError> {
    for points in points.chunks(BATCH) {
        let heights: Vec<Value> = points.iter().map(|point| json!([point.height])).collect();
        let found = state.rpc.batch::<WireHash>("getblockhash", &heights);
        let found = found.map_err(|fault| state.rpc.explain("getblockhash", fault))?;
        // A refusal says that the chain doesn't reach that height.
        let on_chain = points
            .iter()
            .zip(found)
            .find(|(point, found)| found.as_ref().is_ok_and(|WireHash(hash)| *hash == point.hash));
        if let Some((point, _)) = on_chain {
            return Ok(Some(*point));
        }
    }
    Ok(None)
}

impl Source for CoreSource {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        // Asked each time: behind the same address may stand another node by now.
        self.tip = Some(self.state.check_chain()?);
        let found = first_on_chain(&self.state, points)?;
        // What the room has counts as passed: a node that lost its blocks is followed back among
        // them.
        self.passed = points.iter().rev().copied().collect();
        self.stand(found);
        Ok(found)
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        self.step(patience)
    }

    fn skip(&mut self, child: Point) -> bool {
        // What has been fetched already is not worth less than what others have.
        if self.ahead.is_some() || !self.ready.is_empty() {
            return false;
        }
        // Not asked of the node: if the chain has left this block, the next look says so as of any
        // other.
        self.pass(child);
        true
    }

    fn tip(&self) -> Option<Point> {
        self.tip
    }

    fn point_at(&mut self, height: u64) -> Result<Option<Point>, SourceError> {
        match self.state.rpc.ask("getblockhash", json!([height])) {
            Ok(WireHash(hash)) => Ok(Some(point(height, hash))),
            Err(RpcError::Refused(refusal)) if refusal.code == OUT_OF_RANGE => Ok(None),
            Err(fault) => Err(self.state.rpc.explain("getblockhash", fault)),
        }
    }

    fn time_at(&mut self, height: u64) -> Result<Option<u64>, SourceError> {
        let Some(Point { hash, .. }) = self.point_at(height)? else { return Ok(None) };
        let name = Network::Bitcoin.show_hash(&hash.0);
        let HeaderTime { time } = self.state.rpc.call("getblockheader", json!([name]))?;
        Ok(Some(time))
    }
}
