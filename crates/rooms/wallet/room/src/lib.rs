//! The wallet room, running: it follows a chain into the wallets, reads the mempool, and answers.
//! Bitcoin only.
//!
//! | module | keeps |
//! |---|---|
//! | `room` | the room as the engine opens it, and what it is asked |
//! | `open_wallets` | the wallets while the room runs |
//! | `follower` | how it takes blocks and rolls back |
//! | `feed` | handing blocks to the wallets |
//! | `scan` | wallets that are behind the others |
//! | `mempool` | the node's mempool in the wallets, own payments in the mempool |
//! | `broadcast` | handing a transaction to the node |
//! | [`events`] | the wallets' journals as events |
//! | [`scenario`] | a random but seeded course of events, for demonstrations and tests |

mod broadcast;
pub mod events;
mod face;
mod feed;
mod follower;
mod mempool;
mod names;
mod open_wallets;
mod room;
mod scan;
pub mod scenario;
mod series;
mod trouble;

pub use broadcast::BroadcastError;
pub use face::{WalletFace, WalletSection};
pub use feed::ScanCounts;
pub use follower::WalletFollower;
pub use names::*;
pub use open_wallets::{OpenWallets, wallets};
pub use room::*;
