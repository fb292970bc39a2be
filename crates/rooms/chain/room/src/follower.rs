//! How the chain room takes blocks and rolls back, in the daemon and in an import.

use std::{
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender};
use unspent_chain::{
    ApplyError, ApplyOutcome, ChainIndex, CoinCounts, OpenError, PreparedBlock, Pruned,
    RollbackError, RollbackTarget, StoreError, prepare,
};
use unspent_engine::{
    road::{Cause, Follower, SharedBlock, Trouble},
    room::RoomName,
};
use unspent_model::{Kind, Network, Point};
use unspent_source::{files::Place, wakeup::lock};

use crate::room::{ChainRoom, NAME, OpenChain};

/// How often and how long a folder is tried that questions under way still hold open.
const OPEN_ATTEMPTS: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// Bytes that must fit on the disk before the room is opened again.
const SPACE_TO_OPEN: usize = 8 << 20;

/// Something that only the thread with the index can do.
pub(super) enum WriterOrder {
    /// Forget what is due.
    Prune {
        /// Passes at most.
        passes: u32,
        /// Who waits for the outcome.
        reply: Sender<Result<Pruned, String>>,
    },
}

/// What went in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockTally {
    /// Blocks applied.
    pub blocks: u64,
    /// Blocks that had been applied before.
    pub already: u64,
    /// Transactions of the applied blocks.
    pub txs: u64,
    /// What they did to the coin set.
    pub counts: CoinCounts,
    /// Height of the last of them.
    pub height: u64,
}

impl BlockTally {
    fn count(&mut self, applied: ApplyOutcome, txs: usize, height: u64) {
        self.height = height;
        match applied {
            ApplyOutcome::New(counts) => {
                self.blocks += 1;
                self.txs += txs as u64;
                self.counts.add(&counts);
            }
            ApplyOutcome::Already => self.already += 1,
        }
    }
}

/// The daemon's side of the room's thread.
struct ServingRoom {
    settings: ChainRoom,
    orders: Receiver<WriterOrder>,
    room: Arc<OpenChain>,
}

/// The chain room on the road.
pub struct ChainFollower {
    /// Absent only while it is being opened again.
    index: Option<ChainIndex>,
    serving: Option<ServingRoom>,
    tally: Arc<Mutex<BlockTally>>,
}

pub(super) fn open(network: Network, room: &ChainRoom) -> Result<ChainIndex, OpenError> {
    let (index, report) =
        ChainIndex::open(&room.folder, network, room.options.clone(), &room.genesis)?;
    if report.torn.is_some() || report.reconciled > 0 {
        let (acknowledged, undone) = (report.torn, report.reconciled);
        let said = "the chain room was brought back to a block boundary";
        tracing::warn!(acknowledged, undone, "{said}");
    }
    Ok(index)
}

/// A block made ready, and where it lies.
pub struct ReadyBlock {
    block: PreparedBlock,
    place: Option<Place>,
}

impl ChainFollower {
    /// The room outside a daemon, as an import has it.
    pub fn new(index: ChainIndex) -> Self {
        Self { index: Some(index), serving: None, tally: Arc::default() }
    }

    pub(super) fn serving(
        index: ChainIndex,
        settings: ChainRoom,
        orders: Receiver<WriterOrder>,
        room: Arc<OpenChain>,
    ) -> Self {
        let serving = Some(ServingRoom { settings, orders, room });
        Self { index: Some(index), serving, tally: Arc::default() }
    }

    /// What went in so far, for whoever shows it meanwhile.
    pub fn tally(&self) -> Arc<Mutex<BlockTally>> {
        self.tally.clone()
    }

    fn index(&mut self) -> Result<&mut ChainIndex, Trouble> {
        self.index.as_mut().ok_or_else(closed)
    }

    fn prune(&mut self, passes: u32) -> Result<Pruned, Trouble> {
        let index = self.index()?;
        let mut total = Pruned::default();
        for _ in 0..passes {
            let pass = index.prune().map_err(store)?;
            total.deltas += pass.deltas;
            total.spends += pass.spends;
            total.behind = pass.behind;
            if pass.behind == 0 {
                break;
            }
        }
        Ok(total)
    }
}

impl Follower for ChainFollower {
    type Ready = ReadyBlock;

    fn room(&self) -> RoomName {
        NAME
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        Ok(self.index.as_ref().ok_or_else(closed)?.tip())
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        let reader = self.index.as_ref().ok_or_else(closed)?.reader();
        let stored = reader.block_at(height).map_err(|error| stop(error.kind(), error))?;
        Ok(stored.map(|stored| stored.point))
    }

    fn prepare(network: Network, block: &Arc<SharedBlock>) -> Result<ReadyBlock, String> {
        Ok(ReadyBlock { block: prepare(block.decode(network)?), place: block.place.clone() })
    }

