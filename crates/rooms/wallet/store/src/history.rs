//! Transactions and their details.
//!
//! What a transaction took from the wallet is derived from its inputs, not from who spends a coin
//! now: a replaced attempt still shows what it tried to spend.

use std::collections::HashMap;

use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid, consensus::encode};
use unspent_model::{
    Micros,
    wallet::{EdgeCause, TxStatus, coin::depth, maturity::ChainTip},
};
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, SqlError, Tx};

use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_txid, model_txid, sql_int},
    rows::{status, txid},
    store::WalletStore,
    wallet_info::MAX_PAGE,
};

pub use crate::journal::JournalLine;

/// A transaction in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxSummary {
    /// Its row, which is also part of a cursor.
    pub id: i64,
    /// By which everybody knows it, whatever its signatures look like.
    pub txid: Txid,
    /// Validity.
    pub status: TxStatus,
    /// Height of its block.
    pub height: Option<u64>,
    /// Its place in that block.
    pub position: Option<u64>,
    /// What that block says about its time, in seconds.
    pub block_time: Option<u64>,
    /// Blocks that hold it or build on the one that does, as far as the wallet has seen.
    pub confirmations: u64,
    /// When we first heard of it, in microseconds.
    pub received: Micros,
    /// Whether it makes new money.
    pub is_coinbase: bool,
    /// Whether every input is ours.
    pub is_own: bool,
    /// What it pays to miners, where known.
    pub fee: Option<u64>,
    /// What it brought to the wallet, in satoshis.
    pub credit: u64,
    /// What it took from the wallet, in satoshis.
    pub debit: u64,
    /// What people call it, kept as BIP 329 says.
    pub label: Option<String>,
    /// When the mempool was found without it.
    pub evicted_at: Option<Micros>,
}

impl TxSummary {
    /// What it changed for the wallet.
    pub fn net(&self) -> i128 {
        i128::from(self.credit) - i128::from(self.debit)
    }
}

/// An input as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputInfo {
    /// What it spends.
    pub outpoint: OutPoint,
    /// Satoshis, where the coin is ours.
    pub amount: Option<u64>,
}

/// An output as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputInfo {
    /// Its place among the outputs.
    pub index: u32,
    /// Satoshis.
    pub amount: u64,
    /// What must be satisfied to spend it; people see its address.
    pub script: ScriptBuf,
    /// Whether it is ours.
    pub is_ours: bool,
}

/// One transaction standing in another's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeInfo {
    /// The transaction at the other end.
    pub txid: Txid,
    /// Why.
    pub cause: EdgeCause,
    /// When, in microseconds.
    pub at: Micros,
}

/// A transaction in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxDetail {
    /// As in a list.
    pub summary: TxSummary,
    /// In order; none for a coinbase.
    pub inputs: Vec<InputInfo>,
    /// In order, ours and others'.
    pub outputs: Vec<OutputInfo>,
    /// Transactions that took its place.
    pub replaced_by: Vec<EdgeInfo>,
    /// Transactions whose place it took.
    pub replaces: Vec<EdgeInfo>,
    /// It was taken back by hand before it was ever sent.
    pub withdrawn: bool,
    /// As the chain holds it, or as it was last seen.
    pub tx: Transaction,
}

/// Which transactions a list shows, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxListing {
    /// All, latest heard of first, after a cursor of received time and row.
    Latest(Option<(Micros, i64)>),
    /// Those in blocks from one height to another, in the order of the chain.
    Blocks(u64, u64),
    /// The same from a place in the chain on, up to a height.
    BlocksAfter(ChainCursor, u64),
    /// Those in no block, live or dead, after a row.
    Unconfirmed(i64),
}

/// Where a page in the order of the chain ended: the next one starts after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainCursor {
    /// Height of the last transaction's block.
    pub height: u64,
    /// Its place in that block.
    pub position: u64,
    /// Its row.
    pub id: i64,
}

impl TxSummary {
    /// Its place in the chain, where it is in a block.
    pub fn cursor(&self) -> Option<ChainCursor> {
        let (height, position) = self.height.zip(self.position)?;
        Some(ChainCursor { height, position, id: self.id })
    }
}

