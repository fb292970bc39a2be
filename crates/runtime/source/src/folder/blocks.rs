//! Bitcoin's block files: the branch with the most work, as the files grow.
//!
//! What is in the files is shared by all readers and looked at again at most as often as they poll.
//! A reader compares the branch it stands on with the best one each time that changes.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
    thread,
    time::{Duration, Instant},
};

use unspent_model::{BlockHash, Network, Point};
use unspent_networks::{bitcoin_header, decode_block, genesis_hash};

use super::Files;
use crate::{
    RawBlock, Source, SourceError, Step,
    files::{catalogue::Catalogue, first_block},
};

/// The best branch on some base.
pub(super) struct Branch {
    /// The block below the first; zeros when the first is the network's first.
    base: BlockHash,
    blocks: Vec<BlockHash>,
}

/// What is known of the files.
pub(super) struct Blocks {
    catalogue: Catalogue,
    branches: Vec<Arc<Branch>>,
    looked: Option<Instant>,
}

impl Blocks {
    pub(super) fn new(network: Network) -> Self {
        Self { catalogue: Catalogue::new(network), branches: Vec::new(), looked: None }
    }

    fn find_branches(&mut self, network: Network) {
        let first = genesis_hash(network).unwrap_or_default();
        let tree = &self.catalogue.tree;
        let found = tree.best_branches().into_iter().map(|branch| {
            let hashes = branch.blocks.iter().filter_map(|id| tree.hash(*id));
            // Files that leave out the first block, which everybody knows.
            let (base, added) = match branch.base == first {
                true => (BlockHash::default(), Some(first)),
                false => (branch.base, None),
            };
            Arc::new(Branch { base, blocks: added.into_iter().chain(hashes).collect() })
        });
        self.branches = found.collect();
        if self.branches.is_empty() {
            let blocks = vec![first];
            self.branches.push(Arc::new(Branch { base: BlockHash::default(), blocks }));
        }
    }
}

impl Files {
    /// The branches, after another look at the files unless the last was a moment ago.
    fn branches(&self) -> Result<Vec<Arc<Branch>>, SourceError> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if blocks.looked.is_some_and(|looked| looked.elapsed() < self.poll) {
            return Ok(blocks.branches.clone());
        }
        // Under the lock: rooms that poll at once would all look through the same files.
        let files = self.list()?;
        let is_packed = files.iter().any(|file| file.is_packed);
        let room = if is_packed { self.workroom.open() } else { Ok(PathBuf::new()) };
        let room = room.map_err(|error| self.explain(&error))?;
        let looked = blocks.catalogue.refresh(&files, &room);
        let is_new = looked.map_err(|error| self.explain(&error))?;
        if is_new || blocks.looked.is_none() {
            blocks.find_branches(self.network);
            self.check_first(&blocks.branches)?;
        }
        blocks.looked = Some(Instant::now());
        Ok(blocks.branches.clone())
    }

    fn check_first(&self, branches: &[Arc<Branch>]) -> Result<(), SourceError> {
        let first = whole(branches).and_then(|branch| branch.blocks.first().copied());
        if first.is_none() || first == genesis_hash(self.network) {
            return Ok(());
        }
        let (name, wanted) = (self.name.clone(), self.network);
        Err(SourceError::WrongNetwork { name, found: "another first block".into(), wanted })
    }

    /// The longest branch on an unknown base, with the height of its first block as the first
    /// coinbase that names one tells.
    fn part(&self, branches: &[Arc<Branch>]) -> Result<Option<(Arc<Branch>, u64)>, SourceError> {
        let Some(branch) = branches.iter().max_by_key(|branch| branch.blocks.len()) else {
            return Ok(None);
        };
        if !self.is_part {
            return Ok(None);
        }
        for (above, hash) in (0_u64..).zip(&branch.blocks) {
            let bytes = self.read(hash, above)?;
            // Since BIP 34 a coinbase names its height; blocks from before it don't, so it is
            // looked for.
            let block = decode_block(self.network, &bytes, None);
            let named = block.ok().map(|block| block.header.point.height);
            if let Some(start) = named.and_then(|height| height.checked_sub(above)) {
                return Ok(Some((branch.clone(), start)));
            }
        }
        let unknown =
            "the height of these blocks is unknown: none states it, and none is the first";
        Err(self.malformed(unknown))
    }

    /// The time in a block's header, which is known without reading the block.
    fn time_of(&self, point: &Point) -> Option<u64> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = blocks.catalogue.time(&point.hash);
        known.or_else(|| {
            let first = first_block(self.network).filter(|_| point.height == 0)?;
            bitcoin_header(&first.bytes).ok().map(|header| header.time)
        })
    }

    fn read(&self, hash: &BlockHash, height: u64) -> Result<Vec<u8>, SourceError> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_absent = blocks.catalogue.time(hash).is_none();
        if let Some(first) = first_block(self.network).filter(|_| is_absent && height == 0) {
            return Ok(first.bytes);
        }
        let read = blocks.catalogue.read(hash, Some(height));
        read.map(|block| block.bytes).map_err(|error| self.lost(height, &error))
    }
}

