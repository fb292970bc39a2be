//! Coins that are not to be spent until somebody says so.
//!
//! A freeze stands on the output's name, not on its row: it outlives reorganisations and prunes,
//! and may come before the coin, as labels from another wallet do.

use bitcoin::OutPoint;
use unspent_model::{Micros, Outpoint};
use unspent_sql::{Arg, BulkStatement, Column, Tx};

use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint, model_outpoint},
    rows::coin,
    store::WalletStore,
    wallet_row::WalletRow,
};

/// The most coins that are frozen or thawed at once.
pub const MAX_FROZEN_AT_ONCE: usize = 1_000;

const KNOWN: BulkStatement = BulkStatement {
    sqlite: "SELECT t.tx_hash, u.output_index
        FROM transactions t /*by uidx_transactions_hash*/
        CROSS JOIN utxos u /*by uidx_utxos_outpoint*/
            ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $3
        WHERE t.tx_hash = $2 AND t.wallet_id = $1",
    postgres: "SELECT t.tx_hash, u.output_index FROM UNNEST($2::bytea[], $3::bigint[]) k (h, n)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = k.n",
};
const FREEZE: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO frozen_outputs (wallet_id, frozen_at, tx_hash, output_index)
        VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    postgres: "INSERT INTO frozen_outputs (wallet_id, frozen_at, tx_hash, output_index)
        SELECT $1, $2, k.* FROM UNNEST($3::bytea[], $4::bigint[]) k ON CONFLICT DO NOTHING",
};
const THAW: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM frozen_outputs
        WHERE wallet_id = $1 AND tx_hash = $2 AND output_index = $3",
    postgres: "DELETE FROM frozen_outputs f USING UNNEST($2::bytea[], $3::bigint[]) k (h, n)
        WHERE f.wallet_id = $1 AND f.tx_hash = k.h AND f.output_index = k.n",
};
const FROZEN: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_hash, output_index FROM frozen_outputs
        WHERE wallet_id = $1 AND tx_hash = $2 AND output_index = $3",
    postgres: "SELECT f.tx_hash, f.output_index FROM UNNEST($2::bytea[], $3::bigint[]) k (h, n)
        JOIN frozen_outputs f ON f.wallet_id = $1 AND f.tx_hash = k.h AND f.output_index = k.n",
};
const LIST: &str = "SELECT tx_hash, output_index FROM frozen_outputs
    WHERE wallet_id = $1 AND (tx_hash, output_index) > ($2, $3)
    ORDER BY tx_hash, output_index LIMIT $4";

impl WalletStore {
    /// Freezes coins: no selection takes them. What is frozen already stays so.
    ///
    /// # Errors
    ///
    /// [`WalletError::CoinNotFound`] for one that the wallet doesn't know; none is frozen then.
    pub fn freeze(
        &self,
        wallet: WalletId,
        coins: &[OutPoint],
        now: Micros,
    ) -> Result<u64, WalletError> {
        let coins = checked(coins)?;
        self.door.write_for(wallet.0, move |tx| {
            WalletRow::lock(tx, wallet)?;
            let known = tx.query_set(KNOWN, &[Arg::Int(wallet.0)], &columns(&coins))?;
            let known = known.iter().map(coin).collect::<Result<Vec<_>, _>>()?;
            // A person who mistypes a name must not believe that
            // the coin is safe. Imports may name any.
            if let Some(stranger) = coins.iter().find(|coin| !known.contains(coin)) {
                return Err(WalletError::CoinNotFound(bitcoin_outpoint(*stranger)));
            }
            freeze(tx, wallet, &coins, now)
        })
    }

    /// Makes coins spendable again; how many of them were frozen.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn thaw(&self, wallet: WalletId, coins: &[OutPoint]) -> Result<u64, WalletError> {
        let coins = checked(coins)?;
        self.door.write_for(wallet.0, move |tx| {
            WalletRow::lock(tx, wallet)?;
            thaw(tx, wallet, &coins)
        })
    }
}

fn checked(coins: &[OutPoint]) -> Result<Vec<Outpoint>, WalletError> {
    if coins.is_empty() || coins.len() > MAX_FROZEN_AT_ONCE {
        return Err(WalletError::Argument(format!("give 1 to {MAX_FROZEN_AT_ONCE} coins")));
    }
    Ok(coins.iter().copied().map(model_outpoint).collect())
}

fn columns(coins: &[Outpoint]) -> [Column; 2] {
    [
        Column::blobs(coins.iter().map(|coin| coin.tx.0.to_vec())),
        Column::ints(coins.iter().map(|coin| i64::from(coin.index))),
    ]
}

pub(crate) fn freeze(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    coins: &[Outpoint],
    now: Micros,
) -> Result<u64, WalletError> {
    Ok(tx.execute_set(FREEZE, &[Arg::Int(wallet.0), Arg::Int(now.0)], &columns(coins))?)
}

pub(crate) fn thaw(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    coins: &[Outpoint],
) -> Result<u64, WalletError> {
    Ok(tx.execute_set(THAW, &[Arg::Int(wallet.0)], &columns(coins))?)
}

/// Coins that are named to be held or spent must not be frozen.
pub(crate) fn refuse_frozen(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    coins: &[OutPoint],
) -> Result<(), WalletError> {
    let coins: Vec<Outpoint> = coins.iter().copied().map(model_outpoint).collect();
    let found = tx.query_set(FROZEN, &[Arg::Int(wallet.0)], &columns(&coins))?;
    match found.first() {
        Some(row) => Err(WalletError::CoinFrozen(bitcoin_outpoint(coin(row)?))),
        None => Ok(()),
    }
}

/// A page of frozen outputs after a given one, whether or not the wallet knows the coins.
pub(crate) fn frozen(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    after: Option<Outpoint>,
    limit: u32,
) -> Result<Vec<Outpoint>, WalletError> {
    let hash = after.map_or([0; 32], |coin| coin.tx.0);
    let args = [
        Arg::Int(wallet.0),
        Arg::Blob(&hash),
        Arg::Int(after.map_or(-1, |coin| coin.index.into())),
        Arg::Int(limit.into()),
    ];
    Ok(tx.query(LIST, &args)?.iter().map(coin).collect::<Result<_, _>>()?)
}
