//! All that a change writes, gathered over all wallets that it concerns and sent at once.
//!
//! A block may pay fifty wallets, each with rows in a dozen tables. Statement by statement and
//! wallet by wallet that would be hundreds of round trips to a server. So rows are gathered here,
//! table by table with the wallet as a column, and go out together: on PostgreSQL as one statement
//! whose parts each write one table, on SQLite table by table, which costs no trip.

mod rows;

use std::sync::LazyLock;

use bitcoin::ScriptBuf;
use unspent_model::{
    Micros, Outpoint, TxId,
    wallet::{
        AddressId, Coin, StoredTx, TxStatus,
        plan::{JournalEntry, ReplacementEdge, TxChange},
    },
};
use unspent_sql::{Backend, BulkStatement, Column, RowId, Tx};

use crate::{
    descriptor::script_hash,
    error::WalletError,
    ids::{WalletId, sql_int},
    keychains::KeychainState,
    wallet_row::WalletRow,
    writes::rows::{BulkRow, TableShape, bulk_row},
};

bulk_row! {
    /// A script to watch.
    NewScript: Insert "addresses" {
        Put wallet_id: WalletId,
        Put keychain_id: RowId,
        Put id: AddressId,
        Put address_index: u32,
        Put script_hash: [u8; 32],
        Put script_pub_key: Vec<u8>,
        Put is_used: bool,
    }
}

bulk_row! {
    /// An address that was paid for the first time.
    UsedAddress: Update "addresses" {
        Key wallet_id: WalletId,
        Key id: AddressId,
        Put is_used: bool,
    }
}

bulk_row! {
    /// A chain that reaches further.
    MovedChain: Update "keychains" {
        Key wallet_id: WalletId,
        Key id: RowId,
        Put next_index: u32,
        Put last_used: Option<u32>,
        Put derived_to: u32,
    }
}

bulk_row! {
    NewTx: Insert "transactions" {
        Put wallet_id: WalletId,
        Put received_time: Micros,
        Put id: RowId,
        Put tx_hash: TxId,
        Put block_height: Option<i64>,
        Put block_position: Option<i64>,
        Put status: TxStatus,
        Put is_coinbase: bool,
        Put ever_published: bool,
        Put withdrawn: bool,
        Put is_own: bool,
        Put fee: Option<i64>,
        Put output_total: i64,
        Put raw_tx: Vec<u8>,
    }
}

bulk_row! {
    NewInput: Insert "tx_inputs" {
        Put wallet_id: WalletId,
        Put tx_id: RowId,
        Put input_index: i64,
        Put prev_tx_hash: TxId,
        Put prev_output_index: u32,
    }
}

bulk_row! {
    /// The bytes that a block holds are the ones to keep: the witness may differ from what was
    /// relayed.
    ChangedTx: Update "transactions" {
        Key wallet_id: WalletId,
        Key id: RowId,
        Guard was as "status": TxStatus,
        Put status: TxStatus,
        Put block_height: Option<i64>,
        Put block_position: Option<i64>,
        Put ever_published: bool,
        Put withdrawn: bool,
        Put is_own: bool,
        Put fee: Option<i64>,
        Put evicted_at: Option<Micros>,
        PutKnown raw_tx: Option<Vec<u8>>,
    }
}

bulk_row! {
    NewCoin: Insert "utxos" {
        Put wallet_id: WalletId,
        Put id: RowId,
        Put tx_id: RowId,
        Put output_index: u32,
        Put amount: i64,
        Put address_id: AddressId,
        Put spent_by_tx_id: Option<RowId>,
        Put spent_input_index: Option<u32>,
    }
}

bulk_row! {
    /// Who spends a coin that was known, or nobody any longer.
    CoinSpend: Update "utxos" {
        Key wallet_id: WalletId,
        Key id: RowId,
        Put spent_by_tx_id: Option<RowId>,
        Put spent_input_index: Option<u32>,
    }
}

bulk_row! {
    /// The same edge may be found from either of its ends.
    Replacement: InsertNew "tx_replacements" {
        Put wallet_id: WalletId,
        Put created_at: Micros,
        Put replaced_tx_id: RowId,
        Put replacement_tx_id: RowId,
        Put cause: &'static str,
    }
}

