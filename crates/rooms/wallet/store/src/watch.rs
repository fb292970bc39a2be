//! What the waiting wallets would recognise, in memory for one batch of blocks.
//!
//! A block has thousands of inputs and outputs, and nearly all of them are strangers'. To ask the
//! database about each costs more than everything else that is done with a block that concerns
//! nobody. So the few things that the wallets do know are read once for the batch: the scripts
//! they watch, the transactions they store, and the transactions whose outputs those spend. What
//! isn't among them can't concern anybody; only the rest is looked up by index, as ever.
//!
//! Nothing is lost by it:
//!
//! - It is read inside the batch's own transaction and after the wallets' rows are locked. Nobody
//!   else, in this process or another, can give them a script or a transaction until it ends.
//! - What the batch itself adds is read before the next block. Every address and transaction of a
//!   wallet takes its row id from the wallet's one counter, so that a counter that has moved names
//!   all that is new.
//! - Entries are fingerprints. Two that collide cost a needless question, never a coin.
//!
//! Reading pays only while it is less work than asking: a wallet with a long history against a
//! small batch is asked about, item by item, as if there were no watch.

use std::{collections::BTreeMap, hash::BuildHasher as _};

use bitcoin::{Script, Transaction, hashes::Hash as _};
use foldhash::{HashSet, HashSetExt as _};
use unspent_model::TxId;
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, SqlError, Tx};

use crate::{error::WalletError, ids::WalletId, placed_block::PlacedBlock};

/// Rows worth reading for each transaction of the batch: it would take about twice as many
/// questions to ask about it.
const ROWS_PER_TRANSACTION: usize = 4;

/// Rows read at most, so that a batch needs some tens of megabytes and no more.
const MAX_ROWS: usize = 1_000_000;

const SCRIPTS: BulkStatement = BulkStatement {
    sqlite: "SELECT script_pub_key FROM addresses
        WHERE wallet_id = $2 AND id >= $3 AND id < $4 LIMIT $1",
    postgres: "SELECT a.script_pub_key
        FROM UNNEST($2::bigint[], $3::bigint[], $4::bigint[]) k (w, low, high)
        JOIN addresses a ON a.wallet_id = k.w AND a.id >= k.low AND a.id < k.high LIMIT $1",
};
const STORED: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_hash FROM transactions
        WHERE wallet_id = $2 AND id >= $3 AND id < $4 LIMIT $1",
    postgres: "SELECT t.tx_hash
        FROM UNNEST($2::bigint[], $3::bigint[], $4::bigint[]) k (w, low, high)
        JOIN transactions t ON t.wallet_id = k.w AND t.id >= k.low AND t.id < k.high LIMIT $1",
};
const SPENT: BulkStatement = BulkStatement {
    sqlite: "SELECT prev_tx_hash AS tx_hash FROM tx_inputs
        WHERE wallet_id = $2 AND tx_id >= $3 AND tx_id < $4 LIMIT $1",
    postgres: "SELECT i.prev_tx_hash AS tx_hash
        FROM UNNEST($2::bigint[], $3::bigint[], $4::bigint[]) k (w, low, high)
        JOIN tx_inputs i ON i.wallet_id = k.w AND i.tx_id >= k.low AND i.tx_id < k.high LIMIT $1",
};

/// Fingerprints of all that could concern the waiting wallets.
pub(crate) struct WatchFilter {
    /// Rows that may still be read; nothing once that proved to be too few.
    budget: Option<usize>,
    /// For each wallet, the first row id that hasn't been read.
    read_to: BTreeMap<WalletId, RowId>,
    scripts: HashSet<u64>,
    names: HashSet<u64>,
}

impl WatchFilter {
    /// A watch for a batch of so many transactions.
    pub(crate) fn new(transactions: usize) -> Self {
        // At most as many rows as are read at once.
        let budget = transactions.saturating_mul(ROWS_PER_TRANSACTION).min(MAX_ROWS);
        Self { budget: Some(budget), ..Self::off() }
    }

