//! What an overlay knows of coins, by outpoint.

use std::collections::HashMap;

use unspent_model::Outpoint;

use crate::coin::SharedCoin;

/// What happens to one outpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoinSlot {
    /// The coin on disk that leaves.
    pub(crate) before: Option<SharedCoin>,
    /// The coin that stands there afterwards.
    pub(crate) after: Option<SharedCoin>,
}

pub(crate) type CoinSlots = HashMap<Outpoint, CoinSlot, foldhash::fast::RandomState>;
