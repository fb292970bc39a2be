//! What an engine is told at its start: plain values, checked when it starts.

use std::{any::Any, fmt, path::PathBuf, sync::Arc, time::Duration};

use unspent_model::Network;

use crate::{
    rooms::{self, Room, RoomName},
    source::Origin,
    webhooks::WebhookOptions,
};

/// What runs, on which network, from which source, and where it is kept.
pub struct Config {
    /// The chain that is followed.
    pub network: Network,
    /// Holds `LOCK` and `engine.db`, and the rooms unless they say otherwise.
    pub data_dir: PathBuf,
    /// Where blocks come from.
    pub origin: Arc<dyn Origin>,
    /// The rooms that are on; see [`rooms::TABLE`].
    pub rooms: Vec<Box<dyn Room>>,
    /// How the rooms follow the source.
    pub follow: Follow,
    /// Pause between two measurements of the rooms' sizes.
    pub measure_every: Duration,
    /// Events kept; older ones are forgotten.
    pub events_kept: u64,
    /// How webhooks are served.
    pub webhooks: WebhookOptions,
}

/// How the rooms follow the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// How long a room at the tip waits for news before it looks after itself.
    pub poll: Duration,
    /// More blocks than this to go: they are taken in bulk.
    pub bulk_threshold: u64,
    /// First pause before a source that is away is tried again; it doubles, up to five seconds.
    pub retry: Duration,
    /// Blocks that the rooms share at most.
    pub cache_blocks: usize,
    /// Bytes of blocks that the rooms share at most.
    pub cache_bytes: usize,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            bulk_threshold: 100,
            retry: Duration::from_secs(5),
            cache_blocks: 2_000,
            cache_bytes: 64 << 20,
        }
    }
}

/// Measuring large databases takes time, and sizes change slowly.
const MEASURE_EVERY: Duration = Duration::from_secs(300);

/// Events kept unless said otherwise.
pub const EVENTS_KEPT: u64 = 100_000;

impl Config {
    /// An engine with every room that its network can have and that is on by itself, all in one
    /// folder.
    pub fn new(data_dir: PathBuf, origin: Arc<dyn Origin>) -> Self {
        let network = origin.network();
        let rooms = rooms::TABLE.iter().filter_map(|entry| (entry.standard)(&data_dir, network));
        Self {
            network,
            rooms: rooms.collect(),
            data_dir,
            origin,
            follow: Follow::default(),
            measure_every: MEASURE_EVERY,
            events_kept: EVENTS_KEPT,
            webhooks: WebhookOptions::default(),
        }
    }

    /// The settings of a room of a kind, if it is on.
    pub fn room<R: Room>(&mut self) -> Option<&mut R> {
        self.rooms.iter_mut().find_map(|room| {
            let any: &mut dyn Any = &mut **room;
            any.downcast_mut()
        })
    }

    /// Switches a room off.
    pub fn without(&mut self, name: RoomName) {
        self.rooms.retain(|room| room.name() != name);
    }
}

impl Clone for Config {
    fn clone(&self) -> Self {
        Self {
            network: self.network,
            data_dir: self.data_dir.clone(),
            origin: self.origin.clone(),
            rooms: self.rooms.iter().map(|room| room.boxed()).collect(),
            follow: self.follow,
            measure_every: self.measure_every,
            events_kept: self.events_kept,
            webhooks: self.webhooks.clone(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("network", &self.network)
            .field("data_dir", &self.data_dir)
            .field("origin", &self.origin.name())
            .field("rooms", &self.rooms)
            .field("follow", &self.follow)
            .field("measure_every", &self.measure_every)
            .field("events_kept", &self.events_kept)
            .field("webhooks", &self.webhooks)
            .finish()
    }
}