bulk_row! {
    JournalLine: Insert "journal" {
        Put wallet_id: WalletId,
        Put at: Micros,
        Put id: i64,
        Put cause: &'static str,
        Put tx_hash: TxId,
        Put output_tx_hash: Option<TxId>,
        Put output_index: Option<u32>,
        Put from_status: Option<TxStatus>,
        Put to_status: Option<TxStatus>,
        Put other_tx_hash: Option<TxId>,
        Put block_height: Option<i64>,
        Put lock_id: Option<Vec<u8>>,
    }
}

bulk_row! {
    /// What changes of a wallet's own row.
    SavedWallet: Update "wallets" {
        Key id: WalletId,
        Put scanned_height: Option<i64>,
        Put scanned_hash: Option<[u8; 32]>,
        Put follows_tip: bool,
        Put next_id: RowId,
        Put next_line: i64,
        Put confirmed_amount: i64,
        Put confirmed_coins: i64,
        Put history_from: Option<i64>,
    }
}

/// The tables, in the order in which their rows may name each other.
macro_rules! tables {
    ($($table:ident: $row:ident,)+) => {
        /// Rows for all tables.
        #[derive(Default)]
        pub(crate) struct PendingWrites {
            $($table: <$row as BulkRow>::Columns,)+
        }

        /// Each table's columns as they are sent, in the order of [`SHAPES`].
        fn into_parts(writes: PendingWrites) -> Vec<Vec<Column>> {
            vec![$($row::into_columns(writes.$table),)+]
        }

        const SHAPES: &[TableShape] = &[$($row::SHAPE,)+];

        impl PendingWrites {
            fn is_empty(&self) -> bool {
                $($row::len(&self.$table) == 0)&&+
            }

            /// Rows of which every one has to change, or the plan was made on something else.
            fn guarded(&self) -> u64 {
                let mut rows = 0;
                $(if $row::SHAPE.is_guarded() {
                    rows += $row::len(&self.$table) as u64;
                })+
                rows
            }
        }
    };
}

tables! {
    scripts: NewScript,
    used: UsedAddress,
    chains: MovedChain,
    new_txs: NewTx,
    inputs: NewInput,
    changed_txs: ChangedTx,
    coins: NewCoin,
    spends: CoinSpend,
    edges: Replacement,
    lines: JournalLine,
    wallets: SavedWallet,
}

/// Each table's statements.
static STATEMENTS: LazyLock<Vec<BulkStatement>> =
    LazyLock::new(|| SHAPES.iter().map(TableShape::statement).collect());

/// All tables' statements as parts of one, with their arguments numbered through. PostgreSQL checks
/// references at the end of the statement, so the order of the parts doesn't matter to it.
static TOGETHER: LazyLock<&'static str> = LazyLock::new(|| {
    let (mut parts, mut counts, mut before) = (Vec::new(), Vec::new(), 0);
    for (place, shape) in SHAPES.iter().enumerate() {
        parts.push(format!("part_{place} AS ({} RETURNING 1)", shape.postgres(before)));
        before += shape.columns.len();
        if shape.is_guarded() {
            counts.push(format!("(SELECT COUNT(*) FROM part_{place})"));
        }
    }
    // A statement lives as long as the program; this text is made once, and so leaks once.
    format!("WITH {} SELECT {} AS changed", parts.join(", "), counts.join(" + ")).leak()
});

impl PendingWrites {
    /// Sends everything. Nothing is left to send afterwards.
    pub(crate) fn send(&mut self, tx: &mut Tx<'_>) -> Result<(), WalletError> {
        let writes = std::mem::take(self);
        if writes.is_empty() {
            return Ok(());
        }
        let planned = writes.guarded();
        let parts = into_parts(writes);
        let changed = match tx.backend() {
            Backend::Postgres => {
                let columns: Vec<Column> = parts.into_iter().flatten().collect();
                let answer = tx.query_columns(*TOGETHER, &columns)?;
                answer.first().map_or(Ok(0), |row| row.natural("changed"))?
            }
            Backend::Sqlite => table_by_table(tx, &parts)?,
        };
        // Fewer rows mean that a status wasn't what was planned on: then nothing is written.
        if changed == planned {
            return Ok(());
        }
        Err(WalletError::Bug("a planned change met another status"))
    }

