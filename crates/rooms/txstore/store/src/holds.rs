//! What an operator holds: frozen outputs, reassigned ones, locks, preserved transactions.

use std::{collections::BTreeSet, sync::Arc};

use unspent_model::{
    Outpoint, TxId,
    txstore::{ExpectedOutput, OutputHash, SlotRefusal, TxRecord},
};

use crate::{
    error::TxStoreError,
    mined::change_records,
    spend::hashes_of,
    store::{TIP, TipRow, TxStore, writer_key},
    working::{LoadMode, WorkingSet},
};

type SlotResult = Result<(), SlotRefusal>;

impl TxStore {
    /// Freezes outputs, each by itself: for each whether it is frozen now.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn freeze(&self, coins: Vec<Outpoint>) -> Result<Vec<SlotResult>, TxStoreError> {
        self.change_slots(coins, TxRecord::freeze)
    }

    /// Thaws outputs, each by itself. One that was reassigned goes on waiting.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn unfreeze(&self, coins: Vec<Outpoint>) -> Result<Vec<SlotResult>, TxStoreError> {
        self.change_slots(coins, TxRecord::unfreeze)
    }

    fn change_slots(
        &self,
        coins: Vec<Outpoint>,
        change: fn(&mut TxRecord, u32) -> SlotResult,
    ) -> Result<Vec<SlotResult>, TxStoreError> {
        let coins = Arc::new(coins);
        let Some(first) = coins.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.tx), move |tx| {
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, coins.iter().map(|coin| coin.tx))?;
            working.load_slots(tx, coins.iter().copied())?;
            let done = coins.iter().map(|coin| {
                let record = working.get_mut(coin.tx).ok_or(SlotRefusal::TxNotFound)?;
                change(record, coin.index)
            });
            let done = done.collect();
            working.save(tx)?;
            Ok(done)
        })
    }

    /// Gives a frozen output to somebody else, at `height`. The record is kept for ever from then
    /// on, as evidence.
    ///
    /// # Errors
    ///
    /// Whatever the database says; the inner result says why the output stays what it was.
    pub fn reassign(
        &self,
        coin: Outpoint,
        from: OutputHash,
        to: OutputHash,
        height: u64,
    ) -> Result<SlotResult, TxStoreError> {
        let retention = self.windows.retention;
        self.door.write_for(writer_key(coin.tx), move |tx| {
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, [coin.tx])?;
            working.load_slots(tx, [coin])?;
            let stored = hashes_of(tx, &BTreeSet::from([coin]))?.get(&coin).copied();
            let expected = ExpectedOutput { claimed: Some(from), stored };
            let Some(record) = working.get_mut(coin.tx) else {
                return Ok(Err(SlotRefusal::TxNotFound));
            };
            let done = record.reassign(coin.index, expected, to, height, retention);
            working.save(tx)?;
            Ok(done)
        })
    }

    /// Locks transactions, so that nobody may spend their outputs, or unlocks them, at `height`.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`]; nothing is changed then.
    pub fn set_locked(
        &self,
        txids: Vec<TxId>,
        locked: bool,
        height: u64,
    ) -> Result<(), TxStoreError> {
        let (retention, txids) = (self.windows.retention, Arc::new(txids));
        let Some(first) = txids.first() else { return Ok(()) };
        self.door.write_for(writer_key(*first), move |tx| {
            change_records(tx, &txids, |record| {
                record.set_locked(locked, height, retention);
                Ok(())
            })
        })
    }

    /// Keeps transactions up to a height, whatever else holds. Once that has come, the cleaner sees
    /// anew whether they may go.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`]; nothing is changed then.
    pub fn preserve(&self, txids: Vec<TxId>, until: u64) -> Result<(), TxStoreError> {
        let (retention, txids) = (self.windows.retention, Arc::new(txids));
        let Some(first) = txids.first() else { return Ok(()) };
        self.door.write_for(writer_key(*first), move |tx| {
            let height = TipRow::read(tx, TIP)?.height.unwrap_or(0);
            change_records(tx, &txids, |record| {
                record.preserve(until, height, retention);
                Ok(())
            })
        })
    }
}
