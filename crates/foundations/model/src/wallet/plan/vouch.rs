//! A child in a node's mempool vouches for its parents.
//!
//! The node checked them all before it took the child. So parents that were called replaced or
//! failed here, on older news, are in that mempool too, and what we believed in their stead is not.
//! The chain has the last word: what stands against a confirmed transaction stays dead, and then so
//! does the child.

use std::collections::HashSet;

use super::{TxSighting, working::PlanState};
use crate::{
    Outpoint, TxId,
    wallet::{JournalCause, StatusMove, facts::Ordered},
};

impl PlanState<'_> {
    /// The dead ancestors that a mempool's word for `seen` brings back, the nearest first. `None`
    /// when there are none, or when they can't all be valid together with it.
    pub(super) fn vouched_parents(
        &mut self,
        seen: &TxSighting,
        rivals: &[TxId],
    ) -> Option<Vec<TxId>> {
        let (dead, all) = self.unconfirmed_ancestors(seen)?;
        // A confirmed child says more than a mempool does.
        if self.anchor(seen.txid).is_some() {
            return None;
        }
        let mut spent: HashSet<Outpoint> = seen.inputs.iter().copied().collect();
        let mut beaten = rivals.to_vec();
        for parent in &dead {
            let inputs = self.tx(*parent).map(|tx| tx.inputs.clone()).unwrap_or_default();
            if !inputs.into_iter().all(|input| spent.insert(input)) {
                return None;
            }
            beaten.extend(self.rivals_of(*parent));
        }
        for rival in beaten {
            // Whoever is beaten takes its descendants along, which mustn't be those it leans on.
            let mut family = self.descendants(rival).into_iter().chain([rival]);
            if self.anchor(rival).is_some() || family.any(|member| all.contains(&member)) {
                return None;
            }
        }
        Some(dead)
    }

    /// Stored ancestors up to the first confirmed ones: the dead, and all of them.
    fn unconfirmed_ancestors(&mut self, seen: &TxSighting) -> Option<(Vec<TxId>, HashSet<TxId>)> {
        let mut found = Ordered::default();
        seen.inputs.iter().for_each(|input| {
            found.insert(input.tx);
        });
        let (mut next, mut dead, mut all) = (0, Vec::new(), HashSet::new());
        while let Some(txid) = found.at(next) {
            next += 1;
            let Some(tx) = self.tx(txid) else { continue };
            let (is_live, is_confirmed) = (tx.is_live(), tx.confirmed.is_some());
            // A coinbase is in a block or nowhere.
            if tx.is_coinbase && !is_live {
                return None;
            }
            all.insert(txid);
            if !is_live {
                dead.push(txid);
            }
            if !is_confirmed {
                let parents: Vec<TxId> = tx.inputs.iter().map(|input| input.tx).collect();
                parents.into_iter().for_each(|parent| {
                    found.insert(parent);
                });
            }
        }
        (!dead.is_empty()).then_some((dead, all))
    }

    pub(super) fn vouch(&mut self, parent: TxId, child: TxId) {
        for rival in self.rivals_of(parent) {
            self.kill(rival, parent, false);
        }
        if let Some(tx) = self.tx_mut(parent) {
            tx.withdrawn = false;
            tx.evicted_at = None;
        }
        self.step(parent, StatusMove::Publish, JournalCause::Mempool, Some(child));
        self.rise(parent);
    }
}
