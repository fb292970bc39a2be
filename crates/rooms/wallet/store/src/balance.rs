//! Balances by class, at any minconf, of the wallet and of each account.
//!
//! The sum over confirmed, unspent coins is kept in the wallet's row by every plan, so that a
//! balance costs the same for a hundred coins and for a million: only what isn't plainly confirmed
//! (unconfirmed, pending, young coinbases, leased, frozen, blocks above the minconf) is looked at
//! coin by coin, all in one statement. The sums of accounts aren't kept; asking for them looks at
//! every unspent coin.

use std::collections::{BTreeMap, HashSet};

use unspent_model::{
    Micros,
    wallet::{
        Balance, BalancedCoin, CoinFacts, CoinState, CoinSum, TxStatus,
        coin::depth,
        maturity::{self, ChainTip},
    },
};
use unspent_sql::{Arg, Row, RowId, Tx};

use crate::{
    error::WalletError, ids::WalletId, lease::height_arg, rows::status, store::WalletStore,
    wallet_row::WalletRow,
};

/// Coins of one kind that need a look, from the few rows that lead to them. A coin may be found by
/// several looks. A unary plus keeps PostgreSQL from turning a join round, and from walking through
/// all unspent coins by their index.
macro_rules! look {
    ($leaves:literal, $from:literal, $where:literal) => {
        concat!(
            "SELECT u.id, u.amount, t.status, t.block_height, t.is_coinbase, t.is_own,
                t.evicted_at, k.account_id, ",
            $leaves,
            " AS leaves, CASE WHEN l.expires_at > $2 THEN 1 ELSE 0 END AS is_leased,
                CASE WHEN f.frozen_at IS NULL THEN 0 ELSE 1 END AS is_frozen
            FROM ",
            $from,
            " JOIN /*then*/ addresses d ON d.wallet_id = +u.wallet_id AND d.id = +u.address_id
            JOIN /*then*/ keychains k ON k.wallet_id = +d.wallet_id AND k.id = +d.keychain_id
            LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            LEFT JOIN frozen_outputs f ON f.wallet_id = t.wallet_id AND f.tx_hash = t.tx_hash
                AND f.output_index = u.output_index
            WHERE ",
            $where
        )
    };
}

/// The arguments are the wallet, the time, the two live statuses, and the heights up to which coins
/// are deep and coinbases ripe.
const LOOKS: &str = concat!(
    look!(
        "0",
        "transactions t /*by idx_transactions_unconfirmed*/
            JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
                ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id",
        "t.wallet_id = $1 AND t.block_height IS NULL AND t.status IN ($3, $4)
            AND +u.spent_by_tx_id IS NULL"
    ),
    " UNION ALL ",
    look!(
        "0",
        "transactions t /*by idx_transactions_by_block*/
            JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
                ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id",
        "t.wallet_id = $1 AND t.block_height IS NOT NULL AND t.block_height > $5
            AND +u.spent_by_tx_id IS NULL"
    ),
    " UNION ALL ",
    look!(
        "0",
        "transactions t /*by idx_transactions_coinbase*/
            JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
                ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id",
        "t.wallet_id = $1 AND t.is_coinbase AND t.block_height > $6
            AND +u.spent_by_tx_id IS NULL"
    ),
    " UNION ALL ",
    look!(
        "0",
        "utxo_leases h
            JOIN /*then*/ utxos u ON u.wallet_id = +h.wallet_id AND u.id = +h.utxo_id
            JOIN /*then*/ transactions t /*by pidx_transactions*/
                ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id",
        "h.wallet_id = $1 AND h.expires_at > $2 AND t.status IN ($3, $4)
            AND +u.spent_by_tx_id IS NULL"
    ),
    " UNION ALL ",
    look!(
        "0",
        "frozen_outputs z
            JOIN /*then*/ transactions t /*by uidx_transactions_hash*/
                ON t.tx_hash = z.tx_hash AND t.wallet_id = +z.wallet_id
            JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
                ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id
                AND u.output_index = z.output_index",
        "z.wallet_id = $1 AND t.status IN ($3, $4) AND +u.spent_by_tx_id IS NULL"
    ),
    " UNION ALL ",
    look!(
        "1",
        "transactions s /*by idx_transactions_unconfirmed*/
            JOIN /*then*/ utxos u /*by idx_utxos_spent_by*/
                ON u.wallet_id = +s.wallet_id AND u.spent_by_tx_id = +s.id
            JOIN /*then*/ transactions t /*by pidx_transactions*/
                ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id",
        "s.wallet_id = $1 AND s.block_height IS NULL AND s.status IN ($3, $4)
            AND t.block_height IS NOT NULL"
    ),
);
const ACCOUNTS: &str = "SELECT id, name FROM accounts WHERE wallet_id = $1 ORDER BY id";
const CONFIRMED_BY_ACCOUNT: &str =
    "SELECT k.account_id, CAST(SUM(u.amount) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM utxos u /*by idx_utxos_unspent*/
    JOIN /*then*/ transactions t /*by pidx_transactions*/
        ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    JOIN /*then*/ addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    JOIN /*then*/ keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND t.block_height IS NOT NULL
    GROUP BY k.account_id";
