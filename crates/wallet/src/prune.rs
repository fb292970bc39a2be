//! Removing history by hand. Nothing else is ever deleted.
//!
//! What may go is decided by [`unspent_model::wallet::prune`]; each removed transaction and each
//! removed edge leaves a line in the journal. What is gone stays settled: seen again, it changes
//! nothing, until its block is disconnected.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bitcoin::Txid;
use unspent_model::{
    TxId,
    wallet::{
        Cause,
        plan::Line,
        prune::{PruneFacts, PruneRule, as_many_as_possible, exactly},
    },
};
use unspent_sql::{Arg, Column, Row, Set, SqlError, Tx};

use crate::{
    apply_plan::write_lines,
    error::WalletError,
    room::{Room, WalletId, WalletRow, bitcoin_txid, model_txid, sql_int},
    rows::{status, txid},
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
const TXS: Set = Set {
    sqlite: "SELECT tx_hash, block_height, id, status FROM transactions
        WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT t.tx_hash, t.block_height, t.id, t.status FROM UNNEST($2::bytea[]) k (h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1",
};
const COINS: Set = Set {
    sqlite: "SELECT u.tx_id, u.output_index, s.block_height FROM utxos u
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        WHERE u.wallet_id = $1 AND u.tx_id = $2",
    postgres: "SELECT u.tx_id, u.output_index, s.block_height FROM UNNEST($2::bigint[]) k (id)
        JOIN utxos u ON u.wallet_id = $1 AND u.tx_id = k.id
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id",
};
const PARENTS: Set = Set {
    sqlite: "SELECT u.spent_by_tx_id, t.tx_hash FROM utxos u
        JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
        WHERE u.wallet_id = $1 AND u.spent_by_tx_id = $2",
    postgres: "SELECT u.spent_by_tx_id, t.tx_hash FROM UNNEST($2::bigint[]) k (id)
        JOIN utxos u ON u.wallet_id = $1 AND u.spent_by_tx_id = k.id
        JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id",
};
/// Dead transactions that share an input, with all their descendants.
const LOSERS: &str = "WITH RECURSIVE lost (id, tx_hash) AS (
        SELECT r.id, r.tx_hash FROM tx_inputs i
        JOIN tx_inputs o ON o.prev_tx_hash = i.prev_tx_hash
            AND o.prev_output_index = i.prev_output_index AND o.wallet_id = i.wallet_id
            AND o.tx_id <> i.tx_id
        JOIN transactions r ON r.wallet_id = o.wallet_id AND r.id = o.tx_id
        WHERE i.wallet_id = $1 AND i.tx_id = $2
        UNION
        SELECT c.id, c.tx_hash FROM lost l
        JOIN tx_inputs i ON i.prev_tx_hash = l.tx_hash AND i.wallet_id = $1
        JOIN transactions c ON c.wallet_id = i.wallet_id AND c.id = i.tx_id
    ) SELECT tx_hash FROM lost";
const EDGES: Set = Set {
    sqlite: "SELECT a.tx_hash AS replaced, b.tx_hash AS replacement FROM tx_replacements r
        JOIN transactions a ON a.wallet_id = r.wallet_id AND a.id = r.replaced_tx_id
        JOIN transactions b ON b.wallet_id = r.wallet_id AND b.id = r.replacement_tx_id
        WHERE r.wallet_id = $1 AND (r.replaced_tx_id = $2 OR r.replacement_tx_id = $2)",
    postgres: "SELECT DISTINCT a.tx_hash AS replaced, b.tx_hash AS replacement
        FROM UNNEST($2::bigint[]) k (id)
        JOIN tx_replacements r ON r.wallet_id = $1
            AND (r.replaced_tx_id = k.id OR r.replacement_tx_id = k.id)
        JOIN transactions a ON a.wallet_id = r.wallet_id AND a.id = r.replaced_tx_id
        JOIN transactions b ON b.wallet_id = r.wallet_id AND b.id = r.replacement_tx_id",
};
const DELETE_EDGES: Set = Set {
    sqlite: "DELETE FROM tx_replacements
        WHERE wallet_id = $1 AND (replaced_tx_id = $2 OR replacement_tx_id = $2)",
    postgres: "DELETE FROM tx_replacements r USING UNNEST($2::bigint[]) k (id)
        WHERE r.wallet_id = $1 AND (r.replaced_tx_id = k.id OR r.replacement_tx_id = k.id)",
};
const DELETE_LEASES: Set = Set {
    sqlite: "DELETE FROM utxo_leases WHERE wallet_id = $1 AND utxo_id IN (
        SELECT id FROM utxos WHERE wallet_id = $1 AND tx_id = $2)",
    postgres: "DELETE FROM utxo_leases l USING UNNEST($2::bigint[]) k (id), utxos u
        WHERE u.wallet_id = $1 AND u.tx_id = k.id AND l.wallet_id = $1 AND l.utxo_id = u.id",
};
const DELETE_COINS: Set = Set {
    sqlite: "DELETE FROM utxos WHERE wallet_id = $1 AND tx_id = $2",
    postgres: "DELETE FROM utxos u USING UNNEST($2::bigint[]) k (id)
        WHERE u.wallet_id = $1 AND u.tx_id = k.id",
};
const DELETE_INPUTS: Set = Set {
    sqlite: "DELETE FROM tx_inputs WHERE wallet_id = $1 AND tx_id = $2",
    postgres: "DELETE FROM tx_inputs i USING UNNEST($2::bigint[]) k (id)
        WHERE i.wallet_id = $1 AND i.tx_id = k.id",
};
const DELETE_TXS: Set = Set {
    sqlite: "DELETE FROM transactions WHERE wallet_id = $1 AND id = $2",
    postgres: "DELETE FROM transactions t USING UNNEST($2::bigint[]) k (id)
        WHERE t.wallet_id = $1 AND t.id = k.id",
};

