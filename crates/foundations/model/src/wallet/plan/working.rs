//! The state under change: stored facts with an overlay, and a note of everything missing.
//!
//! A rule asks as if all were loaded. What isn't is answered with "nothing" and noted in
//! [`PlanState::needs`]; such an answer can lead astray, to a wrong winner or a wrong refusal, so a
//! trial with needs is never used for anything but its needs. Each round loads all that the last
//! one missed, and a few rounds suffice because families are loaded whole.

use std::collections::{HashMap, HashSet};

use super::outcome::{JournalEntry, ReplacementEdge};
use crate::{
    Micros, Outpoint, TxId,
    wallet::{
        EdgeCause, JournalCause, LockId, StatusMove, TxStatus,
        facts::{Coin, KnownFacts, NeededFacts, Ordered, StoredTx},
    },
};

/// Lookups answer "nothing" for what isn't loaded and note the need; a plan made on such answers is
/// thrown away.
pub(super) struct PlanState<'f> {
    pub(super) facts: &'f KnownFacts,
    pub(super) now: Micros,
    pub(super) needs: NeededFacts,
    /// Transactions that are new or changed.
    pub(super) txs: HashMap<TxId, StoredTx>,
    pub(super) order: Ordered<TxId>,
    /// Coins that are new or changed.
    pub(super) coins: HashMap<Outpoint, Coin>,
    pub(super) coin_order: Ordered<Outpoint>,
    new_spenders: HashMap<Outpoint, Vec<TxId>>,
    new_children: HashMap<TxId, Vec<TxId>>,
    new_credits: HashMap<TxId, Vec<u32>>,
    /// Outpoints whose spender may have changed.
    pub(super) touched: Ordered<Outpoint>,
    /// Transactions whose inputs may have become ours.
    pub(super) reowned: Ordered<TxId>,
    /// Inputs given back by transactions that died.
    pub(super) freed: Vec<Outpoint>,
    /// Transactions that became live again.
    pub(super) risen: Vec<TxId>,
    pub(super) edges: Vec<ReplacementEdge>,
    edge_names: HashSet<(TxId, TxId)>,
    pub(super) lines: Vec<JournalEntry>,
    /// Whose leases a new transaction may use.
    pub(super) locks: HashMap<TxId, LockId>,
}

impl<'f> PlanState<'f> {
    pub(super) fn new(facts: &'f KnownFacts, now: Micros) -> Self {
        Self {
            facts,
            now,
            needs: NeededFacts::default(),
            txs: HashMap::new(),
            order: Ordered::default(),
            coins: HashMap::new(),
            coin_order: Ordered::default(),
            new_spenders: HashMap::new(),
            new_children: HashMap::new(),
            new_credits: HashMap::new(),
            touched: Ordered::default(),
            reowned: Ordered::default(),
            freed: Vec::new(),
            risen: Vec::new(),
            edges: Vec::new(),
            edge_names: HashSet::new(),
            lines: Vec::new(),
            locks: HashMap::new(),
        }
    }

    pub(super) fn tx(&mut self, txid: TxId) -> Option<&StoredTx> {
        if self.txs.contains_key(&txid) {
            return self.txs.get(&txid);
        }
        match self.facts.txs.get(&txid) {
            Some(found) => found.as_ref(),
            None => {
                self.needs.txs.insert(txid);
                None
            }
        }
    }

    /// The transaction to be changed, copied from the facts on first use.
    pub(super) fn tx_mut(&mut self, txid: TxId) -> Option<&mut StoredTx> {
        if !self.txs.contains_key(&txid) {
            let stored = self.tx(txid)?.clone();
            self.txs.insert(txid, stored);
            self.order.insert(txid);
        }
        self.txs.get_mut(&txid)
    }

    pub(super) fn is_live(&mut self, txid: TxId) -> bool {
        self.tx(txid).is_some_and(StoredTx::is_live)
    }