/// A reader of Bitcoin's block files.
pub(super) struct BlocksSource {
    files: Arc<Files>,
    /// `None` is the origin.
    place: Option<Point>,
    /// The branch that the place is on, and the height of its first block.
    branch: Arc<Branch>,
    start: u64,
}

impl BlocksSource {
    pub(super) fn open(files: Arc<Files>) -> Result<Self, SourceError> {
        let branches = files.branches()?;
        let branch = whole(&branches).unwrap_or_else(nothing);
        Ok(Self { files, place: None, branch, start: 0 })
    }

    fn point(&self, branch: &Branch, at: usize) -> Option<Point> {
        let hash = *branch.blocks.get(at)?;
        let height = self.start.saturating_add(at as u64);
        if self.files.stop_at.is_some_and(|stop| height > stop) {
            return None;
        }
        Some(Point { height, slot: height, hash })
    }

    /// How many blocks of the branch are below or at the place.
    fn passed(&self) -> usize {
        let passed = self.place.map_or(0, |place| (place.height + 1).saturating_sub(self.start));
        usize::try_from(passed).unwrap_or(usize::MAX)
    }

    /// Goes over to the best branch; where the place isn't on it, says which point is.
    fn update(&mut self) -> Result<Option<Option<Point>>, SourceError> {
        let branches = self.files.branches()?;
        let mine = branches.iter().find(|branch| branch.base == self.branch.base);
        // The files below have come: the same blocks, now part of a longer branch.
        let joined = || whole(&branches).filter(|_| self.start > 0);
        let Some(best) = mine.cloned().or_else(joined) else {
            return Err(self.files.missing(self.start));
        };
        if Arc::ptr_eq(&best, &self.branch) {
            return Ok(None);
        }
        if best.base != self.branch.base {
            let points: Vec<Point> = self.place.into_iter().collect();
            return self.intersect(&points).map(|found| (found != self.place).then_some(found));
        }
        let old = std::mem::replace(&mut self.branch, best);
        // What differs above the place was never handed out, so the reader need not go back for it.
        let passed = self.passed().min(old.blocks.len());
        let both = old.blocks.iter().zip(&self.branch.blocks).take(passed);
        let common = both.take_while(|(old, new)| old == new).count();
        if common == passed {
            return Ok(None);
        }
        let point = match common.checked_sub(1) {
            Some(last) => self.point(&self.branch, last),
            None => self.base_point(),
        };
        self.place = point;
        Ok(Some(point))
    }

    /// The point below the branch; `None` is the origin.
    fn base_point(&self) -> Option<Point> {
        let height = self.start.checked_sub(1)?;
        Some(Point { height, slot: height, hash: self.branch.base })
    }

