//! Loading the neighbourhood that a plan asks for, with set reads.
//!
//! A plan needs few facts out of a long history, and which ones shows only while it is made: a
//! conflict leads to its rivals, those to their descendants, those to other rivals. Asked one by
//! one that would be a question for each transaction of the family; so the planner names all it
//! misses in a round ([`NeededFacts`]), each kind is read as one set, and descendants come whole by
//! one recursive statement. All wallets that a block concerns are planned side by side, so that a
//! round costs the same for one of them and for fifty.
//!
//! What was looked for and isn't there is stored as absent: the planner tells "nothing" from
//! "unknown", and never asks for the same thing twice.

use std::collections::{BTreeSet, HashMap};

use unspent_model::{
    Micros, Outpoint, TxId,
    wallet::{AddressId, Coin, Confirmation, KnownFacts, StoredTx, facts::NeededFacts},
};
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, Tx};

use crate::{
    error::WalletError,
    ids::WalletId,
    rows::{self, opt_lock, opt_txid, prevout, status, txid},
};

/// What is loaded, with the rows behind it.
#[derive(Default)]
pub(crate) struct LoadedFacts {
    pub(crate) facts: KnownFacts,
    pub(crate) tx_rows: HashMap<TxId, RowId>,
    pub(crate) coin_rows: HashMap<Outpoint, RowId>,
}

/// Each with its inputs in order, one row for an input; a coinbase has a row without one.
const TXS: BulkStatement = BulkStatement {
    sqlite: "SELECT t.wallet_id, t.id, t.tx_hash, t.block_height, t.block_position, t.status,
            t.is_coinbase, t.ever_published, t.withdrawn, t.is_own, t.fee, t.output_total,
            t.received_time, t.evicted_at, i.prev_tx_hash, i.prev_output_index
        FROM transactions t
        LEFT JOIN tx_inputs i ON i.wallet_id = t.wallet_id AND i.tx_id = t.id
        WHERE t.tx_hash = $2 AND t.wallet_id = $1 ORDER BY i.input_index",
    postgres: "SELECT t.wallet_id, t.id, t.tx_hash, t.block_height, t.block_position, t.status,
            t.is_coinbase, t.ever_published, t.withdrawn, t.is_own, t.fee, t.output_total,
            t.received_time, t.evicted_at, i.prev_tx_hash, i.prev_output_index
        FROM UNNEST($1::bigint[], $2::bytea[]) k (w, h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = k.w
        LEFT JOIN tx_inputs i ON i.wallet_id = t.wallet_id AND i.tx_id = t.id
        ORDER BY t.wallet_id, t.id, i.input_index",
};

const SPENDERS: BulkStatement = BulkStatement {
    sqlite: "SELECT i.wallet_id, i.prev_tx_hash, i.prev_output_index, t.tx_hash
        FROM tx_inputs i /*by idx_tx_inputs_prevout*/
        CROSS JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        WHERE i.prev_tx_hash = $2 AND i.prev_output_index = $3 AND i.wallet_id = $1
        ORDER BY t.id",
    postgres: "SELECT i.wallet_id, i.prev_tx_hash, i.prev_output_index, t.tx_hash
        FROM UNNEST($1::bigint[], $2::bytea[], $3::bigint[]) k (w, h, n)
        JOIN tx_inputs i
            ON i.prev_tx_hash = k.h AND i.prev_output_index = k.n AND i.wallet_id = k.w
        JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        ORDER BY t.id",
};

/// All descendants of transactions, each once for a root, however they are reached.
const DESCENDANTS: BulkStatement = BulkStatement {
    sqlite: "WITH RECURSIVE family (id, tx_hash) AS (
            SELECT t.id, t.tx_hash FROM tx_inputs i /*by idx_tx_inputs_prevout*/
            CROSS JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
            WHERE i.prev_tx_hash = $2 AND i.wallet_id = $1
            UNION
            SELECT t.id, t.tx_hash FROM family f
            CROSS JOIN tx_inputs i /*by idx_tx_inputs_prevout*/
                ON i.prev_tx_hash = f.tx_hash AND i.wallet_id = $1
            CROSS JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        ) SELECT $1 AS wallet_id, tx_hash FROM family",
    postgres: "WITH RECURSIVE family (wallet_id, tx_hash) AS (
            SELECT t.wallet_id, t.tx_hash FROM UNNEST($1::bigint[], $2::bytea[]) k (w, h)
            JOIN tx_inputs i ON i.prev_tx_hash = k.h AND i.wallet_id = k.w
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
            UNION
            SELECT t.wallet_id, t.tx_hash FROM family f
            CROSS JOIN LATERAL (SELECT x.wallet_id, x.tx_id FROM tx_inputs x
                WHERE x.prev_tx_hash = f.tx_hash AND x.wallet_id = f.wallet_id OFFSET 0) i
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        ) SELECT wallet_id, tx_hash FROM family",
};

