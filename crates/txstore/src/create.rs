//! New transactions, alone or together with what they spend.

use std::sync::Arc;

use unspent_model::{
    Outpoint,
    txstore::{DeletionWindows, MinedIn, Slot, TxRecord},
};
use unspent_sql::Tx;

use crate::{
    awaited,
    error::TxStoreError,
    new_tx::NewTx,
    spend::{InputSpend, SpendOptions, SpendOutcome, TxSpends, spend_inputs},
    store::{TxStore, writer_key},
    working::{Access, Working},
};

/// How transactions come into the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateTerms {
    /// The height at which it happens; of the tip for unmined ones.
    pub height: u64,
    /// The block that holds them; `None` for unmined ones.
    pub mined: Option<MinedIn>,
    /// Nobody may spend their outputs yet.
    pub is_locked: bool,
    /// They are known to have lost.
    pub is_conflicting: bool,
    /// All their outputs are frozen.
    pub is_frozen: bool,
}

impl CreateTerms {
    /// In no block, at this height of the tip.
    pub fn unmined(height: u64) -> Self {
        let flags = (false, false, false);
        let (is_locked, is_conflicting, is_frozen) = flags;
        Self { height, mined: None, is_locked, is_conflicting, is_frozen }
    }

    /// In a block.
    pub fn mined(block: MinedIn) -> Self {
        Self { mined: Some(block), ..Self::unmined(block.height) }
    }

    fn record(&self, new: &NewTx, retention: u64) -> TxRecord {
        let mut record = new.record(self.height);
        record.is_locked = self.is_locked;
        if self.is_frozen {
            for vout in 0..record.slots.len() {
                if record.slots.get(vout) == Some(Slot::Unspent) {
                    record.slots.set(vout, Slot::Frozen);
                }
            }
        }
        if self.is_conflicting {
            record.set_conflicting(true, self.height, retention);
        }
        match self.mined {
            Some(block) => record.set_mined(block, retention),
            None => record.reschedule(self.height, retention),
        }
        record
    }
}

/// What came of creating a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Creation {
    /// It is there now.
    Created,
    /// It was there before; nothing of it was changed.
    Exists,
}

/// What came of creating a transaction together with its spends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acceptance {
    /// It is there now, and its inputs are spent. Some parents may be absent.
    Accepted(SpendOutcome),
    /// It was there before; nothing was changed.
    Exists,
    /// An input can't be spent; nothing was changed.
    Refused(SpendOutcome),
}

impl TxStore {
    /// Creates transactions without touching what they spend. For each what came of it.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn create(
        &self,
        txs: Vec<NewTx>,
        terms: CreateTerms,
    ) -> Result<Vec<Creation>, TxStoreError> {
        let (windows, txs) = (self.windows, Arc::new(txs));
        let Some(first) = txs.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.txid), move |tx| {
            let needs_parents = terms.mined.is_some() || terms.is_conflicting;
            let mut incoming = Incoming::read(tx, &txs, terms, windows, needs_parents)?;
            let created = txs.iter().map(|new| incoming.create(new)).collect();
            incoming.finish(tx)?;
            Ok(created)
        })
    }

    /// Creates transactions and spends their inputs: each wholly or not at all, in this order. An
    /// earlier one may be the parent of a later one.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn accept(
        &self,
        txs: Vec<NewTx>,
        terms: CreateTerms,
        options: SpendOptions,
    ) -> Result<Vec<Acceptance>, TxStoreError> {
        let (windows, txs) = (self.windows, Arc::new(txs));
        let Some(first) = txs.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.txid), move |tx| {
            let mut incoming = Incoming::read(tx, &txs, terms, windows, true)?;
            let accepted = txs.iter().map(|new| incoming.accept(new, options)).collect();
            incoming.finish(tx)?;
            Ok(accepted)
        })
    }
}

/// Transactions on their way in.
struct Incoming {
    working: Working,
    terms: CreateTerms,
    windows: DeletionWindows,
    waiters: Vec<awaited::Waiter>,
}

impl Incoming {
    /// Reads the transactions and their parents, under one ordered row of locks, and then who waits
    /// for them: a cleaner notes that only while it holds the parents too.
    fn read(
        tx: &mut Tx<'_>,
        txs: &[NewTx],
        terms: CreateTerms,
        windows: DeletionWindows,
        needs_parents: bool,
    ) -> Result<Self, TxStoreError> {
        let names = txs.iter().map(|new| new.txid);
        let coins = txs.iter().filter(|_| needs_parents).flat_map(|new| new.inputs.iter().copied());
        let coins: Vec<Outpoint> = coins.collect();
        let mut working = Working::new(Access::Change);
        working.load(tx, names.clone().chain(coins.iter().map(|coin| coin.tx)))?;
        working.load_slots(tx, coins)?;
        let waiters = match terms.mined {
            Some(block) if block.on_best_chain => awaited::waiting(tx, names)?,
            Some(_) | None => Vec::new(),
        };
        working.load(tx, waiters.iter().map(|waiter| waiter.parent))?;
        Ok(Self { working, terms, windows, waiters })
    }

    fn create(&mut self, new: &NewTx) -> Creation {
        if self.working.get(new.txid).is_some() {
            return Creation::Exists;
        }
        let record = self.terms.record(new, self.windows.retention);
        if record.is_conflicting {
            for coin in &new.inputs {
                if let Some(parent) = self.working.get_mut(coin.tx) {
                    parent.add_rival(new.txid);
                }
            }
        }
        self.working.add(new, record);
        Creation::Created
    }

    fn accept(&mut self, new: &NewTx, options: SpendOptions) -> Acceptance {
        if self.create(new) == Creation::Exists {
            return Acceptance::Exists;
        }
        if self.terms.is_conflicting {
            return Acceptance::Accepted(SpendOutcome::default());
        }
        let spends = TxSpends::of(new);
        let outcome = spend_inputs(
            &mut self.working,
            &spends,
            &|_: &InputSpend| None,
            self.terms.height,
            options,
            self.windows,
        );
        if outcome.is_done() {
            return Acceptance::Accepted(outcome);
        }
        self.working.take_back(new.txid);
        Acceptance::Refused(outcome)
    }

    fn finish(mut self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        awaited::wake(&mut self.working, &self.waiters, self.windows);
        self.working.save(tx)?;
        awaited::forget(tx, awaited::answered(&self.waiters))
    }
}
