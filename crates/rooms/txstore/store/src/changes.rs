//! What happened, for those who write events of it: an outbox of blocks, and growing tallies.
//!
//! A line of the outbox is written in the transaction of the blocks it tells of, so it is there if
//! and only if they are. Deletions need no lines: their tallies only grow, and are written with
//! them.

use unspent_model::{BlockHash, Point};
use unspent_sql::{Arg, Row, SqlError, Tx};

use crate::{
    block::AppliedBlock,
    error::TxStoreError,
    rollback::RolledBack,
    status::{DELETED, DROPPED, LOSERS_DELETED, REPAIRED, TALLIES},
    store::{TxStore, sql_int},
};

/// Lines that are kept for readers; older ones go.
pub const CHANGES_KEPT: i64 = 10_000;
/// Old lines are looked for when a block of such a height comes.
const FORGET_EVERY: u64 = 100;

const WRITE: &str = "INSERT INTO changes (number, is_undone, blocks, height, hash, created, mined,
        unmined, spent, absent, losers)
    VALUES ((SELECT COALESCE(MAX(number), 0) + 1 FROM changes),
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const FORGET: &str = "DELETE FROM changes WHERE number <= (SELECT MAX(number) FROM changes) - $1";
const PAGE: &str = "SELECT number, is_undone, blocks, height, hash, created, mined, unmined, spent,
    absent, losers FROM changes WHERE number > $1 ORDER BY number LIMIT $2";
const LAST: &str = "SELECT COALESCE(MAX(number), 0) AS number FROM changes";

/// Blocks that came in together, or one that was undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxLine {
    /// Its number; they grow by one.
    pub number: u64,
    /// A block was undone.
    pub is_undone: bool,
    /// How many blocks.
    pub blocks: u64,
    /// The last of them.
    pub point: Option<Point>,
    /// Transactions that were new to the store.
    pub created: u64,
    /// Transactions that were known and are mined now.
    pub mined: u64,
    /// Transactions that are unmined again.
    pub unmined: u64,
    /// Outputs spent.
    pub spent: u64,
    /// Inputs whose parents are not in the store.
    pub absent: u64,
    /// Transactions that lost.
    pub losers: u64,
}

impl OutboxLine {
    /// Counts a block in, unless it was there before.
    pub(crate) fn add_block(&mut self, point: Point, applied: &AppliedBlock) {
        if applied.was_there {
            return;
        }
        self.blocks += 1;
        self.point = Some(point);
        self.created += applied.created as u64;
        self.mined += applied.mined as u64;
        self.spent += applied.spent as u64;
        self.absent += applied.absent as u64;
        self.losers += applied.losers as u64;
    }

    pub(crate) fn undone(point: Point, done: &RolledBack) -> Self {
        Self {
            is_undone: true,
            blocks: done.blocks as u64,
            point: Some(point),
            unmined: done.unmined as u64,
            losers: done.losers as u64,
            ..Self::default()
        }
    }

    fn read(row: &Row) -> Result<Self, SqlError> {
        let height = row.natural("height")?;
        Ok(Self {
            number: row.natural("number")?,
            is_undone: row.flag("is_undone")?,
            blocks: row.natural("blocks")?,
            point: Some(Point { height, slot: height, hash: BlockHash(row.hash("hash")?) }),
            created: row.natural("created")?,
            mined: row.natural("mined")?,
            unmined: row.natural("unmined")?,
            spent: row.natural("spent")?,
            absent: row.natural("absent")?,
            losers: row.natural("losers")?,
        })
    }
}

/// Lines of the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxPage {
    /// In their order.
    pub changes: Vec<OutboxLine>,
    /// Number of the newest line there is; below what the reader knows in a store made anew.
    pub last: u64,
}

/// What was counted since the store was made. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Records deleted, without losers.
    pub deleted: u64,
    /// Losers of conflicts deleted.
    pub losers_deleted: u64,
    /// Unmined transactions dropped by hand.
    pub dropped: u64,
    /// Outputs cleared by hand.
    pub repaired: u64,
}

impl Tallies {
    pub(crate) fn read(tx: &mut Tx<'_>) -> Result<Self, TxStoreError> {
        let mut found = Self::default();
        for row in tx.query(TALLIES, &[])? {
            let total = row.natural("total")?;
            match row.text("name")?.as_str() {
                DELETED => found.deleted = total,
                LOSERS_DELETED => found.losers_deleted = total,
                DROPPED => found.dropped = total,
                REPAIRED => found.repaired = total,
                _ => {}
            }
        }
        Ok(found)
    }
}

