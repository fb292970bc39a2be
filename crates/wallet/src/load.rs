//! Loading the neighbourhood that a plan asks for, with set reads.
//!
//! A plan needs few facts out of a long history, and which ones shows only while it is made: a
//! conflict leads to its rivals, those to their descendants, those to other rivals. Asked one by
//! one that would be a question for each transaction of the family; so the planner names all it
//! misses in a round ([`Needs`]), each kind is read as one set, and descendants come whole by one
//! recursive statement.
//!
//! What was looked for and isn't there is stored as absent: the planner tells "nothing" from
//! "unknown", and never asks for the same thing twice.

use std::collections::{BTreeSet, HashMap, HashSet};

use unspent_model::{
    Outpoint, TxId,
    wallet::{Coin, Confirmation, Neighbourhood, StoredTx, facts::Needs},
};
use unspent_sql::{Arg, Column, Row, Set, Tx};

use crate::{
    error::WalletError,
    rows::{self, opt_lock, opt_txid, prevout, status, txid},
};

/// What is loaded, with the rows behind it.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) facts: Neighbourhood,
    pub(crate) tx_rows: HashMap<TxId, i64>,
    pub(crate) coin_rows: HashMap<Outpoint, i64>,
}

const TXS: Set = Set {
    sqlite: "SELECT id, tx_hash, block_height, block_position, status, is_coinbase, ever_published,
            withdrawn, is_own, fee, output_total, received_time, evicted_at
        FROM transactions WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT t.id, t.tx_hash, t.block_height, t.block_position, t.status, t.is_coinbase,
            t.ever_published, t.withdrawn, t.is_own, t.fee, t.output_total, t.received_time,
            t.evicted_at
        FROM UNNEST($2::bytea[]) k (h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1",
};

const INPUTS: Set = Set {
    sqlite: "SELECT tx_id, input_index, prev_tx_hash, prev_output_index FROM tx_inputs
        WHERE wallet_id = $1 AND tx_id = $2 ORDER BY input_index",
    postgres: "SELECT i.tx_id, i.input_index, i.prev_tx_hash, i.prev_output_index
        FROM UNNEST($2::bigint[]) k (id)
        JOIN tx_inputs i ON i.wallet_id = $1 AND i.tx_id = k.id ORDER BY i.tx_id, i.input_index",
};

const SPENDERS: Set = Set {
    sqlite: "SELECT i.prev_tx_hash, i.prev_output_index, t.tx_hash
        FROM tx_inputs i JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        WHERE i.wallet_id = $1 AND i.prev_tx_hash = $2 AND i.prev_output_index = $3
        ORDER BY t.id",
    postgres: "SELECT i.prev_tx_hash, i.prev_output_index, t.tx_hash
        FROM UNNEST($2::bytea[], $3::bigint[]) k (h, n)
        JOIN tx_inputs i
            ON i.prev_tx_hash = k.h AND i.prev_output_index = k.n AND i.wallet_id = $1
        JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        ORDER BY t.id",
};

/// All descendants of a transaction, each once, however they are reached.
const DESCENDANTS: &str = "WITH RECURSIVE family (id, tx_hash) AS (
        SELECT t.id, t.tx_hash FROM tx_inputs i
        JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        WHERE i.prev_tx_hash = $2 AND i.wallet_id = $1
        UNION
        SELECT t.id, t.tx_hash FROM family f
        JOIN tx_inputs i ON i.prev_tx_hash = f.tx_hash AND i.wallet_id = $1
        JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
    ) SELECT tx_hash FROM family";

const COINS: Set = Set {
    sqlite: "SELECT t.tx_hash, u.output_index, u.id, u.amount, u.address_id,
            s.tx_hash AS spent_by, u.spent_input_index, l.external_lock_id
        FROM transactions t
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $4
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            AND (l.expires_at > $2 OR (l.hold_confirmations IS NOT NULL
                AND u.spent_by_tx_id IS NOT NULL))
        WHERE t.wallet_id = $1 AND t.tx_hash = $3",
    postgres: "SELECT t.tx_hash, u.output_index, u.id, u.amount, u.address_id,
            s.tx_hash AS spent_by, u.spent_input_index, l.external_lock_id
        FROM UNNEST($3::bytea[], $4::bigint[]) k (h, n)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = k.n
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            AND (l.expires_at > $2 OR (l.hold_confirmations IS NOT NULL
                AND u.spent_by_tx_id IS NOT NULL))",
};

