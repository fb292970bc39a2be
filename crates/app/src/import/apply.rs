//! The loop that applies: in bulk while far from the end, block by block near it.

use anyhow::Context;
use unspent_chain::{Applied, ApplyError, ChainIndex, Counts, PreparedBlock};

use super::{
    pipeline::{Blocks, ReadyBlock},
    progress::Progress,
};
use crate::interrupt::Interrupt;

/// So few blocks aren't worth a batch.
const FEW_BLOCKS: u64 = 100;
/// The last blocks of a bulk import, applied one by one.
const LAST_BLOCKS: u64 = 6;

/// How far to go.
pub(crate) struct Bounds {
    /// New blocks that are certainly coming.
    pub(crate) coming: u64,
    /// No block above this height.
    pub(crate) stop_at: Option<u64>,
    /// Batches are allowed.
    pub(crate) bulk: bool,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    /// Blocks applied.
    pub(crate) blocks: u64,
    /// Blocks that had been applied before.
    pub(crate) already: u64,
    /// Transactions of the applied blocks.
    pub(crate) txs: u64,
    /// What they did.
    pub(crate) counts: Counts,
    /// Somebody asked to stop.
    pub(crate) interrupted: bool,
}

impl Done {
    fn count(&mut self, applied: Applied, txs: usize) {
        match applied {
            Applied::New(counts) => {
                self.blocks += 1;
                self.txs += txs as u64;
                self.counts.add(&counts);
            }
            Applied::Already => self.already += 1,
        }
    }
}

/// Applies all blocks. On an error, what came before it is on disk.
pub(crate) fn all(
    index: &mut ChainIndex,
    blocks: &mut Blocks,
    bounds: &Bounds,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<Done> {
    let mut run = Run { blocks, bounds, progress, interrupt, done: Done::default(), over: false };
    if bounds.bulk && bounds.coming > FEW_BLOCKS {
        let mut bulk = index.bulk(bounds.coming);
        let far = bounds.coming - LAST_BLOCKS;
        let outcome = run.feed(|block| bulk.apply(block), |done| done.blocks < far);
        // What is in is good, whatever came after it.
        let finished = bulk.finish();
        outcome?;
        finished?;
    }
    run.feed(|block| index.apply(block), |_| true)?;
    Ok(run.done)
}

struct Run<'a> {
    blocks: &'a mut Blocks,
    bounds: &'a Bounds,
    progress: &'a mut Progress,
    interrupt: &'a Interrupt,
    done: Done,
    /// Nothing more is to be applied.
    over: bool,
}

impl Run<'_> {
    /// Applies blocks until `goes_on` says no, the source or the limit is reached, or a signal
    /// comes.
    fn feed(
        &mut self,
        mut apply: impl FnMut(PreparedBlock) -> Result<Applied, ApplyError>,
        goes_on: impl Fn(&Done) -> bool,
    ) -> anyhow::Result<()> {
        while !self.over && goes_on(&self.done) {
            if self.interrupt.asked() {
                self.done.interrupted = true;
                self.over = true;
                break;
            }
            let Some(ready) = self.blocks.next() else {
                self.over = true;
                break;
            };
            let ReadyBlock { place, block } = ready?;
            let height = block.header.point.height;
            if self.bounds.stop_at.is_some_and(|stop| height > stop) {
                self.over = true;
                break;
            }
            let txs = block.txs.len();
            let applied = apply(block).with_context(|| place.name())?;
            self.done.count(applied, txs);
            self.progress.tick(height, &self.done);
        }
        Ok(())
    }
}
