//! What whoever follows a chain asks of all wallets at once.
//!
//! A daemon asks these after every block, and there may be ten thousand wallets of which a block
//! concerns three. So each is one statement by an index, never one for each wallet.

use bitcoin::Txid;
use unspent_model::{Micros, Point, wallet::TxStatus};
use unspent_sql::Arg;

use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_txid, sql_int},
    rows::{status, txid},
    stopped,
    store::WalletStore,
    wallet_info::{WalletInfo, WalletStop, wallet_info, wallets_where},
    wallet_row::{WalletRow, lock_room},
};

/// A live transaction in no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnconfirmedTx {
    /// Whose view of it this is.
    pub wallet: WalletId,
    /// By which everybody knows it.
    pub txid: Txid,
    /// Pending or published.
    pub status: TxStatus,
    /// Whether every input is ours.
    pub is_own: bool,
    /// When the mempool was found without it.
    pub evicted_at: Option<Micros>,
}

const BEHIND: &str = wallets_where!(
    "WHERE w.scanned_height < $1 AND w.stopped_at IS NULL AND w.archived_at IS NULL
    ORDER BY w.scanned_height LIMIT $2"
);
const UNBORN: &str = wallets_where!(
    "WHERE w.scanned_height IS NULL AND NOT w.follows_tip AND w.birthday_height <= $1
        AND w.stopped_at IS NULL AND w.archived_at IS NULL
    ORDER BY w.birthday_height LIMIT $2"
);
const FOLLOWS: &str = "SELECT r.tip_height AS scanned_height FROM room r
    WHERE EXISTS (SELECT 1 FROM wallets WHERE follows_tip)";
/// The few backfills there are lead to their wallets.
const FILLING: &str =
    wallets_where!("WHERE w.id IN (SELECT wallet_id FROM backfills) ORDER BY w.id");
const AT_TIP: &str = "SELECT (SELECT COUNT(*) FROM wallets WHERE follows_tip)
    + (SELECT COUNT(*) FROM wallets WHERE scanned_height = $1 AND scanned_hash = $2) AS wallets";
/// The words of the statuses stand in the text, so that both databases see that the index holds
/// all that is asked for.
const WAITING: &str = "SELECT t.wallet_id, t.tx_hash, t.status, t.is_own, t.evicted_at
    FROM transactions t
    WHERE t.block_height IS NULL AND t.status IN ('pending', 'published')
        AND EXISTS (SELECT 1 FROM wallets w WHERE w.id = t.wallet_id
            AND (w.follows_tip OR (w.scanned_height = $1 AND w.scanned_hash = $2))
            AND w.stopped_at IS NULL AND w.archived_at IS NULL)
    ORDER BY t.wallet_id, t.id";
const JOURNAL_ENDS: &str = "SELECT id, next_line, stopped_at FROM wallets";

impl WalletStore {
    /// Wallets that are behind a tip and wait for blocks, the furthest behind first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn behind(&self, tip: u64, limit: u32) -> Result<Vec<WalletInfo>, WalletError> {
        let args = [sql_int(tip)?, i64::from(limit)];
        self.door.read(move |tx| {
            let args = args.map(Arg::Int);
            let mut rows = tx.query(BEHIND, &args)?;
            rows.extend(tx.query(UNBORN, &args)?);
            let mut found = rows.iter().map(wallet_info).collect::<Result<Vec<_>, _>>()?;
            found.sort_by_key(WalletInfo::next_block);
            Ok(found)
        })
    }

    /// The lowest block that any wallet needs; nothing when nobody waits for blocks.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn first_needed(&self) -> Result<Option<u64>, WalletError> {
        let behind = self.behind(i64::MAX.unsigned_abs(), 1)?;
        let lowest = behind.first().map(WalletInfo::next_block);
        if lowest.is_some() {
            return Ok(lowest);
        }
        self.door.read(|tx| {
            let row = tx.maybe(FOLLOWS, &[])?;
            let tip = row.map(|row| row.opt_natural("scanned_height")).transpose()?.flatten();
            Ok(tip.map(|tip| tip + 1))
        })
    }

    /// Wallets whose history isn't whole, because scripts came late.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn backfilling(&self) -> Result<Vec<WalletInfo>, WalletError> {
        self.door.read(|tx| tx.query(FILLING, &[])?.iter().map(wallet_info).collect())
    }

    /// How many wallets stand at a block.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn wallets_at(&self, tip: Point) -> Result<u64, WalletError> {
        let height = sql_int(tip.height)?;
        self.door.read(move |tx| {
            let args = [Arg::Int(height), Arg::Blob(&tip.hash.0)];
            Ok(tx.one(AT_TIP, &args)?.natural("wallets")?)
        })
    }

    /// Every live transaction in no block, of the wallets that stand at a block. One that is
    /// behind doesn't know yet what is confirmed.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn waiting(&self, tip: Point) -> Result<Vec<UnconfirmedTx>, WalletError> {
        let height = sql_int(tip.height)?;
        self.door.read(move |tx| {
            let rows = tx.query(WAITING, &[Arg::Int(height), Arg::Blob(&tip.hash.0)])?;
            let waiting = rows.iter().map(|row| {
                Ok(UnconfirmedTx {
                    wallet: WalletId(row.int("wallet_id")?),
                    txid: bitcoin_txid(txid(row, "tx_hash")?),
                    status: status(row)?,
                    is_own: row.flag("is_own")?,
                    evicted_at: row.opt_micros("evicted_at")?,
                })
            });
            waiting.collect()
        })
    }

    /// For each wallet the last line of its journal, and since when it is stopped.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn journal_ends(&self) -> Result<Vec<(WalletId, i64, Option<Micros>)>, WalletError> {
        self.door.read(|tx| {
            let rows = tx.query(JOURNAL_ENDS, &[])?;
            let ends = rows.iter().map(|row| {
                let last = row.int("next_line")? - 1;
                Ok((WalletId(row.row_id("id")?.0), last, row.opt_micros("stopped_at")?))
            });
            ends.collect()
        })
    }

    /// Stops one wallet: what it needs can't be had. The others go on.
    ///
    /// # Errors
    ///
    /// [`WalletError::NoWallet`].
    pub fn stop_wallet(&self, wallet: WalletId, stopped: &WalletStop) -> Result<(), WalletError> {
        let stopped = stopped.clone();
        self.door.write(move |tx| {
            lock_room(tx)?;
            let place = WalletRow::lock(tx, wallet)?.scanned;
            stopped::stop(tx, wallet, &stopped, place)
        })
    }
}
