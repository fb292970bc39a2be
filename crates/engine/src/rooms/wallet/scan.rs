//! Wallets that are behind the others: new ones with an early birthday, and those rewound.
//!
//! They are brought up with a source of their own, some blocks at a time, while the others follow
//! the tip. Feeding an old block moves only the wallets that stand at its parent, so nobody else is
//! disturbed; a wallet that reaches the tip is moved by it from then on.

use std::{collections::HashSet, sync::Arc, time::Duration};

use unspent_model::Point;
use unspent_wallet::{Room as Wallets, WalletId, wallets::WalletInfo};

use super::follower::{Found, SizedBlock, WalletFollower, feed, pieces, point, trouble};
use crate::{
    clock,
    context::Context,
    road::{SharedBlock, Trouble, prepare},
    source::{Origin, Source, SourceError, Step},
};

/// Old blocks fed between two steps of the others.
const BLOCKS_PER_TURN: usize = 100;
/// Their bytes at most.
const BYTES_PER_TURN: usize = 16 << 20;
/// Blocks passed over in one turn, where the source can't go to a height by itself.
const PASSED_PER_TURN: usize = 1_000;

/// The lowest block that any wallet needs; `None` without wallets.
pub(super) fn first_needed(wallets: &Wallets) -> Result<Option<u64>, Trouble> {
    Ok(wallets.all_wallets().map_err(trouble)?.iter().map(WalletInfo::next_block).min())
}

/// A reader on its way from a wallet's place to the tip.
struct Scan {
    source: Box<dyn Source>,
    /// Where its next block stands.
    next: u64,
    /// The source begins above that.
    is_out_of_reach: bool,
}

/// Brings up the wallets that are behind, the last first.
pub(super) struct Catcher {
    origin: Arc<dyn Origin>,
    /// In a daemon: other rooms may know a block by its height, and events follow.
    context: Option<Arc<Context>>,
    scan: Option<Scan>,
    /// Wallets whose next block the files don't have.
    out_of_reach: HashSet<WalletId>,
}

impl Catcher {
    pub(super) fn new(origin: Arc<dyn Origin>, context: Option<Arc<Context>>) -> Self {
        Self { origin, context, scan: None, out_of_reach: HashSet::new() }
    }

    /// Looks for its place anew at the next turn.
    pub(super) fn stop(&mut self) {
        self.scan = None;
    }

    /// Sets the source so that the block at `height` comes next, or as little below it as possible.
    /// Returns that height, or the tip's when it lies in the future.
    pub(super) fn go_before(&self, source: &mut dyn Source, height: u64) -> Result<u64, Trouble> {
        source.intersect(&[])?;
        // A birthday in the future: the tip itself is near enough.
        let height = source.tip().map_or(height, |tip| height.min(tip.height));
        let Some(before) = height.checked_sub(1) else { return Ok(height) };
        let mut found = source.point_at(before)?;
        if found.is_none() {
            found = self.context.as_ref().and_then(|context| context.point_at(before));
        }
        if let Some(found) = found {
            source.intersect(&[found])?;
        }
        Ok(height)
    }

    /// Feeds some old blocks to wallets that are behind; says whether there are more to come.
    pub(super) fn turn(
        &mut self,
        wallets: &Wallets,
        tip: Point,
        found: &mut Found,
    ) -> Result<bool, Trouble> {
        let all = wallets.all_wallets().map_err(trouble)?;
        let behind = all.iter().filter(|wallet| {
            wallet.next_block() <= tip.height && !self.out_of_reach.contains(&wallet.id)
        });
        let Some(last) = behind.min_by_key(|wallet| wallet.next_block()) else {
            self.scan = None;
            return Ok(false);
        };
        let wanted = last.next_block();
        if self.scan.as_ref().is_none_or(|scan| scan.next != wanted) {
            self.scan = self.begin(wallets, last, wanted)?;
        }
        let Some(mut scan) = self.scan.take() else { return Ok(true) };
        let goes_on = self.go_on(&mut scan, wallets, tip, found)?;
        if scan.is_out_of_reach && self.context.is_some() {
            let name = self.origin.name();
            return Err(SourceError::Missing { name, height: wanted }.into());
        }
        if scan.is_out_of_reach {
            self.out_of_reach.insert(last.id);
            return Ok(true);
        }
        if goes_on {
            self.scan = Some(scan);
            if let Some(context) = &self.context {
                context.news.wake();
            }
        }
        Ok(goes_on)
    }

    fn begin(
        &self,
        wallets: &Wallets,
        wallet: &WalletInfo,
        next: u64,
    ) -> Result<Option<Scan>, Trouble> {
        tracing::info!(wallet = wallet.name, from = next, "scanning apart");
        let mut source = self.origin.open()?;
        match wallet.scanned.map(point) {
            None => {
                self.go_before(&mut *source, next)?;
            }
            Some(place) if source.intersect(&[place])? == Some(place) => {}
            Some(place) => {
                // Its place is on no chain that the source knows: one block back, and again.
                let keep = place.height.checked_sub(1);
                wallets.rewind(wallet.id, keep, clock::now()).map_err(trouble)?;
                return Ok(None);
            }
        }
        Ok(Some(Scan { source, next, is_out_of_reach: false }))
    }

    /// Feeds some blocks; `false` when the chain has left this reader's place.
    fn go_on(
        &self,
        scan: &mut Scan,
        wallets: &Wallets,
        tip: Point,
        found: &mut Found,
    ) -> Result<bool, Trouble> {
        let (name, network) = (self.origin.name(), self.origin.network());
        let mut blocks: Vec<SizedBlock> = Vec::new();
        let (mut bytes, mut passed, mut stays) = (0, 0, true);
        while blocks.len() < BLOCKS_PER_TURN && bytes < BYTES_PER_TURN && scan.next <= tip.height {
            let Step::Forward(raw) = scan.source.next(Duration::ZERO)? else {
                stays = false;
                break;
            };
            if raw.point.height < scan.next {
                passed += 1;
                if passed >= PASSED_PER_TURN {
                    break;
                }
                continue;
            }
            if raw.point.height > scan.next {
                scan.is_out_of_reach = true;
                return Ok(false);
            }
            bytes += raw.bytes.len();
            scan.next = raw.point.height + 1;
            let block = Arc::new(SharedBlock::new(raw));
            blocks.push(prepare::<WalletFollower>(network, &name, &block)?);
        }
        for piece in pieces(blocks) {
            feed(wallets, piece, found)?;
        }
        Ok(stays)
    }
}
