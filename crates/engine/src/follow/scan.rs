//! Wallets that are behind the others: new ones with an early birthday, and those rewound.
//!
//! They are brought up with a source of their own, some blocks at a time, while the others follow
//! the tip. Feeding an old block moves only the wallets that stand at its parent, so nobody else is
//! disturbed; a wallet that reaches the tip is moved by it from then on.

use std::{sync::Arc, time::Duration};

use unspent_chain::Reader;
use unspent_model::Point;
use unspent_wallet::{Room, wallets::WalletInfo};

use super::{
    Trouble, ahead,
    cache::SharedBlock,
    wallet::{WalletFollower, feed, pieces, point, trouble},
};
use crate::{
    clock,
    shared::Shared,
    source::{Source, Step},
};

/// Old blocks fed between two steps of the others.
const BLOCKS_PER_TURN: usize = 100;
/// Their bytes at most.
const BYTES_PER_TURN: usize = 16 << 20;
/// Blocks passed over in one turn, where the source can't go to a height by itself.
const PASSED_PER_TURN: usize = 1_000;

/// A reader on its way from a wallet's place to the tip.
pub(super) struct Scan {
    source: Box<dyn Source>,
    /// Where its next block stands.
    next: u64,
}

/// The lowest block that any wallet needs; `None` without wallets.
pub(super) fn first_needed(room: &Room) -> Result<Option<u64>, Trouble> {
    Ok(room.all_wallets().map_err(trouble)?.iter().map(WalletInfo::next_block).min())
}

/// Sets the source so that the block at `height` comes next, or as little below it as possible.
/// Returns that height, or the tip's when it lies in the future.
pub(super) fn go_before(
    source: &mut dyn Source,
    height: u64,
    reader: Option<&Reader>,
) -> Result<u64, Trouble> {
    source.intersect(&[])?;
    // A birthday in the future: the tip itself is near enough.
    let height = source.tip().map_or(height, |tip| height.min(tip.height));
    let Some(before) = height.checked_sub(1) else { return Ok(height) };
    let mut found = source.point_at(before)?;
    if found.is_none() {
        let stored = reader.and_then(|reader| reader.block_at(before).ok()).flatten();
        found = stored.map(|stored| stored.point);
    }
    if let Some(found) = found {
        source.intersect(&[found])?;
    }
    Ok(height)
}

/// Feeds some old blocks to wallets that are behind; says whether there are more to come.
pub(super) fn turn(
    scan: &mut Option<Scan>,
    room: &Arc<Room>,
    shared: &Shared,
    tip: Point,
) -> Result<bool, Trouble> {
    let all = room.all_wallets().map_err(trouble)?;
    let behind = all.iter().filter(|wallet| wallet.next_block() <= tip.height);
    let Some(last) = behind.min_by_key(|wallet| wallet.next_block()) else {
        *scan = None;
        return Ok(false);
    };
    let wanted = last.next_block();
    if scan.as_ref().is_none_or(|scan| scan.next != wanted) {
        *scan = begin(room, shared, last, wanted)?;
    }
    let Some(under_way) = scan else { return Ok(true) };
    let goes_on = under_way.go_on(room, shared, tip)?;
    if !goes_on {
        *scan = None;
    }
    Ok(goes_on)
}

fn begin(
    room: &Room,
    shared: &Shared,
    wallet: &WalletInfo,
    next: u64,
) -> Result<Option<Scan>, Trouble> {
    tracing::info!(wallet = wallet.name, from = next, "scanning apart");
    let mut source = shared.origin.open()?;
    match wallet.scanned.map(point) {
        None => {
            go_before(&mut *source, next, shared.reader().as_ref())?;
        }
        Some(place) if source.intersect(&[place])? == Some(place) => {}
        Some(place) => {
            // Its place is on no chain that the source knows: one block back, and again.
            let keep = place.height.checked_sub(1);
            room.rewind(wallet.id, keep, clock::now()).map_err(trouble)?;
            return Ok(None);
        }
    }
    Ok(Some(Scan { source, next }))
}

impl Scan {
    /// Feeds some blocks; `false` when the chain has left this reader's place.
    fn go_on(&mut self, room: &Room, shared: &Shared, tip: Point) -> Result<bool, Trouble> {
        let name = shared.origin.name();
        let (mut blocks, mut bytes, mut passed, mut stays) = (Vec::new(), 0, 0, true);
        while blocks.len() < BLOCKS_PER_TURN && bytes < BYTES_PER_TURN && self.next <= tip.height {
            let Step::Forward(raw) = self.source.next(Duration::ZERO)? else {
                stays = false;
                break;
            };
            if raw.point.height < self.next {
                passed += 1;
                if passed >= PASSED_PER_TURN {
                    break;
                }
                continue;
            }
            bytes += raw.bytes.len();
            self.next = raw.point.height + 1;
            let block = SharedBlock::new(raw);
            blocks.push(ahead::ready::<WalletFollower>(shared.network, &name, &block)?);
        }
        for piece in pieces(blocks) {
            feed(room, piece)?;
        }
        Ok(stays)
    }
}
