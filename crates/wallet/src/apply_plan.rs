//! Applying a plan: load what it needs, then write it with set statements.
//!
//! The planner is pure, so somebody has to play its two questions against the database: "load
//! these" until it has enough, then "write this". Between the first load and the last write nobody
//! may change what the plan was made on; the caller holds the wallet's row for that, and the
//! guarded `WHERE status = …` of the changed transactions would show if it ever failed.
//!
//! Writes go table by table, parents before children, as foreign keys want it, one set statement
//! each: a family of a thousand costs as many statements as one transaction.

use std::collections::HashMap;

use unspent_model::{
    Outpoint, TxId,
    wallet::{
        Event, Outcome, Plan,
        plan::{Edge, Line, plan},
    },
};
use unspent_sql::{Arg, Column, Set, Tx};

use crate::{
    error::WalletError,
    labels,
    load::Loaded,
    room::{WalletRow, sql_int},
};

/// Rounds of loading before we believe in a fault of ours: each round loads something new, and
/// families come whole, so a handful is the rule.
const MAX_ROUNDS: usize = 10_000;

/// Raw transactions by name, for those that will be stored or confirmed.
pub(crate) type RawTxs = HashMap<TxId, Vec<u8>>;

/// Plans the events under the wallet's lock and writes the plan. The caller saves the wallet's row.
pub(crate) fn apply_plan(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    events: &[Event],
    raws: &RawTxs,
    now: i64,
) -> Result<Plan, WalletError> {
    let mut loaded = Loaded::default();
    for _ in 0..MAX_ROUNDS {
        match plan(&loaded.facts, events, now)? {
            Outcome::NeedMore(needs) => loaded.load(tx, wallet.id, &needs, now)?,
            Outcome::Ready(plan) => {
                Writer { tx, wallet, loaded: &mut loaded, now }.write(&plan, raws)?;
                labels::follow_clones(tx, wallet, &plan.edges, raws)?;
                return Ok(plan);
            }
        }
    }
    Err(WalletError::Bug("a plan never had enough facts"))
}

const INSERT_TXS: Set = Set {
    sqlite: "INSERT INTO transactions (wallet_id, received_time, id, tx_hash, block_height,
            block_position, status, is_coinbase, ever_published, withdrawn, is_own, fee,
            output_total, raw_tx)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    postgres: "INSERT INTO transactions (wallet_id, received_time, id, tx_hash, block_height,
            block_position, status, is_coinbase, ever_published, withdrawn, is_own, fee,
            output_total, raw_tx)
        SELECT $1, $2, k.* FROM UNNEST($3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[],
            $7::text[], $8::boolean[], $9::boolean[], $10::boolean[], $11::boolean[],
            $12::bigint[], $13::bigint[], $14::bytea[]) k",
};

const INSERT_INPUTS: Set = Set {
    sqlite: "INSERT INTO tx_inputs (wallet_id, tx_id, input_index, prev_tx_hash, prev_output_index)
        VALUES ($1, $2, $3, $4, $5)",
    postgres: "INSERT INTO tx_inputs (wallet_id, tx_id, input_index, prev_tx_hash,
            prev_output_index)
        SELECT $1, k.* FROM UNNEST($2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[]) k",
};

const INSERT_COINS: Set = Set {
    sqlite: "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount, address_id,
            spent_by_tx_id, spent_input_index)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    postgres: "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount, address_id,
            spent_by_tx_id, spent_input_index)
        SELECT $1, k.* FROM UNNEST($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
            $6::bigint[], $7::bigint[], $8::bigint[]) k",
};

const UPDATE_TXS: Set = Set {
    sqlite: "UPDATE transactions SET status = $4, block_height = $5, block_position = $6,
            ever_published = $7, withdrawn = $8, is_own = $9, fee = $10, evicted_at = $11
        WHERE wallet_id = $1 AND id = $2 AND status = $3",
    postgres: "UPDATE transactions t SET status = k.status, block_height = k.height,
            block_position = k.place, ever_published = k.published, withdrawn = k.withdrawn,
            is_own = k.own, fee = k.fee, evicted_at = k.evicted
        FROM UNNEST($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
            $7::boolean[], $8::boolean[], $9::boolean[], $10::bigint[], $11::bigint[])
            k (id, was, status, height, place, published, withdrawn, own, fee, evicted)
        WHERE t.wallet_id = $1 AND t.id = k.id AND t.status = k.was",
};

