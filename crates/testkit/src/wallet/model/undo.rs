//! Blocks that go.

use unspent_model::wallet::TxStatus;

use super::Model;

impl Model {
    /// Disconnects every block from a height on. Where the spend of a pruned coin goes with them,
    /// blocks that are left have to be read again, from the height that it says.
    pub fn disconnect_from(&mut self, from: u64) -> Option<u64> {
        self.pruned.retain(|_, settled| *settled < from);
        let is_torn = self.last_pruned_spend.is_some_and(|height| height >= from);
        let first = self.pruned.values().copied().min().filter(|_| is_torn);
        if is_torn {
            self.pruned.clear();
            self.last_pruned_spend = None;
        }
        let mut lost = Vec::new();
        for (at, kept) in self.txs.iter_mut().enumerate() {
            if let Some(height) = kept.height.filter(|height| *height >= from) {
                if kept.tx.is_coinbase {
                    kept.status = TxStatus::Orphaned;
                }
                kept.height = None;
                lost.push((!kept.tx.is_coinbase, std::cmp::Reverse((height, at)), kept.tx.txid));
            }
        }
        lost.sort();
        for (is_ordinary, _, txid) in lost {
            let tx = self.kept(txid).map(|kept| kept.tx.clone());
            let falls = tx.is_some_and(|tx| self.live(txid) && self.has_dead_parent(&tx));
            if is_ordinary && falls {
                self.edit(txid, |kept| kept.status = TxStatus::Failed);
                self.free(txid);
            }
            if !is_ordinary || falls {
                self.bury(txid);
            }
            self.revive();
        }
        first
    }
}