    /// A script to watch.
    pub(crate) fn script(
        &mut self,
        wallet: WalletId,
        chain: RowId,
        id: AddressId,
        index: u32,
        script: &ScriptBuf,
    ) {
        let row = NewScript {
            wallet_id: wallet,
            keychain_id: chain,
            id,
            address_index: index,
            script_hash: script_hash(script),
            script_pub_key: script.to_bytes(),
            is_used: false,
        };
        row.gather(&mut self.scripts);
    }

    /// An address was paid for the first time.
    pub(crate) fn used(&mut self, wallet: WalletId, address: AddressId) {
        let row = UsedAddress { wallet_id: wallet, id: address, is_used: true };
        row.gather(&mut self.used);
    }

    /// A chain reaches further.
    pub(crate) fn chain(&mut self, wallet: WalletId, chain: &KeychainState) {
        let row = MovedChain {
            wallet_id: wallet,
            id: chain.id,
            next_index: chain.next,
            last_used: chain.last_used,
            derived_to: chain.derived,
        };
        row.gather(&mut self.chains);
    }

    /// A transaction that wasn't known.
    pub(crate) fn new_tx(
        &mut self,
        wallet: WalletId,
        now: Micros,
        id: RowId,
        tx: &StoredTx,
        raw: &[u8],
    ) -> Result<(), WalletError> {
        let row = NewTx {
            wallet_id: wallet,
            received_time: now,
            id,
            tx_hash: tx.txid,
            block_height: opt_int(tx.confirmed.map(|at| at.height))?,
            block_position: opt_int(tx.confirmed.map(|at| at.position))?,
            status: tx.status,
            is_coinbase: tx.is_coinbase,
            ever_published: tx.ever_published,
            withdrawn: tx.withdrawn,
            is_own: tx.is_own,
            fee: opt_int(tx.fee)?,
            output_total: sql_int(tx.output_total)?,
            raw_tx: raw.to_vec(),
        };
        row.gather(&mut self.new_txs);
        for (at, input) in (0_i64..).zip(&tx.inputs) {
            let row = NewInput {
                wallet_id: wallet,
                tx_id: id,
                input_index: at,
                prev_tx_hash: input.tx,
                prev_output_index: input.index,
            };
            row.gather(&mut self.inputs);
        }
        Ok(())
    }

    /// A known transaction in another state.
    pub(crate) fn changed_tx(
        &mut self,
        wallet: WalletId,
        id: RowId,
        change: &TxChange,
        raw: Option<&[u8]>,
    ) -> Result<(), WalletError> {
        let now = &change.now;
        let row = ChangedTx {
            wallet_id: wallet,
            id,
            was: change.was,
            status: now.status,
            block_height: opt_int(now.confirmed.map(|at| at.height))?,
            block_position: opt_int(now.confirmed.map(|at| at.position))?,
            ever_published: now.ever_published,
            withdrawn: now.withdrawn,
            is_own: now.is_own,
            fee: opt_int(now.fee)?,
            evicted_at: now.evicted_at,
            raw_tx: raw.map(<[u8]>::to_vec),
        };
        row.gather(&mut self.changed_txs);
        Ok(())
    }

    /// A coin that wasn't known, made by the transaction in row `maker`.
    pub(crate) fn coin(
        &mut self,
        wallet: WalletId,
        id: RowId,
        maker: RowId,
        outpoint: Outpoint,
        coin: &Coin,
        spender: Option<(RowId, u32)>,
    ) -> Result<(), WalletError> {
        let (spent_by_tx_id, spent_input_index) = spender.unzip();
        let row = NewCoin {
            wallet_id: wallet,
            id,
            tx_id: maker,
            output_index: outpoint.index,
            amount: sql_int(coin.amount)?,
            address_id: coin.address,
            spent_by_tx_id,
            spent_input_index,
        };
        row.gather(&mut self.coins);
        Ok(())
    }