/// What is asked of a coin, in the same words for one coin and for all of a transaction's.
macro_rules! coins_of {
    ($from:literal, $coin:literal, $where:literal) => {
        concat!(
            "SELECT t.wallet_id, t.tx_hash, u.output_index, u.id, u.amount, u.address_id,
                s.tx_hash AS spent_by, u.spent_input_index, l.external_lock_id
            FROM ",
            $from,
            " utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id ",
            $coin,
            " LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
            LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
                AND (l.expires_at > $1 OR (l.hold_confirmations IS NOT NULL
                    AND u.spent_by_tx_id IS NOT NULL)) ",
            $where
        )
    };
}

const COINS: BulkStatement = BulkStatement {
    sqlite: coins_of!(
        "transactions t CROSS JOIN",
        "AND u.output_index = $4",
        "WHERE t.tx_hash = $3 AND t.wallet_id = $2"
    ),
    postgres: coins_of!(
        "UNNEST($2::bigint[], $3::bytea[], $4::bigint[]) k (w, h, n)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = k.w JOIN",
        "AND u.output_index = k.n",
        ""
    ),
};

const CREDITS: BulkStatement = BulkStatement {
    sqlite: coins_of!("transactions t CROSS JOIN", "", "WHERE t.tx_hash = $3 AND t.wallet_id = $2"),
    postgres: coins_of!(
        "UNNEST($2::bigint[], $3::bytea[]) k (w, h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = k.w JOIN",
        "",
        ""
    ),
};

/// What a plan lacks, with the wallet it is made for.
pub(crate) struct MissingFacts<'l> {
    pub(crate) wallet: WalletId,
    pub(crate) loaded: &'l mut LoadedFacts,
    pub(crate) needs: NeededFacts,
}

/// Loads everything that is missing, for all wallets at once: at most five statements.
pub(crate) fn load(
    tx: &mut Tx<'_>,
    missing: &mut [MissingFacts<'_>],
    now: Micros,
) -> Result<(), WalletError> {
    // Families and spenders bring transactions along, which then needn't be asked for again.
    let members = families(tx, missing)?;
    let spenders = spenders(tx, missing)?;
    let named = members.iter().chain(&spenders).copied();
    transactions(tx, missing, named.collect())?;
    for one in missing.iter_mut() {
        let family = members.iter().filter(|(wallet, _)| *wallet == one.wallet);
        one.loaded.children(family.map(|(_, txid)| *txid).collect());
    }
    coins(tx, missing, now)?;
    credits(tx, missing, now)
}

fn of_wallet<'a, 'l>(
    missing: &'a mut [MissingFacts<'l>],
    wallet: WalletId,
) -> Option<&'a mut MissingFacts<'l>> {
    missing.iter_mut().find(|one| one.wallet == wallet)
}

type TxNames = BTreeSet<(WalletId, TxId)>;

