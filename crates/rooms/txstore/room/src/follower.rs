//! How the txstore room takes blocks and rolls back, in the daemon and in an import of files.

use std::sync::Arc;

use bitcoin::hashes::Hash as _;
use unspent_engine::{
    road::{Follower, SharedBlock, Trouble},
    room::RoomName,
};
use unspent_model::{Kind, Network, Point, TxId};
use unspent_txstore::{AppliedBlock, CleanLimits, NewBlock, TxStore, TxStoreError};

use crate::room::{NAME, OpenTxStore};

/// Blocks of one database transaction at most, and their bytes.
const TOGETHER: usize = 200;
const BYTES_TOGETHER: usize = 16 << 20;

/// The txstore room on the road.
pub struct TxStoreFollower {
    store: Arc<TxStore>,
    /// In a daemon: where jobs leave their trouble.
    room: Option<Arc<OpenTxStore>>,
    /// Outside a daemon, where no job does it: deletes what is due after every step.
    cleans: bool,
    stored: StoredCounts,
}

/// What came of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredCounts {
    /// Blocks that went in.
    pub blocks: u64,
    /// Transactions that were new.
    pub created: u64,
    /// Outputs spent whose transactions are in the store.
    pub spent: u64,
    /// Of these, outputs created in the same block.
    pub spent_in_block: u64,
    /// Inputs whose parents are not in the store.
    pub absent: u64,
    /// Transactions that lost to a block's.
    pub losers: u64,
    /// Blocks that were undone.
    pub undone: u64,
    /// Transactions that were deleted on the way.
    pub deleted: u64,
}

impl StoredCounts {
    fn add(&mut self, applied: &AppliedBlock) {
        self.blocks += u64::from(!applied.was_there);
        self.created += applied.created as u64;
        self.spent += applied.spent as u64;
        self.spent_in_block += applied.spent_in_block as u64;
        self.absent += applied.absent as u64;
        self.losers += applied.losers as u64;
    }
}

impl TxStoreFollower {
    /// The room outside a daemon, as an import of files has it.
    pub fn new(store: Arc<TxStore>) -> Self {
        Self { store, room: None, cleans: false, stored: StoredCounts::default() }
    }

    /// Deletes on the way what nobody can need any more.
    #[must_use]
    pub fn cleaning(mut self) -> Self {
        self.cleans = true;
        self
    }

    pub(super) fn serving(store: Arc<TxStore>, room: Arc<OpenTxStore>) -> Self {
        Self { store, room: Some(room), cleans: false, stored: StoredCounts::default() }
    }

    /// What came of the blocks so far.
    pub fn stored(&self) -> StoredCounts {
        self.stored
    }

    fn feed(&mut self, blocks: Vec<NewBlock>) -> Result<(), Trouble> {
        let applied = self.store.apply_blocks(blocks).map_err(trouble)?;
        applied.iter().for_each(|applied| self.stored.add(applied));
        if self.cleans {
            // On the way rather than at the end: the store never grows to the size of the whole
            // history.
            let report = self.store.clean(CleanLimits::default()).map_err(trouble)?;
            self.stored.deleted += report.deleted as u64;
        }
        Ok(())
    }
}

/// A block made ready, with its size.
pub struct ReadyTxs {
    block: NewBlock,
    bytes: usize,
}

impl Follower for TxStoreFollower {
    type Ready = ReadyTxs;

    fn room(&self) -> RoomName {
        NAME
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        self.store.tip().map_err(trouble)
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        self.store.stored_at(height).map_err(trouble)
    }

    fn prepare(_: Network, block: &Arc<SharedBlock>) -> Result<ReadyTxs, String> {
        let parsed = block.bitcoin()?;
        let (height, hash) = (block.point.height, parsed.header().hash);
        let txids: Vec<_> = parsed.txids().iter().map(|txid| TxId(txid.to_byte_array())).collect();
        let block_of = NewBlock::new(height, hash, parsed.block(), &txids);
        Ok(ReadyTxs { block: block_of, bytes: block.bytes.len() })
    }

    fn apply(&mut self, block: ReadyTxs) -> Result<(), Trouble> {
        self.feed(vec![block.block])
    }

    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<ReadyTxs>>,
        _: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        let (mut gathered, mut bytes) = (Vec::new(), 0);
        for ready in blocks.flatten() {
            bytes += ready.bytes;
            gathered.push(ready.block);
            // Early blocks are tiny, and share a commit; of late ones a few fill the memory.
            if gathered.len() >= TOGETHER || bytes >= BYTES_TOGETHER {
                let count = gathered.len() as u64;
                self.feed(std::mem::take(&mut gathered))?;
                bytes = 0;
                moved(self.tip()?, count);
            }
        }
        if gathered.is_empty() {
            return Ok(());
        }
        let count = gathered.len() as u64;
        self.feed(gathered)?;
        moved(self.tip()?, count);
        Ok(())
    }

    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let undone = self.store.roll_back(to).map_err(|error| not_rolled_back(to, error))?;
        self.stored.undone += undone.blocks as u64;
        Ok(())
    }

    fn upkeep(&mut self) -> Result<bool, Trouble> {
        match self.room.as_ref().and_then(|room| room.take_trouble()) {
            Some(trouble) => Err(trouble),
            None => Ok(false),
        }
    }
}

/// Where the source has none of the stored blocks, nobody here knows how much further back it left.
fn not_rolled_back(to: Option<Point>, error: TxStoreError) -> Trouble {
    let TxStoreError::TooDeep { depth, possible } = &error else { return trouble(error) };
    if to.is_some() {
        return trouble(error);
    }
    let reason = format!(
        "the source's chain left the store's at least {depth} blocks ago, and only the last \
         {possible} can be undone"
    );
    Trouble::stop(reason, TOO_DEEP)
}

/// What to do about a chain that can't be followed.
const TOO_DEEP: &str = "check whether the source follows the right chain; if it does, rebuild the \
                        store, then resume the room";

/// What the store's error asks for.
pub(super) fn trouble(error: TxStoreError) -> Trouble {
    use TxStoreError as E;
    if matches!(
        error,
        E::Gap { .. } | E::WrongParent { .. } | E::BlockMismatch { .. } | E::BlockNotFound { .. }
    ) {
        return Trouble::Lost(error.into());
    }
    let remedy = match error.kind() {
        Kind::Busy | Kind::Unavailable => return Trouble::Busy(error.into()),
        Kind::Corrupt => "restore a backup or rebuild the store, then resume the room",
        // What was deleted as deep comes again in a block: only a chain that left ours below the
        // window does that.
        Kind::Refused if matches!(error, E::TooDeep { .. } | E::Replayed(_)) => TOO_DEEP,
        Kind::Refused | Kind::Bug => "report it with the log; resume the room to try again",
    };
    Trouble::stop(error, remedy)
}