    /// Who spends a known coin.
    pub(crate) fn spend(&mut self, wallet: WalletId, coin: RowId, spender: Option<(RowId, u32)>) {
        let (spent_by_tx_id, spent_input_index) = spender.unzip();
        let row = CoinSpend { wallet_id: wallet, id: coin, spent_by_tx_id, spent_input_index };
        row.gather(&mut self.spends);
    }

    /// One transaction stands in another's way.
    pub(crate) fn edge(
        &mut self,
        wallet: WalletId,
        now: Micros,
        edge: &ReplacementEdge,
        loser: RowId,
        winner: RowId,
    ) {
        let row = Replacement {
            wallet_id: wallet,
            created_at: now,
            replaced_tx_id: loser,
            replacement_tx_id: winner,
            cause: edge.cause.name(),
        };
        row.gather(&mut self.edges);
    }

    /// A line of a wallet's journal.
    pub(crate) fn line(
        &mut self,
        wallet: &mut WalletRow,
        line: &JournalEntry,
        now: Micros,
    ) -> Result<(), WalletError> {
        let row = JournalLine {
            wallet_id: wallet.id,
            at: now,
            id: wallet.new_line(),
            cause: line.cause.name(),
            tx_hash: line.txid,
            output_tx_hash: line.output.map(|output| output.tx),
            output_index: line.output.map(|output| output.index),
            from_status: line.from,
            to_status: line.to,
            other_tx_hash: line.other,
            block_height: opt_int(line.height)?,
            lock_id: line.lock.map(|lock| lock.as_bytes().to_vec()),
        };
        row.gather(&mut self.lines);
        Ok(())
    }

    /// A wallet's own row.
    pub(crate) fn wallet(&mut self, row: &WalletRow) -> Result<(), WalletError> {
        let (height, hash) = row.stored_place().map(|at| (at.height, at.hash)).unzip();
        let row = SavedWallet {
            id: row.id,
            scanned_height: opt_int(height)?,
            scanned_hash: hash.map(|hash| hash.0),
            follows_tip: row.follows_tip,
            next_id: row.next_id,
            next_line: row.next_line,
            confirmed_amount: row.confirmed_amount,
            confirmed_coins: row.confirmed_coins,
            history_from: opt_int(row.history_from)?,
        };
        row.gather(&mut self.wallets);
        Ok(())
    }
}

impl WalletRow {
    /// Writes back what changed.
    pub(crate) fn save(&self, tx: &mut Tx<'_>) -> Result<(), WalletError> {
        let mut writes = PendingWrites::default();
        writes.wallet(self)?;
        writes.send(tx)
    }
}

fn opt_int(number: Option<u64>) -> Result<Option<i64>, WalletError> {
    number.map(sql_int).transpose()
}

/// Answers how many guarded rows changed.
fn table_by_table(tx: &mut Tx<'_>, parts: &[Vec<Column>]) -> Result<u64, WalletError> {
    let mut changed = 0;
    for ((shape, statement), columns) in SHAPES.iter().zip(STATEMENTS.iter()).zip(parts) {
        let count = tx.execute_set(*statement, &[], columns)?;
        if shape.is_guarded() {
            changed += count;
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::{SHAPES, TOGETHER};

    #[test]
    fn arguments_are_numbered_through_all_tables() {
        let all: usize = SHAPES.iter().map(|shape| shape.columns.len()).sum();
        let numbered = |place: usize| TOGETHER.matches(&format!("${place}::")).count();
        assert!((1..=all).all(|place| numbered(place) == 1) && numbered(all + 1) == 0);
        assert!(!TOGETHER.contains("$0"));
    }

    #[test]
    fn only_changes_of_what_was_planned_on_are_counted() {
        let guarded = SHAPES.iter().filter(|shape| shape.is_guarded());
        assert!(guarded.map(|shape| shape.table).eq(["transactions"]));
        assert!(TOGETHER.ends_with("SELECT (SELECT COUNT(*) FROM part_5) AS changed"));
    }
}