/// The same answer the slow way, for comparison in benchmarks and in the audit.
const PLAIN_SUM: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM spendable_utxos WHERE wallet_id = $1 AND block_height IS NOT NULL";

/// What one account of a wallet holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountBalance {
    /// What people call the account.
    pub account: String,
    /// Its share of the wallet's balance.
    pub balance: Balance,
}

impl WalletStore {
    /// The balance now, by class. Coins less than `minconf` deep count as unconfirmed.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn balance(
        &self,
        wallet: WalletId,
        minconf: u32,
        now: Micros,
    ) -> Result<Balance, WalletError> {
        self.door.read(move |tx| balance(tx, wallet, minconf, now))
    }

    /// The same for each account, in order of their making; together they are the wallet's balance.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn balance_by_account(
        &self,
        wallet: WalletId,
        minconf: u32,
        now: Micros,
    ) -> Result<Vec<AccountBalance>, WalletError> {
        self.door.read(move |tx| by_account(tx, wallet, minconf, now))
    }

    /// Confirmed, unspent satoshis by a plain SUM over the view: what [`WalletStore::balance`]
    /// avoids.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn plain_sum(&self, wallet: WalletId) -> Result<CoinSum, WalletError> {
        self.door.read(move |tx| read_sum(&tx.one(PLAIN_SUM, &[Arg::Int(wallet.0)])?))
    }
}

pub(crate) fn read_sum(row: &Row) -> Result<CoinSum, WalletError> {
    Ok(CoinSum { sats: row.natural("sats")?, coins: row.natural("coins")? })
}

/// What the wallet's row says about its confirmed, unspent coins.
pub(crate) fn kept_sum(row: &WalletRow) -> Result<CoinSum, WalletError> {
    let natural = |stored: i64| u64::try_from(stored).map_err(|_| contradiction());
    Ok(CoinSum { sats: natural(row.confirmed_amount)?, coins: natural(row.confirmed_coins)? })
}

/// The sum in the wallet's row isn't that of its coins.
pub(crate) fn contradiction() -> WalletError {
    WalletError::Corrupt(
        "the stored sum of confirmed coins is less than the coins add up to".into(),
    )
}

/// The balance, inside an open transaction.
pub(crate) fn balance(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    minconf: u32,
    now: Micros,
) -> Result<Balance, WalletError> {
    let row = WalletRow::read(tx, wallet)?;
    let mut whole = BalanceShare::of(kept_sum(&row)?);
    for coin in looked_at(tx, &row, minconf, now)? {
        whole.take(&coin)?;
    }
    whole.balance()
}