/// The roots that are asked for and all their descendants.
fn families(tx: &mut Tx<'_>, missing: &[MissingFacts<'_>]) -> Result<TxNames, WalletError> {
    let roots = missing.iter().flat_map(|one| {
        let unknown = one.needs.children.iter();
        unknown
            .filter(|root| !one.loaded.facts.children.contains_key(root))
            .map(|root| (one.wallet, *root))
    });
    let mut members: TxNames = roots.collect();
    for row in tx.query_set(DESCENDANTS, &[], &name_columns(&members))? {
        members.insert((WalletId(row.int("wallet_id")?), txid(&row, "tx_hash")?));
    }
    Ok(members)
}

fn spenders(tx: &mut Tx<'_>, missing: &mut [MissingFacts<'_>]) -> Result<TxNames, WalletError> {
    let columns = outpoint_columns(missing, |needs| &needs.spenders);
    let rows = tx.query_set(SPENDERS, &[], &columns)?;
    for one in missing.iter_mut() {
        for outpoint in &one.needs.spenders {
            one.loaded.facts.spenders.insert(*outpoint, Vec::new());
        }
    }
    let mut named = TxNames::new();
    for row in &rows {
        let (wallet, spender) = (row.int("wallet_id")?, txid(row, "tx_hash")?);
        named.insert((WalletId(wallet), spender));
        if let Some(one) = of_wallet(missing, WalletId(wallet)) {
            one.loaded.facts.spenders.entry(prevout(row)?).or_default().push(spender);
        }
    }
    Ok(named)
}