impl TxStore {
    /// What happened to blocks after a line of the outbox. The last [`CHANGES_KEPT`] are kept.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn changes(&self, after: u64, limit: u32) -> Result<OutboxPage, TxStoreError> {
        let after = sql_int(after)?;
        self.door.read(move |tx| {
            let rows = tx.query(PAGE, &[Arg::Int(after), Arg::Int(limit.into())])?;
            let changes =
                rows.iter().map(OutboxLine::read).collect::<Result<Vec<_>, SqlError>>()?;
            Ok(OutboxPage { changes, last: tx.one(LAST, &[])?.natural("number")? })
        })
    }

    /// What was counted since the store was made; quick, unlike [`TxStore::status`].
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn tallies(&self) -> Result<Tallies, TxStoreError> {
        self.door.read(Tallies::read)
    }
}

/// Adds a line, under the tip's row; none when nothing happened.
pub(crate) fn write(tx: &mut Tx<'_>, change: &OutboxLine) -> Result<(), TxStoreError> {
    let Some(point) = change.point else { return Ok(()) };
    let number = |count: u64| Ok::<_, TxStoreError>(Arg::Int(sql_int(count)?));
    let args = [
        Arg::Flag(change.is_undone),
        number(change.blocks)?,
        number(point.height)?,
        Arg::Blob(&point.hash.0),
        number(change.created)?,
        number(change.mined)?,
        number(change.unmined)?,
        number(change.spent)?,
        number(change.absent)?,
        number(change.losers)?,
    ];
    tx.execute(WRITE, &args)?;
    // A store may begin at the first block.
    let first = point.height.saturating_sub(change.blocks);
    if point.height / FORGET_EVERY > first / FORGET_EVERY {
        tx.execute(FORGET, &[Arg::Int(CHANGES_KEPT)])?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bitcoin::hashes::Hash as _;
    use unspent_model::Network;
    use unspent_sim::ChainSim;
    use unspent_sql::{Options, Url};

    use super::*;
    use crate::{new_tx::NewBlock, store::Settings};

    fn blocks(sim: &ChainSim, heights: std::ops::RangeInclusive<u32>) -> Vec<NewBlock> {
        let block = |height| {
            let block = &sim.block_at(height).unwrap().block;
            let hash = BlockHash(block.block_hash().to_byte_array());
            NewBlock::new(u64::from(height), hash, block, &[])
        };
        heights.map(block).collect()
    }

    #[test]
    fn blocks_that_come_and_go_leave_lines_and_the_same_again_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        let url = Url::Sqlite(folder.path().join("txstore.db"));
        let settings = Settings::default();
        let network = Network::BitcoinRegtest;
        let store = TxStore::open(&url, network, settings, Options::default()).unwrap();
        let mut sim = ChainSim::new(3);
        sim.mine(20);
        store.apply_blocks(blocks(&sim, 0..=18)).unwrap();
        let last = blocks(&sim, 19..=20);
        store.apply_blocks(last.clone()).unwrap();
        store.apply_blocks(last.clone()).unwrap();
        store.roll_back(store.stored_at(18).unwrap()).unwrap();
        let found = store.changes(0, 100).unwrap();
        let lines: Vec<_> = found
            .changes
            .iter()
            .map(|change| {
                let height = change.point.unwrap().height;
                (change.number, change.is_undone, change.blocks, height, change.created)
            })
            .collect();
        let wanted = [
            (1, false, 19, 18, 19),
            (2, false, 2, 20, 2),
            (3, true, 1, 20, 0),
            (4, true, 1, 19, 0),
        ];
        assert_eq!((lines.as_slice(), found.last), (wanted.as_slice(), 4));
        assert_eq!(found.changes.iter().map(|change| change.losers).sum::<u64>(), 2);
        assert_eq!(store.changes(3, 100).unwrap().changes, found.changes[3..]);
    }

    #[test]
    fn old_lines_go() {
        let folder = tempfile::tempdir().unwrap();
        let url = Url::Sqlite(folder.path().join("txstore.db"));
        let network = Network::BitcoinRegtest;
        let store = TxStore::open(&url, network, Settings::default(), Options::default()).unwrap();
        let line = |height| {
            let point = Point { height, slot: height, hash: BlockHash([1; 32]) };
            OutboxLine { blocks: 1, point: Some(point), ..OutboxLine::default() }
        };
        let count = CHANGES_KEPT as u64 + 250;
        let written: Result<(), TxStoreError> =
            store.door.write(move |tx| (1..=count).try_for_each(|height| write(tx, &line(height))));
        written.unwrap();
        let first = store.changes(0, 1).unwrap();
        assert_eq!((first.changes[0].number, first.last), (201, count));
    }
}
