//! Blocks that leave the best chain, for all wallets or for one.
//!
//! A reorganisation is what happened to the chain; rolling back is what is done about it here. A
//! transaction that loses its block is not invalid: it waits for another one, and mostly finds it
//! within minutes. A coinbase is another matter: it exists in its block or not at all, and takes
//! along whatever was paid out of it.
//!
//! One UPDATE clears the height and orphans coinbases in the same statement; then the planner fails
//! what hung on those coinbases; then the block rows go. Deep disconnects run in bounded steps,
//! each its own transaction with the cursors moved in it, so that a crash leaves a shorter
//! disconnect to repeat and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use unspent_model::{
    BlockHash, Micros, Point, TxId,
    wallet::{JournalCause, TxStatus, WalletEvent, plan::JournalEntry},
};
use unspent_sql::{Arg, Row, SqlError, Tx};

use crate::{
    apply_mode::ApplyMode,
    apply_plan::{RawTxs, apply_plan, write_lines},
    backfill,
    block::tip,
    error::WalletError,
    ids::{WalletId, sql_int},
    prune::reopen,
    rows,
    settled::{unsettle, unsettle_all},
    stopped::or_stop,
    store::WalletStore,
    wallet_info::MAX_PAGE,
    wallet_row::{WalletRow, lock_room, lock_tip, set_tip},
};

/// Stored blocks that a comparison reads at once.
const COMPARED_AT_ONCE: u32 = 100;

/// Blocks undone in one transaction.
pub const BLOCKS_PER_STEP: u64 = 100;

/// What a disconnect did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectCounts {
    /// Blocks that went.
    pub blocks: u64,
    /// Transactions that lost their block, over all wallets.
    pub txs: u64,
    /// Steps it took.
    pub steps: u64,
}

/// How the stored blocks compare with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainComparison {
    /// The stored tip is on the source's chain, or nothing is stored.
    Agrees,
    /// The source left after this height (`None`: no stored block is on its chain).
    Differs {
        /// The highest stored block that the source has too.
        last_common: Option<u64>,
    },
}

const CONFIRMED: &str = "SELECT wallet_id, tx_hash, block_height, is_coinbase, status
    FROM transactions WHERE block_height >= $1 ORDER BY wallet_id, block_height DESC, id DESC";
const CONFIRMED_ONE: &str = "SELECT wallet_id, tx_hash, block_height, is_coinbase, status
    FROM transactions WHERE wallet_id = $2 AND block_height >= $1
    ORDER BY block_height DESC, id DESC";
const UNSPENT_ONE: &str =
    "SELECT CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM transactions t JOIN utxos u ON u.wallet_id = +t.wallet_id AND u.tx_id = +t.id
    WHERE t.wallet_id = $2 AND t.block_height >= $1 AND +u.spent_by_tx_id IS NULL";
const CLEAR_ONE: &str = "UPDATE transactions SET block_height = NULL, block_position = NULL,
    status = CASE WHEN is_coinbase THEN $3 ELSE status END
    WHERE wallet_id = $2 AND block_height >= $1";
const CONFIRMED_TOTAL: &str =
    "SELECT CAST(COALESCE(SUM(u.amount), 0) AS BIGINT) AS sats, COUNT(*) AS coins
    FROM utxos u JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND t.block_height IS NOT NULL";
const UNFOLLOW: &str = "UPDATE wallets SET follows_tip = FALSE WHERE follows_tip";
const DELETE_BLOCKS: &str = "DELETE FROM blocks WHERE block_height >= $1";
const COUNT_BLOCKS: &str = "SELECT COUNT(*) AS blocks FROM blocks WHERE block_height >= $1";
const BELOW: &str = "SELECT block_height, header_hash FROM blocks WHERE block_height < $1
    ORDER BY block_height DESC LIMIT 1";
/// Wallets that stand there by themselves, and those whose pruned history reaches that far.
const CONCERNED: &str = "SELECT id FROM wallets WHERE scanned_height >= $1
    UNION ALL SELECT wallet_id AS id FROM pruned_txs WHERE settled_height >= $1";
const STORED: &str = "SELECT block_height, header_hash FROM blocks WHERE block_height < $1
    ORDER BY block_height DESC LIMIT $2";

/// Where a rewound wallet is read again from, to tell how far that has come.
const RESCAN: &str = "UPDATE wallets SET rescan_from = $1 WHERE id = $2";

