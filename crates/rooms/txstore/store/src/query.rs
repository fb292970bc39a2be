//! Reading: records, outputs, unmined transactions, and why a record is still there.

use std::collections::BTreeSet;

use unspent_model::{
    Outpoint, TxId, maturity,
    txstore::{
        DeletionBlocker, DeletionVerdict, MinedIn, RetryAt, Slot, Spender, TxRecord, blockers,
        verdict,
    },
};
use unspent_sql::{Arg, Row};

use crate::{
    clean::read_children,
    error::TxStoreError,
    new_tx::stored_inputs,
    store::{TIP, TipRow, TxStore, sql_int, txid},
    working::{LoadMode, WorkingSet, bodies},
};

const UNMINED: &str = "SELECT txid, unmined_since FROM transactions /*by idx_transactions_unmined*/
    WHERE unmined_since IS NOT NULL AND unmined_since <= $1
        AND (unmined_since > $2 OR (unmined_since = $2 AND txid > $3))
    ORDER BY unmined_since, txid LIMIT $4";

/// A stored transaction with everything that is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTx {
    /// The record, with all its outputs.
    pub record: TxRecord,
    /// Its bytes.
    pub body: Vec<u8>,
    /// What it spends.
    pub inputs: Vec<Outpoint>,
}

/// What an output is at a height.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputStatus {
    /// It can be spent.
    Spendable,
    /// It is spent; `is_pruned` when its spender was deleted since.
    Spent {
        /// By whom.
        by: Spender,
        /// Whether that one was deleted.
        is_pruned: bool,
    },
    /// It can never be spent.
    Unspendable,
    /// Its transaction is locked.
    Locked,
    /// It is frozen, or was reassigned lately.
    Frozen,
    /// Its transaction lost a conflict.
    Conflicting,
    /// It belongs to a coinbase that isn't old enough.
    Immature,
    /// There is no such transaction or output.
    NotFound,
}

impl OutputStatus {
    /// Its name, as programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spendable => "spendable",
            Self::Spent { .. } => "spent",
            Self::Unspendable => "unspendable",
            Self::Locked => "locked",
            Self::Frozen => "frozen",
            Self::Conflicting => "conflicting",
            Self::Immature => "immature",
            Self::NotFound => "not_found",
        }
    }

    fn of(record: &TxRecord, vout: u32, height: u64) -> Self {
        let Some(slot) = record.slots.get(vout) else { return Self::NotFound };
        let waits =
            record.reassigned.iter().any(|given| given.vout == vout && given.spendable_at > height);
        let is_ripe = || {
            let mined = record.mined_height();
            mined.is_some_and(|mined| maturity::block_may_spend(mined, height))
        };
        match slot {
            Slot::Spent(by) => Self::Spent { by, is_pruned: false },
            Slot::SpentPruned(by) => Self::Spent { by, is_pruned: true },
            Slot::Unspendable => Self::Unspendable,
            Slot::Frozen => Self::Frozen,
            Slot::Unspent if record.is_conflicting => Self::Conflicting,
            Slot::Unspent if record.is_locked => Self::Locked,
            Slot::Unspent if waits => Self::Frozen,
            Slot::Unspent if record.is_coinbase && !is_ripe() => Self::Immature,
            Slot::Unspent => Self::Spendable,
        }
    }
}

/// An unmined transaction, and the cursor of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnminedTx {
    /// Since which height.
    pub since: u64,
    /// Its name.
    pub txid: TxId,
}

/// Why a record is still there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhyKept {
    /// The record.
    pub record: TxRecord,
    /// The height that it was judged by.
    pub height: u64,
    /// What would become of it now.
    pub verdict: DeletionVerdict,
    /// Everything that stands against its deletion, each with its child and depth.
    pub blockers: Vec<DeletionBlocker>,
    /// From which height it could go, if nothing changes; `None` when that can't be said.
    pub from_height: Option<u64>,
}