/// What is read of a transaction in a list.
macro_rules! summaries_of {
    ($extra:literal, $index:literal, $where:literal) => {
        concat!(
            "SELECT t.id, t.tx_hash, t.status, t.block_height, t.block_position, t.received_time,
                t.is_coinbase, t.is_own, t.fee, t.evicted_at, b.block_time,
                (SELECT p.scanned_height FROM wallet_places p WHERE p.wallet_id = $1)
                    AS tip",
            $extra,
            " FROM transactions t ",
            $index,
            " LEFT JOIN blocks b ON b.block_height = t.block_height WHERE ",
            $where
        )
    };
}

const LATEST: &str = summaries_of!(
    "",
    "/*by idx_transactions_by_received_time*/",
    "t.wallet_id = $1 AND (t.received_time, t.id) < ($2, $3)
        ORDER BY t.received_time DESC, t.id DESC LIMIT $4"
);
const BLOCKS: &str = summaries_of!(
    "",
    "/*by idx_transactions_by_block*/",
    "t.wallet_id = $1 AND t.block_height IS NOT NULL AND t.block_height BETWEEN $2 AND $3
        AND (t.block_height, t.block_position, t.id) > ($5, $6, $7)
        ORDER BY t.block_height, t.block_position, t.id LIMIT $4"
);
const UNCONFIRMED: &str = summaries_of!(
    "",
    "/*by idx_transactions_in_no_block*/",
    "t.wallet_id = $1 AND t.block_height IS NULL AND t.id > $2 ORDER BY t.id LIMIT $3"
);
const ONE: &str = summaries_of!(
    ", t.raw_tx, t.withdrawn",
    "/*by uidx_transactions_hash*/",
    "t.wallet_id = $1 AND t.tx_hash = $2"
);
const CREDITS: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_id, CAST(SUM(amount) AS BIGINT) AS amount
        FROM utxos /*by uidx_utxos_outpoint*/
        WHERE wallet_id = $1 AND tx_id = $2 GROUP BY tx_id",
    postgres: "SELECT u.tx_id, CAST(SUM(u.amount) AS BIGINT) AS amount
        FROM UNNEST($2::bigint[]) k (id)
        JOIN utxos u ON u.wallet_id = $1 AND u.tx_id = k.id GROUP BY u.tx_id",
};
/// A coin that was pruned has left its amount in the input that spent it.
const DEBITS: BulkStatement = BulkStatement {
    sqlite: "SELECT i.tx_id, i.input_index, COALESCE(u.amount, i.pruned_amount) AS amount
        FROM tx_inputs i
        LEFT JOIN transactions p /*by uidx_transactions_hash*/
            ON p.tx_hash = i.prev_tx_hash AND p.wallet_id = i.wallet_id
        LEFT JOIN utxos u /*by uidx_utxos_outpoint*/
            ON u.wallet_id = p.wallet_id AND u.tx_id = p.id
            AND u.output_index = i.prev_output_index
        WHERE i.wallet_id = $1 AND i.tx_id = $2
            AND COALESCE(u.amount, i.pruned_amount) IS NOT NULL",
    postgres: "SELECT i.tx_id, i.input_index, COALESCE(u.amount, i.pruned_amount) AS amount
        FROM UNNEST($2::bigint[]) k (id)
        JOIN tx_inputs i ON i.wallet_id = $1 AND i.tx_id = k.id
        LEFT JOIN transactions p ON p.tx_hash = i.prev_tx_hash AND p.wallet_id = i.wallet_id
        LEFT JOIN utxos u ON u.wallet_id = p.wallet_id AND u.tx_id = p.id
            AND u.output_index = i.prev_output_index
        WHERE COALESCE(u.amount, i.pruned_amount) IS NOT NULL",
};
const OURS: &str = "SELECT output_index FROM utxos /*by uidx_utxos_outpoint*/
    WHERE wallet_id = $1 AND tx_id = $2";
const REPLACED_BY: &str = "SELECT t.tx_hash, r.cause, r.created_at FROM tx_replacements r
    JOIN /*then*/ transactions t /*by pidx_transactions*/
        ON t.wallet_id = r.wallet_id AND t.id = r.replacement_tx_id
    WHERE r.wallet_id = $1 AND r.replaced_tx_id = $2 ORDER BY r.created_at, t.id";
const REPLACES: &str = "SELECT t.tx_hash, r.cause, r.created_at
    FROM tx_replacements r /*by idx_tx_replacements_winner*/
    JOIN /*then*/ transactions t /*by pidx_transactions*/
        ON t.wallet_id = r.wallet_id AND t.id = r.replaced_tx_id
    WHERE r.wallet_id = $1 AND r.replacement_tx_id = $2 ORDER BY r.created_at, t.id";
