//! What a child has to pay for: the unconfirmed transactions below it, each with its fee and size.
//!
//! Of own transactions the wallet holds all that they spend, so it knows what below them is
//! unconfirmed. Of others it doesn't: what they spend may be unconfirmed and cheap, and only a node
//! can tell. What isn't known is named in the answer, never guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bitcoin::Txid;
use unspent_model::wallet::select::{FeePerWeight, PackageAncestor, UnpaidAncestors, unpaid};
use unspent_sql::{Arg, BulkStatement, Column, Row, Tx};

use super::{CpfpRequest, explain::raw_tx};
use crate::{
    error::WalletError,
    ids::{bitcoin_txid, model_txid},
    rows::{self, status},
    wallet_row::WalletRow,
};

const STORED: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_hash, raw_tx, status, block_height, is_own, fee FROM transactions
        WHERE tx_hash = $2 AND wallet_id = $1",
    postgres: "SELECT t.tx_hash, t.raw_tx, t.status, t.block_height, t.is_own, t.fee
        FROM UNNEST($2::bytea[]) k (h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1",
};

/// What a node says of a transaction in its mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PooledTx {
    /// Its name.
    pub txid: Txid,
    /// In satoshis.
    pub fee: u64,
    /// In virtual bytes.
    pub virtual_size: u64,
    /// Unconfirmed transactions that it spends from.
    pub parents: Vec<Txid>,
}

/// What a child rests on, and pays for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildPackage {
    /// Unconfirmed transactions below the child.
    pub ancestors: usize,
    /// Those of them that no miner would take at the rate: the child pays for them.
    pub unpaid: UnpaidAncestors,
    /// Transactions of others of which nobody here knows whether what they spend is confirmed. It
    /// was counted as confirmed; if it isn't, the child may pay too little.
    pub unsure: Vec<Txid>,
}

/// An unconfirmed transaction below the child.
struct PackageTx {
    fee: Option<u64>,
    virtual_size: u64,
    parents: BTreeSet<Txid>,
    /// Whether all of its unconfirmed parents are known.
    is_sure: bool,
}

impl PackageTx {
    fn told(told: &PooledTx) -> Self {
        Self {
            fee: Some(told.fee),
            virtual_size: told.virtual_size,
            parents: told.parents.iter().copied().collect(),
            is_sure: true,
        }
    }

    /// A transaction that the wallet holds; the node, where it was asked, knows more about it.
    fn stored(row: &Row, told: Option<&PooledTx>) -> Result<Self, WalletError> {
        if let Some(told) = told {
            return Ok(Self::told(told));
        }
        let tx = raw_tx(row)?;
        Ok(Self {
            fee: row.opt_natural("fee")?,
            virtual_size: tx.vsize() as u64,
            parents: tx.input.iter().map(|input| input.previous_output.txid).collect(),
            is_sure: row.flag("is_own")?,
        })
    }
}

/// Everything unconfirmed below a child that spends from `roots`.
pub(super) fn package(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    roots: BTreeSet<Txid>,
    lift: &CpfpRequest,
    rate: FeePerWeight,
) -> Result<ChildPackage, WalletError> {
    let told: HashMap<Txid, &PooledTx> = lift.pool.iter().map(|told| (told.txid, told)).collect();
    let mut found: BTreeMap<Txid, PackageTx> = BTreeMap::new();
    let mut confirmed: BTreeSet<Txid> = BTreeSet::new();
    let mut next = roots;
    while !next.is_empty() {
        let names = next.iter().map(|txid| model_txid(*txid).0);
        let rows = tx.query_set(STORED, &[Arg::Int(wallet.id.0)], &[Column::blobs(names)])?;
        for row in &rows {
            let txid = bitcoin_txid(rows::txid(row, "tx_hash")?);
            if row.opt_int("block_height")?.is_some() || !status(row)?.is_live() {
                confirmed.insert(txid);
            } else {
                found.insert(txid, PackageTx::stored(row, told.get(&txid).copied())?);
            }
        }
        for txid in &next {
            if let Some(told) = told.get(txid).filter(|_| !confirmed.contains(txid)) {
                found.entry(*txid).or_insert_with(|| PackageTx::told(told));
            }
        }
        let below = next.iter().filter_map(|txid| found.get(txid)).flat_map(|one| &one.parents);
        let is_new = |txid: &&Txid| !found.contains_key(*txid) && !confirmed.contains(*txid);
        let below: BTreeSet<Txid> = below.filter(is_new).copied().collect();
        // Names that nobody knows are asked for once.
        next = below.difference(&next).copied().collect();
    }
    if let (Some(fee), Some(parent)) = (lift.parent_fee, found.get_mut(&lift.tx)) {
        parent.fee = Some(fee);
    }
    let unsure = found.iter().filter(|(_, one)| {
        let is_known = |txid: &Txid| found.contains_key(txid) || confirmed.contains(txid);
        !one.is_sure && !one.parents.iter().all(is_known)
    });
    let unsure = unsure.map(|(txid, _)| *txid).collect();
    let ancestors = listed(&found, lift.tx)?;
    Ok(ChildPackage { ancestors: ancestors.len(), unpaid: unpaid(&ancestors, rate), unsure })
}

/// As a list whose places parents are named by.
fn listed(
    found: &BTreeMap<Txid, PackageTx>,
    parent: Txid,
) -> Result<Vec<PackageAncestor>, WalletError> {
    let places: HashMap<&Txid, usize> =
        found.keys().enumerate().map(|(place, txid)| (txid, place)).collect();
    let listed = found.iter().map(|(txid, one)| {
        let fee = one.fee.ok_or_else(|| unknown_fee(*txid, parent))?;
        let parents = one.parents.iter().filter_map(|txid| places.get(txid).copied()).collect();
        Ok(PackageAncestor { fee, virtual_size: one.virtual_size, parents })
    });
    listed.collect()
}

fn unknown_fee(txid: Txid, parent: Txid) -> WalletError {
    if txid == parent {
        return WalletError::Payment("its fee is unknown; give it".into());
    }
    WalletError::Payment(format!(
        "its unconfirmed ancestor {txid} has an unknown fee; a daemon that follows a node asks \
         the node for it"
    ))
}
