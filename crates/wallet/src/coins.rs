//! Coins with their derived states, by page.
//!
//! A unary plus in a join keeps SQLite from turning it round: coins come first, in the order
//! asked for.

use bitcoin::{OutPoint, ScriptBuf};
use unspent_model::wallet::{CoinFacts, CoinState, LockId};
use unspent_sql::{Arg, Row};

use crate::{
    error::WalletError,
    room::{Room, WalletId, WalletRow, bitcoin_outpoint, bitcoin_txid, model_txid, sql_int},
    rows::{self, opt_lock, opt_txid, status},
    wallets::MAX_PAGE,
};

/// A coin as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinInfo {
    /// Its row, which is also the second half of a cursor.
    pub id: i64,
    /// The output that it is, by transaction and index.
    pub outpoint: OutPoint,
    /// In satoshis.
    pub amount: u64,
    /// The watched script that it pays.
    pub script: ScriptBuf,
    /// Height of its block.
    pub height: Option<u64>,
    /// Derived from its facts, the wallet's tip and the time; never stored.
    pub state: CoinState,
    /// Whether a transaction of our own made it.
    pub is_own: bool,
    /// The live transaction that spends it.
    pub spent_by: Option<bitcoin::Txid>,
    /// Who holds it.
    pub lock: Option<LockId>,
}

/// A coin in one of the wallets that know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCoin {
    /// Whose view of the coin this is.
    pub wallet: WalletId,
    /// What people call that wallet.
    pub name: String,
    /// The coin as that wallet sees it.
    pub coin: CoinInfo,
}

/// Where a page of coins ended: the next one starts after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinCursor {
    /// Satoshis of the last coin.
    pub amount: u64,
    /// Row of the last coin.
    pub id: i64,
}

const PAGE: &str = "SELECT u.id, t.tx_hash, u.output_index, u.amount, d.script_pub_key,
        t.block_height, t.status, t.is_coinbase, t.is_own, s.tx_hash AS spent_by, l.external_lock_id
    FROM utxos u
    JOIN transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id AND t.status IN ($5, $6)
    JOIN addresses d ON d.wallet_id = +u.wallet_id AND d.id = +u.address_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $2
    WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND (u.amount, u.id) > ($3, $4)
    ORDER BY u.amount, u.id LIMIT $7";
const ONE: &str = "SELECT u.id, t.tx_hash, u.output_index, u.amount, d.script_pub_key,
        t.block_height, t.status, t.is_coinbase, t.is_own, s.tx_hash AS spent_by, l.external_lock_id
    FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $4
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $2
    WHERE t.wallet_id = $1 AND t.tx_hash = $3";
const EVERY: &str = "SELECT u.id, t.tx_hash, u.output_index, u.amount, d.script_pub_key,
        t.block_height, t.status, t.is_coinbase, t.is_own, s.tx_hash AS spent_by, l.external_lock_id
    FROM utxos u
    JOIN transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id
    JOIN addresses d ON d.wallet_id = +u.wallet_id AND d.id = +u.address_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $2
    WHERE u.wallet_id = $1 AND u.id > $3 ORDER BY u.id LIMIT $4";

/// One coin in every wallet that knows it: the same output may pay a script that several watch.
const EVERYWHERE: &str = "SELECT w.id AS wallet_id, w.name, p.scanned_height, p.scanned_hash,
        u.id, t.tx_hash, u.output_index, u.amount, d.script_pub_key, t.block_height, t.status,
        t.is_coinbase, t.is_own, s.tx_hash AS spent_by, l.external_lock_id
    FROM transactions t
    JOIN wallets w ON w.id = t.wallet_id
    JOIN wallet_places p ON p.wallet_id = w.id
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $3
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $1
    WHERE t.tx_hash = $2 ORDER BY w.id";