impl WalletStore {
    /// Disconnects every block above `keep` for all wallets (`None`: every block there is).
    ///
    /// # Errors
    ///
    /// Whatever the database says; what was undone in earlier steps stays undone, and calling again
    /// goes on from there.
    pub fn disconnect_above(
        &self,
        keep: Option<u64>,
        now: Micros,
    ) -> Result<DisconnectCounts, WalletError> {
        let mut done = DisconnectCounts::default();
        loop {
            let together =
                self.door.write(move |tx| disconnect_step(tx, keep, ApplyMode::Batched, now));
            let step = match together {
                // Somebody's own data stands in the way: once more, and it alone is stopped.
                Err(error) if error.is_of_one_wallet() => self
                    .door
                    .write(move |tx| disconnect_step(tx, keep, ApplyMode::Isolated, now))?,
                result => result?,
            };
            if step.steps == 0 {
                return Ok(done);
            }
            done.blocks += step.blocks;
            done.txs += step.txs;
            done.steps += 1;
        }
    }

    /// Takes one wallet back to `keep`, leaving blocks and other wallets alone. It is brought up
    /// again by applying the blocks once more.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::disconnect_above`].
    pub fn rewind(
        &self,
        wallet: WalletId,
        keep: Option<u64>,
        now: Micros,
    ) -> Result<DisconnectCounts, WalletError> {
        let mut done = DisconnectCounts::default();
        loop {
            let step = self.door.write(move |tx| rewind_step(tx, wallet, keep, now))?;
            done.txs += step.txs;
            if step.steps == 0 {
                return Ok(done);
            }
            done.steps += 1;
        }
    }

    /// Stored blocks below a height, highest first: where a follower looks for the place at which
    /// its source left.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn blocks_below(&self, height: u64, limit: u32) -> Result<Vec<Point>, WalletError> {
        let below = i64::try_from(height).unwrap_or(i64::MAX);
        let limit = limit.min(MAX_PAGE);
        self.door.read(move |tx| stored(tx, below, limit))
    }

    /// Compares the stored blocks with a source, from the tip down. To be done at every start: a
    /// block that left while nobody watched would otherwise stay.
    ///
    /// # Errors
    ///
    /// What the database or the source says.
    pub fn compare(
        &self,
        mut source: impl FnMut(u64) -> Result<Option<BlockHash>, WalletError>,
    ) -> Result<ChainComparison, WalletError> {
        let mut below = i64::MAX;
        let mut is_first = true;
        loop {
            let page: Vec<Point> = self.door.read(move |tx| stored(tx, below, COMPARED_AT_ONCE))?;
            let Some(lowest) = page.last().map(|block| block.height) else {
                let differs = ChainComparison::Differs { last_common: None };
                return Ok(if is_first { ChainComparison::Agrees } else { differs });
            };
            for Point { height, hash, .. } in page {
                if source(height)? == Some(hash) {
                    let differs = ChainComparison::Differs { last_common: Some(height) };
                    return Ok(if is_first { ChainComparison::Agrees } else { differs });
                }
                is_first = false;
            }
            below = sql_int(lowest)?;
        }
    }
}

fn stored(tx: &mut Tx<'_>, below: i64, limit: u32) -> Result<Vec<Point>, WalletError> {
    let rows = tx.query(STORED, &[Arg::Int(below), Arg::Int(limit.into())])?;
    rows.iter().map(|row| Ok(rows::block(row)?)).collect()
}

fn disconnect_step(
    tx: &mut Tx<'_>,
    keep: Option<u64>,
    mode: ApplyMode,
    now: Micros,
) -> Result<DisconnectCounts, WalletError> {
    let room_tip = lock_tip(tx)?;
    // No height is near the highest.
    let lowest = keep.map_or(0, |keep| keep.saturating_add(1));
    let Some(top) = tip(tx)?.map(|tip| tip.height).filter(|top| *top >= lowest) else {
        return Ok(DisconnectCounts::default());
    };
    // The last step may be shorter than the others.
    let from = lowest.max((top + 1).saturating_sub(BLOCKS_PER_STEP));
    let from_arg = Arg::Int(sql_int(from)?);
    let blocks = tx.one(COUNT_BLOCKS, &[from_arg])?.natural("blocks")?;
    let txs = confirmed(tx, CONFIRMED, &[from_arg])?;
    let wallets = touched(tx, &txs, from_arg)?;
    let below = below(tx, from)?;
    let count = txs.values().map(|list| list.len() as u64).sum();
    let mut torn = Vec::new();
    for wallet in wallets {
        let list = txs.get(&wallet).map_or(&[][..], Vec::as_slice);
        let detach = ChainDetach { wallet, from, below, is_alone: false, now };
        let history = match mode {
            ApplyMode::Batched => detach.run(tx, list)?,
            ApplyMode::Isolated => {
                let run = |tx: &mut Tx<'_>| detach.run(tx, list);
                match or_stop(tx, (wallet, below), Some(from), now, run)? {
                    Some(history) => history,
                    None => detach.by_force(tx)?,
                }
            }
        };
        if history == PrunedHistory::Torn {
            torn.push(wallet);
        }
    }
    followers_go_back(tx, room_tip, from, below)?;
    unsettle_all(tx, from)?;
    backfill::cut_above(tx, below.map(|block| block.height))?;
    // Only now: what has to be read again ends where the wallet stands by now.
    torn.into_iter().try_for_each(|wallet| reopen(tx, wallet))?;
    // Last: by now no transaction says any more that one of them holds it.
    tx.execute(DELETE_BLOCKS, &[from_arg])?;
    Ok(DisconnectCounts { blocks, txs: count, steps: 1 })
}

