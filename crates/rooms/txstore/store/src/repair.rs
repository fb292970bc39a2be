//! What an operator may do about records that would stay for ever: dropping a transaction that is
//! never mined, and clearing outputs that name a spender which never existed.

use std::collections::BTreeSet;

use unspent_model::{
    Outpoint, TxId,
    txstore::{Slot, Spender},
};
use unspent_sql::{Arg, BulkStatement, Column};

use crate::{
    awaited,
    conflicts::give_back,
    error::TxStoreError,
    status::{DROPPED, REPAIRED, add_to_tally},
    store::{TIP, TipRow, TxStore, txid, writer_key},
    working::{LoadMode, WorkingSet},
};

const NEXT: &str = "SELECT txid FROM transactions WHERE txid > $1 ORDER BY txid LIMIT $2";
const PRESENT: BulkStatement = BulkStatement {
    sqlite: "SELECT txid FROM transactions WHERE txid = $1",
    postgres: "SELECT txid FROM transactions WHERE txid = ANY($1::bytea[])",
};

/// An output that names a spender which isn't in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnknownSpender {
    /// The output.
    pub coin: Outpoint,
    /// Whom it names.
    pub by: Spender,
}

/// A page of a search through all records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnknownPage {
    /// What was found.
    pub found: Vec<UnknownSpender>,
    /// The next page starts after it; `None` at the end.
    pub next: Option<TxId>,
}

impl TxStore {
    /// Deletes an unmined transaction without children, at the tip's height; the outputs that it
    /// had spent are coins again.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Missing`], [`TxStoreError::NotUnmined`] or [`TxStoreError::HasChildren`];
    /// nothing is changed then.
    pub fn drop_unmined(&self, dropped: TxId) -> Result<(), TxStoreError> {
        let windows = self.windows;
        self.door.write_for(writer_key(dropped), move |tx| {
            let height = TipRow::read(tx, TIP)?.height.unwrap_or(0);
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, [dropped])?;
            working.load_all_slots(tx, [dropped])?;
            let record = working.get(dropped).ok_or(TxStoreError::Missing(vec![dropped]))?;
            if record.is_mined() {
                return Err(TxStoreError::NotUnmined(dropped));
            }
            if record.slots.iter().any(|(_, slot)| slot.spender().is_some()) {
                return Err(TxStoreError::HasChildren(dropped));
            }
            working.load_inputs(tx, [dropped])?;
            let inputs = working.inputs(dropped).to_vec();
            working.load(tx, inputs.iter().map(|coin| coin.tx))?;
            working.load_slots(tx, inputs.iter().copied())?;
            for coin in inputs {
                let Some(parent) = working.get_mut(coin.tx) else { continue };
                parent.remove_rival(dropped);
                give_back(parent, coin.index, dropped, height, windows);
            }
            working.delete(dropped);
            working.save(tx)?;
            // Parents that waited for it have their outputs back and are due for another reason, if
            // at all.
            awaited::forget(tx, [dropped].into_iter())?;
            add_to_tally(tx, &[(DROPPED, 1)])
        })
    }

    /// Looks through a page of records, in the order of their names, for outputs whose spenders are
    /// not in the store though nobody deleted them.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn unknown_spenders(
        &self,
        after: Option<TxId>,
        limit: u32,
    ) -> Result<UnknownPage, TxStoreError> {
        let after = after.map_or(Vec::new(), |after| after.0.to_vec());
        self.door.read(move |tx| {
            let rows = tx.query(NEXT, &[Arg::Blob(&after), Arg::Int(limit.into())])?;
            let names = rows.iter().map(txid).collect::<Result<Vec<TxId>, _>>()?;
            let mut working = WorkingSet::new(LoadMode::ReadOnly);
            working.load(tx, names.iter().copied())?;
            working.load_all_slots(tx, names.iter().copied())?;
            let mut found = BTreeSet::new();
            for record in names.iter().filter_map(|txid| working.get(*txid)) {
                found.extend(record.slots.iter().filter_map(|(vout, slot)| match slot {
                    Slot::Spent(by) => {
                        Some(UnknownSpender { coin: Outpoint::new(record.txid, vout), by })
                    }
                    Slot::Unspendable | Slot::Unspent | Slot::SpentPruned(_) | Slot::Frozen => None,
                }));
            }
            let present = present(tx, &found)?;
            found.retain(|unknown| !present.contains(&unknown.by.tx));
            let is_full = names.len() == limit as usize;
            let next = names.last().copied().filter(|_| is_full);
            Ok(UnknownPage { found: found.into_iter().collect(), next })
        })
    }

    /// Makes outputs coins again that name a spender which never existed. Each is looked at once
    /// more: it must still name that spender, and the spender must still be absent. Says how many
    /// were cleared.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn repair(&self, unknown: Vec<UnknownSpender>) -> Result<usize, TxStoreError> {
        let windows = self.windows;
        let unknown: BTreeSet<UnknownSpender> = unknown.into_iter().collect();
        let Some(first) = unknown.first() else { return Ok(0) };
        self.door.write_for(writer_key(first.coin.tx), move |tx| {
            let height = TipRow::read(tx, TIP)?.height.unwrap_or(0);
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, unknown.iter().map(|unknown| unknown.coin.tx))?;
            working.load_slots(tx, unknown.iter().map(|unknown| unknown.coin))?;
            // After the parents are locked: whoever creates a spender has to lock them first.
            let present = present(tx, &unknown)?;
            let mut cleared = 0;
            for UnknownSpender { coin, by } in &unknown {
                let Some(parent) = working.get_mut(coin.tx) else { continue };
                if !present.contains(&by.tx)
                    && parent.slots.get(coin.index) == Some(Slot::Spent(*by))
                {
                    let given = give_back(parent, coin.index, by.tx, height, windows);
                    cleared += usize::from(given);
                }
            }
            working.save(tx)?;
            let absent = unknown.iter().map(|unknown| unknown.by.tx);
            awaited::forget(tx, absent.filter(|txid| !present.contains(txid)))?;
            add_to_tally(tx, &[(REPAIRED, cleared)])?;
            Ok(cleared)
        })
    }
}

fn present(
    tx: &mut unspent_sql::Tx<'_>,
    unknown: &BTreeSet<UnknownSpender>,
) -> Result<BTreeSet<TxId>, TxStoreError> {
    let names: BTreeSet<TxId> = unknown.iter().map(|unknown| unknown.by.tx).collect();
    let names = Column::hashes(names.iter().map(|txid| txid.0));
    let rows = tx.query_set(PRESENT, &[], &[names])?;
    Ok(rows.iter().map(txid).collect::<Result<_, _>>()?)
}