/// The bytes that a block holds are the ones to keep: the witness may differ from what was relayed.
const UPDATE_RAWS: Set = Set {
    sqlite: "UPDATE transactions SET raw_tx = $3 WHERE wallet_id = $1 AND id = $2 AND raw_tx <> $3",
    postgres: "UPDATE transactions t SET raw_tx = k.raw
        FROM UNNEST($2::bigint[], $3::bytea[]) k (id, raw)
        WHERE t.wallet_id = $1 AND t.id = k.id AND t.raw_tx <> k.raw",
};

const UPDATE_SPENDS: Set = Set {
    sqlite: "UPDATE utxos SET spent_by_tx_id = $3, spent_input_index = $4
        WHERE wallet_id = $1 AND id = $2",
    postgres: "UPDATE utxos u SET spent_by_tx_id = k.spender, spent_input_index = k.input
        FROM UNNEST($2::bigint[], $3::bigint[], $4::bigint[]) k (id, spender, input)
        WHERE u.wallet_id = $1 AND u.id = k.id",
};

const INSERT_EDGES: Set = Set {
    sqlite: "INSERT INTO tx_replacements (wallet_id, created_at, replaced_tx_id, replacement_tx_id,
            cause) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    postgres: "INSERT INTO tx_replacements (wallet_id, created_at, replaced_tx_id,
            replacement_tx_id, cause)
        SELECT $1, $2, k.* FROM UNNEST($3::bigint[], $4::bigint[], $5::text[]) k
        ON CONFLICT DO NOTHING",
};

const INSERT_LINES: Set = Set {
    sqlite: "INSERT INTO journal (wallet_id, at, id, cause, tx_hash, output_tx_hash, output_index,
            from_status, to_status, other_tx_hash, block_height, lock_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    postgres:
        "INSERT INTO journal (wallet_id, at, id, cause, tx_hash, output_tx_hash, output_index,
            from_status, to_status, other_tx_hash, block_height, lock_id)
        SELECT $1, $2, k.* FROM UNNEST($3::bigint[], $4::text[], $5::bytea[], $6::bytea[],
            $7::bigint[], $8::text[], $9::text[], $10::bytea[], $11::bigint[], $12::bytea[]) k",
};

struct Writer<'a, 'c> {
    tx: &'a mut Tx<'c>,
    wallet: &'a mut WalletRow,
    loaded: &'a mut Loaded,
    now: i64,
}

impl Writer<'_, '_> {
    fn write(&mut self, plan: &Plan, raws: &RawTxs) -> Result<(), WalletError> {
        // Transactions before coins, coins before spends: each row names rows of the one before.
        self.new_txs(plan, raws)?;
        self.changed_txs(plan, raws)?;
        self.new_coins(plan)?;
        self.spends(plan)?;
        self.edges(&plan.edges)?;
        write_lines(self.tx, self.wallet, &plan.lines, self.now)?;
        // The total is kept by differences, so that a balance needn't add up a million coins; the
        // audit adds them up and compares.
        let amount = i128::from(self.wallet.confirmed_amount) + plan.confirmed_sats;
        self.wallet.confirmed_amount = i64::try_from(amount)
            .map_err(|_| WalletError::Corrupt("the confirmed total left its range".into()))?;
        self.wallet.confirmed_coins += plan.confirmed_coins;
        Ok(())
    }

    fn row_of(&self, txid: TxId) -> Result<i64, WalletError> {
        let found = self.loaded.tx_rows.get(&txid).copied();
        found.ok_or(WalletError::Bug("a plan names a transaction that has no row"))
    }

