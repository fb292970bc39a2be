//! The blocks of a plan as a source: they come in the order of the chain, and then no more.

use std::time::Duration;

use unspent_model::{Family, Network, Point};
use unspent_networks::{DecodeError, bitcoin_header, cardano::head::block_head};
use unspent_source::{RawBlock, Source, SourceError, Step, files::FileBlock};

/// What errors call the files.
pub(crate) const NAME: &str = "the files";

/// Blocks as they are read.
pub(crate) type Blocks = Box<dyn Iterator<Item = anyhow::Result<FileBlock>> + Send>;

/// A plan's blocks.
pub(crate) struct PlannedBlocks {
    network: Network,
    blocks: Blocks,
    /// No block above this height.
    stop_at: Option<u64>,
    /// New blocks that are certainly to come.
    coming: u64,
    /// Height of the last block that the index had before.
    known: Option<u64>,
    place: Option<Point>,
}

impl PlannedBlocks {
    /// `coming` of the blocks are new: above the height `known`.
    pub(crate) fn new(network: Network, blocks: Blocks, coming: u64, known: Option<u64>) -> Self {
        Self { network, blocks, stop_at: None, coming, known, place: None }
    }

    pub(crate) fn up_to(mut self, stop_at: Option<u64>) -> Self {
        self.stop_at = stop_at;
        self
    }

    fn raw(&self, found: FileBlock) -> Result<RawBlock, SourceError> {
        let FileBlock { place, bytes } = found;
        let wrong = |error: DecodeError| malformed(format!("{}: {error}", place.name()));
        let (point, parent) = match self.network.family() {
            Family::Bitcoin => {
                let header = bitcoin_header(&bytes).map_err(wrong)?;
                let height = place.height.unwrap_or_default();
                let point = Point { height, slot: height, hash: header.hash };
                // The first block names a parent of zeros, which no block has.
                (point, (height > 0).then_some(header.parent))
            }
            Family::Cardano => {
                let head = block_head(self.network, &bytes).map_err(wrong)?;
                (head.point, Some(head.parent))
            }
        };
        Ok(RawBlock { place: Some(place), ..RawBlock::new(point, parent, bytes) })
    }
}

fn malformed(reason: String) -> SourceError {
    SourceError::Malformed { name: NAME.into(), reason }
}

impl Source for PlannedBlocks {
    /// The plan has decided where to start: the place can't be changed.
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        Ok(self.place.filter(|place| points.contains(place)))
    }

    fn next(&mut self, _: Duration) -> Result<Step, SourceError> {
        let Some(found) = self.blocks.next() else { return Ok(Step::Nothing) };
        let raw = self.raw(found.map_err(|error| malformed(format!("{error:#}")))?)?;
        let height = raw.point.height;
        if self.stop_at.is_some_and(|stop| height > stop) {
            // Blocks come in the order of the chain: all behind this one lie above the limit too.
            self.blocks = Box::new(std::iter::empty());
            return Ok(Step::Nothing);
        }
        if self.known.is_none_or(|known| height > known) {
            // Only for reading ahead: the files may hold more blocks than the plan counted.
            self.coming = self.coming.saturating_sub(1);
        }
        self.place = Some(raw.point);
        Ok(Step::Forward(raw))
    }

    fn tip(&self) -> Option<Point> {
        None
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.coming)
    }
}
