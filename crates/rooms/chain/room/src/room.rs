//! The room as the engine opens it, and what it is asked.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded};
use metrics::gauge;
use unspent_chain::Reader;
use unspent_engine::{
    Engine,
    context::Context,
    error::StartError,
    events::{EventLog, LogError},
    jobs::{Job, JobName, Lane, Outcome},
    room::{OnDisk, OpenRoom, Pace, Plug, Room, RoomName, RoomShape},
    status::RoomState,
};
use unspent_model::{Network, Point, chain::GenesisCoin};
use unspent_source::{SourceError, Step, wakeup::lock};

use crate::follower::{WriterOrder, open};
use crate::{events, series};

pub use crate::follower::{BlockTally, ChainFollower};

/// The room's name.
pub const NAME: RoomName = RoomName::new("chain");
/// What is known of it without opening it.
pub const SHAPE: RoomShape = RoomShape {
    name: NAME,
    keeps: &[OnDisk::Folder(FOLDER)],
    series: &series::SERIES,
    events: events::KINDS,
};
/// Its folder in the data folder.
pub const FOLDER: &str = "chain";
/// Forgets spent coins and undo data that no rollback can need.
pub const PRUNE: JobName = JobName::new("prune_chain");

/// Pause between two prunings, unless said otherwise.
pub const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// Orders that may wait for the room's thread.
const ORDERS_WAITING: usize = 4;
/// How long the room's thread may take to come round to an order.
const ORDER_PATIENCE: Duration = Duration::from_secs(20);
/// The least time between two looks for events while it is catching up.
const WHILE_CATCHING_UP: Duration = Duration::from_secs(3);

/// The room's settings.
#[derive(Clone, Debug)]
pub struct ChainRoom {
    /// Its folder.
    pub folder: PathBuf,
    /// Its options.
    pub options: unspent_chain::Options,
    /// Coins that exist before the first block.
    pub genesis: Vec<GenesisCoin>,
    /// Pause between two prunings.
    pub prune_every: Duration,
    /// Passes of one pruning at most.
    pub prune_passes: u32,
}

impl ChainRoom {
    /// The defaults of a network, in a data folder.
    pub fn new(data_dir: &Path, network: Network) -> Self {
        Self {
            folder: data_dir.join(FOLDER),
            options: unspent_chain::Options::for_network(network),
            genesis: Vec::new(),
            prune_every: PRUNE_EVERY,
            prune_passes: 100,
        }
    }
}

impl Room for ChainRoom {
    fn shape(&self) -> &'static RoomShape {
        &SHAPE
    }

    fn open(&self, plug: &mut Plug<'_>) -> Result<Arc<dyn OpenRoom>, StartError> {
        let index = open(plug.network(), self).map_err(|error| StartError::room(NAME, error))?;
        let (orders, inbox) = bounded(ORDERS_WAITING);
        let room = Arc::new(OpenChain {
            reader: Mutex::new(Some(index.reader())),
            network: plug.network(),
            events_written: Mutex::default(),
        });
        let (context, passes) = (plug.context(), self.prune_passes);
        plug.job(Job {
            name: PRUNE,
            every: self.prune_every,
            lane: Lane::Upkeep,
            is_woken: false,
            run: Box::new(move |_| prune(&context, &orders, passes)),
        });
        plug.follow(ChainFollower::serving(index, self.clone(), inbox, room.clone()))?;
        Ok(room)
    }
}

/// The open room.
pub struct OpenChain {
    /// Absent while the index is being opened again.
    reader: Mutex<Option<Reader>>,
    pub(crate) network: Network,
    events_written: Mutex<Option<Instant>>,
}

impl OpenChain {
    pub(crate) fn reader(&self) -> Option<Reader> {
        lock(&self.reader).clone()
    }

    pub(crate) fn set_reader(&self, reader: Option<Reader>) {
        *lock(&self.reader) = reader;
    }
}

impl OpenRoom for OpenChain {
    fn write_events(&self, log: &EventLog, pace: Pace) -> Result<bool, LogError> {
        let Some(reader) = self.reader() else { return Ok(false) };
        // In bulk hundreds of blocks come in a second and become one event anyway: a look after
        // each batch would only cost.
        let is_early =
            lock(&self.events_written).is_some_and(|at| at.elapsed() < WHILE_CATCHING_UP);
        if pace.is_catching_up && is_early && !pace.is_last {
            return Ok(false);
        }
        events::write(log, &reader, self.network)?;
        *lock(&self.events_written) = Some(Instant::now());
        Ok(false)
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) -> Result<(), String> {
        let Some(reader) = self.reader() else { return Ok(()) };
        let status = reader.status().map_err(|error| error.to_string())?;
        for (family, bytes) in status.sizes {
            gauge!("unspent_chain_disk_bytes", "family" => family).set(bytes as f64);
        }
        Ok(())
    }

    fn point_at(&self, height: u64) -> Option<Point> {
        let stored = self.reader()?.block_at(height).ok().flatten();
        stored.map(|stored| stored.point)
    }

    fn copy_folder(&self, to: &Path) -> Result<bool, String> {
        let reader = self.reader().ok_or("the chain room is being reopened; try again")?;
        reader.checkpoint(to).map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn close(&self) {
        self.set_reader(None);
    }
}

/// Questions to the room. `None` when it is off, being opened again, or ended.
pub fn reader(engine: &Engine) -> Option<Reader> {
    engine.room::<OpenChain>()?.reader()
}

/// A block's bytes, read again from the source, which is waited for at most for `patience`. `None`
/// where it no longer has that block on its best chain, or says nothing in time.
///
/// # Errors
///
/// [`SourceError`] when the source can't be reached.
pub fn block_bytes(
    engine: &Engine,
    parent: Option<Point>,
    block: Point,
    patience: Duration,
) -> Result<Option<Arc<[u8]>>, SourceError> {
    let mut source = engine.context().origin().open()?;
    // A source that has left the parent has the block on no best chain of its own.
    if source.intersect(parent.as_slice())? != parent {
        return Ok(None);
    }
    Ok(match source.next(patience)? {
        // The source may have changed branches above the parent since we stored ours.
        Step::Forward(found) if found.point.hash == block.hash => Some(found.bytes),
        Step::Forward(_) | Step::Backward(_) | Step::Nothing => None,
    })
}

/// Has the room forget what is due. Only its own thread may do that.
fn prune(context: &Context, orders: &Sender<WriterOrder>, passes: u32) -> Result<Outcome, String> {
    if context.state(NAME) == RoomState::CatchingUp {
        return Ok(Outcome::Later("the chain room is catching up, and prunes by itself".into()));
    }
    let (reply, answer) = bounded(1);
    // Not waited for: a full inbox says that the thread is in the middle of something long.
    if orders.try_send(WriterOrder::Prune { passes, reply }).is_err() {
        return Err("the chain room is busy or has ended".into());
    }
    let pruned = answer.recv_timeout(ORDER_PATIENCE);
    let pruned = pruned.map_err(|_| "the chain room is busy with many blocks".to_owned())??;
    Ok(Outcome::Done(format!(
        "{} spent coins and {} deltas pruned, {} blocks behind",
        pruned.spends, pruned.deltas, pruned.behind
    )))
}
