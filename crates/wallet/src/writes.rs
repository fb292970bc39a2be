//! All that a change writes, gathered over all wallets that it concerns and sent at once.
//!
//! A block may pay fifty wallets, each with rows in a dozen tables. Statement by statement and
//! wallet by wallet that would be hundreds of round trips to a server. So rows are gathered here,
//! table by table with the wallet as a column, and go out together: on PostgreSQL as one statement
//! whose parts each write one table, on SQLite table by table, which costs no trip.
//!
//! Rows name rows of other tables, so the tables have an order; PostgreSQL checks at the end of
//! the statement and doesn't mind.

use std::sync::LazyLock;

use bitcoin::ScriptBuf;
use unspent_model::{
    Outpoint,
    wallet::{
        Coin, StoredTx,
        plan::{Edge, Line, TxChange},
    },
};
use unspent_sql::{Arg, Backend, BulkStatement, Column, Tx};

use crate::{
    descriptor::script_hash,
    error::WalletError,
    keychains::Chain,
    room::{WalletRow, sql_int},
};

/// Rows for one table, column by column.
struct Rows(Vec<Column>);

/// What a column holds.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Text,
    Blob,
    Flag,
}

/// One value of a row.
enum Cell {
    Int(Option<i64>),
    Text(Option<&'static str>),
    Blob(Option<Vec<u8>>),
    Flag(bool),
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

/// A natural number or null, as SQL holds it.
fn natural(number: Option<u64>) -> Result<Cell, WalletError> {
    Ok(Cell::Int(number.map(sql_int).transpose()?))
}

fn bytes(bytes: &[u8]) -> Cell {
    Cell::Blob(Some(bytes.to_vec()))
}

impl Rows {
    fn new(kinds: &[Kind]) -> Self {
        let empty = |kind: &Kind| match kind {
            Kind::Int => Column::Ints(Vec::new()),
            Kind::Text => Column::Texts(Vec::new()),
            Kind::Blob => Column::Blobs(Vec::new()),
            Kind::Flag => Column::Flags(Vec::new()),
        };
        Self(kinds.iter().map(empty).collect())
    }

    fn push<const N: usize>(&mut self, cells: [Cell; N]) {
        for (column, cell) in self.0.iter_mut().zip(cells) {
            match (column, cell) {
                (Column::Ints(values), Cell::Int(value)) => values.push(value),
                (Column::Texts(values), Cell::Text(value)) => values.push(value.map(str::to_owned)),
                (Column::Blobs(values), Cell::Blob(value)) => values.push(value),
                (Column::Flags(values), Cell::Flag(value)) => values.push(value),
                (
                    Column::Ints(_)
                    | Column::Texts(_)
                    | Column::Blobs(_)
                    | Column::Flags(_)
                    | Column::Hashes(_),
                    Cell::Int(_) | Cell::Text(_) | Cell::Blob(_) | Cell::Flag(_),
                ) => debug_assert!(false, "a cell stands in the wrong column"),
            }
        }
    }

    fn len(&self) -> usize {
        self.0.first().map_or(0, Column::len)
    }
}

/// A table that is written: its statement, and what its columns hold.
struct Table {
    set: BulkStatement,
    kinds: &'static [Kind],
}

const TABLES: [Table; 11] =
    [SCRIPTS, USED, CHAINS, NEW_TXS, INPUTS, CHANGED_TXS, COINS, SPENDS, EDGES, LINES, WALLETS];

const SCRIPTS: Table = Table {
    set: BulkStatement {
        sqlite: "INSERT INTO addresses (is_used, wallet_id, keychain_id, id, address_index,
            script_hash, script_pub_key) VALUES (FALSE, $1, $2, $3, $4, $5, $6)",
        postgres: "INSERT INTO addresses (is_used, wallet_id, keychain_id, id, address_index,
                script_hash, script_pub_key)
            SELECT FALSE, k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                $5::bytea[], $6::bytea[]) k",
    },
    kinds: &[Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Blob, Kind::Blob],
};
const USED: Table = Table {
    set: BulkStatement {
        sqlite: "UPDATE addresses SET is_used = TRUE WHERE wallet_id = $1 AND id = $2",
        postgres: "UPDATE addresses a SET is_used = TRUE
            FROM UNNEST($1::bigint[], $2::bigint[]) k (w, id)
            WHERE a.wallet_id = k.w AND a.id = k.id",
    },
    kinds: &[Kind::Int, Kind::Int],
};
const CHAINS: Table = Table {
    set: BulkStatement {
        sqlite: "UPDATE keychains SET next_index = $3, last_used = $4, derived_to = $5
            WHERE wallet_id = $1 AND id = $2",
        postgres: "UPDATE keychains c SET next_index = k.next, last_used = k.used,
                derived_to = k.derived
            FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                k (w, id, next, used, derived)
            WHERE c.wallet_id = k.w AND c.id = k.id",
    },
    kinds: &[Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Int],
};
const NEW_TXS: Table = Table {
    set: BulkStatement {
        sqlite: "INSERT INTO transactions (wallet_id, received_time, id, tx_hash, block_height,
                block_position, status, is_coinbase, ever_published, withdrawn, is_own, fee,
                output_total, raw_tx)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        postgres: "INSERT INTO transactions (wallet_id, received_time, id, tx_hash, block_height,
                block_position, status, is_coinbase, ever_published, withdrawn, is_own, fee,
                output_total, raw_tx)
            SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[],
                $5::bigint[], $6::bigint[], $7::text[], $8::boolean[], $9::boolean[],
                $10::boolean[], $11::boolean[], $12::bigint[], $13::bigint[], $14::bytea[]) k",
    },
    kinds: &[
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Blob,
        Kind::Int,
        Kind::Int,
        Kind::Text,
        Kind::Flag,
        Kind::Flag,
        Kind::Flag,
        Kind::Flag,
        Kind::Int,
        Kind::Int,
        Kind::Blob,
    ],
};
const INPUTS: Table = Table {
    set: BulkStatement {
        sqlite: "INSERT INTO tx_inputs (wallet_id, tx_id, input_index, prev_tx_hash,
                prev_output_index) VALUES ($1, $2, $3, $4, $5)",
        postgres: "INSERT INTO tx_inputs (wallet_id, tx_id, input_index, prev_tx_hash,
                prev_output_index)
            SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[],
                $5::bigint[]) k",
    },
    kinds: &[Kind::Int, Kind::Int, Kind::Int, Kind::Blob, Kind::Int],
};
/// The bytes that a block holds are the ones to keep: the witness may differ from what was relayed.
/// The status that was planned on guards the row.
const CHANGED_TXS: Table = Table {
    set: BulkStatement {
        sqlite: "UPDATE transactions SET status = $4, block_height = $5, block_position = $6,
                ever_published = $7, withdrawn = $8, is_own = $9, fee = $10, evicted_at = $11,
                raw_tx = COALESCE($12, raw_tx)
            WHERE wallet_id = $1 AND id = $2 AND status = $3",
        postgres: "UPDATE transactions t SET status = k.status, block_height = k.height,
                block_position = k.place, ever_published = k.published, withdrawn = k.withdrawn,
                is_own = k.own, fee = k.fee, evicted_at = k.evicted,
                raw_tx = CASE WHEN k.raw IS NULL OR k.raw = t.raw_tx THEN t.raw_tx ELSE k.raw END
            FROM UNNEST($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[],
                $6::bigint[], $7::boolean[], $8::boolean[], $9::boolean[], $10::bigint[],
                $11::bigint[], $12::bytea[]) k (w, id, was, status, height, place, published,
                withdrawn, own, fee, evicted, raw)
            WHERE t.wallet_id = k.w AND t.id = k.id AND t.status = k.was",
    },
    kinds: &[
        Kind::Int,
        Kind::Int,
        Kind::Text,
        Kind::Text,
        Kind::Int,
        Kind::Int,
        Kind::Flag,
        Kind::Flag,
        Kind::Flag,
        Kind::Int,
        Kind::Int,
        Kind::Blob,
    ],
};
const COINS: Table = Table {
    set: BulkStatement {
        sqlite: "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount, address_id,
                spent_by_tx_id, spent_input_index)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        postgres: "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount, address_id,
                spent_by_tx_id, spent_input_index)
            SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) k",
    },
    kinds: &[Kind::Int; 8],
};
const SPENDS: Table = Table {
    set: BulkStatement {
        sqlite: "UPDATE utxos SET spent_by_tx_id = $3, spent_input_index = $4
            WHERE wallet_id = $1 AND id = $2",
        postgres: "UPDATE utxos u SET spent_by_tx_id = k.spender, spent_input_index = k.input
            FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
                k (w, id, spender, input)
            WHERE u.wallet_id = k.w AND u.id = k.id",
    },
    kinds: &[Kind::Int; 4],
};
const EDGES: Table = Table {
    set: BulkStatement {
        sqlite: "INSERT INTO tx_replacements (wallet_id, created_at, replaced_tx_id,
                replacement_tx_id, cause) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        postgres: "INSERT INTO tx_replacements (wallet_id, created_at, replaced_tx_id,
                replacement_tx_id, cause)
            SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                $5::text[]) k ON CONFLICT DO NOTHING",
    },
    kinds: &[Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Text],
};
const LINES: Table = Table {
    set: BulkStatement {
        sqlite: "INSERT INTO journal (wallet_id, at, id, cause, tx_hash, output_tx_hash,
                output_index, from_status, to_status, other_tx_hash, block_height, lock_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        postgres: "INSERT INTO journal (wallet_id, at, id, cause, tx_hash, output_tx_hash,
                output_index, from_status, to_status, other_tx_hash, block_height, lock_id)
            SELECT k.* FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::text[],
                $5::bytea[], $6::bytea[], $7::bigint[], $8::text[], $9::text[], $10::bytea[],
                $11::bigint[], $12::bytea[]) k",
    },
    kinds: &[
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Text,
        Kind::Blob,
        Kind::Blob,
        Kind::Int,
        Kind::Text,
        Kind::Text,
        Kind::Blob,
        Kind::Int,
        Kind::Blob,
    ],
};
const WALLETS: Table = Table {
    set: BulkStatement {
        sqlite: "UPDATE wallets SET scanned_height = $2, scanned_hash = $3, follows_tip = $4,
                next_id = $5, next_line = $6, confirmed_amount = $7, confirmed_coins = $8,
                history_from = $9
            WHERE id = $1",
        postgres: "UPDATE wallets w SET scanned_height = k.height, scanned_hash = k.hash,
                follows_tip = k.follows, next_id = k.id_next, next_line = k.line_next,
                confirmed_amount = k.amount, confirmed_coins = k.coins, history_from = k.history
            FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[], $4::boolean[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
                k (w, height, hash, follows, id_next, line_next, amount, coins, history)
            WHERE w.id = k.w",
    },
    kinds: &[
        Kind::Int,
        Kind::Int,
        Kind::Blob,
        Kind::Flag,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Int,
    ],
};

/// Place of the changed transactions among the tables: their number is checked.
const CHANGED: usize = 5;

/// All tables' statements as parts of one, with their arguments numbered through.
static TOGETHER: LazyLock<&'static str> = LazyLock::new(|| {
    let mut text = String::from("WITH ");
    let mut before = 0;
    for (place, table) in TABLES.iter().enumerate() {
        let part = renumbered(table.set.postgres, before);
        before += table.kinds.len();
        let comma = if place == 0 { "" } else { ", " };
        text.push_str(&format!("{comma}part_{place} AS ({part} RETURNING 1)"));
    }
    text.push_str(&format!(" SELECT COUNT(*) AS changed FROM part_{CHANGED}"));
    text.leak()
});

