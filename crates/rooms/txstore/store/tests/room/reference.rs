//! A plain model of the store that never forgets anything: what is deleted is only marked so.
//!
//! It is written from the document, over whole histories in memory, and shares no code with the
//! store. It also keeps the chain itself, so that it can say of each deletion whether it was safe.

use std::collections::{BTreeMap, BTreeSet};

use unspent_model::{
    Outpoint, TxId,
    txstore::{Slot, Spender, TxRecord},
};
use unspent_txstore::NewTx;

#[derive(Clone, Debug)]
pub struct Known {
    pub new: NewTx,
    /// Who spent each output, and whether that one was deleted as settled.
    pub spent: Vec<Option<(Spender, bool)>>,
    pub mined: Option<u64>,
    pub is_conflicting: bool,
    pub date: Option<u64>,
    pub preserved: Option<u64>,
    pub is_there: bool,
}

#[derive(Default)]
pub struct Reference {
    pub window: u64,
    pub txs: BTreeMap<TxId, Known>,
    /// The best chain: height and transactions.
    pub chain: Vec<(u64, Vec<TxId>)>,
    pub deleted: usize,
}

impl Reference {
    pub fn new(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    pub fn there(&self, txid: TxId) -> Option<&Known> {
        self.txs.get(&txid).filter(|known| known.is_there)
    }

    fn there_mut(&mut self, txid: TxId) -> Option<&mut Known> {
        self.txs.get_mut(&txid).filter(|known| known.is_there)
    }

    pub fn height(&self) -> u64 {
        self.chain.last().map_or(0, |(height, _)| *height)
    }

    /// Something happened to a record: is there a date now?
    fn touch(&mut self, txid: TxId, height: u64) {
        let retention = self.window;
        let Some(known) = self.there_mut(txid) else { return };
        let finished =
            known.spent.iter().zip(&known.new.spendable).all(|(by, can)| by.is_some() || !can);
        known.date = if known.preserved.is_some() {
            None
        } else if known.is_conflicting {
            Some(known.date.unwrap_or(height + retention))
        } else if finished && known.mined.is_some() {
            Some(known.date.unwrap_or(0).max(height + retention))
        } else {
            None
        };
    }

    fn add(&mut self, new: &NewTx, mined: Option<u64>) {
        let spent = vec![None; new.spendable.len()];
        let (date, preserved) = (None, None);
        let known = Known {
            new: new.clone(),
            spent,
            mined,
            is_conflicting: false,
            date,
            preserved,
            is_there: true,
        };
        self.txs.insert(new.txid, known);
    }

    pub fn spend(&mut self, coin: Outpoint, by: Spender, height: u64) {
        let Some(parent) = self.there_mut(coin.tx) else { return };
        let place = &mut parent.spent[coin.index as usize];
        if place.is_none() {
            *place = Some((by, false));
            self.touch(coin.tx, height);
        }
    }

    fn release(&mut self, coin: Outpoint, child: TxId, height: u64) {
        let Some(parent) = self.there_mut(coin.tx) else { return };
        let place = &mut parent.spent[coin.index as usize];
        if place.is_some_and(|(by, pruned)| by.tx == child && !pruned) {
            *place = None;
            self.touch(coin.tx, height);
        }
    }

    pub fn accept(&mut self, new: &NewTx, height: u64) {
        self.add(new, None);
        self.touch(new.txid, height);
        for (coin, vin) in new.inputs.clone().into_iter().zip(0..) {
            self.spend(coin, Spender { tx: new.txid, vin }, height);
        }
    }

    pub fn descendants(&self, roots: BTreeSet<TxId>) -> BTreeSet<TxId> {
        let (mut found, mut next) = (BTreeSet::new(), roots);
        while let Some(txid) = next.pop_first() {
            let Some(known) = self.there(txid) else { continue };
            if found.insert(txid) {
                next.extend(known.spent.iter().flatten().filter(|s| !s.1).map(|s| s.0.tx));
            }
        }
        found
    }

    pub fn condemn(&mut self, roots: BTreeSet<TxId>, height: u64) {
        let losers = self.descendants(roots);
        for loser in &losers {
            let known = self.there_mut(*loser).unwrap();
            assert_eq!(known.mined, None, "a mined transaction lost");
            if !known.is_conflicting {
                known.is_conflicting = true;
                known.date = None;
            }
            self.touch(*loser, height);
        }
        for loser in &losers {
            for coin in self.txs[loser].new.inputs.clone() {
                if !losers.contains(&coin.tx) {
                    self.release(coin, *loser, height);
                }
            }
        }
    }

    pub fn apply(&mut self, height: u64, txs: &[NewTx]) {
        let mut rivals = BTreeSet::new();
        for new in txs {
            for coin in &new.inputs {
                let place = self.there(coin.tx).and_then(|p| p.spent[coin.index as usize]);
                rivals.extend(place.map(|(by, _)| by.tx).filter(|tx| *tx != new.txid));
            }
        }
        let unknown: BTreeSet<TxId> =
            rivals.iter().copied().filter(|tx| self.there(*tx).is_none()).collect();
        self.condemn(rivals, height);
        for new in txs {
            for coin in &new.inputs {
                for never in &unknown {
                    self.release(*coin, *never, height);
                }
            }
        }
        for new in txs {
            self.take(new, height);
        }
        self.chain.push((height, txs.iter().map(|new| new.txid).collect()));
    }

    fn take(&mut self, new: &NewTx, height: u64) {
        if self.there(new.txid).is_none() {
            assert!(self.txs.get(&new.txid).is_none_or(|known| known.mined.is_none()));
            self.add(new, Some(height));
        }
        let known = self.there_mut(new.txid).unwrap();
        known.mined = Some(height);
        if std::mem::take(&mut known.is_conflicting) {
            known.date = None;
            let held =
                known.spent.iter().enumerate().filter_map(|(at, s)| {
                    s.map(|(by, _)| (Outpoint::new(new.txid, at as u32), by.tx))
                });
            let held = held.collect::<Vec<_>>();
            for (coin, child) in held {
                if self.there(child).is_some_and(|child| child.is_conflicting) {
                    self.release(coin, child, height);
                }
            }
        }
        self.touch(new.txid, height);
        for (coin, vin) in new.inputs.clone().into_iter().zip(0..) {
            self.spend(coin, Spender { tx: new.txid, vin }, height);
        }
    }

    pub fn undo(&mut self) {
        let (height, txids) = self.chain.pop().unwrap();
        let mut lost = BTreeSet::new();
        for txid in txids {
            // What was deleted is deeper than any reorganisation.
            let known = self.there_mut(txid).expect("a transaction of the window is there");
            known.mined = None;
            if known.new.is_coinbase {
                lost.insert(txid);
            }
            self.touch(txid, height);
        }
        self.condemn(lost, height);
    }

    pub fn preserve(&mut self, txid: TxId, until: u64) {
        let height = self.height();
        let known = self.there_mut(txid).unwrap();
        known.preserved = Some(known.preserved.unwrap_or(0).max(until));
        self.touch(txid, height);
    }

    pub fn drop_unmined(&mut self, txid: TxId) {
        let height = self.height();
        for coin in self.txs[&txid].new.inputs.clone() {
            self.release(coin, txid, height);
        }
        self.txs.get_mut(&txid).unwrap().is_there = false;
    }

    fn is_deep(&self, txid: TxId) -> bool {
        let mined = self.txs.get(&txid).and_then(|known| known.mined);
        mined.is_some_and(|mined| mined + self.window <= self.height())
    }

    fn may_go(&self, known: &Known) -> bool {
        if known.preserved.is_some() || known.date.is_none_or(|date| date > self.height()) {
            return false;
        }
        let mut spenders = known.spent.iter().flatten();
        if known.is_conflicting {
            return spenders.all(|(_, pruned)| *pruned);
        }
        self.is_deep(known.new.txid)
            && spenders.all(|(by, pruned)| {
                *pruned
                    || self.there(by.tx).is_some_and(|child| !child.is_conflicting)
                        && self.is_deep(by.tx)
            })
    }

    /// A pass of the cleaner: until nothing more may go.
    pub fn clean(&mut self) {
        let height = self.height();
        let over = self.txs.iter().filter(|(_, known)| known.is_there);
        let over = over.filter(|(_, known)| known.preserved.is_some_and(|until| until <= height));
        for txid in over.map(|(txid, _)| *txid).collect::<Vec<_>>() {
            self.there_mut(txid).unwrap().preserved = None;
            self.touch(txid, height);
        }
        loop {
            let there = self.txs.values().filter(|known| known.is_there);
            let Some(txid) = there.filter(|k| self.may_go(k)).map(|k| k.new.txid).next() else {
                return;
            };
            self.delete(txid);
        }
    }

    fn delete(&mut self, txid: TxId) {
        let (known, height) = (self.txs[&txid].clone(), self.height());
        if !known.is_conflicting {
            self.assert_safe(&known);
        }
        for coin in &known.new.inputs {
            if known.is_conflicting {
                self.release(*coin, txid, height);
            } else if let Some(parent) = self.there_mut(coin.tx) {
                let place = &mut parent.spent[coin.index as usize];
                *place = place.map(|(by, pruned)| (by, pruned || by.tx == txid));
            }
        }
        self.txs.get_mut(&txid).unwrap().is_there = false;
        self.deleted += 1;
    }

    /// Judged by the chain alone: every output is spent by a transaction that the best chain holds,
    /// deep enough.
    fn assert_safe(&self, known: &Known) {
        let depth_of = |txid: TxId| {
            let block = self.chain.iter().find(|(_, txids)| txids.contains(&txid));
            block.map(|(height, _)| self.height() - height)
        };
        for (place, can) in known.spent.iter().zip(&known.new.spendable) {
            let by = place.map(|(by, _)| by.tx);
            let depth = by.and_then(depth_of);
            assert!(!can || depth.is_some_and(|depth| depth >= self.window), "{known:?}");
        }
    }

    /// What the store must hold of a transaction.
    pub fn check(&self, txid: TxId, stored: Option<&TxRecord>) {
        let known = &self.txs[&txid];
        assert_eq!(stored.is_some(), known.is_there, "{known:?}\nstored: {stored:?}");
        let Some(stored) = stored else { return };
        let slots = known.spent.iter().zip(&known.new.spendable).map(|(by, can)| match by {
            Some((by, true)) => Slot::SpentPruned(*by),
            Some((by, false)) => Slot::Spent(*by),
            None if *can => Slot::Unspent,
            None => Slot::Unspendable,
        });
        let found: Vec<Slot> = stored.slots.iter().map(|(_, slot)| slot).collect();
        assert_eq!(found, slots.collect::<Vec<_>>(), "{known:?}\nstored: {stored:?}");
        assert_eq!(stored.mined_height(), known.mined, "{known:?}");
        assert_eq!(stored.unmined_since.is_none(), known.mined.is_some(), "{known:?}");
        assert_eq!(stored.is_conflicting, known.is_conflicting, "{known:?}");
        assert_eq!(stored.delete_at, known.date, "{known:?}\nstored: {stored:?}");
        assert_eq!(stored.preserve_until, known.preserved, "{known:?}");
        let open = stored.slots.iter().filter(|(_, slot)| slot.is_open()).count();
        assert_eq!(stored.slots.open() as usize, open);
    }
}