/// The wallets that the blocks from a height on concern.
fn touched(
    tx: &mut Tx<'_>,
    txs: &BTreeMap<WalletId, Vec<DetachedTx>>,
    from: Arg<'_>,
) -> Result<BTreeSet<WalletId>, WalletError> {
    let mut wallets: BTreeSet<WalletId> = txs.keys().copied().collect();
    for row in tx.query(CONCERNED, &[from])? {
        wallets.insert(WalletId(row.row_id("id")?.0));
    }
    Ok(wallets)
}

/// Whoever follows the room's tip goes back with it, without a word written to them.
fn followers_go_back(
    tx: &mut Tx<'_>,
    tip: Option<Point>,
    from: u64,
    below: Option<Point>,
) -> Result<(), WalletError> {
    if tip.is_none_or(|tip| tip.height < from) {
        return Ok(());
    }
    if below.is_none() {
        // Nothing is left to follow: they are as if they had never been scanned.
        tx.execute(UNFOLLOW, &[])?;
    }
    set_tip(tx, below)
}

fn rewind_step(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    keep: Option<u64>,
    now: Micros,
) -> Result<DisconnectCounts, WalletError> {
    lock_room(tx)?;
    // No height is near the highest.
    let lowest = keep.map_or(0, |keep| keep.saturating_add(1));
    let row = WalletRow::lock(tx, wallet)?;
    let Some(top) = row.tip().filter(|top| *top >= lowest) else {
        return Ok(DisconnectCounts::default());
    };
    // The last step may be shorter than the others.
    let from = lowest.max((top + 1).saturating_sub(BLOCKS_PER_STEP));
    let args = [Arg::Int(sql_int(from)?), Arg::Int(wallet.0)];
    let txs = confirmed(tx, CONFIRMED_ONE, &args)?;
    let list = txs.get(&wallet).map_or(&[][..], Vec::as_slice);
    let below = below(tx, from)?;
    let history = ChainDetach { wallet, from, below, is_alone: true, now }.run(tx, list)?;
    tx.execute(RESCAN, &args)?;
    backfill::cut_above_for(tx, wallet, below.map(|block| block.height))?;
    if history == PrunedHistory::Torn {
        reopen(tx, wallet)?;
    }
    Ok(DisconnectCounts { blocks: 0, txs: list.len() as u64, steps: 1 })
}

fn below(tx: &mut Tx<'_>, height: u64) -> Result<Option<Point>, WalletError> {
    let Some(row) = tx.maybe(BELOW, &[Arg::Int(sql_int(height)?)])? else { return Ok(None) };
    Ok(Some(rows::block(&row)?))
}

struct DetachedTx {
    txid: TxId,
    height: u64,
    is_coinbase: bool,
    was: TxStatus,
}

impl DetachedTx {
    fn read(row: &Row) -> Result<Self, SqlError> {
        Ok(Self {
            txid: rows::txid(row, "tx_hash")?,
            height: row.natural("block_height")?,
            is_coinbase: row.flag("is_coinbase")?,
            was: rows::status(row)?,
        })
    }
}

fn confirmed(
    tx: &mut Tx<'_>,
    sql: &'static str,
    args: &[Arg<'_>],
) -> Result<BTreeMap<WalletId, Vec<DetachedTx>>, WalletError> {
    let mut found: BTreeMap<WalletId, Vec<DetachedTx>> = BTreeMap::new();
    for row in tx.query(sql, args)? {
        let wallet = WalletId(row.int("wallet_id")?);
        found.entry(wallet).or_default().push(DetachedTx::read(&row)?);
    }
    Ok(found)
}

/// What a disconnect means for the history that a wallet has pruned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrunedHistory {
    /// Nothing was pruned, or only what lies deeper.
    Untouched,
    /// The spend of a pruned coin is undone: the coin may be money again, and is not here.
    Torn,
}