const REMEMBER: Set = Set {
    sqlite: "INSERT INTO pruned_txs (wallet_id, tx_hash, settled_height) VALUES ($1, $2, $3)
        ON CONFLICT DO NOTHING",
    postgres: "INSERT INTO pruned_txs (wallet_id, tx_hash, settled_height)
        SELECT $1, k.* FROM UNNEST($2::bytea[], $3::bigint[]) k ON CONFLICT DO NOTHING",
};
const REMEMBERED: Set = Set {
    sqlite: "SELECT tx_hash FROM pruned_txs WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT p.tx_hash FROM UNNEST($2::bytea[]) k (h)
        JOIN pruned_txs p ON p.wallet_id = $1 AND p.tx_hash = k.h",
};
const FORGET: &str = "DELETE FROM pruned_txs WHERE wallet_id = $2 AND settled_height >= $1";

impl Room {
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
        now: i64,
    ) -> Result<Vec<Txid>, WalletError> {
        if depth == 0 {
            return Err(WalletError::Argument("a prune needs a depth of at least 1".into()));
        }
        let request = request.clone();
        self.door.write(move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let rule = PruneRule { tip: row.tip().unwrap_or(0), depth };
            let asked = asked(tx, wallet, &request)?;
            let known = facts(tx, wallet, &asked)?;
            let going = match request {
                PruneRequest::Exactly(_) => exactly(&known, &asked, rule)?,
                PruneRequest::UpTo(_) => as_many_as_possible(&known, rule),
            };
            remember(tx, wallet, &known, &going)?;
            remove(tx, &mut row, &going, now)?;
            row.save(tx)?;
            Ok(going.into_iter().map(bitcoin_txid).collect())
        })
    }
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
    let mut by_row: HashMap<i64, PruneFacts> = HashMap::new();
    for row in tx.query_set(TXS, &scope, &[Column::blobs(asked.iter().map(|txid| txid.0))])? {
        by_row.insert(row.int("id")?, bare_facts(&row)?);
    }
    let ids: Vec<i64> = by_row.keys().copied().collect();
    let keys = [Column::ints(ids.iter().copied())];
    for row in tx.query_set(COINS, &scope, &keys)? {
        let coin = (row.index("output_index")?, row.opt_natural("block_height")?);
        by_row.entry(row.int("tx_id")?).and_modify(|facts| facts.coins.push(coin));
    }
    for row in tx.query_set(PARENTS, &scope, &keys)? {
        let parent = txid(&row, "tx_hash")?;
        by_row.entry(row.int("spent_by_tx_id")?).and_modify(|facts| facts.parents.push(parent));
    }
    for id in ids {
        let rows = tx.query(LOSERS, &[Arg::Int(wallet.0), Arg::Int(id)])?;
        let losers = rows.iter().map(|row| Ok(txid(row, "tx_hash")?));
        let losers = losers.collect::<Result<Vec<_>, WalletError>>()?;
        by_row.entry(id).and_modify(|facts| facts.losers = losers);
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

/// Which of these were pruned and are settled.
pub(crate) fn settled(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    txids: impl Iterator<Item = TxId>,
) -> Result<HashSet<TxId>, WalletError> {
    let keys = [Column::blobs(txids.map(|txid| txid.0))];
    let rows = tx.query_set(REMEMBERED, &[Arg::Int(wallet.0)], &keys)?;
    rows.iter().map(|row| Ok(txid(row, "tx_hash")?)).collect()
}

/// Blocks from a height on are gone for this wallet: what they settled is open again.
pub(crate) fn unsettle(tx: &mut Tx<'_>, wallet: WalletId, from: u64) -> Result<(), WalletError> {
    tx.execute(FORGET, &[Arg::Int(sql_int(from)?), Arg::Int(wallet.0)])?;
    Ok(())
}

fn remove(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    going: &[TxId],
    now: i64,
) -> Result<(), WalletError> {
    let scope = [Arg::Int(wallet.id)];
    let rows = tx.query_set(TXS, &scope, &[Column::blobs(going.iter().map(|txid| txid.0))])?;
    let ids = rows.iter().map(|row| row.int("id")).collect::<Result<Vec<_>, _>>()?;
    let keys = [Column::ints(ids)];
    let mut lines = rows.iter().map(pruned).collect::<Result<Vec<_>, _>>()?;
    let mut edges = BTreeSet::new();
    for row in tx.query_set(EDGES, &scope, &keys)? {
        edges.insert((txid(&row, "replaced")?, txid(&row, "replacement")?));
    }
    lines.extend(edges.into_iter().map(|(replaced, by)| Line {
        other: Some(by),
        cause: Cause::PrunedEdge,
        ..blank(replaced)
    }));
    write_lines(tx, wallet, &lines, now)?;
    for set in [DELETE_EDGES, DELETE_LEASES, DELETE_COINS, DELETE_INPUTS, DELETE_TXS] {
        tx.execute_set(set, &scope, &keys)?;
    }
    Ok(())
}

fn blank(txid: TxId) -> Line {
    Line {
        txid,
        output: None,
        from: None,
        to: None,
        cause: Cause::Pruned,
        other: None,
        height: None,
        lock: None,
    }
}

fn pruned(row: &Row) -> Result<Line, WalletError> {
    let (was, height) = (status(row)?, row.opt_natural("block_height")?);
    Ok(Line { from: Some(was), height, ..blank(txid(row, "tx_hash")?) })
}