    /// All stored spenders of an outpoint, live or dead.
    pub(super) fn spenders(&mut self, outpoint: Outpoint) -> Vec<TxId> {
        let mut found = match self.facts.spenders.get(&outpoint) {
            Some(stored) => stored.clone(),
            None => {
                self.needs.spenders.insert(outpoint);
                Vec::new()
            }
        };
        found.extend(self.new_spenders.get(&outpoint).into_iter().flatten());
        found
    }

    pub(super) fn live_spender(&mut self, outpoint: Outpoint) -> Option<TxId> {
        self.spenders(outpoint).into_iter().find(|spender| self.is_live(*spender))
    }

    pub(super) fn children(&mut self, txid: TxId) -> Vec<TxId> {
        let mut found = match self.facts.children.get(&txid) {
            Some(stored) => stored.clone(),
            None => {
                self.needs.children.insert(txid);
                Vec::new()
            }
        };
        found.extend(self.new_children.get(&txid).into_iter().flatten());
        found
    }

    pub(super) fn coin(&mut self, outpoint: Outpoint) -> Option<Coin> {
        if let Some(coin) = self.coins.get(&outpoint) {
            return Some(*coin);
        }
        // An output of a transaction that isn't stored is no coin of ours, and one of a newcomer
        // is only in the overlay: neither is worth a question.
        if self.tx(outpoint.tx).is_none() || !self.facts.txs.contains_key(&outpoint.tx) {
            return None;
        }
        if self.facts.txs.get(&outpoint.tx).is_some_and(Option::is_none) {
            return None;
        }
        match self.facts.coins.get(&outpoint) {
            Some(found) => *found,
            None => {
                self.needs.coins.insert(outpoint);
                None
            }
        }
    }

    pub(super) fn put_coin(&mut self, outpoint: Outpoint, coin: Coin) {
        self.coins.insert(outpoint, coin);
        self.coin_order.insert(outpoint);
    }

    /// Indexes of all coins of a transaction.
    pub(super) fn credits(&mut self, txid: TxId) -> Vec<u32> {
        let is_stored = !matches!(self.facts.txs.get(&txid), Some(None));
        let mut found = match self.facts.credits.get(&txid) {
            Some(stored) => stored.clone(),
            None => {
                if is_stored {
                    self.needs.credits.insert(txid);
                }
                Vec::new()
            }
        };
        found.extend(self.new_credits.get(&txid).into_iter().flatten());
        found
    }

    pub(super) fn note_new_credit(&mut self, outpoint: Outpoint) {
        self.new_credits.entry(outpoint.tx).or_default().push(outpoint.index);
    }

    /// Stores a transaction that wasn't known, so that others find it.
    pub(super) fn add_tx(&mut self, tx: StoredTx) {
        for input in &tx.inputs {
            self.new_spenders.entry(*input).or_default().push(tx.txid);
            let siblings = self.new_children.entry(input.tx).or_default();
            if siblings.last() != Some(&tx.txid) {
                siblings.push(tx.txid);
            }
        }
        self.order.insert(tx.txid);
        self.txs.insert(tx.txid, tx);
    }

    /// Moves a transaction along the table and writes it down; an illegal move changes nothing.
    pub(super) fn step(
        &mut self,
        txid: TxId,
        step: StatusMove,
        cause: JournalCause,
        other: Option<TxId>,
    ) {
        let Some(tx) = self.tx(txid) else { return };
        let (from, coinbase) = (tx.status, tx.is_coinbase);
        let Ok(to) = from.after(step, coinbase) else { return };
        let Some(tx) = self.tx_mut(txid) else { return };
        tx.status = to;
        tx.ever_published |= to == TxStatus::Published;
        let height = tx.confirmed.map(|at| at.height);
        self.lines.push(JournalEntry {
            txid,
            output: None,
            from: Some(from),
            to: Some(to),
            cause,
            other,
            height,
            lock: None,
        });
    }

    pub(super) fn edge(&mut self, replaced: TxId, replacement: TxId, cause: EdgeCause) {
        if self.edge_names.insert((replaced, replacement)) {
            self.edges.push(ReplacementEdge { replaced, replacement, cause });
        }
    }
}
