//! The journal: what happened to a wallet's transactions and coins, each change with its cause.

use bitcoin::{OutPoint, Txid};
use unspent_model::{
    Micros, Outpoint,
    wallet::{JournalCause, LockId, TxStatus},
};
use unspent_sql::{Arg, Row};

use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint, bitcoin_txid, model_txid},
    rows::{known_status, opt_lock, opt_txid, txid},
    store::WalletStore,
    wallet_info::MAX_PAGE,
};

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    /// Its number in the wallet.
    pub id: i64,
    /// When, in microseconds.
    pub at: Micros,
    /// Why.
    pub cause: JournalCause,
    /// The transaction it is about.
    pub txid: Txid,
    /// The coin, where it is about one.
    pub output: Option<OutPoint>,
    /// Status before.
    pub from: Option<TxStatus>,
    /// Status after.
    pub to: Option<TxStatus>,
    /// The other transaction involved.
    pub other: Option<Txid>,
    /// The block that confirmed it or that it lost.
    pub height: Option<u64>,
    /// Whose lease a forced spend broke.
    pub lock: Option<LockId>,
}

const JOURNAL: &str = "SELECT id, at, cause, tx_hash, output_tx_hash, output_index, from_status,
        to_status, other_tx_hash, block_height, lock_id FROM journal
    WHERE wallet_id = $1 AND id > $2 ORDER BY id LIMIT $3";
const JOURNAL_OF: &str = "SELECT id, at, cause, tx_hash, output_tx_hash, output_index, from_status,
        to_status, other_tx_hash, block_height, lock_id FROM journal
    WHERE wallet_id = $1 AND tx_hash = $4 AND id > $2 ORDER BY id LIMIT $3";
const NEWEST: &str = "SELECT id, at, cause, tx_hash, output_tx_hash, output_index, from_status,
        to_status, other_tx_hash, block_height, lock_id FROM journal
    WHERE wallet_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
const NEWEST_OF: &str = "SELECT id, at, cause, tx_hash, output_tx_hash, output_index, from_status,
        to_status, other_tx_hash, block_height, lock_id FROM journal
    WHERE wallet_id = $1 AND tx_hash = $4 AND id < $2 ORDER BY id DESC LIMIT $3";

impl WalletStore {
    /// A page of the journal, of the wallet or of one transaction, oldest first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn journal(
        &self,
        wallet: WalletId,
        of: Option<Txid>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<JournalLine>, WalletError> {
        self.journal_page([JOURNAL, JOURNAL_OF], wallet, of, after, limit)
    }

    /// The same, newest first: lines with numbers below `before`.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn newest_journal(
        &self,
        wallet: WalletId,
        of: Option<Txid>,
        before: i64,
        limit: u32,
    ) -> Result<Vec<JournalLine>, WalletError> {
        self.journal_page([NEWEST, NEWEST_OF], wallet, of, before, limit)
    }

    fn journal_page(
        &self,
        [all, of_one]: [&'static str; 2],
        wallet: WalletId,
        of: Option<Txid>,
        cursor: i64,
        limit: u32,
    ) -> Result<Vec<JournalLine>, WalletError> {
        self.door.read(move |tx| {
            let limit = Arg::Int(limit.min(MAX_PAGE).into());
            let page = [Arg::Int(wallet.0), Arg::Int(cursor), limit];
            let rows = match of.map(model_txid) {
                Some(txid) => tx.query(of_one, &[&page[..], &[Arg::Blob(&txid.0)]].concat())?,
                None => tx.query(all, &page)?,
            };
            rows.iter().map(journal_line).collect()
        })
    }
}

fn journal_line(row: &Row) -> Result<JournalLine, WalletError> {
    let text = row.text("cause")?;
    let cause =
        text.parse().map_err(|_| WalletError::Corrupt(format!("unknown cause `{text}`")))?;
    let output = opt_txid(row, "output_tx_hash")?.zip(row.opt_index("output_index")?);
    let stored = |column: &str| row.opt_text(column)?.map(|text| known_status(&text)).transpose();
    Ok(JournalLine {
        id: row.int("id")?,
        at: row.micros("at")?,
        cause,
        txid: bitcoin_txid(txid(row, "tx_hash")?),
        output: output.map(|(tx, index)| bitcoin_outpoint(Outpoint::new(tx, index))),
        from: stored("from_status")?,
        to: stored("to_status")?,
        other: opt_txid(row, "other_tx_hash")?.map(bitcoin_txid),
        height: row.opt_natural("block_height")?,
        lock: opt_lock(row, "lock_id")?,
    })
}