/// `$1` becomes `$4` after three others.
fn renumbered(text: &str, before: usize) -> String {
    let mut pieces = text.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = piece.split_at(digits);
        let number: usize = number.parse().unwrap_or(0);
        out.push_str(&format!("${}{rest}", number + before));
    }
    out
}

/// Rows for all tables.
pub(crate) struct Writes([Rows; TABLES.len()]);

impl Default for Writes {
    fn default() -> Self {
        Self(TABLES.each_ref().map(|table| Rows::new(table.kinds)))
    }
}

impl Writes {
    /// Sends everything. Nothing is left to send afterwards.
    pub(crate) fn send(&mut self, tx: &mut Tx<'_>) -> Result<(), WalletError> {
        let rows = std::mem::take(self).0;
        if rows.iter().all(|rows| rows.len() == 0) {
            return Ok(());
        }
        let planned = rows.get(CHANGED).map_or(0, Rows::len) as u64;
        let changed = match tx.backend() {
            Backend::Postgres => {
                let columns: Vec<Column> = rows.into_iter().flat_map(|rows| rows.0).collect();
                let answer = tx.query_columns(*TOGETHER, &columns)?;
                answer.first().map_or(Ok(0), |row| row.natural("changed"))?
            }
            Backend::Sqlite => table_by_table(tx, &rows)?,
        };
        // Fewer rows mean that a status wasn't what was planned on: then nothing is written.
        if changed == planned {
            return Ok(());
        }
        Err(WalletError::Bug("a planned change met another status"))
    }

