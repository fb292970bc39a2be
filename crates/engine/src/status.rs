//! What the engine says of itself, as values that REST and the command line show alike.

use serde::{Serialize, Serializer};
use unspent_model::{Network, Point};

/// The whole engine at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The chain that is followed.
    #[serde(serialize_with = "network_name")]
    pub network: Network,
    /// Where blocks come from.
    pub source: SourceStatus,
    /// The rooms, those that are off too.
    pub rooms: Vec<RoomStatus>,
    /// What is done from time to time.
    pub jobs: Vec<JobStatus>,
    /// When the engine started, in microseconds.
    pub started_at: i64,
}

/// The source as last heard of.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SourceStatus {
    /// What it is called.
    pub name: String,
    /// The tip of its best chain.
    pub tip: Option<TipView>,
    /// Whether it answered when last asked.
    pub connected: bool,
    /// What it said when it didn't.
    pub error: Option<String>,
}

/// A place on the chain, as people read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TipView {
    /// Its height.
    pub height: u64,
    /// Its hash.
    pub hash: String,
    /// Its slot; the height on Bitcoin.
    pub slot: u64,
}

impl TipView {
    /// A point as people of the network write it.
    pub fn new(network: Network, point: Point) -> Self {
        let hash = network.show_hash(&point.hash.0);
        Self { height: point.height, hash, slot: point.slot }
    }
}

/// One room.
#[derive(Debug, Clone, Serialize)]
pub struct RoomStatus {
    /// Which.
    pub room: RoomName,
    /// What it is doing.
    #[serde(flatten)]
    pub state: RoomState,
    /// Where it stands, on disk.
    pub tip: Option<TipView>,
    /// Blocks it is behind the source, where both are known.
    pub lag: Option<u64>,
    /// How fast blocks went in lately.
    pub blocks_per_second: f64,
    /// The last reorganisation since the start.
    pub last_reorg: Option<ReorgView>,
    /// Reorganisations since the start.
    pub reorgs: u64,
}

/// A room of the engine. A further room is one more variant here and a file in `follow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomName {
    /// Every unspent output.
    Chain,
    /// What belongs to whom.
    Wallet,
}

/// Every room, in the order in which they are shown.
pub const ROOMS: [RoomName; 2] = [RoomName::Chain, RoomName::Wallet];

impl RoomName {
    /// Its name in events, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Wallet => "wallet",
        }
    }
}

/// What a room is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RoomState {
    /// Looking for its place on the source's chain.
    Starting,
    /// Many blocks behind, and taking them in bulk.
    CatchingUp,
    /// At the tip, or a few blocks from it.
    Following,
    /// The source or the room's database is away; it is tried again.
    Waiting {
        /// What was said.
        reason: String,
    },
    /// It can't go on without a person. Reading goes on.
    Stopped {
        /// Why.
        reason: String,
        /// What to do before it is resumed.
        remedy: String,
    },
    /// Switched off.
    Off,
}

/// A change of branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReorgView {
    /// Blocks that were undone.
    pub depth: u64,
    /// The tip that was left.
    pub from: TipView,
    /// The last common block; `None` is the origin.
    pub to: Option<TipView>,
    /// When, in microseconds.
    pub at: i64,
}

/// What is done from time to time. A further room's job is one more variant and a row in
/// `jobs::TABLE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Forgets spent coins and undo data that no rollback can need.
    PruneChain,
    /// Takes expired leases away.
    PurgeLeases,
    /// Reads the node's mempool into the wallets.
    ReadMempool,
    /// Sends own transactions that the node doesn't have.
    Rebroadcast,
    /// Measures the rooms for the metrics.
    Measure,
}

impl JobKind {
    /// Its name in events, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::PruneChain => "prune_chain",
            Self::PurgeLeases => "purge_leases",
            Self::ReadMempool => "read_mempool",
            Self::Rebroadcast => "rebroadcast",
            Self::Measure => "measure",
        }
    }
}

/// One job.
#[derive(Debug, Clone, Serialize)]
pub struct JobStatus {
    /// Which.
    pub job: JobKind,
    /// The pause between two runs.
    pub every_seconds: f64,
    /// When it last ended, in microseconds.
    pub last_run: Option<i64>,
    /// What came of it.
    pub last_outcome: Option<String>,
    /// How often it ran since the start.
    pub runs: u64,
    /// Whether it runs now.
    pub running: bool,
}

fn network_name<S: Serializer>(network: &Network, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(network.name())
}
