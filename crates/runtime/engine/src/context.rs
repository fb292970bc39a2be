//! What the threads of one engine share.

use std::{
    any::Any,
    sync::{Arc, Mutex},
};

use unspent_model::{Network, Point};
use unspent_source::{
    Origin,
    wakeup::{Wakeup, lock},
};

use crate::{
    events::{EventLog, NewEvent, kind::EventKind},
    names::RoomName,
    road::cache::BlockCache,
    room::OpenRoom,
    status::RoomState,
    status_board::StatusBoard,
};

/// Everything that more than one thread needs.
pub struct Context {
    pub(crate) network: Network,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) board: StatusBoard,
    pub(crate) log: Arc<EventLog>,
    pub(crate) cache: BlockCache,
    /// Wakes when somebody should look for news now; stops when all should end.
    pub(crate) wakeup: Wakeup,
    /// Wakes when a room has changed; stops after all rooms have.
    pub(crate) news: Wakeup,
    rooms: Mutex<Vec<(RoomName, Arc<dyn OpenRoom>)>>,
}

impl Context {
    pub(crate) fn new(
        origin: Arc<dyn Origin>,
        board: StatusBoard,
        log: Arc<EventLog>,
        cache: BlockCache,
    ) -> Self {
        Self {
            network: origin.network(),
            origin,
            board,
            log,
            cache,
            wakeup: Wakeup::default(),
            news: Wakeup::default(),
            rooms: Mutex::default(),
        }
    }

    /// The chain that is followed.
    pub fn network(&self) -> Network {
        self.network
    }

    /// What happened.
    pub fn log(&self) -> &EventLog {
        &self.log
    }

    /// What a room is doing.
    pub fn state(&self, room: RoomName) -> RoomState {
        self.board.state(room)
    }

    /// Where blocks come from.
    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.origin
    }

    /// A room that follows no chain says what it is doing.
    pub fn set_state(&self, room: RoomName, state: RoomState) {
        self.board.set_state(room, state);
    }

    /// A room has changed otherwise than by a block: its events are written soon.
    pub fn changed(&self) {
        self.news.wake();
    }

    pub(crate) fn add_room(&self, name: RoomName, room: Arc<dyn OpenRoom>) {
        lock(&self.rooms).push((name, room));
    }

    /// Every open room, in the order of the table.
    pub(crate) fn rooms(&self) -> Vec<(RoomName, Arc<dyn OpenRoom>)> {
        lock(&self.rooms).clone()
    }

    /// The open room of a kind.
    pub fn room<R: OpenRoom>(&self) -> Option<Arc<R>> {
        let any = |(_, room): &(_, Arc<dyn OpenRoom>)| -> Option<Arc<R>> {
            let room: Arc<dyn Any + Send + Sync> = room.clone();
            room.downcast().ok()
        };
        lock(&self.rooms).iter().find_map(any)
    }

    /// Closes all rooms, the last first.
    pub(crate) fn close_rooms(&self) {
        let rooms = std::mem::take(&mut *lock(&self.rooms));
        rooms.iter().rev().for_each(|(_, room)| room.close());
    }

    /// A block by its height, from whichever room knows.
    pub fn point_at(&self, height: u64) -> Option<Point> {
        self.rooms().iter().find_map(|(_, room)| room.point_at(height))
    }

    /// Whether all threads should end.
    pub fn is_stopping(&self) -> bool {
        self.wakeup.is_stopping()
    }

    /// Writes an event of the engine itself. Losing one is no reason to stop a room.
    pub fn write_event<B: serde::Serialize>(&self, kind: EventKind<B>, body: &B) {
        if let Err(error) = self.log.write(vec![NewEvent::new(kind, body)]) {
            tracing::warn!(%error, kind = kind.name, "can't write an event");
        }
    }
}
