//! The simplest follower: it keeps every block it is given and forgets what is rolled back.

use std::time::Duration;

use unspent_model::Point;
use unspent_source::{RawBlock, Source, SourceError, Step};

/// A chain as its source told it.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) blocks: Vec<RawBlock>,
    /// Depth of each step back.
    pub(crate) rollbacks: Vec<usize>,
}

impl Chain {
    pub(crate) fn tip(&self) -> Option<Point> {
        self.blocks.last().map(|block| block.point)
    }

    /// Points to intersect with, newest first.
    pub(crate) fn points(&self) -> Vec<Point> {
        self.blocks.iter().rev().take(50).map(|block| block.point).collect()
    }

    /// Does one step; `false` when there was nothing.
    pub(crate) fn step(
        &mut self,
        source: &mut dyn Source,
        patience: Duration,
    ) -> Result<bool, SourceError> {
        match source.next(patience)? {
            Step::Nothing => return Ok(false),
            Step::Forward(block) => {
                assert_eq!(block.parent, self.tip().map(|tip| tip.hash), "{:?}", block.point);
                self.blocks.push(block);
            }
            Step::Backward(point) => self.cut(point),
        }
        Ok(true)
    }

    /// Goes back to a point that must be on the chain.
    pub(crate) fn cut(&mut self, point: Option<Point>) {
        let kept = point.map_or(0, |point| {
            let at = self.blocks.iter().rposition(|block| block.point == point);
            at.expect("a rollback goes to a point that was given out") + 1
        });
        self.rollbacks.push(self.blocks.len() - kept);
        self.blocks.truncate(kept);
    }

    /// Steps until there is nothing for a moment.
    pub(crate) fn catch_up(&mut self, source: &mut dyn Source) {
        while self.step(source, Duration::ZERO).unwrap() {}
    }
}
