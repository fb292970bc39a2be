//! What the source says of each coin beside what is found here.
//!
//! The two may differ for good reasons: the source believes both of two transactions that spend the
//! same output, here one of them lives; and an address that the source never handed out is watched
//! here already. Every difference is named, so that no sum has to be believed.

use std::collections::{HashMap, HashSet};

use bitcoin::OutPoint;
use unspent_model::wallet::{CoinFacts, CoinState, TxStatus};
use unspent_sql::{Arg, Row, Tx};

use super::{CoinClaim, CoinDifference, write::has_lost};
use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint},
    rows::{self, status},
    wallet_info::MAX_PAGE,
    wallet_row::WalletRow,
};

/// Every coin of the wallet after a row, whatever became of it.
const COINS: &str = "SELECT u.id, t.tx_hash, u.output_index, u.amount, u.spent_by_tx_id, t.status,
        t.block_height, t.is_coinbase
    FROM utxos u
    JOIN transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id
    WHERE u.wallet_id = $1 AND u.id > $2 ORDER BY u.id LIMIT $3";
/// Outputs that transactions spend which lost against others.
const SPENT_IN_VAIN: &str = "SELECT i.prev_tx_hash, i.prev_output_index
    FROM transactions t
    JOIN tx_inputs i ON i.wallet_id = +t.wallet_id AND i.tx_id = +t.id
    WHERE t.wallet_id = $1 AND t.block_height IS NULL AND t.status IN ($2, $3)";

struct ComparedCoin {
    amount: u64,
    height: Option<u64>,
    state: CoinState,
    status: TxStatus,
}

/// Coins about which the two don't agree.
pub(super) fn compare(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    claims: &[CoinClaim],
) -> Result<Vec<CoinDifference>, WalletError> {
    let mut here = coins(tx, wallet)?;
    let in_vain = spent_in_vain(tx, wallet)?;
    let mut differences = Vec::new();
    for claim in claims {
        let found = here.remove(&claim.coin);
        let agrees = found.as_ref().is_some_and(|found| {
            found.amount == claim.amount
                && (found.state == CoinState::Spent) == claim.is_spent
                && !has_lost(found.status)
        });
        if agrees {
            continue;
        }
        let by_conflict = in_vain.contains(&claim.coin)
            || found.as_ref().is_some_and(|found| has_lost(found.status));
        differences.push(CoinDifference {
            coin: claim.coin,
            amount: claim.amount,
            spent_there: Some(claim.is_spent),
            here: found.as_ref().map(|found| found.state),
            height: found.and_then(|found| found.height),
            by_conflict,
        });
    }
    let mut further: Vec<_> = here.into_iter().collect();
    further.sort_by_key(|(coin, _)| *coin);
    differences.extend(further.into_iter().map(|(coin, found)| CoinDifference {
        coin,
        amount: found.amount,
        spent_there: None,
        here: Some(found.state),
        height: found.height,
        by_conflict: false,
    }));
    Ok(differences)
}

fn coins(
    tx: &mut Tx<'_>,
    wallet: WalletId,
) -> Result<HashMap<OutPoint, ComparedCoin>, WalletError> {
    let tip = WalletRow::read(tx, wallet)?.tip();
    let (mut all, mut after) = (HashMap::new(), 0);
    loop {
        let args = [Arg::Int(wallet.0), Arg::Int(after), Arg::Int(MAX_PAGE.into())];
        let page = tx.query(COINS, &args)?;
        for row in &page {
            after = row.row_id("id")?.0;
            all.insert(bitcoin_outpoint(rows::coin(row)?), found(row, tip)?);
        }
        if page.is_empty() {
            return Ok(all);
        }
    }
}

fn found(row: &Row, tip: Option<u64>) -> Result<ComparedCoin, WalletError> {
    let parent = status(row)?;
    // Leases and freezes are no difference: they are told apart.
    let height = row.opt_natural("block_height")?;
    let facts = CoinFacts {
        parent,
        height,
        is_coinbase: row.flag("is_coinbase")?,
        is_spent: row.opt_int("spent_by_tx_id")?.is_some(),
        is_leased: false,
        is_frozen: false,
        is_dropped: false,
    };
    let state = CoinState::of(facts, tip);
    Ok(ComparedCoin { amount: row.natural("amount")?, height, state, status: parent })
}

fn spent_in_vain(tx: &mut Tx<'_>, wallet: WalletId) -> Result<HashSet<OutPoint>, WalletError> {
    let args = [
        Arg::Int(wallet.0),
        Arg::Text(TxStatus::Failed.name()),
        Arg::Text(TxStatus::Replaced.name()),
    ];
    let rows = tx.query(SPENT_IN_VAIN, &args)?;
    rows.iter().map(|row| Ok(bitcoin_outpoint(rows::prevout(row)?))).collect()
}
