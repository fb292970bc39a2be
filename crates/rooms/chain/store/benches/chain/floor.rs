//! The floor: what the same blocks cost when nothing is written to a disk.
//!
//! `Floor` keeps what the index keeps, in memory: every coin with its encoded record, and every owner's
//! coins in chain order. `lists = false` drops the latter: a bare hash map.

use std::collections::{BTreeSet, HashMap};

use unspent_chain::{PreparedBlock, SharedCoin};
use unspent_model::Outpoint;

type Place = (u64, u32, Outpoint);

pub struct Floor {
    coins: HashMap<Outpoint, SharedCoin, foldhash::fast::RandomState>,
    lists: Option<HashMap<[u8; 29], BTreeSet<Place>, foldhash::fast::RandomState>>,
}

impl Floor {
    pub fn new(lists: bool) -> Self {
        Self { coins: HashMap::default(), lists: lists.then(HashMap::default) }
    }

    pub fn apply(&mut self, block: PreparedBlock) {
        for tx in block.txs {
            for outpoint in &tx.spends {
                let Some(coin) = self.coins.remove(outpoint) else { continue };
                if let Some(lists) = &mut self.lists {
                    for key in coin.list_keys(outpoint) {
                        let owner = key.owner.encode();
                        let place = (key.slot, key.tx_position, key.outpoint);
                        let emptied = lists.get_mut(&owner).is_some_and(|list| {
                            list.remove(&place);
                            list.is_empty()
                        });
                        if emptied {
                            lists.remove(&owner);
                        }
                    }
                }
            }
            for (index, coin) in tx.creates {
                let outpoint = Outpoint::new(tx.id, index);
                if let Some(lists) = &mut self.lists {
                    for key in coin.list_keys(&outpoint) {
                        let place = (key.slot, key.tx_position, key.outpoint);
                        lists.entry(key.owner.encode()).or_default().insert(place);
                    }
                }
                self.coins.insert(outpoint, coin);
            }
        }
    }

    pub fn coins(&self) -> usize {
        self.coins.len()
    }
}
