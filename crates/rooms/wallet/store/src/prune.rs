//! Removing history by hand. Nothing else is ever deleted.
//!
//! What may go is decided by [`unspent_model::wallet::prune`]; each removed transaction and each
//! removed edge leaves a line in the journal. What is gone stays settled: seen again, it changes
//! nothing, until its block is disconnected.
//!
//! A reorganisation deeper than a prune undoes the spend of a coin that is gone. The coin may be
//! money again, so nothing of the prune holds any more: the wallet reads its blocks once more from
//! the first that held something pruned, and says until then that its history isn't whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bitcoin::Txid;
use unspent_model::{
    Micros, TxId,
    wallet::{
        JournalCause,
        plan::JournalEntry,
        prune::{PruneFacts, PruneRule, as_many_as_possible, exactly},
    },
};
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, SqlError, Tx};

use crate::{
    apply_plan::write_lines,
    backfill,
    error::WalletError,
    ids::{WalletId, bitcoin_txid, model_txid, sql_int},
    rows::{status, txid},
    settled::{unsettle, whole_again},
    store::WalletStore,
    wallet_row::WalletRow,
};

/// Confirmations needed unless said otherwise.
pub const DEFAULT_DEPTH: u64 = 288;

/// What is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PruneRequest {
    /// Exactly these, or nothing.
    Exactly(Vec<Txid>),
    /// As much as may go among what was confirmed up to this height.
    UpTo(u64),
}

const CONFIRMED_TO: &str = "SELECT tx_hash FROM transactions
    WHERE wallet_id = $1 AND block_height IS NOT NULL AND block_height <= $2";
