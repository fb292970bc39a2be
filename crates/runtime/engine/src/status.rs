//! What the engine says of itself, as values that REST and the command line show alike.

use serde::{Serialize, Serializer};
use unspent_model::{Network, Point};
use utoipa::ToSchema;

use crate::{
    clock::Time,
    names::{JobName, RoomName},
};

/// The whole engine at one moment.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Status {
    /// The chain that is followed.
    #[serde(serialize_with = "network_name")]
    #[schema(value_type = String)]
    pub network: Network,
    /// Where blocks come from.
    pub source: SourceStatus,
    /// The rooms, those that are off too.
    pub rooms: Vec<RoomStatus>,
    /// What is done from time to time.
    pub jobs: Vec<JobStatus>,
    /// When the engine started.
    pub started_at: Time,
}

/// The source as last heard of.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TipView {
    /// Its height.
    pub height: u64,
    /// The hash of the block there.
    pub block_hash: String,
    /// Its slot; the height on Bitcoin.
    pub slot: u64,
}

impl TipView {
    /// A point as people of the network write it.
    pub fn new(network: Network, point: Point) -> Self {
        let block_hash = network.show_hash(&point.hash.0);
        Self { height: point.height, block_hash, slot: point.slot }
    }
}

/// One room.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RoomStatus {
    /// Which.
    #[schema(value_type = String)]
    pub room: RoomName,
    /// What it is doing.
    #[serde(flatten)]
    pub state: RoomState,
    /// Where it stands, on disk.
    pub tip: Option<TipView>,
    /// Blocks it is behind the source, where both are known and it follows.
    pub lag: Option<u64>,
    /// How fast blocks went in lately.
    pub blocks_per_second: f64,
    /// The last reorganisation since the start.
    pub last_reorg: Option<ReorgView>,
    /// Reorganisations since the start.
    pub reorgs: u64,
}

/// What a room is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RoomState {
    /// Looking for its place on the source's chain.
    Starting,
    /// Many blocks behind, and taking them in bulk.
    CatchingUp,
    /// At the tip, or a few blocks from it.
    Following,
    /// It follows no chain, and does its own work.
    Working,
    /// The source or the room's database is away; it is tried again.
    Waiting {
        /// What the source or the database said.
        reason: String,
    },
    /// It can't go on without a person. Reading goes on.
    Stopped {
        /// Why it stopped.
        reason: String,
        /// What to do before it is resumed.
        remedy: String,
    },
    /// Switched off.
    Off,
}

impl RoomState {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::CatchingUp => "catching_up",
            Self::Following => "following",
            Self::Working => "working",
            Self::Waiting { .. } => "waiting",
            Self::Stopped { .. } => "stopped",
            Self::Off => "off",
        }
    }
}

/// A change of branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReorgView {
    /// Blocks that were undone.
    pub depth: u64,
    /// The tip that was left.
    pub from: TipView,
    /// The last common block; `None` is the origin.
    pub to: Option<TipView>,
    /// When that was.
    pub at: Time,
}

/// One job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobStatus {
    /// Which.
    #[schema(value_type = String)]
    pub job: JobName,
    /// The pause between two runs.
    pub every_seconds: f64,
    /// When it last ended.
    pub last_run: Option<Time>,
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