impl Room {
    /// A page of live, unspent coins, smallest first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn coins(
        &self,
        wallet: WalletId,
        after: Option<CoinCursor>,
        limit: u32,
        now: i64,
    ) -> Result<Vec<CoinInfo>, WalletError> {
        use unspent_model::wallet::Status;
        let amount = after.map(|cursor| sql_int(cursor.amount)).transpose()?.unwrap_or(-1);
        self.door.read(move |tx| {
            let tip = WalletRow::read(tx, wallet)?.tip();
            let args = [
                Arg::Int(wallet.0),
                Arg::Int(now),
                Arg::Int(amount),
                Arg::Int(after.map_or(-1, |cursor| cursor.id)),
                Arg::Text(Status::Published.name()),
                Arg::Text(Status::Pending.name()),
                Arg::Int(limit.min(MAX_PAGE).into()),
            ];
            tx.query(PAGE, &args)?.iter().map(|row| info(row, tip)).collect()
        })
    }

    /// A page of all coins there ever were, in order of their rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn all_coins(
        &self,
        wallet: WalletId,
        after: i64,
        limit: u32,
        now: i64,
    ) -> Result<Vec<CoinInfo>, WalletError> {
        self.door.read(move |tx| {
            let tip = WalletRow::read(tx, wallet)?.tip();
            let limit = Arg::Int(limit.min(MAX_PAGE).into());
            let args = [Arg::Int(wallet.0), Arg::Int(now), Arg::Int(after), limit];
            tx.query(EVERY, &args)?.iter().map(|row| info(row, tip)).collect()
        })
    }

    /// One coin, spent, dead or alive.
    ///
    /// # Errors
    ///
    /// [`WalletError::CoinNotFound`] when it isn't one of this wallet's.
    pub fn coin(
        &self,
        wallet: WalletId,
        coin: OutPoint,
        now: i64,
    ) -> Result<CoinInfo, WalletError> {
        self.door.read(move |tx| {
            let tip = WalletRow::read(tx, wallet)?.tip();
            let txid = model_txid(coin.txid);
            let args =
                [Arg::Int(wallet.0), Arg::Int(now), Arg::Blob(&txid.0), Arg::Int(coin.vout.into())];
            let row = tx.maybe(ONE, &args)?.ok_or(WalletError::CoinNotFound(coin))?;
            info(&row, tip)
        })
    }

    /// A coin as each wallet sees it that knows it, with the wallets' names; asked by index, not
    /// wallet by wallet.
    ///
    /// # Errors
    ///
    /// Whatever the database says; a coin that no wallet knows is no error.
    pub fn coins_at(&self, coin: OutPoint, now: i64) -> Result<Vec<FoundCoin>, WalletError> {
        self.door.read(move |tx| {
            let txid = model_txid(coin.txid);
            let args = [Arg::Int(now), Arg::Blob(&txid.0), Arg::Int(coin.vout.into())];
            tx.query(EVERYWHERE, &args)?.iter().map(found).collect()
        })
    }
}

fn found(row: &Row) -> Result<FoundCoin, WalletError> {
    // Each wallet counts confirmations from its own tip.
    let tip = rows::scanned(row)?.map(|(height, _)| height);
    let (wallet, name) = (WalletId(row.int("wallet_id")?), row.text("name")?);
    Ok(FoundCoin { wallet, name, coin: info(row, tip)? })
}

fn info(row: &Row, tip: Option<u64>) -> Result<CoinInfo, WalletError> {
    let height = row.opt_natural("block_height")?;
    let spent_by = opt_txid(row, "spent_by")?.map(bitcoin_txid);
    let lock = opt_lock(row, "external_lock_id")?;
    let facts = CoinFacts {
        parent: status(row)?,
        height,
        is_coinbase: row.flag("is_coinbase")?,
        is_spent: spent_by.is_some(),
        is_leased: lock.is_some(),
    };
    Ok(CoinInfo {
        id: row.int("id")?,
        outpoint: bitcoin_outpoint(rows::coin(row)?),
        amount: row.natural("amount")?,
        script: ScriptBuf::from_bytes(row.blob("script_pub_key")?),
        height,
        state: CoinState::of(facts, tip),
        is_own: row.flag("is_own")?,
        spent_by,
        lock,
    })
}
