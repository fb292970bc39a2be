//! The room's name: what everything else in the crate needs.

use unspent_engine::RoomName;

/// The room's name.
pub const NAME: RoomName = RoomName::new("txstore");