    fn apply(&mut self, ready: ReadyBlock) -> Result<(), Trouble> {
        let ReadyBlock { block, place } = ready;
        let (txs, height) = (block.txs.len(), block.header.point.height);
        let applied = self.index()?.apply(block).map_err(|error| refused(error, place))?;
        lock(&self.tally).count(applied, txs, height);
        Ok(())
    }

    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<ReadyBlock>>,
        coming: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        let index = self.index.as_mut().ok_or_else(closed)?;
        let reader = index.reader();
        let mut bulk = index.bulk(coming);
        let mut outcome = Ok(());
        'feeding: for batch in blocks {
            let count = batch.len() as u64;
            for ReadyBlock { block, place } in batch {
                let (txs, height) = (block.txs.len(), block.header.point.height);
                match bulk.apply(block) {
                    Ok(applied) => lock(&self.tally).count(applied, txs, height),
                    Err(error) => {
                        outcome = Err(refused(error, place));
                        break 'feeding;
                    }
                }
            }
            // Status shows what is on disk.
            moved(reader.tip().ok().flatten(), count);
        }
        // What is in is good, whatever came after it.
        let finished = bulk.finish().map_err(store);
        outcome.and(finished)
    }

    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let target = to.map_or(RollbackTarget::Origin, |to| RollbackTarget::Point {
            height: to.height,
            hash: to.hash,
        });
        self.index()?.rollback(target).map_err(not_rolled_back)?;
        Ok(())
    }

    fn upkeep(&mut self) -> Result<bool, Trouble> {
        while let Some(Ok(WriterOrder::Prune { passes, reply })) =
            self.serving.as_ref().map(|serving| serving.orders.try_recv())
        {
            let pruned = self.prune(passes);
            // Answered before an error ends this thread: nobody shall wait for that in vain.
            let answer = pruned.as_ref().map(|pruned| *pruned).map_err(ToString::to_string);
            // Whoever asked may have gone.
            let _ = reply.send(answer);
            pruned?;
        }
        Ok(false)
    }

    fn reopen(&mut self) -> Result<(), Trouble> {
        let Some(ServingRoom { settings, room, .. }) = &self.serving else { return Ok(()) };
        // While there is no space the room answers questions as it is.
        try_space(&settings.folder).map_err(|error| Trouble::Disk(error.into()))?;
        // RocksDB's lock goes with the last handle, so reader and index go first.
        room.set_reader(None);
        self.index = None;
        for _ in 0..OPEN_ATTEMPTS {
            match open(room.network, settings) {
                Ok(index) => {
                    room.set_reader(Some(index.reader()));
                    self.index = Some(index);
                    return Ok(());
                }
                Err(error) if error.kind() == Kind::Busy => thread::sleep(OPEN_PAUSE),
                Err(error) => return Err(stop(error.kind(), error)),
            }
        }
        Err(closed())
    }

    fn refuse_orders(&mut self, reason: &str) {
        let Some(serving) = &self.serving else { return };
        while let Ok(WriterOrder::Prune { reply, .. }) = serving.orders.try_recv() {
            let _ = reply.send(Err(reason.to_owned()));
        }
    }
}

fn closed() -> Trouble {
    Trouble::stop(
        "can't reopen the chain room: its folder is still in use",
        "resume it again when long queries have ended",
    )
}

fn store(error: StoreError) -> Trouble {
    stop(error.kind(), error)
}

/// Writes as much as it takes to open the room.
fn try_space(folder: &Path) -> std::io::Result<()> {
    let mut probe = tempfile::tempfile_in(folder)?;
    // Written and synced: a sparse file, or pages in the cache, would prove no space.
    probe.write_all(&vec![1; SPACE_TO_OPEN])?;
    probe.sync_all()
}

fn stop(kind: Kind, cause: impl Into<Cause>) -> Trouble {
    let remedy = match kind {
        Kind::Busy => "stop the other process, then resume the room",
        Kind::Unavailable => return Trouble::Disk(cause.into()),
        Kind::Corrupt => "restore a backup or import the chain again into a new folder",
        Kind::Refused | Kind::Bug => "report it with the log; resume the room to try again",
    };
    Trouble::stop(cause, remedy)
}

/// A block of a file that the room refuses.
#[derive(Debug, thiserror::Error)]
#[error("{place}")]
struct RefusedAt {
    place: String,
    source: ApplyError,
}

fn refused(error: ApplyError, place: Option<Place>) -> Trouble {
    let kind = error.kind();
    let is_refusal = matches!(error, ApplyError::Refused(_));
    let cause: Cause = match place {
        Some(place) => RefusedAt { place: place.name(), source: error }.into(),
        None => error.into(),
    };
    if is_refusal { Trouble::Lost(cause) } else { stop(kind, cause) }
}

fn not_rolled_back(error: RollbackError) -> Trouble {
    match error {
        RollbackError::BelowHorizon { depth, possible, .. } => Trouble::stop(
            format!(
                "the source's chain left ours {depth} blocks ago, and only the last {possible} can \
                 be undone"
            ),
            format!(
                "check whether the source follows the right chain; if it does, import into a new \
                 folder with a rollback window of at least {depth} blocks"
            ),
        ),
        RollbackError::AcrossHole { .. } => {
            Trouble::stop(error, "import the chain again into a new folder")
        }
        RollbackError::UnknownTarget | RollbackError::AboveTip(_) => Trouble::Lost(error.into()),
        RollbackError::Store(error) => store(error),
    }
}