fn by_account(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    minconf: u32,
    now: Micros,
) -> Result<Vec<AccountBalance>, WalletError> {
    let row = WalletRow::read(tx, wallet)?;
    let id = [Arg::Int(wallet.0)];
    let mut shares: BTreeMap<RowId, (String, BalanceShare)> = BTreeMap::new();
    for account in tx.query(ACCOUNTS, &id)? {
        let share = (account.text("name")?, BalanceShare::of(CoinSum::default()));
        shares.insert(account.row_id("id")?, share);
    }
    for sum in tx.query(CONFIRMED_BY_ACCOUNT, &id)? {
        if let Some((_, share)) = shares.get_mut(&sum.row_id("account_id")?) {
            share.settled = read_sum(&sum)?;
        }
    }
    for coin in looked_at(tx, &row, minconf, now)? {
        if let Some((_, share)) = shares.get_mut(&coin.account) {
            share.take(&coin)?;
        }
    }
    let named = |(account, share): (String, BalanceShare)| {
        Ok(AccountBalance { account, balance: share.balance()? })
    };
    shares.into_values().map(named).collect()
}

/// A coin that a look found.
struct LookedAt {
    account: RowId,
    amount: u64,
    /// Spent by an unconfirmed transaction, and gone if that confirms.
    leaves: bool,
    state: CoinState,
    is_own: bool,
    is_deep: bool,
    is_in_block: bool,
}

fn looked_at(
    tx: &mut Tx<'_>,
    row: &WalletRow,
    minconf: u32,
    now: Micros,
) -> Result<Vec<LookedAt>, WalletError> {
    let tip = row.tip();
    // What no block holds is never confirmed: it has classes of its own, also at 0.
    let minconf = u64::from(minconf.max(1));
    // At this height and below a coin is as deep as asked for.
    let deep_to = tip.and_then(|tip| (tip + 1).checked_sub(minconf));
    let args = [
        Arg::Int(row.id.0),
        Arg::Int(now.0),
        Arg::Text(TxStatus::Published.name()),
        Arg::Text(TxStatus::Pending.name()),
        height_arg(deep_to)?,
        height_arg(maturity::mature_up_to(tip))?,
    ];
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for coin in tx.query(LOOKS, &args)? {
        // A coin that is both young and leased is found twice, and leaves the total once.
        if seen.insert(coin.row_id("id")?) {
            found.push(read(&coin, tip, minconf)?);
        }
    }
    Ok(found)
}

fn read(coin: &Row, tip: Option<u64>, minconf: u64) -> Result<LookedAt, WalletError> {
    let height = coin.opt_natural("block_height")?;
    let facts = CoinFacts {
        parent: status(coin)?,
        height,
        is_coinbase: coin.flag("is_coinbase")?,
        is_spent: false,
        is_leased: coin.flag("is_leased")?,
        is_frozen: coin.flag("is_frozen")?,
        is_dropped: coin.opt_micros("evicted_at")?.is_some(),
    };
    Ok(LookedAt {
        account: coin.row_id("account_id")?,
        amount: coin.natural("amount")?,
        leaves: coin.flag("leaves")?,
        state: CoinState::of(facts, tip),
        is_own: coin.flag("is_own")?,
        is_deep: depth(height, ChainTip(tip)) >= minconf,
        is_in_block: height.is_some(),
    })
}

/// A balance in the making: what is settled, and what was looked at.
struct BalanceShare {
    settled: CoinSum,
    found: Balance,
}

impl BalanceShare {
    fn of(settled: CoinSum) -> Self {
        Self { settled, found: Balance::default() }
    }

    fn take(&mut self, coin: &LookedAt) -> Result<(), WalletError> {
        if coin.leaves {
            self.found.leaving.add(coin.amount);
            return Ok(());
        }
        let &LookedAt { state, is_own, is_deep, amount: sats, .. } = coin;
        self.found.add(BalancedCoin { state, is_own, is_deep, sats });
        // The kept total counts it as plainly confirmed; it
        // goes into the class that was found instead.
        if coin.is_in_block {
            let settled = self.settled.minus(CoinSum { sats: coin.amount, coins: 1 });
            self.settled = settled.ok_or_else(contradiction)?;
        }
        Ok(())
    }

    fn balance(mut self) -> Result<Balance, WalletError> {
        let confirmed = self.found.confirmed.plus(self.settled);
        self.found.confirmed = confirmed.ok_or_else(contradiction)?;
        Ok(self.found)
    }
}
