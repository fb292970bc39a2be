//! Unconfirmed transactions, in order of arrival.
//!
//! Invariant: no two entries spend the same output, and a parent always comes before its children,
//! so that any prefix of the pool is a valid block. Rules of relay (dust, standardness, limits of
//! package size) are deliberately absent: whatever consensus allows may enter.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bitcoin::{Amount, OutPoint, Transaction, Txid};

use crate::coins::{Coin, born};

/// An unconfirmed transaction and what it pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    /// As it was submitted, witness included.
    pub tx: Transaction,
    /// Worked out once: it costs an encoding.
    pub txid: Txid,
    /// What it leaves to the miner.
    pub fee: Amount,
}

/// The pool. Changed only through the chain that it belongs to.
#[derive(Debug, Default)]
pub struct Mempool {
    entries: BTreeMap<u64, Unconfirmed>,
    arrivals: HashMap<Txid, u64>,
    spenders: HashMap<OutPoint, Txid>,
    next_arrival: u64,
}

impl Mempool {
    /// All entries, parents before children.
    pub fn iter(&self) -> impl Iterator<Item = &Unconfirmed> {
        self.entries.values()
    }

    /// How many transactions wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry with this id.
    pub fn get(&self, txid: &Txid) -> Option<&Unconfirmed> {
        self.entries.get(self.arrivals.get(txid)?)
    }

    /// Which entry spends this output.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<Txid> {
        self.spenders.get(outpoint).copied()
    }

    /// The unconfirmed output at `outpoint`, spent or not, as if born at `height`.
    pub(crate) fn output(&self, outpoint: &OutPoint, height: u32) -> Option<Coin> {
        let entry = self.get(&outpoint.txid)?;
        let output = entry.tx.output.get(usize::try_from(outpoint.vout).ok()?)?.clone();
        Some(Coin { output, height, coinbase: false })
    }

    /// Unconfirmed outputs that nobody spends yet.
    pub(crate) fn free_outputs(&self, height: u32) -> Vec<(OutPoint, Coin)> {
        let all = self.iter().flat_map(|entry| born(&entry.tx, height));
        all.filter(|(outpoint, _)| !self.spenders.contains_key(outpoint)).collect()
    }

    /// Entries that `tx` would push out, each with its descendants, in order of arrival.
    pub(crate) fn conflicts(&self, tx: &Transaction) -> Vec<&Unconfirmed> {
        let mut doomed = BTreeSet::new();
        for input in &tx.input {
            if let Some(spender) = self.spender(&input.previous_output) {
                self.collect_family(spender, &mut doomed);
            }
        }
        doomed.iter().filter_map(|arrival| self.entries.get(arrival)).collect()
    }

    /// An entry with its descendants, in order of arrival; nothing when it isn't there.
    pub(crate) fn family(&self, txid: &Txid) -> Vec<&Unconfirmed> {
        let mut family = BTreeSet::new();
        self.collect_family(*txid, &mut family);
        family.iter().filter_map(|arrival| self.entries.get(arrival)).collect()
    }

    fn collect_family(&self, ancestor: Txid, family: &mut BTreeSet<u64>) {
        let mut waiting = vec![ancestor];
        while let Some(txid) = waiting.pop() {
            let Some(arrival) = self.arrivals.get(&txid) else { continue };
            // A child of several outputs is met by each of them.
            if !family.insert(*arrival) {
                continue;
            }
            let outputs = self.get(&txid).map_or(0, |entry| entry.tx.output.len());
            let outpoints = (0_u32..).take(outputs).map(|vout| OutPoint { txid, vout });
            waiting.extend(outpoints.filter_map(|outpoint| self.spender(&outpoint)));
        }
    }

    /// Adds a checked transaction that conflicts with nothing.
    pub(crate) fn insert(&mut self, entry: Unconfirmed) {
        for input in &entry.tx.input {
            self.spenders.insert(input.previous_output, entry.txid);
        }
        self.arrivals.insert(entry.txid, self.next_arrival);
        self.entries.insert(self.next_arrival, entry);
        self.next_arrival = self.next_arrival.saturating_add(1);
    }

    /// Takes one entry out, leaving its children.
    pub(crate) fn remove(&mut self, txid: &Txid) -> Option<Unconfirmed> {
        let entry = self.entries.remove(&self.arrivals.remove(txid)?)?;
        for input in &entry.tx.input {
            self.spenders.remove(&input.previous_output);
        }
        Some(entry)
    }

    /// Empties the pool and hands over what was in it, parents first.
    pub(crate) fn drain(&mut self) -> Vec<Transaction> {
        let entries = std::mem::take(&mut self.entries);
        self.arrivals.clear();
        self.spenders.clear();
        entries.into_values().map(|entry| entry.tx).collect()
    }
}
