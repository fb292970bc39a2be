//! Wallets that are behind the others: new ones with an early birthday, those rewound, and those
//! whose late scripts have a past.
//!
//! They are brought up with a source of their own, some blocks at a time, while the others follow
//! the tip. Feeding an old block moves only the wallets that stand at its parent, so nobody else is
//! disturbed; a wallet that reaches the tip is moved by it from then on.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use unspent_engine::{
    clock,
    context::Context,
    road::{SharedBlock, Trouble, prepare},
};
use unspent_model::Point;
use unspent_source::{Origin, Source, SourceError, Step, dates::height_of};
use unspent_wallet::{
    WalletId, WalletStore,
    placed_block::PlacedBlock,
    wallet_info::{WalletInfo, WalletStop},
};

use super::{
    feed::{ScanCounts, SizedBlock, feed, pieces},
    follower::WalletFollower,
    trouble::trouble,
};

/// Old blocks fed between two steps of the others.
const BLOCKS_PER_TURN: usize = 100;
/// Their bytes at most.
const BYTES_PER_TURN: usize = 16 << 20;
/// Blocks passed over in one turn, where the source can't go to a height by itself.
const PASSED_PER_TURN: usize = 1_000;

/// The lowest block that any wallet needs; `None` without wallets.
pub(super) fn first_needed(wallets: &WalletStore) -> Result<Option<u64>, Trouble> {
    wallets.first_needed().map_err(trouble)
}

/// Turns dates into heights for wallets that are about to be scanned; says how many. Where the
/// source can't tell, a wallet stays as it is and is read from the first block: slower, never
/// wrong.
pub(super) fn settle_birthdays(
    wallets: &WalletStore,
    source: &mut dyn Source,
) -> Result<usize, Trouble> {
    let mut known: HashMap<u64, Option<u64>> = HashMap::new();
    let mut settled = 0;
    for wallet in wallets.open_birthdays().map_err(trouble)? {
        let Some(seconds) = wallet.birthday_time else { continue };
        // Wallets that were restored together share a date, and
        // each search puts many questions to the source.
        let height = match known.get(&seconds) {
            Some(height) => *height,
            None => height_of(source, seconds)?,
        };
        known.insert(seconds, height);
        tracing::info!(wallet = wallet.name, height, "found the block of a wallet's birthday date");
        if let Some(height) = height {
            wallets.settle_birthday(wallet.id, height).map_err(trouble)?;
            settled += 1;
        }
    }
    Ok(settled)
}

/// What old blocks are read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanTarget {
    /// Whoever stands at the parent of the next block.
    Behind,
    /// The past of one wallet's late scripts.
    Past(WalletId),
}

/// A reader on its way from a wallet's place to the tip.
struct WalletScan {
    /// Who is brought up, and how.
    target: ScanTarget,
    source: Box<dyn Source>,
    /// Where its next block stands.
    next: u64,
    /// The source begins above that.
    is_out_of_reach: bool,
}

/// Brings up the wallets that are behind, the last first.
pub(super) struct WalletCatchUp {
    origin: Arc<dyn Origin>,
    /// In a daemon: other rooms may know a block by its height, and events follow.
    context: Option<Arc<Context>>,
    scan: Option<WalletScan>,
    /// Wallets whose next block the files don't have.
    out_of_reach: HashSet<WalletId>,
}

impl WalletCatchUp {
    pub(super) fn new(origin: Arc<dyn Origin>, context: Option<Arc<Context>>) -> Self {
        Self { origin, context, scan: None, out_of_reach: HashSet::new() }
    }

    /// Looks for its place anew at the next turn.
    pub(super) fn stop(&mut self) {
        self.scan = None;
        self.out_of_reach.clear();
    }