const TXS: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_hash, block_height, id, status FROM transactions
        WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT t.tx_hash, t.block_height, t.id, t.status FROM UNNEST($2::bytea[]) k (h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1",
};
/// The joins begin with the asked-for row, whatever SQLite believes to know of the tables.
const COINS: BulkStatement = BulkStatement {
    sqlite: "SELECT u.tx_id, u.output_index, u.amount, s.block_height FROM utxos u
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        WHERE u.wallet_id = $1 AND u.tx_id = $2",
    postgres: "SELECT u.tx_id, u.output_index, u.amount, s.block_height
        FROM UNNEST($2::bigint[]) k (id)
        JOIN utxos u ON u.wallet_id = $1 AND u.tx_id = k.id
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id",
};
const PARENTS: BulkStatement = BulkStatement {
    sqlite: "SELECT u.spent_by_tx_id, t.tx_hash FROM utxos u
        CROSS JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
        WHERE u.wallet_id = $1 AND u.spent_by_tx_id = $2",
    postgres: "SELECT u.spent_by_tx_id, t.tx_hash FROM UNNEST($2::bigint[]) k (id)
        JOIN utxos u ON u.wallet_id = $1 AND u.spent_by_tx_id = k.id
        JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id",
};
/// Dead transactions that share an input, with all their descendants. The offset keeps PostgreSQL
/// from reading all inputs for the few that are lost.
const LOSERS: BulkStatement = BulkStatement {
    sqlite: "WITH RECURSIVE lost (id, tx_hash) AS (
            SELECT r.id, r.tx_hash FROM tx_inputs i
            CROSS JOIN tx_inputs o /*by idx_tx_inputs_prevout*/
                ON o.prev_tx_hash = i.prev_tx_hash AND o.prev_output_index = i.prev_output_index
                AND o.wallet_id = i.wallet_id AND o.tx_id <> i.tx_id
            CROSS JOIN transactions r ON r.wallet_id = o.wallet_id AND r.id = o.tx_id
            WHERE i.wallet_id = $1 AND i.tx_id = $2
            UNION
            SELECT c.id, c.tx_hash FROM lost l
            CROSS JOIN tx_inputs i /*by idx_tx_inputs_prevout*/
                ON i.prev_tx_hash = l.tx_hash AND i.wallet_id = $1
            CROSS JOIN transactions c ON c.wallet_id = i.wallet_id AND c.id = i.tx_id
        ) SELECT $2 AS winner, tx_hash FROM lost",
    postgres: "WITH RECURSIVE lost (winner, id, tx_hash) AS (
            SELECT k.id, r.id, r.tx_hash FROM UNNEST($2::bigint[]) k (id)
            JOIN tx_inputs i ON i.wallet_id = $1 AND i.tx_id = k.id
            JOIN tx_inputs o ON o.prev_tx_hash = i.prev_tx_hash
                AND o.prev_output_index = i.prev_output_index AND o.wallet_id = i.wallet_id
                AND o.tx_id <> i.tx_id
            JOIN transactions r ON r.wallet_id = o.wallet_id AND r.id = o.tx_id
            UNION
            SELECT l.winner, c.id, c.tx_hash FROM lost l
            CROSS JOIN LATERAL (SELECT x.wallet_id, x.tx_id FROM tx_inputs x
                WHERE x.prev_tx_hash = l.tx_hash AND x.wallet_id = $1 OFFSET 0) i
            JOIN transactions c ON c.wallet_id = i.wallet_id AND c.id = i.tx_id
        ) SELECT winner, tx_hash FROM lost",
};
const EDGES: BulkStatement = BulkStatement {
    sqlite: "SELECT a.tx_hash AS replaced, b.tx_hash AS replacement FROM (
            SELECT wallet_id, replaced_tx_id, replacement_tx_id FROM tx_replacements
                WHERE wallet_id = $1 AND replaced_tx_id = $2
            UNION SELECT wallet_id, replaced_tx_id, replacement_tx_id FROM tx_replacements
                WHERE wallet_id = $1 AND replacement_tx_id = $2) r
        CROSS JOIN transactions a ON a.wallet_id = r.wallet_id AND a.id = r.replaced_tx_id
        CROSS JOIN transactions b ON b.wallet_id = r.wallet_id AND b.id = r.replacement_tx_id",
    postgres: "SELECT a.tx_hash AS replaced, b.tx_hash AS replacement FROM (
            SELECT r.* FROM UNNEST($2::bigint[]) k (id)
                JOIN tx_replacements r ON r.wallet_id = $1 AND r.replaced_tx_id = k.id
            UNION SELECT r.* FROM UNNEST($2::bigint[]) k (id)
                JOIN tx_replacements r ON r.wallet_id = $1 AND r.replacement_tx_id = k.id) r
        JOIN transactions a ON a.wallet_id = +r.wallet_id AND a.id = r.replaced_tx_id
        JOIN transactions b ON b.wallet_id = r.wallet_id + 0 AND b.id = r.replacement_tx_id",
};
const DELETE_LOST_EDGES: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM tx_replacements WHERE wallet_id = $1 AND replaced_tx_id = $2",
    postgres: "DELETE FROM tx_replacements r USING UNNEST($2::bigint[]) k (id)
        WHERE r.wallet_id = $1 AND r.replaced_tx_id = k.id",
};
const DELETE_WON_EDGES: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM tx_replacements WHERE wallet_id = $1 AND replacement_tx_id = $2",
    postgres: "DELETE FROM tx_replacements r USING UNNEST($2::bigint[]) k (id)
        WHERE r.wallet_id = $1 AND r.replacement_tx_id = k.id",
};
/// Whoever spent a coin that goes still has to say how much it took.
const KEEP_AMOUNTS: BulkStatement = BulkStatement {
    sqlite: "UPDATE tx_inputs SET pruned_amount = $4
        WHERE prev_tx_hash = $2 AND prev_output_index = $3 AND wallet_id = $1",
    postgres: "UPDATE tx_inputs i SET pruned_amount = k.amount
        FROM UNNEST($2::bytea[], $3::bigint[], $4::bigint[]) k (h, n, amount)
        WHERE i.prev_tx_hash = k.h AND i.prev_output_index = k.n AND i.wallet_id = $1",
};
const DELETE_LEASES: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM utxo_leases WHERE wallet_id = $1 AND utxo_id IN (
        SELECT id FROM utxos WHERE wallet_id = $1 AND tx_id = $2)",
    postgres: "DELETE FROM utxo_leases l USING UNNEST($2::bigint[]) k (id), utxos u
        WHERE u.wallet_id = $1 AND u.tx_id = k.id AND l.wallet_id = $1 AND l.utxo_id = u.id",
};
const DELETE_COINS: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM utxos WHERE wallet_id = $1 AND tx_id = $2",
    postgres: "DELETE FROM utxos u USING UNNEST($2::bigint[]) k (id)
        WHERE u.wallet_id = $1 AND u.tx_id = k.id",
};
const DELETE_INPUTS: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM tx_inputs WHERE wallet_id = $1 AND tx_id = $2",
    postgres: "DELETE FROM tx_inputs i USING UNNEST($2::bigint[]) k (id)
        WHERE i.wallet_id = $1 AND i.tx_id = k.id",
};
const DELETE_TXS: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM transactions WHERE wallet_id = $1 AND id = $2",
    postgres: "DELETE FROM transactions t USING UNNEST($2::bigint[]) k (id)
        WHERE t.wallet_id = $1 AND t.id = k.id",
};

