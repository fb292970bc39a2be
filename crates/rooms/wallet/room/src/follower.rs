//! How the wallet room takes blocks and rolls back, in the daemon and in a scan of files.
//!
//! The room's tip moves all wallets that stand at it. Those that don't are looked after in
//! [`super::scan`], a bounded number of blocks between two steps of the others.

use std::sync::Arc;

use unspent_engine::{
    clock,
    context::Context,
    road::{Follower, SharedBlock, Start, Trouble},
    room::RoomName,
};
use unspent_model::{Network, Point};
use unspent_source::{Origin, Source};
use unspent_wallet::{WalletStore, block::BLOCKS_KEPT, placed_block::PlacedBlock};

use super::scan::{self, WalletCatchUp};
use crate::{
    feed::{BLOCKS_AT_ONCE, BYTES_AT_ONCE, ScanCounts, SizedBlock, feed, pieces},
    names::NAME,
    open_wallets::OpenWallets,
    trouble::trouble,
};

/// Names of blocks read at once.
const KNOWN_AT_ONCE: u32 = 500;

/// The wallet room on the road.
pub struct WalletFollower {
    wallets: Arc<WalletStore>,
    /// Brings up wallets that are behind.
    catcher: WalletCatchUp,
    /// In a daemon: where jobs leave their trouble.
    room: Option<Arc<OpenWallets>>,
    /// While the room is empty: blocks below this are passed over.
    first: u64,
    found: ScanCounts,
}

impl WalletFollower {
    /// The room outside a daemon, as a scan of files has it.
    pub fn new(wallets: Arc<WalletStore>, origin: Arc<dyn Origin>) -> Self {
        let catcher = WalletCatchUp::new(origin, None);
        Self { wallets, catcher, room: None, first: 0, found: ScanCounts::default() }
    }

    pub(super) fn serving(
        wallets: Arc<WalletStore>,
        room: Arc<OpenWallets>,
        context: Arc<Context>,
    ) -> Self {
        let catcher = WalletCatchUp::new(context.origin().clone(), Some(context));
        Self { wallets, catcher, room: Some(room), first: 0, found: ScanCounts::default() }
    }

    /// What came of the blocks so far.
    pub fn found(&self) -> ScanCounts {
        self.found
    }

    fn feed_all(
        &mut self,
        blocks: Vec<SizedBlock>,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        for piece in pieces(blocks) {
            let count = piece.len() as u64;
            feed(&self.wallets, piece, &mut self.found)?;
            moved(self.tip()?, count);
        }
        Ok(())
    }

    /// Blocks that the room wants: all once it has one, before that only from the first on.
    fn wanted(&self, mut blocks: Vec<SizedBlock>) -> Result<Vec<SizedBlock>, Trouble> {
        if self.tip()?.is_none() {
            // The first block stored becomes the tip, and a
            // source may begin below the one that was wanted.
            blocks.retain(|block| block.placed.height >= self.first);
        }
        Ok(blocks)
    }

    /// Blocks from the tip down that are stored without a gap, as far as they are kept.
    fn known_blocks(&self, tip: Point) -> Result<u64, Trouble> {
        let mut next = Some(tip.height);
        let known = |next: Option<u64>| tip.height + 1 - next.map_or(0, |next| next + 1);
        while let Some(height) = next.filter(|_| known(next) < BLOCKS_KEPT) {
            // No height is near the highest.
            let below = height.saturating_add(1);
            let page = self.wallets.blocks_below(below, KNOWN_AT_ONCE).map_err(trouble)?;
            let in_row =
                page.iter().zip((0..below).rev()).take_while(|(block, here)| block.height == *here);
            let count = in_row.count() as u64;
            next = below.checked_sub(count + 1);
            if count < u64::from(KNOWN_AT_ONCE) {
                break;
            }
        }
        Ok(known(next).min(BLOCKS_KEPT))
    }
}

impl Follower for WalletFollower {
    type Ready = SizedBlock;

    fn room(&self) -> RoomName {
        NAME
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        self.wallets.tip().map_err(trouble)
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        // No height is near the highest.
        let found = self.wallets.blocks_below(height.saturating_add(1), 1).map_err(trouble)?;
        Ok(found.first().copied())
    }

    fn start(&mut self, source: &mut dyn Source) -> Result<Start, Trouble> {
        // Before the first block is chosen: an open date would ask for the whole chain.
        scan::settle_birthdays(&self.wallets, source)?;
        let Some(first) = scan::first_needed(&self.wallets)? else {
            source.intersect(&[])?;
            return Ok(Start::Nothing);
        };
        self.first = self.catcher.go_before(source, first)?;
        Ok(Start::Ready)
    }

    fn prepare(_: Network, block: &Arc<SharedBlock>) -> Result<SizedBlock, String> {
        let parsed = block.bitcoin()?;
        let (wire, txids) = (parsed.block().clone(), parsed.txids().clone());
        let placed = PlacedBlock::new(block.point.height, wire, parsed.header().hash, txids);
        Ok(SizedBlock { placed, bytes: block.bytes.len() })
    }

    fn apply(&mut self, block: SizedBlock) -> Result<(), Trouble> {
        let blocks = self.wanted(vec![block])?;
        self.feed_all(blocks, &mut |_, _| ())
    }

    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<SizedBlock>>,
        _: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        // Few large transactions: what arrives in small batches is gathered first.
        let mut gathered: Vec<SizedBlock> = Vec::new();
        for batch in blocks {
            gathered.extend(self.wanted(batch)?);
            let bytes: usize = gathered.iter().map(|block| block.bytes).sum();
            if gathered.len() >= BLOCKS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                self.feed_all(std::mem::take(&mut gathered), moved)?;
            }
        }
        self.feed_all(gathered, moved)
    }

    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let Some(tip) = self.tip()? else { return Ok(()) };
        // Nothing is undone where the target is above the tip.
        let depth = (tip.height + 1).saturating_sub(to.map_or(0, |to| to.height + 1));
        if depth > BLOCKS_KEPT {
            // Below the blocks that are kept without gaps, nobody here knows where it left.
            let known = self.known_blocks(tip)?;
            return Err(Trouble::stop(
                format!(
                    "the source's chain left the wallets' at least {known} blocks ago, and no \
                     older blocks are stored"
                ),
                "check whether the source follows the right chain; if it does, rewind the wallets \
                 by hand, then resume",
            ));
        }
        // Its reader may stand on a block that is about to go.
        self.catcher.stop();
        self.wallets.disconnect_above(to.map(|to| to.height), clock::now()).map_err(trouble)?;
        Ok(())
    }

    fn upkeep(&mut self) -> Result<bool, Trouble> {
        // Jobs meet errors on threads of their own, but only this one can stop the room.
        if let Some(trouble) = self.room.as_ref().and_then(|room| room.take_trouble()) {
            return Err(trouble);
        }
        let Some(tip) = self.tip()? else { return Ok(false) };
        self.catcher.turn(&self.wallets, tip, &mut self.found)
    }

    fn reopen(&mut self) -> Result<(), Trouble> {
        self.catcher.stop();
        Ok(())
    }
}