fn transactions(
    tx: &mut Tx<'_>,
    missing: &mut [MissingFacts<'_>],
    mut wanted: TxNames,
) -> Result<(), WalletError> {
    for one in missing.iter() {
        wanted.extend(one.needs.txs.iter().map(|txid| (one.wallet, *txid)));
    }
    // Facts are read once for a plan, since the wallet is locked: nobody else changes them.
    wanted.retain(|(wallet, txid)| {
        let one = missing.iter().find(|one| one.wallet == *wallet);
        one.is_some_and(|one| !one.loaded.facts.txs.contains_key(txid))
    });
    let rows = tx.query_set(TXS, &[], &name_columns(&wanted))?;
    for one in missing.iter_mut() {
        let own = wanted.iter().filter(|(wallet, _)| *wallet == one.wallet);
        own.for_each(|(_, txid)| {
            one.loaded.facts.txs.insert(*txid, None);
        });
    }
    for row in &rows {
        let wallet = row.int("wallet_id")?;
        if let Some(one) = of_wallet(missing, WalletId(wallet)) {
            one.loaded.keep_tx(row)?;
        }
    }
    Ok(())
}

fn coins(
    tx: &mut Tx<'_>,
    missing: &mut [MissingFacts<'_>],
    now: Micros,
) -> Result<(), WalletError> {
    let columns = outpoint_columns(missing, |needs| &needs.coins);
    let rows = tx.query_set(COINS, &[Arg::Int(now.0)], &columns)?;
    for one in missing.iter_mut() {
        for outpoint in &one.needs.coins {
            one.loaded.facts.coins.insert(*outpoint, None);
        }
    }
    for row in &rows {
        let wallet = row.int("wallet_id")?;
        if let Some(one) = of_wallet(missing, WalletId(wallet)) {
            one.loaded.keep_coin(row)?;
        }
    }
    Ok(())
}

fn credits(
    tx: &mut Tx<'_>,
    missing: &mut [MissingFacts<'_>],
    now: Micros,
) -> Result<(), WalletError> {
    let wanted =
        missing.iter().flat_map(|one| one.needs.credits.iter().map(|txid| (one.wallet, *txid)));
    let columns = name_columns(&wanted.collect());
    let rows = tx.query_set(CREDITS, &[Arg::Int(now.0)], &columns)?;
    for one in missing.iter_mut() {
        for txid in &one.needs.credits {
            one.loaded.facts.credits.insert(*txid, Vec::new());
        }
    }
    for row in &rows {
        let wallet = row.int("wallet_id")?;
        if let Some(one) = of_wallet(missing, WalletId(wallet)) {
            let outpoint = one.loaded.keep_coin(row)?;
            one.loaded.facts.credits.entry(outpoint.tx).or_default().push(outpoint.index);
        }
    }
    Ok(())
}

fn name_columns(names: &TxNames) -> [Column; 2] {
    [
        Column::ints(names.iter().map(|(wallet, _)| wallet.0)),
        Column::blobs(names.iter().map(|(_, txid)| txid.0)),
    ]
}

fn outpoint_columns(
    missing: &[MissingFacts<'_>],
    wanted: impl Fn(&NeededFacts) -> &BTreeSet<Outpoint>,
) -> [Column; 3] {
    let all: Vec<(WalletId, Outpoint)> = missing
        .iter()
        .flat_map(|one| wanted(&one.needs).iter().map(|outpoint| (one.wallet, *outpoint)))
        .collect();
    [
        Column::ints(all.iter().map(|(wallet, _)| wallet.0)),
        Column::blobs(all.iter().map(|(_, outpoint)| outpoint.tx.0)),
        Column::ints(all.iter().map(|(_, outpoint)| i64::from(outpoint.index))),
    ]
}

impl LoadedFacts {
    /// Loads everything that is missing, for one wallet.
    pub(crate) fn load(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: WalletId,
        needs: &NeededFacts,
        now: Micros,
    ) -> Result<(), WalletError> {
        load(tx, &mut [MissingFacts { wallet, loaded: self, needs: needs.clone() }], now)
    }

    /// One row of a transaction: the first brings it, every one an input.
    fn keep_tx(&mut self, row: &Row) -> Result<(), WalletError> {
        let name = txid(row, "tx_hash")?;
        let input = opt_txid(row, "prev_tx_hash")?.zip(row.opt_index("prev_output_index")?);
        let input = input.map(|(tx, index)| Outpoint::new(tx, index));
        if let Some(Some(known)) = self.facts.txs.get_mut(&name) {
            known.inputs.extend(input);
            return Ok(());
        }
        self.tx_rows.insert(name, row.row_id("id")?);
        let stored = stored_tx(row, input.into_iter().collect())?;
        self.facts.txs.insert(name, Some(stored));
        Ok(())
    }

    /// A whole family is here, so each member's children are among the members: known even where
    /// there are none.
    fn children(&mut self, members: BTreeSet<TxId>) {
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
    }

    fn keep_coin(&mut self, row: &Row) -> Result<Outpoint, WalletError> {
        let outpoint = rows::coin(row)?;
        let spender = opt_txid(row, "spent_by")?.zip(row.opt_index("spent_input_index")?);
        let coin = Coin {
            amount: row.natural("amount")?,
            address: AddressId(row.int("address_id")?),
            spent_by: spender,
            holder: opt_lock(row, "external_lock_id")?,
        };
        self.coin_rows.insert(outpoint, row.row_id("id")?);
        self.facts.coins.insert(outpoint, Some(coin));
        Ok(outpoint)
    }
}

const INPUTS: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_id, input_index, prev_tx_hash, prev_output_index FROM tx_inputs
        WHERE wallet_id = $1 AND tx_id = $2 ORDER BY input_index",
    postgres: "SELECT i.tx_id, i.input_index, i.prev_tx_hash, i.prev_output_index
        FROM UNNEST($2::bigint[]) k (id)
        JOIN tx_inputs i ON i.wallet_id = $1 AND i.tx_id = k.id ORDER BY i.tx_id, i.input_index",
};

/// Inputs in order, by the row of their transaction.
pub(crate) fn inputs_of(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    ids: Vec<RowId>,
) -> Result<HashMap<RowId, Vec<Outpoint>>, WalletError> {
    let mut found: HashMap<RowId, Vec<Outpoint>> = HashMap::new();
    for row in tx.query_set(INPUTS, &[Arg::Int(wallet.0)], &[Column::row_ids(ids)])? {
        found.entry(row.row_id("tx_id")?).or_default().push(prevout(&row)?);
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
        received: row.micros("received_time")?,
        evicted_at: row.opt_micros("evicted_at")?,
        inputs,
    })
}