    fn new_txs(&mut self, plan: &Plan, raws: &RawTxs) -> Result<(), WalletError> {
        if plan.new_txs.is_empty() {
            return Ok(());
        }
        let txs = &plan.new_txs;
        let ids: Vec<i64> = txs.iter().map(|_| self.wallet.new_id()).collect();
        let bytes = |txid| raws.get(txid).cloned().ok_or(WalletError::Bug("no raw transaction"));
        let raw = txs.iter().map(|tx| bytes(&tx.txid)).collect::<Result<Vec<_>, _>>()?;
        let columns = [
            Column::ints(ids.iter().copied()),
            Column::blobs(txs.iter().map(|tx| tx.txid.0)),
            heights(txs.iter().map(|tx| tx.confirmed.map(|at| at.height)))?,
            heights(txs.iter().map(|tx| tx.confirmed.map(|at| at.position)))?,
            Column::texts(txs.iter().map(|tx| tx.status.name())),
            Column::Flags(txs.iter().map(|tx| tx.is_coinbase).collect()),
            Column::Flags(txs.iter().map(|tx| tx.ever_published).collect()),
            Column::Flags(txs.iter().map(|tx| tx.withdrawn).collect()),
            Column::Flags(txs.iter().map(|tx| tx.is_own).collect()),
            heights(txs.iter().map(|tx| tx.fee))?,
            heights(txs.iter().map(|tx| Some(tx.output_total)))?,
            Column::blobs(raw),
        ];
        let scalars = [Arg::Int(self.wallet.id), Arg::Int(self.now)];
        self.tx.execute_set(INSERT_TXS, &scalars, &columns)?;
        self.loaded.tx_rows.extend(txs.iter().map(|tx| tx.txid).zip(ids.iter().copied()));
        let inputs: Vec<(i64, i64, Outpoint)> = txs
            .iter()
            .zip(&ids)
            .flat_map(|(tx, id)| {
                (0_i64..).zip(&tx.inputs).map(move |(at, input)| (*id, at, *input))
            })
            .collect();
        let columns = [
            Column::ints(inputs.iter().map(|(id, _, _)| *id)),
            Column::ints(inputs.iter().map(|(_, at, _)| *at)),
            Column::blobs(inputs.iter().map(|(_, _, input)| input.tx.0)),
            Column::ints(inputs.iter().map(|(_, _, input)| i64::from(input.index))),
        ];
        self.tx.execute_set(INSERT_INPUTS, &[Arg::Int(self.wallet.id)], &columns)?;
        Ok(())
    }

    fn changed_txs(&mut self, plan: &Plan, raws: &RawTxs) -> Result<(), WalletError> {
        let changes = &plan.changed_txs;
        let rows = changes.iter().map(|change| self.row_of(change.now.txid));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let columns = [
            Column::ints(rows.iter().copied()),
            Column::texts(changes.iter().map(|change| change.was.name())),
            Column::texts(changes.iter().map(|change| change.now.status.name())),
            heights(changes.iter().map(|change| change.now.confirmed.map(|at| at.height)))?,
            heights(changes.iter().map(|change| change.now.confirmed.map(|at| at.position)))?,
            Column::Flags(changes.iter().map(|change| change.now.ever_published).collect()),
            Column::Flags(changes.iter().map(|change| change.now.withdrawn).collect()),
            Column::Flags(changes.iter().map(|change| change.now.is_own).collect()),
            heights(changes.iter().map(|change| change.now.fee))?,
            Column::Ints(changes.iter().map(|change| change.now.evicted_at).collect()),
        ];
        let changed = self.tx.execute_set(UPDATE_TXS, &[Arg::Int(self.wallet.id)], &columns)?;
        // Fewer rows mean that a status wasn't what was planned on: then nothing is written.
        if changed != changes.len() as u64 {
            return Err(WalletError::Bug("a planned change met another status"));
        }
        let confirmed = changes.iter().zip(&rows).filter_map(|(change, row)| {
            change.now.confirmed.and_then(|_| Some((*row, raws.get(&change.now.txid)?)))
        });
        let (rows, bytes): (Vec<i64>, Vec<&Vec<u8>>) = confirmed.unzip();
        let columns = [Column::ints(rows), Column::blobs(bytes)];
        self.tx.execute_set(UPDATE_RAWS, &[Arg::Int(self.wallet.id)], &columns)?;
        Ok(())
    }

