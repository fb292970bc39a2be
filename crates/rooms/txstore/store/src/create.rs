//! New transactions, alone or together with what they spend.

use std::{collections::HashSet, sync::Arc};

use unspent_model::{
    Outpoint, TxId,
    txstore::{DeletionWindows, MinedIn, RetentionBlocks, Slot, TxRecord},
};
use unspent_sql::{Backend, BulkStatement, Column, Tx};

use crate::{
    awaited,
    error::TxStoreError,
    new_tx::NewTx,
    spend::{InputSpend, SpendOptions, SpendOutcome, TxSpends, spend_inputs},
    store::{TxStore, txid, writer_key},
    working::{LoadMode, WorkingSet},
    write_rows::RowWrites,
};

const PRESENT: BulkStatement = BulkStatement {
    sqlite: "SELECT txid FROM transactions WHERE txid = $1",
    postgres: "SELECT txid FROM transactions WHERE txid = ANY($1::bytea[])
        ORDER BY txid FOR UPDATE",
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

    /// Whether the best chain holds them.
    fn are_settled(&self) -> bool {
        self.mined.is_some_and(|block| block.on_best_chain)
    }

    fn record(&self, new: &NewTx, retention: RetentionBlocks) -> TxRecord {
        let mut record = new.record(self.height);
        record.is_locked = self.is_locked;
        if self.is_frozen {
            for vout in 0..record.slots.len() {
                // Thawing makes a coin of what is frozen, and an unspendable output must never
                // become one.
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
pub enum CreateOutcome {
    /// It is there now.
    Created,
    /// It was there before; nothing of it was changed.
    Exists,
}

/// What came of creating a transaction together with its spends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AcceptOutcome {
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
    ) -> Result<Vec<CreateOutcome>, TxStoreError> {
        let (windows, txs) = (self.windows, Arc::new(txs));
        let Some(first) = txs.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.txid), move |tx| {
            if let Some(created) = create_unnoticed(tx, &txs, terms, windows)? {
                return Ok(created);
            }
            let mut incoming = IncomingTxs::read(tx, &txs, terms, windows)?;
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
    ) -> Result<Vec<AcceptOutcome>, TxStoreError> {
        let (windows, txs) = (self.windows, Arc::new(txs));
        let Some(first) = txs.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.txid), move |tx| {
            let mut incoming = IncomingTxs::read(tx, &txs, terms, windows)?;
            let accepted = txs.iter().map(|new| incoming.accept(new, options)).collect();
            incoming.finish(tx)?;
            Ok(accepted)
        })
    }
}

/// Creates transactions that change no other record, and so reads none: only which of them are
/// there already. `None`, with nothing written, when others have to know of them: parents of which
/// they are rivals, parents that wait for them.
fn create_unnoticed(
    tx: &mut Tx<'_>,
    txs: &[NewTx],
    terms: CreateTerms,
    windows: DeletionWindows,
) -> Result<Option<Vec<CreateOutcome>>, TxStoreError> {
    if terms.is_conflicting {
        return Ok(None);
    }
    let mut there = present(tx, txs, terms)?;
    let names = txs.iter().map(|new| new.txid);
    if terms.are_settled() && !awaited::waiting(tx, names)?.is_empty() {
        return Ok(None);
    }
    let created = txs.iter().map(|new| match there.insert(new.txid) {
        true => CreateOutcome::Created,
        false => CreateOutcome::Exists,
    });
    let created: Vec<CreateOutcome> = created.collect();
    let new = txs.iter().zip(&created).filter(|(_, creation)| **creation == CreateOutcome::Created);
    let mut new: Vec<&NewTx> = new.map(|(new, _)| new).collect();
    // In the order in which everybody takes locks.
    new.sort_unstable_by_key(|new| new.txid);
    let mut rows = RowWrites::default();
    for new in new {
        rows.insert(&terms.record(new, windows.retention), &new.body)?;
    }
    rows.send(tx)?;
    Ok(Some(created))
}

/// Which of them are there. A cleaner notes who waits for whom only while it holds the parents, so
/// a server locks these too; a writer of SQLite has no other beside it.
fn present(
    tx: &mut Tx<'_>,
    txs: &[NewTx],
    terms: CreateTerms,
) -> Result<HashSet<TxId>, TxStoreError> {
    let locks_parents = terms.are_settled() && tx.backend() == Backend::Postgres;
    let parents = txs.iter().filter(|_| locks_parents).flat_map(|new| &new.inputs);
    let parents = parents.map(|coin| coin.tx);
    let mut names: Vec<TxId> = txs.iter().map(|new| new.txid).chain(parents).collect();
    names.sort_unstable();
    names.dedup();
    let names = Column::hashes(names.into_iter().map(|txid| txid.0));
    let rows = tx.query_set(PRESENT, &[], &[names])?;
    Ok(rows.iter().map(txid).collect::<Result<_, _>>()?)
}

/// Transactions on their way in.
struct IncomingTxs {
    working: WorkingSet,
    terms: CreateTerms,
    windows: DeletionWindows,
    waiters: Vec<awaited::WaitingParent>,
}

impl IncomingTxs {
    /// Reads the transactions and their parents, under one ordered row of locks, and then who waits
    /// for them: a cleaner notes that only while it holds the parents too.
    fn read(
        tx: &mut Tx<'_>,
        txs: &[NewTx],
        terms: CreateTerms,
        windows: DeletionWindows,
    ) -> Result<Self, TxStoreError> {
        let names = txs.iter().map(|new| new.txid);
        let coins = txs.iter().flat_map(|new| new.inputs.iter().copied());
        let coins: Vec<Outpoint> = coins.collect();
        let mut working = WorkingSet::new(LoadMode::ForUpdate);
        working.load(tx, names.clone().chain(coins.iter().map(|coin| coin.tx)))?;
        working.load_slots(tx, coins)?;
        let waiters = if terms.are_settled() { awaited::waiting(tx, names)? } else { Vec::new() };
        working.load(tx, waiters.iter().map(|waiter| waiter.parent))?;
        Ok(Self { working, terms, windows, waiters })
    }

    fn create(&mut self, new: &NewTx) -> CreateOutcome {
        if self.working.get(new.txid).is_some() {
            return CreateOutcome::Exists;
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
        CreateOutcome::Created
    }

    fn accept(&mut self, new: &NewTx, options: SpendOptions) -> AcceptOutcome {
        if self.create(new) == CreateOutcome::Exists {
            return AcceptOutcome::Exists;
        }
        if self.terms.is_conflicting {
            return AcceptOutcome::Accepted(SpendOutcome::default());
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
            return AcceptOutcome::Accepted(outcome);
        }
        // The refused spend has put the parents back already: only the record itself must go.
        self.working.take_back(new.txid);
        AcceptOutcome::Refused(outcome)
    }

    fn finish(mut self, tx: &mut Tx<'_>) -> Result<(), TxStoreError> {
        awaited::wake(&mut self.working, &self.waiters, self.windows);
        self.working.save(tx)?;
        awaited::forget(tx, awaited::answered(&self.waiters))
    }
}
