//! What is special about the chain room.

use std::{sync::Arc, thread, time::Duration};

use crossbeam_channel::{Receiver, Sender};
use unspent_chain::{
    ApplyError, ChainIndex, Kind, OpenError, PreparedBlock, Pruned, RollbackError, StoreError,
    Target, prepare,
};
use unspent_model::{Network, Point};
use unspent_networks::decode_block;

use super::{Follower, Start, Trouble, cache::SharedBlock};
use crate::{config::ChainRoom, shared::Shared, source::Source, status::RoomName};

/// How often and how long a folder is tried that questions under way still hold open.
const OPEN_ATTEMPTS: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// Something that only the thread with the index can do.
pub(crate) enum Order {
    /// Forget what is due.
    Prune {
        /// Passes at most.
        passes: u32,
        /// Who waits for the outcome.
        reply: Sender<Result<Pruned, String>>,
    },
}

/// The chain room and its thread's side of things.
pub(crate) struct ChainFollower {
    /// Absent only while it is being opened again.
    index: Option<ChainIndex>,
    settings: ChainRoom,
    orders: Receiver<Order>,
    shared: Arc<Shared>,
}

/// Opens the room.
pub(crate) fn open(network: Network, room: &ChainRoom) -> Result<ChainIndex, OpenError> {
    let (index, report) =
        ChainIndex::open(&room.folder, network, room.options.clone(), &room.genesis)?;
    if report.torn.is_some() || report.reconciled > 0 {
        tracing::warn!(?report, "the chain room was brought back to a block boundary");
    }
    Ok(index)
}

impl ChainFollower {
    pub(crate) fn new(
        index: ChainIndex,
        settings: ChainRoom,
        orders: Receiver<Order>,
        shared: Arc<Shared>,
    ) -> Self {
        shared.set_reader(Some(index.reader()));
        Self { index: Some(index), settings, orders, shared }
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
    type Ready = PreparedBlock;

    fn room(&self) -> RoomName {
        RoomName::Chain
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        Ok(self.index.as_ref().ok_or_else(closed)?.tip())
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        let reader = self.index.as_ref().ok_or_else(closed)?.reader();
        let stored =
            reader.block_at(height).map_err(|error| stop(error.kind(), error.to_string()))?;
        Ok(stored.map(|stored| stored.point))
    }

    fn start(&mut self, source: &mut dyn Source) -> Result<Start, Trouble> {
        source.intersect(&[])?;
        Ok(Start::Ready)
    }

    fn ready(network: Network, block: &SharedBlock) -> Result<PreparedBlock, String> {
        let decoded = decode_block(network, &block.bytes, Some(block.point.height));
        let decoded = decoded.map_err(|error| error.to_string())?;
        if decoded.header.point.hash != block.point.hash {
            return Err("it is another block than the one asked for".into());
        }
        Ok(prepare(decoded))
    }

    fn apply(&mut self, block: PreparedBlock) -> Result<(), Trouble> {
        self.index()?.apply(block).map_err(refused)?;
        Ok(())
    }

    fn apply_many(
        &mut self,
        blocks: &mut dyn Iterator<Item = Vec<PreparedBlock>>,
        coming: u64,
        moved: &mut dyn FnMut(Option<Point>, u64),
    ) -> Result<(), Trouble> {
        let reader = self.shared.reader();
        let mut bulk = self.index()?.bulk(coming);
        let mut outcome = Ok(());
        'feeding: for batch in blocks {
            let count = batch.len() as u64;
            for block in batch {
                if let Err(error) = bulk.apply(block) {
                    outcome = Err(refused(error));
                    break 'feeding;
                }
            }
            // Status shows what is on disk.
            let tip = reader.as_ref().and_then(|reader| reader.tip().ok()).flatten();
            moved(tip, count);
        }
        // What is in is good, whatever came after it.
        let finished = bulk.finish().map_err(store);
        outcome.and(finished)
    }

    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        let target =
            to.map_or(Target::Origin, |to| Target::Point { height: to.height, hash: to.hash });
        self.index()?.rollback(target).map_err(not_rolled_back)?;
        Ok(())
    }

    fn upkeep(&mut self) -> Result<bool, Trouble> {
        while let Ok(Order::Prune { passes, reply }) = self.orders.try_recv() {
            let pruned = self.prune(passes);
            let answer = pruned.as_ref().map(|pruned| *pruned).map_err(|e| format!("{e:?}"));
            // Whoever asked may have gone.
            let _ = reply.send(answer);
            pruned?;
        }
        Ok(false)
    }

    fn reopen(&mut self) -> Result<(), Trouble> {
        self.shared.set_reader(None);
        self.index = None;
        for _ in 0..OPEN_ATTEMPTS {
            match open(self.shared.network, &self.settings) {
                Ok(index) => {
                    self.shared.set_reader(Some(index.reader()));
                    self.index = Some(index);
                    return Ok(());
                }
                Err(error) if error.kind() == Kind::Busy => thread::sleep(OPEN_PAUSE),
                Err(error) => return Err(stop(error.kind(), error.to_string())),
            }
        }
        Err(closed())
    }

    fn refuse_orders(&mut self, reason: &str) {
        while let Ok(Order::Prune { reply, .. }) = self.orders.try_recv() {
            let _ = reply.send(Err(reason.to_owned()));
        }
    }
}

fn closed() -> Trouble {
    Trouble::Stop {
        reason: "the chain room could not be opened again: its folder is still held open".into(),
        remedy: "resume it again when long questions have ended".into(),
    }
}

fn store(error: StoreError) -> Trouble {
    stop(error.kind(), error.to_string())
}

fn stop(kind: Kind, reason: String) -> Trouble {
    let remedy = match kind {
        Kind::Busy => "stop the other process, then resume the room",
        Kind::Unavailable => "mend the disk or make room on it, then resume the room",
        Kind::Corrupt => "restore a backup or import the chain again into a new folder",
        Kind::Refused | Kind::Bug => "report it with the log; resume the room to try again",
    };
    Trouble::Stop { reason, remedy: remedy.into() }
}

fn refused(error: ApplyError) -> Trouble {
    match error {
        ApplyError::Refused(refusal) => Trouble::Lost(refusal.to_string()),
        ApplyError::Store(error) => store(error),
    }
}

fn not_rolled_back(error: RollbackError) -> Trouble {
    let reason = error.to_string();
    match error {
        RollbackError::BelowHorizon { depth, possible, .. } => Trouble::Stop {
            reason: format!(
                "the source's chain left ours {depth} blocks ago, and only the last {possible} can \
                 be undone"
            ),
            remedy: format!(
                "see whether the source follows the right chain; if it does, import into a new \
                 folder with a rollback window of at least {depth} blocks"
            ),
        },
        RollbackError::AcrossHole { .. } => {
            Trouble::Stop { reason, remedy: "import the chain again into a new folder".into() }
        }
        RollbackError::UnknownTarget | RollbackError::AboveTip(_) => Trouble::Lost(reason),
        RollbackError::Store(error) => store(error),
    }
}
