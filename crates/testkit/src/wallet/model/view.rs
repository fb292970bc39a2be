//! What may go, and what can be seen from outside.

use std::collections::BTreeSet;

use unspent_model::{Outpoint, TxId};

use super::{Kept, Model};

impl Model {
    /// Removes leases that have run out.
    pub fn purge(&mut self, now: i64) -> u64 {
        let before = self.leases.len();
        self.leases.retain(|_, (_, expires)| *expires > now);
        (before - self.leases.len()) as u64
    }

    /// Removes as much history as may go.
    pub fn prune(&mut self, up_to: u64, depth: u64) -> Vec<TxId> {
        let Some(tip) = self.tip else { return Vec::new() };
        let deep = |height: Option<u64>| height.is_some_and(|h| h <= tip && tip - h + 1 >= depth);
        let alone = |kept: &&Kept| {
            let spent_deep = (0_u32..).zip(&kept.tx.outputs).all(|(index, (_, ours))| {
                let spender = self.spender(Outpoint::new(kept.tx.txid, index));
                !ours || spender.is_some_and(|txid| deep(self.kept(txid).and_then(|k| k.height)))
            });
            kept.height.is_some_and(|height| height <= up_to) && deep(kept.height) && spent_deep
        };
        let mut going: BTreeSet<TxId> =
            self.txs.iter().filter(alone).map(|kept| kept.tx.txid).collect();
        loop {
            let before = going.len();
            let now = going.clone();
            going.retain(|txid| {
                let inputs = self.kept(*txid).map(|kept| kept.tx.inputs.clone());
                inputs
                    .unwrap_or_default()
                    .iter()
                    .all(|input| self.coin(*input).is_none() || now.contains(&input.tx))
            });
            if going.len() == before {
                break;
            }
        }
        self.last_pruned_spend = self.last_pruned_spend.max(self.last_spend(&going));
        let mut all = going.clone();
        for txid in going {
            let Some(height) = self.kept(txid).and_then(|kept| kept.height) else { continue };
            self.pruned.insert(txid, height);
            let inputs = self.kept(txid).map(|kept| kept.tx.inputs.clone()).unwrap_or_default();
            let mut lost: Vec<TxId> = inputs
                .iter()
                .flat_map(|input| self.spenders(*input))
                .filter(|other| *other != txid)
                .collect();
            while let Some(loser) = lost.pop() {
                let settled = self.pruned.entry(loser).or_insert(height);
                let is_new = all.insert(loser);
                if is_new || height < *settled {
                    *settled = height.min(*settled);
                    lost.extend(self.children(loser));
                }
            }
        }
        self.txs.retain(|kept| !all.contains(&kept.tx.txid));
        self.edges.retain(|(a, b)| !all.contains(a) && !all.contains(b));
        self.leases.retain(|coin, _| !all.contains(&coin.tx));
        all.into_iter().collect()
    }

    fn last_spend(&self, going: &BTreeSet<TxId>) -> Option<u64> {
        let outputs = going.iter().filter_map(|txid| self.kept(*txid)).flat_map(|kept| {
            let ours = (0_u32..).zip(&kept.tx.outputs).filter(|(_, (_, ours))| *ours);
            ours.map(|(index, _)| Outpoint::new(kept.tx.txid, index))
        });
        let spenders = outputs.filter_map(|coin| self.spender(coin));
        spenders.filter_map(|txid| self.kept(txid)?.height).max()
    }

    /// Whether a transaction is kept.
    pub fn knows(&self, txid: TxId) -> bool {
        self.at(txid).is_some()
    }

    /// Everything that can be seen from outside, as sorted lines.
    pub fn snapshot(&self, now: i64) -> Vec<String> {
        let mut lines = Vec::new();
        for kept in &self.txs {
            let name = kept.tx.txid;
            lines.push(format!(
                "tx {name:?} {} {:?} own={} fee={:?}",
                kept.status, kept.height, kept.own, kept.fee
            ));
            for (index, (sats, ours)) in (0_u32..).zip(&kept.tx.outputs) {
                if *ours {
                    let coin = Outpoint::new(name, index);
                    let spender = self.spender(coin);
                    let lease = self.leases.get(&coin).filter(|(_, expires)| *expires > now);
                    let lock = lease.map(|(lock, _)| lock.first().copied().unwrap_or(0));
                    lines.push(format!("coin {name:?}:{index} {sats} {spender:?} {lock:?}"));
                }
            }
        }
        lines.extend(self.edges.iter().map(|(a, b)| format!("edge {a:?} {b:?}")));
        lines.sort();
        lines
    }

    /// Satoshis of our outputs: unspent and live, spent, and dead. Their sum is all there ever was.
    pub fn value(&self) -> (u128, u128, u128) {
        let (mut unspent, mut spent, mut dead) = (0, 0, 0);
        for kept in &self.txs {
            for (index, (sats, ours)) in (0_u32..).zip(&kept.tx.outputs) {
                let coin = Outpoint::new(kept.tx.txid, index);
                let place = match (ours, kept.status.is_live(), self.spender(coin)) {
                    (false, ..) => continue,
                    (true, false, _) => &mut dead,
                    (true, true, Some(_)) => &mut spent,
                    (true, true, None) => &mut unspent,
                };
                *place += u128::from(*sats);
            }
        }
        (unspent, spent, dead)
    }
}