/// Takes one wallet's transactions off the chain from a height on, and moves its cursor.
struct ChainDetach {
    wallet: WalletId,
    from: u64,
    /// The block below, where the wallet stands afterwards.
    below: Option<Point>,
    /// The blocks stay for the others: whoever followed the tip no longer does.
    is_alone: bool,
    now: Micros,
}

impl ChainDetach {
    fn run(&self, tx: &mut Tx<'_>, txs: &[DetachedTx]) -> Result<PrunedHistory, WalletError> {
        let mut row = WalletRow::lock(tx, self.wallet)?;
        if !txs.is_empty() {
            self.clear(tx, &mut row)?;
        }
        let lines: Vec<JournalEntry> = txs.iter().map(line).collect();
        write_lines(tx, &mut row, &lines, self.now)?;
        // Coinbases first: what hangs on them is dead before anything is looked at that may live.
        let (orphans, others): (Vec<&DetachedTx>, Vec<&DetachedTx>) =
            txs.iter().partition(|detached| detached.is_coinbase);
        let gone = orphans.iter().map(|detached| WalletEvent::Gone(detached.txid));
        let loose = others.iter().map(|detached| WalletEvent::Detached(detached.txid));
        let events: Vec<WalletEvent> = gone.chain(loose).collect();
        if !events.is_empty() {
            apply_plan(tx, &mut row, &events, &RawTxs::new(), self.now)?;
        }
        // When blocks go for all wallets, one statement reopens it for all of them.
        if self.is_alone {
            unsettle(tx, self.wallet, self.from)?;
        }
        self.go_back(tx, &mut row)
    }

    fn go_back(&self, tx: &mut Tx<'_>, row: &mut WalletRow) -> Result<PrunedHistory, WalletError> {
        let goes_back = row.tip().is_some_and(|tip| tip >= self.from);
        // A follower goes back with the room's row; a place of its own would part it from the tip.
        if goes_back && (self.is_alone || !row.follows_tip) {
            row.stand_at(self.below);
        }
        row.save(tx)?;
        let is_torn = row.history_from.is_some_and(|last_spend| last_spend >= self.from);
        Ok(if is_torn { PrunedHistory::Torn } else { PrunedHistory::Untouched })
    }

    /// The blocks go whatever the wallet's data says: its transactions lose them, nothing is
    /// planned, and its total is counted anew. The wallet is stopped; who resumes it has audited
    /// it.
    fn by_force(&self, tx: &mut Tx<'_>) -> Result<PrunedHistory, WalletError> {
        let mut row = WalletRow::lock(tx, self.wallet)?;
        let scope = [Arg::Int(sql_int(self.from)?), Arg::Int(self.wallet.0)];
        let orphaned = Arg::Text(TxStatus::Orphaned.name());
        tx.execute(CLEAR_ONE, &[scope[0], scope[1], orphaned])?;
        let counted = tx.one(CONFIRMED_TOTAL, &scope[1..])?;
        row.confirmed_amount = counted.int("sats")?;
        row.confirmed_coins = counted.int("coins")?;
        self.go_back(tx, &mut row)
    }

    /// One statement for all of them, before the plan: it must find them unconfirmed.
    fn clear(&self, tx: &mut Tx<'_>, row: &mut WalletRow) -> Result<(), WalletError> {
        let scope = [Arg::Int(sql_int(self.from)?), Arg::Int(self.wallet.0)];
        let unspent = tx.one(UNSPENT_ONE, &scope)?;
        // The planner will find them unconfirmed already, so it
        // takes nothing off the total for them.
        row.confirmed_amount -= unspent.int("sats")?;
        row.confirmed_coins -= unspent.int("coins")?;
        let [from, wallet] = scope;
        tx.execute(CLEAR_ONE, &[from, wallet, Arg::Text(TxStatus::Orphaned.name())])?;
        Ok(())
    }
}

fn line(detached: &DetachedTx) -> JournalEntry {
    let after = if detached.is_coinbase { TxStatus::Orphaned } else { detached.was };
    JournalEntry {
        txid: detached.txid,
        output: None,
        from: Some(detached.was),
        to: Some(after),
        cause: JournalCause::Disconnected,
        other: None,
        height: Some(detached.height),
        lock: None,
    }
}