impl TxStore {
    /// A transaction with its bytes and all its outputs.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn get(&self, wanted: TxId) -> Result<Option<StoredTx>, TxStoreError> {
        self.door.read(move |tx| {
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            working.load(tx, [wanted])?;
            working.load_all_slots(tx, [wanted])?;
            let Some(record) = working.get(wanted).cloned() else { return Ok(None) };
            let body = bodies(tx, &BTreeSet::from([wanted]))?.remove(&wanted).unwrap_or_default();
            let inputs = stored_inputs(&body)?;
            Ok(Some(StoredTx { record, body, inputs }))
        })
    }

    /// Records without their bytes, in the order asked for; outputs beyond the first page are not
    /// read.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn records(&self, txids: Vec<TxId>) -> Result<Vec<Option<TxRecord>>, TxStoreError> {
        self.door.read(move |tx| {
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            working.load(tx, txids.iter().copied())?;
            Ok(txids.iter().map(|txid| working.get(*txid).cloned()).collect())
        })
    }

    /// What outputs are for a block at `height`, in the order asked for.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn output_status(
        &self,
        coins: Vec<Outpoint>,
        height: u64,
    ) -> Result<Vec<OutputStatus>, TxStoreError> {
        self.door.read(move |tx| {
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            working.load(tx, coins.iter().map(|coin| coin.tx))?;
            working.load_slots(tx, coins.iter().copied())?;
            let status = |coin: &Outpoint| match working.get(coin.tx) {
                Some(record) => OutputStatus::of(record, coin.index, height),
                None => OutputStatus::NotFound,
            };
            Ok(coins.iter().map(status).collect())
        })
    }

    /// Unmined transactions, those that wait longest first; only such as are unmined since a height
    /// up to `until`. A page starts after the last one of the page before.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn unmined(
        &self,
        until: Option<u64>,
        after: Option<UnminedTx>,
        limit: u32,
    ) -> Result<Vec<UnminedTx>, TxStoreError> {
        let until = until.map_or(Ok(i64::MAX), sql_int)?;
        // Below every height, so that a first page needs no statement of its own.
        let since = after.map_or(Ok(-1), |after| sql_int(after.since))?;
        let name = after.map_or([0; 32], |after| after.txid.0);
        self.door.read(move |tx| {
            let args = [Arg::Int(until), Arg::Int(since), Arg::Blob(&name), Arg::Int(limit.into())];
            let rows = tx.query(UNMINED, &args)?;
            let one = |row: &Row| {
                Ok(UnminedTx { since: row.natural("unmined_since")?, txid: txid(row)? })
            };
            rows.iter().map(one).collect()
        })
    }

    /// Why a transaction is still there: what stands against its deletion at the tip, and from
    /// which height it could go.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn why(&self, wanted: TxId) -> Result<Option<WhyKept>, TxStoreError> {
        let windows = self.windows;
        self.door.read(move |tx| {
            let height = TipRow::read(tx, TIP)?.height.unwrap_or(0);
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            working.load(tx, [wanted])?;
            working.load_all_slots(tx, [wanted])?;
            let Some(record) = working.get(wanted).cloned() else { return Ok(None) };
            let children = read_children(tx, [&record].into_iter())?;
            let verdict = verdict(&record, &children, height, windows);
            let blockers = blockers(&record, &children, height, windows);
            let from_height = earliest(&blockers, height);
            Ok(Some(WhyKept { record, height, verdict, blockers, from_height }))
        })
    }
}

/// The height at which the last dated blocker ends; nothing when one has no date.
fn earliest(blockers: &[DeletionBlocker], height: u64) -> Option<u64> {
    blockers.iter().try_fold(height, |from, blocker| match blocker.retry_at {
        RetryAt::At(at) => Some(from.max(at)),
        RetryAt::AfterMining(_) | RetryAt::OnChange => None,
    })
}

/// The block of the best chain that holds a record.
pub fn best_block(record: &TxRecord) -> Option<MinedIn> {
    let best = record.blocks.iter().filter(|block| block.on_best_chain);
    best.max_by_key(|block| block.height).copied()
}