    fn push<const N: usize>(&mut self, table: usize, cells: [Cell; N]) {
        if let Some(rows) = self.0.get_mut(table) {
            rows.push(cells);
        }
    }

    /// A script to watch.
    pub(crate) fn script(
        &mut self,
        wallet: i64,
        chain: i64,
        id: i64,
        index: u32,
        script: &ScriptBuf,
    ) {
        let (hash, script) = (bytes(&script_hash(script)), bytes(script.as_bytes()));
        let cells = [wallet.into(), chain.into(), id.into(), i64::from(index).into(), hash, script];
        self.push(0, cells);
    }

    /// An address was paid for the first time.
    pub(crate) fn used(&mut self, wallet: i64, address: i64) {
        self.push(1, [wallet.into(), address.into()]);
    }

    /// A chain reaches further.
    pub(crate) fn chain(&mut self, wallet: i64, chain: &Chain) {
        let (next, derived) = (i64::from(chain.next), i64::from(chain.derived));
        let used = Cell::Int(chain.last_used.map(i64::from));
        self.push(2, [wallet.into(), chain.id.into(), next.into(), used, derived.into()]);
    }

    /// A transaction that wasn't known.
    pub(crate) fn new_tx(
        &mut self,
        wallet: i64,
        now: i64,
        id: i64,
        tx: &StoredTx,
        raw: &[u8],
    ) -> Result<(), WalletError> {
        let cells = [
            wallet.into(),
            now.into(),
            id.into(),
            bytes(&tx.txid.0),
            natural(tx.confirmed.map(|at| at.height))?,
            natural(tx.confirmed.map(|at| at.position))?,
            Cell::Text(Some(tx.status.name())),
            Cell::Flag(tx.is_coinbase),
            Cell::Flag(tx.ever_published),
            Cell::Flag(tx.withdrawn),
            Cell::Flag(tx.is_own),
            natural(tx.fee)?,
            natural(Some(tx.output_total))?,
            bytes(raw),
        ];
        self.push(3, cells);
        for (at, input) in (0_i64..).zip(&tx.inputs) {
            let index = i64::from(input.index).into();
            self.push(4, [wallet.into(), id.into(), at.into(), bytes(&input.tx.0), index]);
        }
        Ok(())
    }