const LABELS: BulkStatement = BulkStatement {
    sqlite: "SELECT ref, label FROM labels WHERE wallet_id = $1 AND kind = 'tx' AND ref = $2",
    // LATERAL: one look by the whole key for each, never a walk through all labels.
    postgres: "SELECT b.ref, b.label FROM UNNEST($2::text[]) k (r) CROSS JOIN LATERAL (
            SELECT ref, label FROM labels
            WHERE wallet_id = $1 AND kind = 'tx' AND ref = k.r OFFSET 0) b",
};
const WALLETS_OF: &str = "SELECT w.id, w.name FROM transactions t /*by uidx_transactions_hash*/
    JOIN /*then*/ wallets w ON w.id = t.wallet_id WHERE t.tx_hash = $1 ORDER BY w.id";

impl WalletStore {
    /// The wallets that know a transaction, with their names; asked by index, not wallet by wallet.
    ///
    /// # Errors
    ///
    /// Whatever the database says; a transaction that no wallet knows is no error.
    pub fn wallets_of_tx(&self, txid: Txid) -> Result<Vec<(WalletId, String)>, WalletError> {
        self.door.read(move |tx| {
            let rows = tx.query(WALLETS_OF, &[Arg::Blob(&model_txid(txid).0)])?;
            rows.iter().map(|row| Ok((WalletId(row.int("id")?), row.text("name")?))).collect()
        })
    }

    /// A page of transactions.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn txs(
        &self,
        wallet: WalletId,
        listing: TxListing,
        limit: u32,
    ) -> Result<Vec<TxSummary>, WalletError> {
        self.door.read(move |tx| {
            let id = Arg::Int(wallet.0);
            let limit = Arg::Int(limit.min(MAX_PAGE).into());
            let rows = match listing {
                TxListing::Latest(after) => {
                    let (time, row) = after.unwrap_or((Micros(i64::MAX), i64::MAX));
                    tx.query(LATEST, &[id, Arg::Int(time.0), Arg::Int(row), limit])?
                }
                TxListing::Blocks(from, to) => {
                    // No row has a negative id, so the first one of that height is not passed over.
                    let start = ChainCursor { height: from, position: 0, id: -1 };
                    in_blocks(tx, wallet, start, to, limit)?
                }
                TxListing::BlocksAfter(after, to) => in_blocks(tx, wallet, after, to, limit)?,
                TxListing::Unconfirmed(after) => {
                    tx.query(UNCONFIRMED, &[id, Arg::Int(after), limit])?
                }
            };
            summaries(tx, wallet, &rows)
        })
    }

    /// Some transactions by name, as in a list; those that the wallet doesn't know are left out.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn txs_named(
        &self,
        wallet: WalletId,
        txids: Vec<Txid>,
    ) -> Result<Vec<TxSummary>, WalletError> {
        self.door.read(move |tx| {
            let mut rows = Vec::new();
            for txid in &txids {
                let name = model_txid(*txid);
                rows.extend(tx.maybe(ONE, &[Arg::Int(wallet.0), Arg::Blob(&name.0)])?);
            }
            summaries(tx, wallet, &rows)
        })
    }

    /// One transaction in full.
    ///
    /// # Errors
    ///
    /// [`WalletError::NoTransaction`] when the wallet doesn't know it.
    pub fn tx(&self, wallet: WalletId, txid: Txid) -> Result<TxDetail, WalletError> {
        self.door.read(move |tx| {
            let name = model_txid(txid);
            let key = [Arg::Int(wallet.0), Arg::Blob(&name.0)];
            let row = tx.maybe(ONE, &key)?.ok_or(WalletError::NoTransaction(txid))?;
            detail(tx, wallet, &row)
        })
    }
}

fn in_blocks(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    after: ChainCursor,
    to: u64,
    limit: Arg<'_>,
) -> Result<Vec<Row>, WalletError> {
    let height = Arg::Int(sql_int(after.height)?);
    let place = [height, Arg::Int(sql_int(after.position)?), Arg::Int(after.id)];
    let range = [Arg::Int(wallet.0), height, Arg::Int(sql_int(to)?), limit];
    Ok(tx.query(BLOCKS, &[range.as_slice(), &place].concat())?)
}

