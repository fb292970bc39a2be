//! The rooms' folders of the dashboard, a line each; `rooms.js` plugs in what they export.

mod chain;
mod ecash;
mod txstore;
mod wallet;

use super::asset::Asset;

/// The files of each room.
pub(super) const ROOMS: &[&[Asset]] =
    &[chain::ASSETS, wallet::ASSETS, txstore::ASSETS, ecash::ASSETS];
