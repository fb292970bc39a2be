//! What is special about the wallet room.
//!
//! The room's tip moves all wallets that stand at it. Those that don't are looked after in
//! [`super::scan`], a bounded number of blocks between two steps of the others.

use std::sync::Arc;

use unspent_model::{Network, Point};
use unspent_wallet::{
    Kind, Room, WalletError,
    block::{BLOCKS_KEPT, PlacedBlock},
};

use super::{
    Follower, Start, Trouble,
    cache::SharedBlock,
    scan::{self, Scan},
};
use crate::{clock, shared::Shared, source::Source, status::RoomName};

/// Blocks of one database transaction at most, and their bytes.
pub(super) const BLOCKS_AT_ONCE: usize = 500;
pub(super) const BYTES_AT_ONCE: usize = 32 << 20;

/// The wallet room and its thread's side of things.
pub(crate) struct WalletFollower {
    room: Arc<Room>,
    shared: Arc<Shared>,
    scan: Option<Scan>,
    /// While the room is empty: blocks below this are passed over.
    first: u64,
}

impl WalletFollower {
    pub(crate) fn new(room: Arc<Room>, shared: Arc<Shared>) -> Self {
        shared.set_wallets(Some(room.clone()));
        Self { room, shared, scan: None, first: 0 }
    }

    fn feed(&self, blocks: Vec<PlacedBlock>) -> Result<(), Trouble> {
        feed(&self.room, blocks)
    }

    fn feed_all(
        &self,
        blocks: Vec<Sized>,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        for piece in pieces(blocks) {
            let count = piece.len() as u64;
            self.feed(piece)?;
            moved(self.tip()?, count);
        }
        Ok(())
    }

    /// Blocks that the room wants: all once it has one, before that only from the first on.
    fn wanted(&self, mut blocks: Vec<Sized>) -> Result<Vec<Sized>, Trouble> {
        if self.tip()?.is_none() {
            blocks.retain(|block| block.placed.height >= self.first);
        }
        Ok(blocks)
    }
}

/// A block with its size.
pub(crate) struct Sized {
    pub(super) placed: PlacedBlock,
    pub(super) bytes: usize,
}

/// Hands blocks to the room, in one transaction.
pub(super) fn feed(room: &Room, blocks: Vec<PlacedBlock>) -> Result<(), Trouble> {
    if blocks.is_empty() {
        return Ok(());
    }
    room.apply_blocks(blocks, clock::now()).map_err(trouble)?;
    Ok(())
}

/// Cuts blocks into pieces that fit into one transaction each.
pub(super) fn pieces(blocks: Vec<Sized>) -> Vec<Vec<PlacedBlock>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for block in blocks {
        bytes += block.bytes;
        piece.push(block.placed);
        if piece.len() >= BLOCKS_AT_ONCE || bytes >= BYTES_AT_ONCE {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

pub(super) fn point((height, hash): (u64, unspent_model::BlockHash)) -> Point {
    Point { height, slot: height, hash }
}

impl Follower for WalletFollower {
    type Ready = Sized;

    fn room(&self) -> RoomName {
        RoomName::Wallet
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        Ok(self.room.tip().map_err(trouble)?.map(point))
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        let found = self.room.blocks_below(height.saturating_add(1), 1).map_err(trouble)?;
        Ok(found.first().copied().map(point))
    }

    fn start(&mut self, source: &mut dyn Source) -> Result<Start, Trouble> {
        let Some(first) = scan::first_needed(&self.room)? else {
            source.intersect(&[])?;
            return Ok(Start::Nothing);
        };
        self.first = scan::go_before(source, first, self.shared.reader().as_ref())?;
        Ok(Start::Ready)
    }

    fn ready(_: Network, block: &SharedBlock) -> Result<Sized, String> {
        let found = block.bitcoin()?;
        let placed = PlacedBlock::of(block.point.height, found.clone());
        if placed.reference().hash != block.point.hash {
            return Err("it is another block than the one asked for".into());
        }
        Ok(Sized { placed, bytes: block.bytes.len() })
    }

    fn apply(&mut self, block: Sized) -> Result<(), Trouble> {
        let blocks = self.wanted(vec![block])?;
        pieces(blocks).into_iter().try_for_each(|piece| self.feed(piece))
    }

    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<Sized>>,
        _: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        // Few large transactions: what arrives in small batches is gathered first.
        let mut gathered: Vec<Sized> = Vec::new();
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
        let depth = (tip.height + 1).saturating_sub(to.map_or(0, |to| to.height + 1));
        if depth > BLOCKS_KEPT {
            return Err(Trouble::Stop {
                reason: format!(
                    "the source's chain left the wallets' {depth} blocks ago, and only the last \
                     {BLOCKS_KEPT} are known"
                ),
                remedy: "see whether the source follows the right chain; if it does, rewind the \
                         wallets by hand, then resume"
                    .into(),
            });
        }
        self.scan = None;
        self.room.disconnect_above(to.map(|to| to.height), clock::now()).map_err(trouble)?;
        Ok(())
    }

    fn upkeep(&mut self) -> Result<bool, Trouble> {
        if let Some(trouble) = self.shared.take_wallet_trouble() {
            return Err(trouble);
        }
        let Some(tip) = self.tip()? else { return Ok(false) };
        let more = scan::turn(&mut self.scan, &self.room, &self.shared, tip)?;
        if more {
            self.shared.news.wake();
        }
        Ok(more)
    }

    fn reopen(&mut self) -> Result<(), Trouble> {
        self.scan = None;
        Ok(())
    }

    fn refuse_orders(&mut self, _: &str) {}
}

/// What the room's error asks for.
pub(crate) fn trouble(error: WalletError) -> Trouble {
    let reason = error.to_string();
    if matches!(
        error,
        WalletError::BlockMismatch { .. }
            | WalletError::WrongParent { .. }
            | WalletError::Gap { .. }
    ) {
        return Trouble::Lost(reason);
    }
    let remedy = match error.kind() {
        Kind::Busy | Kind::Unavailable => return Trouble::Busy(reason),
        Kind::Corrupt => "run the audit and restore a backup, then resume the room",
        Kind::Refused | Kind::Bug => "report it with the log; resume the room to try again",
    };
    Trouble::Stop { reason, remedy: remedy.into() }
}
