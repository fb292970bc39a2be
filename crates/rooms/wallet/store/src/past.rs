//! What a wallet held after a block of the past.
//!
//! Counted backwards from what is kept in the wallet's row: what came after that block goes, what
//! was spent after it comes back. So a recent height costs little, and what a prune took away below
//! a height says nothing about the heights above it.

use unspent_model::wallet::{CoinSum, TxStatus};
use unspent_sql::{Arg, Tx};

use crate::{
    balance::{contradiction, kept_sum, read_sum},
    error::WalletError,
    ids::{WalletId, sql_int},
    store::WalletStore,
    wallet_row::WalletRow,
};

/// Sums since a height: received, spent, spent of coins that a prune took, and on its way out.
const SINCE: &str = "SELECT 0 AS back, CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats,
        COUNT(*) AS coins
    FROM transactions t /*by idx_transactions_by_block*/
    JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
        ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
    WHERE t.wallet_id = $1 AND t.block_height IS NOT NULL AND t.block_height > $2
    UNION ALL
    SELECT 1 AS back, CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM transactions s /*by idx_transactions_by_block*/
    JOIN /*then*/ utxos u /*by idx_utxos_spent_by*/
        ON u.wallet_id = s.wallet_id AND u.spent_by_tx_id = s.id
    JOIN /*then*/ transactions t /*by pidx_transactions*/
        ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE s.wallet_id = $1 AND s.block_height IS NOT NULL AND s.block_height > $2
        AND t.block_height IS NOT NULL
    UNION ALL
    SELECT 1 AS back, CAST(COALESCE(SUM(i.pruned_amount), 0) AS BIGINT) AS sats,
        COUNT(i.pruned_amount) AS coins
    FROM transactions s /*by idx_transactions_by_block*/
    JOIN /*then*/ tx_inputs i ON i.wallet_id = s.wallet_id AND i.tx_id = s.id
    WHERE s.wallet_id = $1 AND s.block_height IS NOT NULL AND s.block_height > $2
        AND i.pruned_amount IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM transactions p WHERE p.tx_hash = i.prev_tx_hash AND p.wallet_id = $1)
    UNION ALL
    SELECT 1 AS back, CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM transactions s /*by idx_transactions_unconfirmed*/
    JOIN /*then*/ utxos u /*by idx_utxos_spent_by*/
        ON u.wallet_id = s.wallet_id AND u.spent_by_tx_id = s.id
    JOIN /*then*/ transactions t /*by pidx_transactions*/
        ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE s.wallet_id = $1 AND s.block_height IS NULL AND s.status IN ($3, $4)
        AND t.block_height IS NOT NULL";
const KNOWN_FROM: &str = "SELECT history_from FROM wallets WHERE id = $1";

impl WalletStore {
    /// What was confirmed and unspent after the block at `height`.
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] above the wallet's tip, [`WalletError::HistoryPruned`] where a
    /// prune took away what it would take to know.
    pub fn balance_as_of(&self, wallet: WalletId, height: u64) -> Result<CoinSum, WalletError> {
        self.door.read(move |tx| as_of(tx, wallet, height))
    }

    /// The lowest height whose balance is still known; `None` when nothing was pruned.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn history_from(&self, wallet: WalletId) -> Result<Option<u64>, WalletError> {
        self.door.read(move |tx| known_from(tx, wallet))
    }
}

fn known_from(tx: &mut Tx<'_>, wallet: WalletId) -> Result<Option<u64>, WalletError> {
    Ok(tx.one(KNOWN_FROM, &[Arg::Int(wallet.0)])?.opt_natural("history_from")?)
}

fn as_of(tx: &mut Tx<'_>, wallet: WalletId, height: u64) -> Result<CoinSum, WalletError> {
    let row = WalletRow::read(tx, wallet)?;
    if row.tip().is_none_or(|tip| height > tip) {
        return Err(WalletError::Argument(format!(
            "the wallet has not reached block {height} yet"
        )));
    }
    if let Some(known_from) = known_from(tx, wallet)?.filter(|from| height < *from) {
        return Err(WalletError::HistoryPruned { height, known_from });
    }
    let args = [
        Arg::Int(wallet.0),
        Arg::Int(sql_int(height)?),
        Arg::Text(TxStatus::Published.name()),
        Arg::Text(TxStatus::Pending.name()),
    ];
    let (mut held, mut received) = (kept_sum(&row)?, CoinSum::default());
    for part in tx.query(SINCE, &args)? {
        let sum = read_sum(&part)?;
        let side = if part.flag("back")? { &mut held } else { &mut received };
        *side = side.plus(sum).ok_or_else(contradiction)?;
    }
    held.minus(received).ok_or_else(contradiction)
}