    /// The next block; `None` at the end of the branch.
    fn forward(&mut self) -> Result<Option<Step>, SourceError> {
        let at = self.passed();
        let Some(point) = self.point(&self.branch, at) else { return Ok(None) };
        let bytes = self.files.read(&point.hash, point.height)?;
        if bitcoin_header(&bytes).map_or(true, |header| header.hash != point.hash) {
            let reason = format!("block {} is no longer where it was", point.height);
            return Err(self.files.malformed(reason));
        }
        let parent = at.checked_sub(1).and_then(|below| self.branch.blocks.get(below).copied());
        let parent = parent.or_else(|| self.base_point().map(|base| base.hash));
        self.place = Some(point);
        Ok(Some(Step::Forward(RawBlock::new(point, parent, bytes))))
    }
}

/// Where not even the first block is known.
fn nothing() -> Arc<Branch> {
    Arc::new(Branch { base: BlockHash::default(), blocks: Vec::new() })
}

/// The branch that starts with the network's first block.
fn whole(branches: &[Arc<Branch>]) -> Option<Arc<Branch>> {
    branches.iter().find(|branch| branch.base == BlockHash::default()).cloned()
}

/// The first of `points` on a branch that starts at the network's first block.
fn on_whole(branch: &Branch, points: &[Point]) -> Option<Point> {
    let is_on = |point: &&Point| {
        let at = usize::try_from(point.height).ok();
        at.and_then(|at| branch.blocks.get(at)) == Some(&point.hash)
    };
    points.iter().find(is_on).copied()
}

/// The first of `points` on or just below a branch whose base only the reader knows, with the
/// height of the branch's first block.
fn on_loose(branch: &Branch, points: &[Point]) -> Option<(Point, u64)> {
    points.iter().find_map(|point| {
        if point.hash == branch.base {
            return Some((*point, point.height.checked_add(1)?));
        }
        let at = branch.blocks.iter().position(|hash| *hash == point.hash)?;
        Some((*point, point.height.checked_sub(at as u64)?))
    })
}

impl Source for BlocksSource {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        let branches = self.files.branches()?;
        let known = whole(&branches);
        let on_known = known.as_deref().and_then(|branch| on_whole(branch, points));
        let loose = || {
            let others = branches.iter().filter(|branch| branch.base != BlockHash::default());
            others.filter_map(|branch| on_loose(branch, points).map(|at| (branch, at))).next()
        };
        (self.branch, self.start, self.place) = match (known, on_known) {
            (Some(branch), Some(point)) => (branch, 0, Some(point)),
            (known, _) => match (loose(), known) {
                (Some((branch, (point, start))), _) => (branch.clone(), start, Some(point)),
                (None, Some(branch)) => (branch, 0, None),
                (None, None) => match self.files.part(&branches)? {
                    Some((branch, start)) => (branch, start, None),
                    // The first step tells that the first block is missing.
                    None => (nothing(), 0, None),
                },
            },
        };
        Ok(self.place)
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let until = Instant::now() + patience;
        loop {
            if let Some(point) = self.update()? {
                return Ok(Step::Backward(point));
            }
            if let Some(step) = self.forward()? {
                return Ok(step);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Step::Nothing);
            }
            thread::sleep(left.min(self.files.poll));
        }
    }

    fn skip(&mut self, child: Point) -> bool {
        let is_next = self.point(&self.branch, self.passed()) == Some(child);
        if is_next {
            self.place = Some(child);
        }
        is_next
    }

    fn tip(&self) -> Option<Point> {
        let last = self.branch.blocks.len().checked_sub(1)?;
        let stop = self.files.stop_at.unwrap_or(u64::MAX).checked_sub(self.start)?;
        self.point(&self.branch, last.min(usize::try_from(stop).unwrap_or(usize::MAX)))
    }

    fn point_at(&mut self, height: u64) -> Result<Option<Point>, SourceError> {
        let at = height.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        Ok(at.and_then(|at| self.point(&self.branch, at)))
    }

    fn time_at(&mut self, height: u64) -> Result<Option<u64>, SourceError> {
        let Some(point) = self.point_at(height)? else { return Ok(None) };
        Ok(self.files.time_of(&point))
    }
}