    /// Sets the source so that the block at `height` comes next, or as little below it as possible.
    /// Returns that height, or the tip's when it lies in the future.
    pub(super) fn go_before(&self, source: &mut dyn Source, height: u64) -> Result<u64, Trouble> {
        // To the beginning first: where the block before is not
        // found, that is slow and never wrong.
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
        wallets: &WalletStore,
        tip: Point,
        found: &mut ScanCounts,
    ) -> Result<bool, Trouble> {
        let Some((target, wallet)) = self.most_urgent(wallets, tip)? else {
            self.scan = None;
            return Ok(false);
        };
        if wallet.is_birthday_open && settle_birthdays(wallets, &mut *self.origin.open()?)? > 0 {
            return Ok(true);
        }
        let wanted = match (target, wallet.backfill) {
            (ScanTarget::Past(_), Some(past)) => past.next,
            (ScanTarget::Past(_) | ScanTarget::Behind, _) => wallet.next_block(),
        };
        match self.advance(wallets, &wallet, target, wanted, tip, found) {
            Ok(Some(goes_on)) => Ok(goes_on),
            Ok(None) | Err(Trouble::Source(SourceError::Missing { .. })) => {
                self.scan = None;
                self.out_of_reach(wallets, &wallet, target, wanted)?;
                Ok(true)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Feeds some blocks to somebody; `None` when the source doesn't have them.
    fn advance(
        &mut self,
        wallets: &WalletStore,
        wallet: &WalletInfo,
        target: ScanTarget,
        wanted: u64,
        tip: Point,
        found: &mut ScanCounts,
    ) -> Result<Option<bool>, Trouble> {
        let fits = |scan: &WalletScan| scan.next == wanted && scan.target == target;
        if !self.scan.as_ref().is_some_and(fits) {
            self.scan = self.begin(wallets, wallet, target, wanted)?;
        }
        // Taken out: after an error nobody knows where the
        // reader stands, and the next turn opens another.
        let Some(mut scan) = self.scan.take() else { return Ok(Some(true)) };
        let goes_on = self.go_on(&mut scan, wallets, tip, found)?;
        if scan.is_out_of_reach {
            return Ok(None);
        }
        if goes_on {
            self.scan = Some(scan);
            if let Some(context) = &self.context {
                context.changed();
            }
        }
        Ok(Some(goes_on))
    }

    /// Whoever is furthest behind; then whose past is to be read.
    fn most_urgent(
        &self,
        wallets: &WalletStore,
        tip: Point,
    ) -> Result<Option<(ScanTarget, WalletInfo)>, Trouble> {
        let in_reach = |wallet: &WalletInfo| !self.out_of_reach.contains(&wallet.id);
        // As many as may be out of reach, and one more.
        let limit = u32::try_from(self.out_of_reach.len()).unwrap_or(u32::MAX).saturating_add(1);
        let mut behind = wallets.behind(tip.height, limit).map_err(trouble)?.into_iter();
        let waits = |wallet: &WalletInfo| wallet.next_block() <= tip.height && in_reach(wallet);
        if let Some(found) = behind.find(waits) {
            return Ok(Some((ScanTarget::Behind, found)));
        }
        let mut filling = wallets.backfilling().map_err(trouble)?.into_iter();
        let found = filling.find(|wallet| wallet.is_followed() && in_reach(wallet));
        Ok(found.map(|wallet| (ScanTarget::Past(wallet.id), wallet)))
    }

    /// The source doesn't have what a wallet needs. That is this wallet's trouble alone.
    fn out_of_reach(
        &mut self,
        wallets: &WalletStore,
        wallet: &WalletInfo,
        target: ScanTarget,
        height: u64,
    ) -> Result<(), Trouble> {
        let missing = SourceError::Missing { name: self.origin.name(), height };
        tracing::warn!(wallet = wallet.name, %missing, "can't bring a wallet up to the tip");
        // A daemon would fail at it every turn, with nobody to
        // see it; a scan of files names it at its end.
        if self.context.is_some() && target == ScanTarget::Behind {
            let reason = format!("{missing}; point the daemon at a node that still has it");
            let stopped = WalletStop { height: Some(height), reason, at: clock::now() };
            return wallets.stop_wallet(wallet.id, &stopped).map_err(trouble);
        }
        // Passed over for now, so that those after it in the queue get their turn.
        self.out_of_reach.insert(wallet.id);
        Ok(())
    }

    fn begin(
        &self,
        wallets: &WalletStore,
        wallet: &WalletInfo,
        target: ScanTarget,
        next: u64,
    ) -> Result<Option<WalletScan>, Trouble> {
        tracing::info!(wallet = wallet.name, from = next, "scanning a wallet apart");
        // One of its own: that of the followers has to stay where they stand.
        let mut source = self.origin.open()?;
        match wallet.scanned.filter(|_| target == ScanTarget::Behind) {
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
        Ok(Some(WalletScan { target, source, next, is_out_of_reach: false }))
    }

    /// Feeds some blocks; `false` when the chain has left this reader's place.
    fn go_on(
        &self,
        scan: &mut WalletScan,
        wallets: &WalletStore,
        tip: Point,
        found: &mut ScanCounts,
    ) -> Result<bool, Trouble> {
        let (name, network) = (self.origin.name(), self.origin.network());
        let mut blocks: Vec<SizedBlock> = Vec::new();
        let (mut bytes, mut passed, mut stays) = (0, 0, true);
        // Never past the room's tip: the block above it comes to all who follow at once.
        while blocks.len() < BLOCKS_PER_TURN && bytes < BYTES_PER_TURN && scan.next <= tip.height {
            // Without waiting: whoever follows the tip must not stand still for one wallet's past.
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
            match scan.target {
                ScanTarget::Behind => feed(wallets, piece, found)?,
                ScanTarget::Past(wallet) => fill(wallets, wallet, piece, found)?,
            }
        }
        Ok(stays)
    }
}

/// Hands old blocks to one wallet, for what it came to watch late.
fn fill(
    wallets: &WalletStore,
    wallet: WalletId,
    blocks: Vec<PlacedBlock>,
    found: &mut ScanCounts,
) -> Result<(), Trouble> {
    found.blocks += blocks.len() as u64;
    let (left, recorded) = wallets.backfill(wallet, blocks, clock::now()).map_err(trouble)?;
    found.txs += recorded.new_txs;
    found.coins += recorded.new_coins;
    if left.is_none() {
        tracing::info!(wallet = wallet.0, "a wallet's history is complete");
    }
    Ok(())
}