fn summaries(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    rows: &[Row],
) -> Result<Vec<TxSummary>, WalletError> {
    let ids = rows.iter().map(|row| row.row_id("id")).collect::<Result<Vec<_>, _>>()?;
    let scope = [Arg::Int(wallet.0)];
    let mut credits: HashMap<RowId, u64> = HashMap::new();
    for row in tx.query_set(CREDITS, &scope, &[Column::row_ids(ids.iter().copied())])? {
        credits.insert(row.row_id("tx_id")?, row.natural("amount")?);
    }
    let mut debits: HashMap<RowId, u64> = HashMap::new();
    for row in tx.query_set(DEBITS, &scope, &[Column::row_ids(ids.iter().copied())])? {
        *debits.entry(row.row_id("tx_id")?).or_default() += row.natural("amount")?;
    }
    let names = rows.iter().map(|row| Ok(bitcoin_txid(txid(row, "tx_hash")?).to_string()));
    let names = names.collect::<Result<Vec<String>, SqlError>>()?;
    let mut labels: HashMap<String, String> = HashMap::new();
    for row in tx.query_set(LABELS, &scope, &[Column::texts(names)])? {
        labels.insert(row.text("ref")?, row.text("label")?);
    }
    let summary = |row: &Row| {
        let id = row.row_id("id")?;
        let txid = bitcoin_txid(txid(row, "tx_hash")?);
        let height = row.opt_natural("block_height")?;
        Ok(TxSummary {
            id: id.0,
            txid,
            status: status(row)?,
            height,
            position: row.opt_natural("block_position")?,
            block_time: row.opt_natural("block_time")?,
            confirmations: depth(height, ChainTip(row.opt_natural("tip")?)),
            received: row.micros("received_time")?,
            is_coinbase: row.flag("is_coinbase")?,
            is_own: row.flag("is_own")?,
            fee: row.opt_natural("fee")?,
            credit: credits.get(&id).copied().unwrap_or(0),
            debit: debits.get(&id).copied().unwrap_or(0),
            label: labels.get(&txid.to_string()).cloned(),
            evicted_at: row.opt_micros("evicted_at")?,
        })
    };
    rows.iter().map(summary).collect()
}

fn detail(tx: &mut Tx<'_>, wallet: WalletId, row: &Row) -> Result<TxDetail, WalletError> {
    let id = row.int("id")?;
    let parsed: Transaction = encode::deserialize(&row.blob("raw_tx")?)
        .map_err(|error| WalletError::Corrupt(format!("a raw transaction: {error}")))?;
    let summary = summaries(tx, wallet, std::slice::from_ref(row))?.into_iter().next();
    let key = [Arg::Int(wallet.0), Arg::Int(id)];
    let mut amounts: HashMap<u64, u64> = HashMap::new();
    for row in tx.query_set(DEBITS, &key[..1], &[Column::ints([id])])? {
        amounts.insert(row.natural("input_index")?, row.natural("amount")?);
    }
    let ours = tx.query(OURS, &key)?;
    let ours = ours.iter().map(|row| row.index("output_index")).collect::<Result<Vec<_>, _>>()?;
    let inputs = (0_u64..).zip(&parsed.input).map(|(at, input)| InputInfo {
        outpoint: input.previous_output,
        amount: amounts.get(&at).copied(),
    });
    let outputs = (0_u32..).zip(&parsed.output).map(|(index, output)| OutputInfo {
        index,
        amount: output.value.to_sat(),
        script: output.script_pubkey.clone(),
        is_ours: ours.contains(&index),
    });
    Ok(TxDetail {
        summary: summary.ok_or(WalletError::Bug("a transaction has no summary"))?,
        inputs: if parsed.is_coinbase() { Vec::new() } else { inputs.collect() },
        outputs: outputs.collect(),
        replaced_by: edges(tx, REPLACED_BY, &key)?,
        replaces: edges(tx, REPLACES, &key)?,
        withdrawn: row.flag("withdrawn")?,
        tx: parsed,
    })
}

fn edges(
    tx: &mut Tx<'_>,
    sql: &'static str,
    key: &[Arg<'_>],
) -> Result<Vec<EdgeInfo>, WalletError> {
    tx.query(sql, key)?.iter().map(edge).collect()
}

fn edge(row: &Row) -> Result<EdgeInfo, WalletError> {
    let text = row.text("cause")?;
    let cause = text.parse();
    Ok(EdgeInfo {
        txid: bitcoin_txid(txid(row, "tx_hash")?),
        cause: cause.map_err(|_| WalletError::Corrupt(format!("unknown cause `{text}`")))?,
        at: row.micros("created_at")?,
    })
}