const CREDITS: Set = Set {
    sqlite: "SELECT t.tx_hash, u.output_index, u.id, u.amount, u.address_id,
            s.tx_hash AS spent_by, u.spent_input_index, l.external_lock_id
        FROM transactions t
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            AND (l.expires_at > $2 OR (l.hold_confirmations IS NOT NULL
                AND u.spent_by_tx_id IS NOT NULL))
        WHERE t.wallet_id = $1 AND t.tx_hash = $3",
    postgres: "SELECT t.tx_hash, u.output_index, u.id, u.amount, u.address_id,
            s.tx_hash AS spent_by, u.spent_input_index, l.external_lock_id
        FROM UNNEST($3::bytea[]) k (h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            AND (l.expires_at > $2 OR (l.hold_confirmations IS NOT NULL
                AND u.spent_by_tx_id IS NOT NULL))",
};

impl Loaded {
    /// Loads everything that is missing.
    pub(crate) fn load(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: i64,
        needs: &Needs,
        now: i64,
    ) -> Result<(), WalletError> {
        // Families and spenders bring transactions along, which then needn't be read again.
        self.families(tx, wallet, &needs.children)?;
        self.spenders(tx, wallet, &needs.spenders)?;
        self.txs(tx, wallet, needs.txs.iter().copied())?;
        self.coins(tx, wallet, &needs.coins, now)?;
        self.credits(tx, wallet, &needs.credits, now)
    }

    fn txs(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: i64,
        wanted: impl IntoIterator<Item = TxId>,
    ) -> Result<(), WalletError> {
        // Facts are read once for a plan, since the wallet is locked: nobody else changes them.
        let known = &self.facts.txs;
        let wanted: BTreeSet<TxId> =
            wanted.into_iter().filter(|txid| !known.contains_key(txid)).collect();
        let keys = [Column::blobs(wanted.iter().map(|txid| txid.0))];
        let rows = tx.query_set(TXS, &[Arg::Int(wallet)], &keys)?;
        let ids = rows.iter().map(|row| row.int("id")).collect::<Result<Vec<_>, _>>()?;
        let mut inputs = inputs_of(tx, wallet, ids)?;
        for txid in &wanted {
            self.facts.txs.insert(*txid, None);
        }
        for row in rows {
            let id = row.int("id")?;
            let stored = stored_tx(&row, inputs.remove(&id).unwrap_or_default())?;
            self.tx_rows.insert(stored.txid, id);
            self.facts.txs.insert(stored.txid, Some(stored));
        }
        Ok(())
    }

    fn spenders(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: i64,
        wanted: &BTreeSet<Outpoint>,
    ) -> Result<(), WalletError> {
        let rows = tx.query_set(SPENDERS, &[Arg::Int(wallet)], &outpoint_columns(wanted))?;
        for outpoint in wanted {
            self.facts.spenders.insert(*outpoint, Vec::new());
        }
        let mut named = HashSet::new();
        for row in rows {
            let spender = txid(&row, "tx_hash")?;
            named.insert(spender);
            self.facts.spenders.entry(prevout(&row)?).or_default().push(spender);
        }
        self.txs(tx, wallet, named)
    }

    /// Loads all descendants at once: they, their inputs and so who is whose child.
    fn families(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: i64,
        roots: &BTreeSet<TxId>,
    ) -> Result<(), WalletError> {
        let mut members: BTreeSet<TxId> = BTreeSet::new();
        for root in roots {
            // A root that is a descendant of an earlier one is already covered.
            if members.contains(root) || self.facts.children.contains_key(root) {
                continue;
            }
            members.insert(*root);
            for row in tx.query(DESCENDANTS, &[Arg::Int(wallet), Arg::Blob(&root.0)])? {
                members.insert(txid(&row, "tx_hash")?);
            }
        }
        self.txs(tx, wallet, members.iter().copied())?;
        // The whole family is here, so each member's children are among the members: known even
        // where there are none.
        for member in &members {
            self.facts.children.insert(*member, Vec::new());
        }
        for member in &members {
            let Some(Some(stored)) = self.facts.txs.get(member) else { continue };
            let parents: BTreeSet<TxId> = stored.inputs.iter().map(|input| input.tx).collect();
            for parent in parents.intersection(&members) {
                self.facts.children.entry(*parent).or_default().push(*member);
            }
        }
        Ok(())
    }

    fn coins(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: i64,
        wanted: &BTreeSet<Outpoint>,
        now: i64,
    ) -> Result<(), WalletError> {
        let scalars = [Arg::Int(wallet), Arg::Int(now)];
        let rows = tx.query_set(COINS, &scalars, &outpoint_columns(wanted))?;
        for outpoint in wanted {
            self.facts.coins.insert(*outpoint, None);
        }
        rows.iter().try_for_each(|row| self.keep_coin(row).map(drop))
    }

    fn credits(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: i64,
        wanted: &BTreeSet<TxId>,
        now: i64,
    ) -> Result<(), WalletError> {
        let keys = [Column::blobs(wanted.iter().map(|txid| txid.0))];
        let rows = tx.query_set(CREDITS, &[Arg::Int(wallet), Arg::Int(now)], &keys)?;
        for txid in wanted {
            self.facts.credits.insert(*txid, Vec::new());
        }
        for row in rows {
            let outpoint = self.keep_coin(&row)?;
            self.facts.credits.entry(outpoint.tx).or_default().push(outpoint.index);
        }
        Ok(())
    }

    fn keep_coin(&mut self, row: &Row) -> Result<Outpoint, WalletError> {
        let outpoint = rows::coin(row)?;
        let spender = opt_txid(row, "spent_by")?.zip(row.opt_index("spent_input_index")?);
        let coin = Coin {
            amount: row.natural("amount")?,
            address: row.int("address_id")?,
            spent_by: spender,
            holder: opt_lock(row, "external_lock_id")?,
        };
        self.coin_rows.insert(outpoint, row.int("id")?);
        self.facts.coins.insert(outpoint, Some(coin));
        Ok(outpoint)
    }
}

fn outpoint_columns(wanted: &BTreeSet<Outpoint>) -> [Column; 2] {
    [
        Column::blobs(wanted.iter().map(|outpoint| outpoint.tx.0)),
        Column::ints(wanted.iter().map(|outpoint| i64::from(outpoint.index))),
    ]
}

/// Inputs in order, by the row of their transaction.
pub(crate) fn inputs_of(
    tx: &mut Tx<'_>,
    wallet: i64,
    ids: Vec<i64>,
) -> Result<HashMap<i64, Vec<Outpoint>>, WalletError> {
    let mut found: HashMap<i64, Vec<Outpoint>> = HashMap::new();
    for row in tx.query_set(INPUTS, &[Arg::Int(wallet)], &[Column::ints(ids)])? {
        found.entry(row.int("tx_id")?).or_default().push(prevout(&row)?);
    }
    Ok(found)
}

fn stored_tx(row: &Row, inputs: Vec<Outpoint>) -> Result<StoredTx, WalletError> {
    let place = row.opt_natural("block_height")?.zip(row.opt_natural("block_position")?);
    Ok(StoredTx {
        txid: txid(row, "tx_hash")?,
        status: status(row)?,
        confirmed: place.map(|(height, position)| Confirmation { height, position }),
        is_coinbase: row.flag("is_coinbase")?,
        ever_published: row.flag("ever_published")?,
        withdrawn: row.flag("withdrawn")?,
        is_own: row.flag("is_own")?,
        fee: row.opt_natural("fee")?,
        output_total: row.natural("output_total")?,
        received: row.int("received_time")?,
        evicted_at: row.opt_int("evicted_at")?,
        inputs,
    })
}