const REMEMBER: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO pruned_txs (wallet_id, tx_hash, settled_height) VALUES ($1, $2, $3)
        ON CONFLICT DO NOTHING",
    postgres: "INSERT INTO pruned_txs (wallet_id, tx_hash, settled_height)
        SELECT $1, k.* FROM UNNEST($2::bytea[], $3::bigint[]) k ON CONFLICT DO NOTHING",
};
const FIRST_PRUNED: &str =
    "SELECT MIN(settled_height) AS first FROM pruned_txs WHERE wallet_id = $1";

impl WalletStore {
    /// Removes history, and names what went.
    ///
    /// # Errors
    ///
    /// [`WalletError::Prune`] when something asked for has to stay; then everything stays.
    pub fn prune(
        &self,
        wallet: WalletId,
        request: &PruneRequest,
        depth: u64,
        now: Micros,
    ) -> Result<Vec<Txid>, WalletError> {
        if depth == 0 {
            return Err(WalletError::Argument("a prune needs a depth of at least 1".into()));
        }
        let request = request.clone();
        self.door.write_for(wallet.0, move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let rule = PruneRule { tip: row.tip().unwrap_or(0), depth };
            let asked = asked(tx, wallet, &request)?;
            let known = facts(tx, wallet, &asked)?;
            let going = match request {
                PruneRequest::Exactly(_) => exactly(&known, &asked, rule)?,
                PruneRequest::UpTo(_) => as_many_as_possible(&known, rule),
            };
            // Or the next scan would bring it back as news, with coins that were spent long ago.
            remember(tx, wallet, &known, &going)?;
            if !going.is_empty() {
                // Also where nothing is lost: it says that something was pruned.
                let known_from = last_spend(&known, &going).unwrap_or(0);
                row.history_from = row.history_from.max(Some(known_from));
            }
            remove(tx, &mut row, &going, now)?;
            row.save(tx)?;
            Ok(going.into_iter().map(bitcoin_txid).collect())
        })
    }
}

/// The youngest spend of a coin that goes. Below it the coin was money, and nothing tells so any
/// more: a balance as of a lower height is no longer known.
fn last_spend(known: &HashMap<TxId, PruneFacts>, going: &[TxId]) -> Option<u64> {
    let coins = going.iter().filter_map(|txid| known.get(txid)).flat_map(|facts| &facts.coins);
    coins.filter_map(|(_, spent)| *spent).max()
}

fn asked(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    request: &PruneRequest,
) -> Result<Vec<TxId>, WalletError> {
    match request {
        PruneRequest::Exactly(txids) => Ok(txids.iter().map(|txid| model_txid(*txid)).collect()),
        PruneRequest::UpTo(height) => {
            let args = [Arg::Int(wallet.0), Arg::Int(sql_int(*height)?)];
            let rows = tx.query(CONFIRMED_TO, &args)?;
            rows.iter().map(|row| Ok(txid(row, "tx_hash")?)).collect()
        }
    }
}

fn facts(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    asked: &[TxId],
) -> Result<HashMap<TxId, PruneFacts>, WalletError> {
    let scope = [Arg::Int(wallet.0)];
    let mut by_row: HashMap<RowId, PruneFacts> = HashMap::new();
    for row in tx.query_set(TXS, &scope, &[Column::blobs(asked.iter().map(|txid| txid.0))])? {
        by_row.insert(row.row_id("id")?, bare_facts(&row)?);
    }
    let keys = [Column::row_ids(by_row.keys().copied())];
    for row in tx.query_set(COINS, &scope, &keys)? {
        let coin = (row.index("output_index")?, row.opt_natural("block_height")?);
        by_row.entry(row.row_id("tx_id")?).and_modify(|facts| facts.coins.push(coin));
    }
    for row in tx.query_set(PARENTS, &scope, &keys)? {
        let parent = txid(&row, "tx_hash")?;
        by_row.entry(row.row_id("spent_by_tx_id")?).and_modify(|facts| facts.parents.push(parent));
    }
    for row in tx.query_set(LOSERS, &scope, &keys)? {
        let loser = txid(&row, "tx_hash")?;
        by_row.entry(row.row_id("winner")?).and_modify(|facts| facts.losers.push(loser));
    }
    Ok(by_row.into_values().map(|facts| (facts.txid, facts)).collect())
}

fn bare_facts(row: &Row) -> Result<PruneFacts, SqlError> {
    Ok(PruneFacts {
        txid: txid(row, "tx_hash")?,
        height: row.opt_natural("block_height")?,
        coins: Vec::new(),
        parents: Vec::new(),
        losers: Vec::new(),
    })
}