    fn new_coins(&mut self, plan: &Plan) -> Result<(), WalletError> {
        let coins = &plan.new_coins;
        let ids: Vec<i64> = coins.iter().map(|_| self.wallet.new_id()).collect();
        let makers = coins.iter().map(|new| self.row_of(new.outpoint.tx));
        let makers = makers.collect::<Result<Vec<_>, _>>()?;
        let spenders = coins.iter().map(|new| self.spender(new.coin.spent_by));
        let spenders = spenders.collect::<Result<Vec<_>, _>>()?;
        let columns = [
            Column::ints(ids),
            Column::ints(makers),
            Column::ints(coins.iter().map(|new| i64::from(new.outpoint.index))),
            heights(coins.iter().map(|new| Some(new.coin.amount)))?,
            Column::ints(coins.iter().map(|new| new.coin.address)),
            Column::Ints(spenders.iter().map(|spender| spender.map(|(id, _)| id)).collect()),
            Column::Ints(spenders.iter().map(|spender| spender.map(|(_, at)| at)).collect()),
        ];
        self.tx.execute_set(INSERT_COINS, &[Arg::Int(self.wallet.id)], &columns)?;
        Ok(())
    }

    fn spender(&self, by: Option<(TxId, u32)>) -> Result<Option<(i64, i64)>, WalletError> {
        by.map(|(txid, input)| Ok((self.row_of(txid)?, i64::from(input)))).transpose()
    }

    fn spends(&mut self, plan: &Plan) -> Result<(), WalletError> {
        let coin = |outpoint| {
            let found = self.loaded.coin_rows.get(outpoint).copied();
            found.ok_or(WalletError::Bug("a plan names a coin that has no row"))
        };
        let rows = plan.spends.iter().map(|spend| coin(&spend.outpoint));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let spenders = plan.spends.iter().map(|spend| self.spender(spend.by));
        let spenders = spenders.collect::<Result<Vec<_>, _>>()?;
        let columns = [
            Column::ints(rows),
            Column::Ints(spenders.iter().map(|spender| spender.map(|(id, _)| id)).collect()),
            Column::Ints(spenders.iter().map(|spender| spender.map(|(_, at)| at)).collect()),
        ];
        self.tx.execute_set(UPDATE_SPENDS, &[Arg::Int(self.wallet.id)], &columns)?;
        Ok(())
    }

    fn edges(&mut self, edges: &[Edge]) -> Result<(), WalletError> {
        let losers = edges.iter().map(|edge| self.row_of(edge.replaced));
        let winners = edges.iter().map(|edge| self.row_of(edge.replacement));
        let columns = [
            Column::ints(losers.collect::<Result<Vec<_>, _>>()?),
            Column::ints(winners.collect::<Result<Vec<_>, _>>()?),
            Column::texts(edges.iter().map(|edge| edge.cause.name())),
        ];
        let scalars = [Arg::Int(self.wallet.id), Arg::Int(self.now)];
        self.tx.execute_set(INSERT_EDGES, &scalars, &columns)?;
        Ok(())
    }
}

/// Appends lines to a wallet's journal.
pub(crate) fn write_lines(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    lines: &[Line],
    now: i64,
) -> Result<(), WalletError> {
    let hash = |txid: Option<TxId>| txid.map(|txid| txid.0.to_vec());
    let columns = [
        Column::ints(lines.iter().map(|_| wallet.new_line()).collect::<Vec<_>>()),
        Column::texts(lines.iter().map(|line| line.cause.name())),
        Column::blobs(lines.iter().map(|line| line.txid.0)),
        Column::Blobs(lines.iter().map(|line| hash(line.output.map(|out| out.tx))).collect()),
        Column::Ints(lines.iter().map(|line| line.output.map(|out| out.index.into())).collect()),
        Column::Texts(lines.iter().map(|line| line.from.map(|s| s.name().into())).collect()),
        Column::Texts(lines.iter().map(|line| line.to.map(|s| s.name().into())).collect()),
        Column::Blobs(lines.iter().map(|line| hash(line.other)).collect()),
        heights(lines.iter().map(|line| line.height))?,
        Column::Blobs(lines.iter().map(|l| l.lock.map(|id| id.as_bytes().to_vec())).collect()),
    ];
    tx.execute_set(INSERT_LINES, &[Arg::Int(wallet.id), Arg::Int(now)], &columns)?;
    Ok(())
}

/// A column of natural numbers, null allowed.
fn heights(values: impl Iterator<Item = Option<u64>>) -> Result<Column, WalletError> {
    let values = values.map(|value| value.map(sql_int).transpose());
    Ok(Column::Ints(values.collect::<Result<Vec<_>, _>>()?))
}
