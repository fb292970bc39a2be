//! By what the room, its database and its jobs are known.

use std::time::Duration;

use unspent_engine::{jobs::JobName, room::RoomName};

/// The room's name.
pub const NAME: RoomName = RoomName::new("wallet");
/// Its database in the data folder, unless it is told of another.
pub const DATABASE: &str = "wallet.db";
/// Takes expired leases away.
pub const PURGE_LEASES: JobName = JobName::new("purge_leases");
/// Reads the node's mempool into the wallets.
pub const READ_MEMPOOL: JobName = JobName::new("read_mempool");
/// Sends own transactions that the node doesn't have.
pub const REBROADCAST: JobName = JobName::new("rebroadcast");

/// Pauses between two runs of the room's jobs, unless said otherwise.
pub const PURGE_LEASES_EVERY: Duration = Duration::from_secs(60);
/// See [`PURGE_LEASES_EVERY`].
pub const MEMPOOL_EVERY: Duration = Duration::from_secs(2);
/// See [`PURGE_LEASES_EVERY`].
pub const REBROADCAST_EVERY: Duration = Duration::from_secs(600);