/// Notes for each transaction that goes the height that settled it: its own, or for one that lost,
/// the lowest at which it lost.
fn remember(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    known: &HashMap<TxId, PruneFacts>,
    going: &[TxId],
) -> Result<(), WalletError> {
    let mut settled: BTreeMap<TxId, u64> = BTreeMap::new();
    for facts in going.iter().filter_map(|txid| known.get(txid)) {
        let Some(height) = facts.height else { continue };
        settled.insert(facts.txid, height);
        // A loser that is heard of again must stay dead, though its conqueror is gone from here.
        for loser in &facts.losers {
            let lowest = settled.entry(*loser).or_insert(height);
            *lowest = height.min(*lowest);
        }
    }
    let heights = settled.values().map(|height| sql_int(*height));
    let columns = [
        Column::blobs(settled.keys().map(|txid| txid.0)),
        Column::ints(heights.collect::<Result<Vec<_>, _>>()?),
    ];
    tx.execute_set(REMEMBER, &[Arg::Int(wallet.0)], &columns)?;
    Ok(())
}

/// The spend of a pruned coin is undone: all that was pruned is looked for again.
/// What was pruned in the undone blocks comes with the blocks that replace them.
pub(crate) fn reopen(tx: &mut Tx<'_>, wallet: WalletId) -> Result<(), WalletError> {
    let first = tx.one(FIRST_PRUNED, &[Arg::Int(wallet.0)])?.opt_natural("first")?;
    unsettle(tx, wallet, 0)?;
    let row = WalletRow::lock(tx, wallet)?;
    let left = match first {
        Some(first) => backfill::begin(tx, &row, first)?,
        None => backfill::find(tx, wallet)?,
    };
    match left {
        // The blocks that are still to come bring everything.
        None => whole_again(tx, wallet),
        Some(_) => Ok(()),
    }
}

fn remove(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    going: &[TxId],
    now: Micros,
) -> Result<(), WalletError> {
    let scope = [Arg::Int(wallet.id.0)];
    let rows = tx.query_set(TXS, &scope, &[Column::blobs(going.iter().map(|txid| txid.0))])?;
    let ids = rows.iter().map(|row| row.row_id("id")).collect::<Result<Vec<_>, _>>()?;
    let keys = [Column::row_ids(ids)];
    let mut lines = rows.iter().map(pruned).collect::<Result<Vec<_>, _>>()?;
    let mut edges = BTreeSet::new();
    for row in tx.query_set(EDGES, &scope, &keys)? {
        edges.insert((txid(&row, "replaced")?, txid(&row, "replacement")?));
    }
    lines.extend(edges.into_iter().map(|(replaced, by)| JournalEntry {
        other: Some(by),
        cause: JournalCause::PrunedEdge,
        ..blank(replaced)
    }));
    write_lines(tx, wallet, &lines, now)?;
    // Before the coins go: nothing else here knows what they held.
    keep_amounts(tx, &rows, &scope, &keys)?;
    let edges = [DELETE_LOST_EDGES, DELETE_WON_EDGES];
    // Leases are found by their coins, and coins by their transactions: in this order.
    let rest = [DELETE_LEASES, DELETE_COINS, DELETE_INPUTS, DELETE_TXS];
    for set in edges.into_iter().chain(rest) {
        tx.execute_set(set, &scope, &keys)?;
    }
    Ok(())
}

/// Notes with each input what the coin held that goes.
fn keep_amounts(
    tx: &mut Tx<'_>,
    going: &[Row],
    scope: &[Arg<'_>],
    keys: &[Column],
) -> Result<(), WalletError> {
    let names = going.iter().map(|row| Ok((row.row_id("id")?, txid(row, "tx_hash")?)));
    let names = names.collect::<Result<HashMap<RowId, TxId>, SqlError>>()?;
    let (mut hashes, mut places, mut amounts) = (Vec::new(), Vec::new(), Vec::new());
    for coin in tx.query_set(COINS, scope, keys)? {
        let Some(maker) = names.get(&coin.row_id("tx_id")?) else { continue };
        hashes.push(maker.0);
        places.push(coin.int("output_index")?);
        amounts.push(coin.int("amount")?);
    }
    let columns = [Column::blobs(hashes), Column::ints(places), Column::ints(amounts)];
    tx.execute_set(KEEP_AMOUNTS, scope, &columns)?;
    Ok(())
}

fn blank(txid: TxId) -> JournalEntry {
    JournalEntry {
        txid,
        output: None,
        from: None,
        to: None,
        cause: JournalCause::Pruned,
        other: None,
        height: None,
        lock: None,
    }
}

fn pruned(row: &Row) -> Result<JournalEntry, WalletError> {
    let (was, height) = (status(row)?, row.opt_natural("block_height")?);
    Ok(JournalEntry { from: Some(was), height, ..blank(txid(row, "tx_hash")?) })
}