    /// A known transaction in another state.
    pub(crate) fn changed_tx(
        &mut self,
        wallet: i64,
        id: i64,
        change: &TxChange,
        raw: Option<&[u8]>,
    ) -> Result<(), WalletError> {
        let now = &change.now;
        let cells = [
            wallet.into(),
            id.into(),
            Cell::Text(Some(change.was.name())),
            Cell::Text(Some(now.status.name())),
            natural(now.confirmed.map(|at| at.height))?,
            natural(now.confirmed.map(|at| at.position))?,
            Cell::Flag(now.ever_published),
            Cell::Flag(now.withdrawn),
            Cell::Flag(now.is_own),
            natural(now.fee)?,
            Cell::Int(now.evicted_at),
            Cell::Blob(raw.map(<[u8]>::to_vec)),
        ];
        self.push(CHANGED, cells);
        Ok(())
    }

    /// A coin that wasn't known, made by the transaction in row `maker`.
    pub(crate) fn coin(
        &mut self,
        wallet: i64,
        id: i64,
        maker: i64,
        outpoint: Outpoint,
        coin: &Coin,
        spender: Option<(i64, i64)>,
    ) -> Result<(), WalletError> {
        let cells = [
            wallet.into(),
            id.into(),
            maker.into(),
            i64::from(outpoint.index).into(),
            natural(Some(coin.amount))?,
            coin.address.into(),
            Cell::Int(spender.map(|(by, _)| by)),
            Cell::Int(spender.map(|(_, at)| at)),
        ];
        self.push(6, cells);
        Ok(())
    }

