//! Balances by class, at any minconf, and as of any past height.
//!
//! The sum over confirmed, unspent coins is kept in the wallet's row by every plan, so that a
//! balance costs the same for a hundred coins and for a million: only what isn't plainly confirmed
//! (unconfirmed, pending, young coinbases, leases, blocks above the minconf) is looked at coin by
//! coin.
//!
//! A unary plus on the left side of a join keeps SQLite from turning the join round: those few
//! transactions or leases must come first, whatever it knows of the tables.

use unspent_model::wallet::{Balance, CoinFacts, CoinState, Status, Sum, coin::depth, maturity};
use unspent_sql::{Arg, Tx};

use crate::{
    error::WalletError,
    lease::height_arg,
    room::{Room, WalletId, WalletRow, sql_int},
    rows::status,
};

/// Coins that need a look: their transaction is unconfirmed, young, or above the wallet's tip.
const UNSETTLED: &str = "SELECT u.id, u.amount, t.status, t.block_height, t.is_coinbase, t.is_own,
        CASE WHEN l.expires_at > $2 THEN 1 ELSE 0 END AS is_leased
    FROM transactions t
    JOIN utxos u ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id AND u.spent_by_tx_id IS NULL
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
    WHERE t.wallet_id = $1 AND t.block_height IS NULL AND t.status IN ($3, $4)";
const SHALLOW: &str = "SELECT u.id, u.amount, t.status, t.block_height, t.is_coinbase, t.is_own,
        CASE WHEN l.expires_at > $2 THEN 1 ELSE 0 END AS is_leased
    FROM transactions t
    JOIN utxos u ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id AND u.spent_by_tx_id IS NULL
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
    WHERE t.wallet_id = $1 AND t.block_height IS NOT NULL AND t.block_height > $3";
const YOUNG: &str = "SELECT u.id, u.amount, t.status, t.block_height, t.is_coinbase, t.is_own,
        CASE WHEN l.expires_at > $2 THEN 1 ELSE 0 END AS is_leased
    FROM transactions t
    JOIN utxos u ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id AND u.spent_by_tx_id IS NULL
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
    WHERE t.wallet_id = $1 AND t.is_coinbase AND t.block_height > $3 AND t.block_height <= $4";
const LEASED: &str = "SELECT u.id, u.amount, t.status, t.block_height, t.is_coinbase, t.is_own,
        1 AS is_leased
    FROM utxo_leases l
    JOIN utxos u ON u.wallet_id = +l.wallet_id AND u.id = +l.utxo_id AND u.spent_by_tx_id IS NULL
    JOIN transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id
    WHERE l.wallet_id = $1 AND l.expires_at > $2 AND t.block_height IS NOT NULL
        AND t.block_height <= $3 AND (NOT t.is_coinbase OR t.block_height <= $4)";
const LEAVING: &str = "SELECT CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM transactions s
    JOIN utxos u ON u.wallet_id = +s.wallet_id AND u.spent_by_tx_id = +s.id
    JOIN transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id
    WHERE s.wallet_id = $1 AND s.block_height IS NULL AND s.status IN ($2, $3)
        AND t.block_height IS NOT NULL";
const AS_OF: &str = "SELECT CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    WHERE t.wallet_id = $1 AND t.block_height IS NOT NULL AND t.block_height <= $2
        AND (s.block_height IS NULL OR s.block_height > $2)";
/// The same answer the slow way, for comparison in benchmarks and in the audit.
const PLAIN_SUM: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM spendable_utxos WHERE wallet_id = $1 AND block_height IS NOT NULL";

impl Room {
    /// The balance now, by class. Coins less than `minconf` deep count as unconfirmed.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn balance(
        &self,
        wallet: WalletId,
        minconf: u32,
        now: i64,
    ) -> Result<Balance, WalletError> {
        self.door.read(move |tx| balance(tx, wallet, minconf, now))
    }

    /// What was confirmed and unspent after the block at `height`.
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] above the wallet's tip.
    pub fn balance_as_of(&self, wallet: WalletId, height: u64) -> Result<Sum, WalletError> {
        self.door.read(move |tx| {
            let row = WalletRow::read(tx, wallet)?;
            if row.tip().is_none_or(|tip| height > tip) {
                return Err(WalletError::Argument(format!("the wallet has not seen {height} yet")));
            }
            sum(tx, AS_OF, &[Arg::Int(wallet.0), Arg::Int(sql_int(height)?)])
        })
    }

    /// Confirmed, unspent satoshis by a plain SUM over the view: what [`Room::balance`] avoids.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn plain_sum(&self, wallet: WalletId) -> Result<Sum, WalletError> {
        self.door.read(move |tx| sum(tx, PLAIN_SUM, &[Arg::Int(wallet.0)]))
    }
}

fn sum(tx: &mut Tx<'_>, sql: &'static str, args: &[Arg<'_>]) -> Result<Sum, WalletError> {
    let row = tx.one(sql, args)?;
    Ok(Sum { sats: row.natural("sats")?, coins: row.natural("coins")? })
}

pub(crate) fn balance(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    minconf: u32,
    now: i64,
) -> Result<Balance, WalletError> {
    let row = WalletRow::read(tx, wallet)?;
    let tip = row.tip();
    let (id, time) = (Arg::Int(wallet.0), Arg::Int(now));
    // At this height and below a coin is as deep as asked for.
    let deep_to = tip.and_then(|tip| (tip + 1).checked_sub(minconf.max(1).into()));
    let ripe_to = maturity::mature_up_to(tip);
    let published = Arg::Text(Status::Published.name());
    let pending = Arg::Text(Status::Pending.name());
    let mut found = Balance::default();
    let mut settled = Sum {
        sats: u64::try_from(row.confirmed_amount).unwrap_or(0),
        coins: u64::try_from(row.confirmed_coins).unwrap_or(0),
    };
    let deep = height_arg(deep_to)?;
    let ripe = height_arg(ripe_to)?;
    let looks: [(&'static str, Vec<Arg<'_>>); 4] = [
        (UNSETTLED, vec![id, time, published, pending]),
        (SHALLOW, vec![id, time, deep]),
        (YOUNG, vec![id, time, ripe, deep]),
        (LEASED, vec![id, time, deep, ripe]),
    ];
    for (sql, args) in looks {
        for coin in tx.query(sql, &args)? {
            let amount = coin.natural("amount")?;
            let height = coin.opt_natural("block_height")?;
            let state = CoinState::of(
                CoinFacts {
                    parent: status(&coin)?,
                    height,
                    is_coinbase: coin.flag("is_coinbase")?,
                    is_spent: false,
                    is_leased: coin.flag("is_leased")?,
                },
                tip,
            );
            let is_deep = depth(height, tip) >= minconf.max(1).into();
            found.add(state, coin.flag("is_own")?, is_deep, amount);
            if height.is_some() {
                settled = settled.minus(Sum { sats: amount, coins: 1 });
            }
        }
    }
    found.confirmed.sats += settled.sats;
    found.confirmed.coins += settled.coins;
    found.leaving = sum(tx, LEAVING, &[id, published, pending])?;
    Ok(found)
}
