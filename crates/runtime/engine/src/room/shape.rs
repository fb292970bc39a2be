//! What is known of a room without opening it.

use crate::{
    events::kind::{self, KindShape},
    names::RoomName,
    series::Series,
};

/// Something that a room leaves in the data folder, by its name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    /// An SQLite database.
    Database(&'static str),
    /// A folder of files.
    Folder(&'static str),
}

/// What is known of a room without opening it.
#[derive(Debug, Clone, Copy)]
pub struct RoomShape {
    /// As routes, events and figures call it.
    pub name: RoomName,
    /// What it leaves in the data folder unless its settings say otherwise.
    pub keeps: &'static [OnDisk],
    /// The figures that it counts.
    pub series: &'static [Series],
    /// The kinds of events that it writes.
    pub events: &'static [KindShape],
}

/// Every kind of event that can be written: the engine's own, and those of rooms.
pub fn kinds(rooms: &[&'static RoomShape]) -> impl Iterator<Item = KindShape> {
    let rooms = rooms.iter().flat_map(|shape| shape.events);
    kind::KINDS.iter().chain(rooms).copied()
}