    /// Who spends a known coin.
    pub(crate) fn spend(&mut self, wallet: i64, coin: i64, spender: Option<(i64, i64)>) {
        let (by, at) = spender.unzip();
        self.push(7, [wallet.into(), coin.into(), Cell::Int(by), Cell::Int(at)]);
    }

    /// One transaction stands in another's way.
    pub(crate) fn edge(&mut self, wallet: i64, now: i64, edge: &Edge, loser: i64, winner: i64) {
        let cause = Cell::Text(Some(edge.cause.name()));
        self.push(8, [wallet.into(), now.into(), loser.into(), winner.into(), cause]);
    }

    /// A line of a wallet's journal.
    pub(crate) fn line(
        &mut self,
        wallet: &mut WalletRow,
        line: &Line,
        now: i64,
    ) -> Result<(), WalletError> {
        let cells = [
            wallet.id.into(),
            now.into(),
            wallet.new_line().into(),
            Cell::Text(Some(line.cause.name())),
            bytes(&line.txid.0),
            Cell::Blob(line.output.map(|output| output.tx.0.to_vec())),
            Cell::Int(line.output.map(|output| output.index.into())),
            Cell::Text(line.from.map(unspent_model::wallet::Status::name)),
            Cell::Text(line.to.map(unspent_model::wallet::Status::name)),
            Cell::Blob(line.other.map(|txid| txid.0.to_vec())),
            natural(line.height)?,
            Cell::Blob(line.lock.map(|lock| lock.as_bytes().to_vec())),
        ];
        self.push(9, cells);
        Ok(())
    }

    /// A wallet's own row.
    pub(crate) fn wallet(&mut self, row: &WalletRow) -> Result<(), WalletError> {
        let (height, hash) = row.stored_place().unzip();
        let cells = [
            row.id.into(),
            natural(height)?,
            Cell::Blob(hash.map(|hash| hash.0.to_vec())),
            Cell::Flag(row.follows_tip),
            row.next_id.into(),
            row.next_line.into(),
            row.confirmed_amount.into(),
            row.confirmed_coins.into(),
            natural(row.history_from)?,
        ];
        self.push(10, cells);
        Ok(())
    }
}

fn table_by_table(tx: &mut Tx<'_>, rows: &[Rows]) -> Result<u64, WalletError> {
    let none: [Arg<'_>; 0] = [];
    let mut changed = 0;
    for (place, (table, rows)) in TABLES.iter().zip(rows).enumerate() {
        let count = tx.execute_set(table.set, &none, &rows.0)?;
        if place == CHANGED {
            changed = count;
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::{TABLES, TOGETHER, renumbered};

    #[test]
    fn arguments_are_numbered_through() {
        assert_eq!(renumbered("$1, $12::x[] $2", 3), "$4, $15::x[] $5");
        let all: usize = TABLES.iter().map(|table| table.kinds.len()).sum();
        assert!(TOGETHER.contains(&format!("${all}::")) && !TOGETHER.contains("$0"));
    }

    #[test]
    fn each_table_names_as_many_arguments_as_it_has_columns() {
        for table in &TABLES {
            let count = table.kinds.len();
            for text in [table.set.sqlite, table.set.postgres] {
                assert!(text.contains(&format!("${count}")), "{text}");
                assert!(!text.contains(&format!("${}", count + 1)), "{text}");
            }
        }
    }
}
