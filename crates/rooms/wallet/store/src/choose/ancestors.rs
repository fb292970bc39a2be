//! Unconfirmed ancestors: whose they are, and how many.
//!
//! Own change may be spent before it confirms because nobody but us can double-spend it. That holds
//! only while everything below it that is unconfirmed is ours as well: change of a payment that
//! spent somebody's unconfirmed coin dies with that coin. And nodes take a transaction only while
//! it has few unconfirmed ancestors (Core's `DEFAULT_ANCESTOR_LIMIT`).

use std::collections::{BTreeMap, HashMap, HashSet};

use unspent_model::wallet::TxStatus;
use unspent_sql::{Arg, Column, RowId, Tx};

use super::{ChosenCoin, candidates::ANCESTORS};
use crate::{error::WalletError, rows::status, wallet_row::WalletRow};

/// Unconfirmed transactions that a payment may rest on; with itself they are 25.
const MAX_ANCESTORS: usize = 24;

/// Unconfirmed transactions of one coin: its own and those below.
#[derive(Default)]
struct AncestorSet {
    txs: HashSet<RowId>,
    all_own: bool,
    all_sent: bool,
}

/// The coins of `free` that may be spent together with the required ones.
pub(super) fn trusted(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    required: &[ChosenCoin],
    free: Vec<ChosenCoin>,
    pending: bool,
) -> Result<Vec<ChosenCoin>, WalletError> {
    let unconfirmed = |coin: &&ChosenCoin| coin.age == u64::MAX;
    let named: HashSet<RowId> = required.iter().filter(unconfirmed).map(|coin| coin.tx).collect();
    let mut roots: Vec<RowId> = free.iter().filter(unconfirmed).map(|coin| coin.tx).collect();
    roots.extend(&named);
    if roots.is_empty() {
        return Ok(free);
    }
    let mut below = ancestors(tx, wallet, roots)?;
    let mut together: HashSet<RowId> = HashSet::new();
    for root in &named {
        together.extend(below.remove(root).map(|found| found.txs).unwrap_or_default());
    }
    if together.len() > MAX_ANCESTORS {
        let why = "the required coins have more than 24 unconfirmed ancestors, which nodes refuse";
        return Err(WalletError::Payment(why.into()));
    }
    // Whatever is chosen among those that are let in, all of them together stay below the limit.
    let mut allowed = named;
    let mut others: Vec<(RowId, AncestorSet)> = below.into_iter().collect();
    // Small families first: so the most coins fit under the limit.
    others.sort_by_key(|(root, found)| (found.txs.len(), *root));
    for (root, found) in others {
        let union = found.txs.union(&together).count();
        if found.all_own && (pending || found.all_sent) && union <= MAX_ANCESTORS {
            together.extend(found.txs);
            allowed.insert(root);
        }
    }
    let is_allowed = |coin: &ChosenCoin| coin.age != u64::MAX || allowed.contains(&coin.tx);
    Ok(free.into_iter().filter(is_allowed).collect())
}

fn ancestors(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    mut roots: Vec<RowId>,
) -> Result<BTreeMap<RowId, AncestorSet>, WalletError> {
    roots.sort_unstable();
    roots.dedup();
    let most = i64::try_from(MAX_ANCESTORS + 1).unwrap_or(i64::MAX);
    let scalars = [Arg::Int(wallet.id.0), Arg::Int(most)];
    let mut found: HashMap<RowId, AncestorSet> = HashMap::new();
    for row in tx.query_set(ANCESTORS, &scalars, &[Column::row_ids(roots)])? {
        let below = found.entry(row.row_id("root")?).or_insert_with(|| AncestorSet {
            all_own: true,
            all_sent: true,
            ..AncestorSet::default()
        });
        below.txs.insert(row.row_id("id")?);
        below.all_own &= row.flag("is_own")?;
        below.all_sent &= status(&row)? == TxStatus::Published;
    }
    Ok(found.into_iter().collect())
}
