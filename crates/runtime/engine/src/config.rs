//! What an engine is told at its start: plain values, checked when it starts.

use std::{any::Any, fmt, path::PathBuf, sync::Arc, time::Duration};

use unspent_model::Network;
use unspent_source::Origin;

pub use crate::road::Follow;
use crate::{
    names::RoomName,
    requests::KEPT_PER_CALLER,
    room::{Room, RoomShape},
    webhooks::WebhookOptions,
};

/// What runs, on which network, from which source, and where it is kept.
#[derive(Clone)]
pub struct Config {
    /// The chain that is followed.
    pub network: Network,
    /// Holds `LOCK` and `engine.db`, and the rooms unless they say otherwise.
    pub data_dir: PathBuf,
    /// Where blocks come from.
    pub origin: Arc<dyn Origin>,
    /// Every room that there is; one that isn't on is told as off.
    pub known: Vec<&'static RoomShape>,
    /// The rooms that are on, in the order in which they are opened.
    pub rooms: Vec<Arc<dyn Room>>,
    /// How the rooms follow the source.
    pub follow: Follow,
    /// Pause between two measurements of the rooms' sizes.
    pub measure_every: Duration,
    /// Events kept; older ones are forgotten.
    pub events_kept: u64,
    /// Requests with a key of one caller that are kept; with so many he is refused.
    pub keys_per_caller: u64,
    /// How webhooks are served.
    pub webhooks: WebhookOptions,
}

/// Measuring large databases takes time, and sizes change slowly.
const MEASURE_EVERY: Duration = Duration::from_secs(300);

/// Events kept unless said otherwise.
pub const EVENTS_KEPT: u64 = 100_000;

impl Config {
    /// An engine without rooms, with all defaults.
    pub fn new(data_dir: PathBuf, origin: Arc<dyn Origin>) -> Self {
        Self {
            network: origin.network(),
            known: Vec::new(),
            rooms: Vec::new(),
            data_dir,
            origin,
            follow: Follow::default(),
            measure_every: MEASURE_EVERY,
            events_kept: EVENTS_KEPT,
            keys_per_caller: KEPT_PER_CALLER,
            webhooks: WebhookOptions::default(),
        }
    }

    /// The same with one more room.
    #[must_use]
    pub fn with(mut self, room: impl Room) -> Self {
        self.rooms.push(Arc::new(room));
        self
    }

    /// The settings of a room of a kind, if it is on and they aren't shared.
    pub fn room<R: Room>(&mut self) -> Option<&mut R> {
        self.rooms.iter_mut().find_map(|room| {
            let any: &mut dyn Any = Arc::get_mut(room)?;
            any.downcast_mut()
        })
    }

    /// Switches a room off.
    pub fn without(&mut self, name: RoomName) {
        self.rooms.retain(|room| room.shape().name != name);
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("network", &self.network)
            .field("data_dir", &self.data_dir)
            .field("origin", &self.origin.name())
            .field("known", &self.known)
            .field("rooms", &self.rooms)
            .field("follow", &self.follow)
            .field("measure_every", &self.measure_every)
            .field("events_kept", &self.events_kept)
            .field("keys_per_caller", &self.keys_per_caller)
            .field("webhooks", &self.webhooks)
            .finish()
    }
}
