//! Transactions that spend the same output: who lost, and with whom.
//!
//! A loser is marked with all its descendants, and the outputs that it had spent of others are
//! coins again, all in one step. Outputs of losers that losers spent stay as they are; losers are
//! deleted leaves first.

use std::collections::BTreeSet;

use unspent_model::{
    Outpoint, TxId,
    txstore::{DeletionWindows, Slot, SpendTerms, TxRecord},
};
use unspent_sql::Tx;

use crate::{
    error::TxStoreError,
    spend::{InputOutcome, InputSpend, SpendOptions, TxSpends, spend_inputs},
    store::{TxStore, writer_key},
    working::{LoadMode, WorkingSet},
};

impl TxStore {
    /// These transactions lost, at `height`: they and all their descendants are conflicting. All
    /// losers are returned.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`], or [`TxStoreError::IsMined`] when the best chain holds one of
    /// them; nothing is changed then.
    pub fn set_conflicting(
        &self,
        txids: Vec<TxId>,
        height: u64,
    ) -> Result<BTreeSet<TxId>, TxStoreError> {
        let windows = self.windows;
        let roots: BTreeSet<TxId> = txids.into_iter().collect();
        let Some(first) = roots.first() else { return Ok(roots) };
        self.door.write_for(writer_key(*first), move |tx| {
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, roots.iter().copied())?;
            let missing = roots.iter().copied().filter(|txid| working.get(*txid).is_none());
            let missing: Vec<TxId> = missing.collect();
            if !missing.is_empty() {
                return Err(TxStoreError::Missing(missing));
            }
            let losers = condemn(tx, &mut working, roots.clone(), height, windows)?;
            working.save(tx)?;
            Ok(losers)
        })
    }

    /// This transaction won, at `height`: whoever else spent its inputs lost, with all descendants;
    /// it is no longer conflicting, and its inputs are its own. All losers are returned.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`]; [`TxStoreError::IsMined`] when a rival is in the best chain;
    /// [`TxStoreError::CannotWin`] when an output can't be had for another reason,
    /// [`TxStoreError::OwnRival`]. Nothing is changed then.
    pub fn resolve_conflict(
        &self,
        winner: TxId,
        height: u64,
    ) -> Result<BTreeSet<TxId>, TxStoreError> {
        let windows = self.windows;
        self.door.write_for(writer_key(winner), move |tx| {
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, [winner])?;
            if working.get(winner).is_none() {
                return Err(TxStoreError::Missing(vec![winner]));
            }
            working.load_inputs(tx, [winner])?;
            let inputs = working.inputs(winner).to_vec();
            working.load(tx, inputs.iter().map(|coin| coin.tx))?;
            working.load_slots(tx, inputs.iter().copied())?;
            let rivals = spenders_but(&working, &inputs, winner);
            let losers = condemn(tx, &mut working, rivals, height, windows)?;
            // A rival may be its ancestor, and then it loses with that one.
            if losers.contains(&winner) {
                return Err(TxStoreError::OwnRival(winner));
            }
            load_children(tx, &mut working, &BTreeSet::from([winner]))?;
            reinstate(&mut working, winner, height, windows)?;
            working.save(tx)?;
            Ok(losers)
        })
    }

    /// Everybody who stands against a transaction: those who spent its inputs or tried to, with
    /// their descendants.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`].
    pub fn counter_conflicting(&self, txid: TxId) -> Result<BTreeSet<TxId>, TxStoreError> {
        self.door.read(move |tx| {
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            working.load(tx, [txid])?;
            if working.get(txid).is_none() {
                return Err(TxStoreError::Missing(vec![txid]));
            }
            working.load_inputs(tx, [txid])?;
            let inputs = working.inputs(txid).to_vec();
            working.load(tx, inputs.iter().map(|coin| coin.tx))?;
            working.load_slots(tx, inputs.iter().copied())?;
            let mut against = spenders_but(&working, &inputs, txid);
            let parents = inputs.iter().filter_map(|coin| working.get(coin.tx));
            let noted: BTreeSet<TxId> = parents.flat_map(|parent| parent.rivals.clone()).collect();
            working.load(tx, noted.iter().copied())?;
            working.load_inputs(tx, noted.iter().copied())?;
            let mine: BTreeSet<Outpoint> = inputs.into_iter().collect();
            // Rivals are noted with the parent, not with its output: some fought over another one.
            against.extend(noted.into_iter().filter(|rival| {
                *rival != txid && working.inputs(*rival).iter().any(|coin| mine.contains(coin))
            }));
            let mut found = descendants(tx, &mut working, against)?;
            found.remove(&txid);
            Ok(found)
        })
    }

    /// Every descendant of a transaction that is in the store, without itself.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn descendants(&self, txid: TxId) -> Result<BTreeSet<TxId>, TxStoreError> {
        self.door.read(move |tx| {
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            let mut found = descendants(tx, &mut working, BTreeSet::from([txid]))?;
            found.remove(&txid);
            Ok(found)
        })
    }
}

/// Who else spent these outputs, also where that transaction is no longer in the store: whoever is
/// settled and gone overrules as well.
pub(crate) fn spenders_but(working: &WorkingSet, coins: &[Outpoint], but: TxId) -> BTreeSet<TxId> {
    let slots = coins.iter().filter_map(|coin| working.get(coin.tx)?.slots.get(coin.index));
    let spenders = slots.filter_map(|slot| match slot {
        Slot::Spent(by) => Some(by.tx),
        Slot::Unspendable | Slot::Unspent | Slot::SpentPruned(_) | Slot::Frozen => None,
    });
    spenders.filter(|spender| *spender != but).collect()
}