    /// A watch that rules nothing out.
    pub(crate) fn off() -> Self {
        Self {
            budget: None,
            read_to: BTreeMap::new(),
            scripts: HashSet::new(),
            names: HashSet::new(),
        }
    }

    /// Reads what locked wallets came to know since the last time.
    pub(crate) fn catch_up(
        &mut self,
        tx: &mut Tx<'_>,
        wallets: &BTreeMap<WalletId, RowId>,
    ) -> Result<(), WalletError> {
        let Some(budget) = self.budget else { return Ok(()) };
        let unread: Vec<(WalletId, RowId, RowId)> = wallets
            .iter()
            .map(|(wallet, next)| {
                (*wallet, self.read_to.get(wallet).copied().unwrap_or(RowId(0)), *next)
            })
            .filter(|(_, from, to)| from < to)
            .collect();
        if unread.is_empty() {
            return Ok(());
        }
        // Row ids are handed out one by one, so their distance is the most rows there can be,
        // inputs aside.
        let most: i64 = unread.iter().map(|(_, from, to)| to.0 - from.0).sum();
        if usize::try_from(most).is_ok_and(|most| most <= budget) {
            self.read(tx, budget, &unread)?;
        } else {
            self.budget = None;
        }
        self.read_to.extend(unread.iter().map(|(wallet, _, to)| (*wallet, *to)));
        Ok(())
    }

    fn read(
        &mut self,
        tx: &mut Tx<'_>,
        budget: usize,
        unread: &[(WalletId, RowId, RowId)],
    ) -> Result<(), WalletError> {
        // One more than allowed, to tell "all of them" from "cut off".
        let limit = [Arg::Int(i64::try_from(budget).unwrap_or(i64::MAX).saturating_add(1))];
        let columns = [
            Column::ints(unread.iter().map(|(wallet, _, _)| wallet.0)),
            Column::ints(unread.iter().map(|(_, from, _)| from.0)),
            Column::ints(unread.iter().map(|(_, _, to)| to.0)),
        ];
        let mut rows = 0;
        for set in [STORED, SPENT] {
            let found = tx.query_set(set, &limit, &columns)?;
            let names = found.iter().map(|row| Ok(short(&row.hash("tx_hash")?)));
            self.names.extend(names.collect::<Result<Vec<u64>, SqlError>>()?);
            rows += found.len();
        }
        let found = tx.query_set(SCRIPTS, &limit, &columns)?;
        let print =
            |row: &Row| Ok(self.scripts.hasher().hash_one(row.blob("script_pub_key")?.as_slice()));
        let prints = found.iter().map(print).collect::<Result<Vec<u64>, SqlError>>()?;
        self.scripts.extend(prints);
        self.budget = budget.checked_sub(rows + found.len());
        Ok(())
    }

    /// Whether a block may hold something for the wallets.
    pub(crate) fn may_concern(&self, placed: &PlacedBlock) -> bool {
        let mut txs = placed.block.txdata.iter().zip(placed.txids.iter());
        self.budget.is_none()
            || txs.any(|(tx, txid)| {
                self.names.contains(&short(txid.as_byte_array())) || self.may_touch(tx)
            })
    }

    fn may_touch(&self, tx: &Transaction) -> bool {
        let spends = |txid: &bitcoin::Txid| self.names.contains(&short(txid.as_byte_array()));
        tx.input.iter().any(|input| spends(&input.previous_output.txid))
            || tx.output.iter().any(|output| self.may_hold_script(&output.script_pubkey))
    }

    /// Whether a wallet may watch a script.
    pub(crate) fn may_hold_script(&self, script: &Script) -> bool {
        let print = || self.scripts.hasher().hash_one(script.as_bytes());
        self.budget.is_none() || self.scripts.contains(&print())
    }

    /// Whether a wallet may store a transaction, or one that spends an output of it.
    pub(crate) fn may_name(&self, txid: &TxId) -> bool {
        self.budget.is_none() || self.names.contains(&short(&txid.0))
    }
}

/// A hash is random enough for any eight bytes of it to be its fingerprint.
fn short(hash: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}
