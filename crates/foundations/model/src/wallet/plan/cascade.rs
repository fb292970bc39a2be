//! Consequences: who falls with a loser, who rises when its conqueror is gone.
//!
//! Falling is easy: down the family, all that isn't confirmed. Rising is not. Several transactions
//! may have lost to the same winner, and when that one goes, only one of them can come back; its
//! children may stand against others that are live. So the dead are taken one by one in a fixed
//! order of preference, each is asked whether every input is open *now*, and whoever comes back
//! closes its inputs to those after it. Nothing that is live is ever displaced by a revival, which
//! is why the walk ends.

use std::{cmp::Reverse, collections::VecDeque};

use super::{PlanRefusal, outcome::JournalEntry, working::PlanState};
use crate::{
    Outpoint, TxId,
    wallet::{
        EdgeCause, JournalCause, StatusMove, TxStatus,
        facts::{Ordered, StoredTx},
    },
};

impl PlanState<'_> {
    /// All stored descendants, parents before children where the walk allows, each once.
    pub(super) fn descendants(&mut self, root: TxId) -> Vec<TxId> {
        let mut found = Ordered::default();
        found.insert(root);
        let mut next = 0;
        while let Some(txid) = found.at(next) {
            for child in self.children(txid) {
                found.insert(child);
            }
            next += 1;
        }
        found.iter().skip(1).collect()
    }

    /// The confirmed transaction that proves `txid` to be in the chain: itself or a descendant.
    pub(super) fn anchor(&mut self, txid: TxId) -> Option<TxId> {
        // A chain that holds a child holds all its ancestors.
        let is_confirmed = |tx: &StoredTx| tx.is_live() && tx.confirmed.is_some();
        if self.tx(txid).is_some_and(is_confirmed) {
            return Some(txid);
        }
        self.descendants(txid).into_iter().find(|child| self.tx(*child).is_some_and(is_confirmed))
    }

    /// `loser` loses its inputs to `winner` and takes its descendants along.
    pub(super) fn kill(&mut self, loser: TxId, winner: TxId, by_confirmed: bool) {
        let family = self.descendants(loser);
        let (step, cause, edge) = if by_confirmed {
            (StatusMove::LoseConfirmed, JournalCause::DoubleSpent, EdgeCause::DoubleSpent)
        } else {
            (StatusMove::LoseUnconfirmed, JournalCause::Replaced, EdgeCause::Replaced)
        };
        self.die(loser, step, cause, Some(winner));
        self.edge(loser, winner, edge);
        self.bury(loser, family);
    }

    /// Fails the live, unconfirmed members of a family whose root is dead.
    ///
    /// A confirmed row is never failed; nor is anything that hangs only on confirmed rows, which is
    /// why the walk goes by dead parents and not by the list alone.
    pub(super) fn bury(&mut self, root: TxId, family: Vec<TxId>) {
        let mut dead = Ordered::default();
        dead.insert(root);
        let mut queue = VecDeque::from([root]);
        let members: std::collections::HashSet<TxId> = family.into_iter().collect();
        while let Some(parent) = queue.pop_front() {
            for child in self.children(parent) {
                let Some(tx) = self.tx(child) else { continue };
                let falls = tx.is_live() && tx.confirmed.is_none() && members.contains(&child);
                if falls && dead.insert(child) {
                    self.die(
                        child,
                        StatusMove::LoseParent,
                        JournalCause::ParentInvalid,
                        Some(parent),
                    );
                    queue.push_back(child);
                }
            }
        }
    }

    /// Makes one transaction dead and gives its inputs back.
    pub(super) fn die(
        &mut self,
        txid: TxId,
        step: StatusMove,
        cause: JournalCause,
        other: Option<TxId>,
    ) {
        self.step(txid, step, cause, other);
        let inputs = self.tx(txid).map(|tx| tx.inputs.clone()).unwrap_or_default();
        for input in inputs {
            self.touched.insert(input);
            // Whoever wanted this output before may have it again; seen to once the event is done.
            self.freed.push(input);
        }
    }

    /// A transaction is live again: its inputs are spent and its dead children may follow.
    pub(super) fn rise(&mut self, txid: TxId) {
        self.touch_inputs(txid);
        self.risen.push(txid);
    }

    pub(super) fn touch_inputs(&mut self, txid: TxId) {
        let inputs = self.tx(txid).map(|tx| tx.inputs.clone()).unwrap_or_default();
        for input in inputs {
            self.touched.insert(input);
        }
    }

    /// A confirmed transaction proves its ancestors: dead ones come back and beat their rivals.
    ///
    /// An orphaned coinbase can't come back without a block, so nothing that hangs on it can be in
    /// the chain before it is.
    pub(super) fn uphold_parents(&mut self, txid: TxId) -> Result<(), PlanRefusal> {
        let mut upheld = Ordered::default();
        upheld.insert(txid);
        let mut next = 0;
        while let Some(child) = upheld.at(next) {
            next += 1;
            for parent in self.parents(child) {
                let Some(tx) = self.tx(parent) else { continue };
                if tx.is_live() {
                    continue;
                }
                if tx.is_coinbase {
                    return Err(PlanRefusal::OrphanedAncestor { tx: txid, coinbase: parent });
                }
                self.uphold(parent, child)?;
                upheld.insert(parent);
            }
        }
        // What was upheld may have fallen again through what was upheld after it.
        let fallen = upheld.iter().find(|txid| !self.is_live(*txid));
        match fallen {
            Some(tx) => Err(PlanRefusal::ConflictsWithConfirmed { tx, with: txid }),
            None => Ok(()),
        }
    }

    fn uphold(&mut self, parent: TxId, child: TxId) -> Result<(), PlanRefusal> {
        for rival in self.rivals_of(parent) {
            if let Some(with) = self.anchor(rival) {
                return Err(PlanRefusal::ConflictsWithConfirmed { tx: parent, with });
            }
            self.kill(rival, parent, true);
        }
        if let Some(tx) = self.tx_mut(parent) {
            tx.withdrawn = false;
        }
        self.step(parent, StatusMove::Publish, JournalCause::ChildConfirmed, Some(child));
        self.rise(parent);
        Ok(())
    }

    fn parents(&mut self, txid: TxId) -> Vec<TxId> {
        let inputs = self.tx(txid).map(|tx| tx.inputs.clone()).unwrap_or_default();
        inputs.into_iter().map(|input| input.tx).collect()
    }

    pub(super) fn rivals_of(&mut self, txid: TxId) -> Vec<TxId> {
        let inputs = self.tx(txid).map(|tx| tx.inputs.clone()).unwrap_or_default();
        let spenders: Vec<TxId> = inputs.into_iter().flat_map(|i| self.spenders(i)).collect();
        let mut rivals = Ordered::default();
        for spender in spenders {
            if spender != txid && self.is_live(spender) {
                rivals.insert(spender);
            }
        }
        rivals.iter().collect()
    }

    /// Brings back whatever nothing conflicts with any longer, and then its descendants.
    pub(super) fn revive(&mut self) {
        let mut candidates = Ordered::default();
        for outpoint in std::mem::take(&mut self.freed) {
            for spender in self.spenders(outpoint) {
                candidates.insert(spender);
            }
        }
        for parent in std::mem::take(&mut self.risen) {
            for child in self.children(parent) {
                candidates.insert(child);
            }
        }
        let mut queue: VecDeque<TxId> = self.by_preference(candidates).into();
        while let Some(txid) = queue.pop_front() {
            if !self.may_live(txid) {
                continue;
            }
            // What the network once had, it may have still; what was never sent waits again.
            let published = self.tx(txid).is_some_and(|tx| tx.ever_published);
            let step =
                if published { StatusMove::RevivePublished } else { StatusMove::RevivePending };
            self.step(txid, step, JournalCause::Revived, None);
            self.touch_inputs(txid);
            let children = self.children(txid).into_iter();
            let children = children.fold(Ordered::default(), |mut all, child| {
                all.insert(child);
                all
            });
            queue.extend(self.by_preference(children));
        }
    }

    /// Higher known fee first, then the later one: among rivals only one can come back.
    fn by_preference(&mut self, candidates: Ordered<TxId>) -> Vec<TxId> {
        let mut sorted: Vec<TxId> = candidates.iter().collect();
        sorted.sort_by_cached_key(|txid| {
            let known = self.tx(*txid).map(|tx| (tx.fee, tx.received));
            (Reverse(known), *txid)
        });
        sorted
    }

    fn may_live(&mut self, txid: TxId) -> bool {
        let Some(tx) = self.tx(txid) else { return false };
        let dead = matches!(tx.status, TxStatus::Failed | TxStatus::Replaced);
        if !dead || tx.withdrawn || tx.is_coinbase {
            return false;
        }
        let inputs = tx.inputs.clone();
        inputs.into_iter().all(|input| self.input_is_open(input))
    }

    fn input_is_open(&mut self, input: Outpoint) -> bool {
        // A parent that isn't stored is a stranger's: nothing speaks against it.
        let parent_lives = self.tx(input.tx).is_none_or(StoredTx::is_live);
        parent_lives && self.live_spender(input).is_none()
    }

    /// Draws the last consequences: who spends which coin, and what is whose.
    pub(super) fn settle(&mut self) {
        for outpoint in self.touched.iter().collect::<Vec<_>>() {
            self.point(outpoint);
        }
    }

    /// What turned out to be ours gets its fee before anybody compares fees.
    pub(super) fn reown(&mut self) {
        for txid in std::mem::take(&mut self.reowned).iter() {
            self.own(txid);
        }
    }

    /// A coin's spender is the live transaction that spends it, if there is one.
    fn point(&mut self, outpoint: Outpoint) {
        let Some(coin) = self.coin(outpoint) else { return };
        let spender = self.live_spender(outpoint);
        let input = |tx: &StoredTx| tx.inputs.iter().position(|input| *input == outpoint);
        let spent_by = spender.and_then(|txid| {
            let at = self.tx(txid).and_then(input)?;
            Some((txid, u32::try_from(at).ok()?))
        });
        if spent_by == coin.spent_by {
            return;
        }
        self.put_coin(outpoint, super::super::facts::Coin { spent_by, ..coin });
        let Some((by, _)) = spent_by else { return };
        // A lease can't keep the network from spending a coin; the journal says that it happened.
        let forced = coin.holder.filter(|holder| self.locks.get(&by) != Some(holder));
        if let Some(lock) = forced {
            self.lines.push(JournalEntry {
                txid: by,
                output: Some(outpoint),
                from: None,
                to: None,
                cause: JournalCause::ForcedSpend,
                other: None,
                height: None,
                lock: Some(lock),
            });
        }
    }

    /// Whether all inputs are ours, and then what the fee is.
    fn own(&mut self, txid: TxId) {
        let Some(tx) = self.tx(txid) else { return };
        if tx.is_own || tx.is_coinbase {
            return;
        }
        let (inputs, out) = (tx.inputs.clone(), tx.output_total);
        let mut total: u64 = 0;
        for input in inputs {
            let sum = self.coin(input).and_then(|coin| total.checked_add(coin.amount));
            let Some(sum) = sum else { return };
            total = sum;
        }
        if let Some(tx) = self.tx_mut(txid) {
            tx.is_own = true;
            tx.fee = total.checked_sub(out).or(tx.fee);
        }
    }
}