fn children(record: &TxRecord) -> impl Iterator<Item = TxId> {
    record.slots.iter().filter_map(|(_, slot)| match slot {
        Slot::Spent(by) => Some(by.tx),
        Slot::Unspendable | Slot::Unspent | Slot::SpentPruned(_) | Slot::Frozen => None,
    })
}

/// These and all that descends from them, as far as it is in the store. One read per generation.
fn descendants(
    tx: &mut Tx<'_>,
    working: &mut WorkingSet,
    roots: BTreeSet<TxId>,
) -> Result<BTreeSet<TxId>, TxStoreError> {
    let mut found = BTreeSet::new();
    let mut level = roots;
    while !level.is_empty() {
        working.load(tx, level.iter().copied())?;
        working.load_all_slots(tx, level.iter().copied())?;
        level.retain(|txid| working.get(*txid).is_some());
        found.extend(level.iter().copied());
        let next = level.iter().filter_map(|txid| working.get(*txid)).flat_map(children);
        level = next.filter(|child| !found.contains(child)).collect();
    }
    Ok(found)
}

/// Marks losers and all their descendants, and gives back what they had spent of others.
pub(crate) fn condemn(
    tx: &mut Tx<'_>,
    working: &mut WorkingSet,
    roots: BTreeSet<TxId>,
    height: u64,
    windows: DeletionWindows,
) -> Result<BTreeSet<TxId>, TxStoreError> {
    let losers = descendants(tx, working, roots)?;
    working.load_inputs(tx, losers.iter().copied())?;
    let mut spends: Vec<(Outpoint, TxId)> = Vec::new();
    for loser in &losers {
        spends.extend(working.inputs(*loser).iter().map(|coin| (*coin, *loser)));
        if let Some(record) = working.get_mut(*loser) {
            if record.is_mined() {
                return Err(TxStoreError::IsMined(*loser));
            }
            record.set_conflicting(true, height, windows.retention);
        }
    }
    working.load(tx, spends.iter().map(|(coin, _)| coin.tx))?;
    working.load_slots(tx, spends.iter().map(|(coin, _)| *coin))?;
    for (coin, loser) in spends {
        let Some(parent) = working.get_mut(coin.tx) else { continue };
        parent.add_rival(loser);
        if !losers.contains(&coin.tx) {
            give_back(parent, coin.index, loser, height, windows);
        }
    }
    Ok(losers)
}

/// An output is a coin again, if that child has it.
pub(crate) fn give_back(
    parent: &mut TxRecord,
    vout: u32,
    child: TxId,
    height: u64,
    windows: DeletionWindows,
) -> bool {
    match parent.slots.get(vout) {
        Some(Slot::Spent(by)) if by.tx == child => {
            parent.unspend(vout, by, height, windows.retention).unwrap_or(false)
        }
        _ => false,
    }
}

/// Reads what [`clear_conflict`] has to know besides the parents: who has spent these.
pub(crate) fn load_children(
    tx: &mut Tx<'_>,
    working: &mut WorkingSet,
    txids: &BTreeSet<TxId>,
) -> Result<(), TxStoreError> {
    working.load_all_slots(tx, txids.iter().copied())?;
    let records = txids.iter().filter_map(|txid| working.get(*txid));
    let children: BTreeSet<TxId> = records.flat_map(children).collect();
    working.load(tx, children)
}

/// A transaction is no longer conflicting, and outputs of it that losers had spent are coins again.
/// Its parents and children must have been read.
pub(crate) fn clear_conflict(
    working: &mut WorkingSet,
    winner: TxId,
    height: u64,
    windows: DeletionWindows,
) {
    for coin in working.inputs(winner).to_vec() {
        if let Some(parent) = working.get_mut(coin.tx) {
            parent.remove_rival(winner);
        }
    }
    let slots = working.get(winner).map(|record| record.slots.iter().collect::<Vec<_>>());
    let held = slots.unwrap_or_default().into_iter().filter_map(|(vout, slot)| {
        let child = slot.spender()?.tx;
        working.get(child).is_some_and(|child| child.is_conflicting).then_some((vout, child))
    });
    let held: Vec<(u32, TxId)> = held.collect();
    let Some(record) = working.get_mut(winner) else { return };
    record.set_conflicting(false, height, windows.retention);
    for (vout, child) in held {
        give_back(record, vout, child, height, windows);
    }
}

/// A transaction that was conflicting has its inputs again. Its parents must have been read.
fn reinstate(
    working: &mut WorkingSet,
    winner: TxId,
    height: u64,
    windows: DeletionWindows,
) -> Result<(), TxStoreError> {
    clear_conflict(working, winner, height, windows);
    let inputs = working.inputs(winner).iter().zip(0..);
    let inputs = inputs.map(|(coin, vin)| InputSpend { vin, coin: *coin, output: None }).collect();
    let terms = SpendTerms { ignore_locked: true, ..SpendTerms::default() };
    let options = SpendOptions { terms, allow_absent: true };
    let spends = TxSpends { child: winner, inputs };
    let outcome = spend_inputs(working, &spends, &|_| None, height, options, windows);
    for (input, outcome) in spends.inputs.iter().zip(&outcome.inputs) {
        if let InputOutcome::Refused(why) = outcome {
            return Err(TxStoreError::CannotWin { txid: winner, coin: input.coin, why: *why });
        }
    }
    Ok(())
}
