//! Wallets, coins and transactions as JSON: what the command line and the REST interface both show.
//!
//! The words are those of [`unspent_server::json`]; every amount is a decimal string of base units.

mod history;
mod holdings;
mod payments;

pub(super) use self::{history::*, holdings::*, payments::*};
