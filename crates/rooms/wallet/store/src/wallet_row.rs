//! The lock on a wallet's row, and on the one that all wallets share.

use std::collections::BTreeMap;

use unspent_model::{Point, wallet::AddressId};
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, Tx};

use crate::{
    error::WalletError,
    ids::{WalletId, sql_int},
    rows::scanned,
};

/// A wallet's own row, held for the length of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalletRow {
    pub(crate) id: WalletId,
    pub(crate) birthday: u64,
    pub(crate) scanned: Option<Point>,
    /// It stands at the room's tip, whichever that is.
    pub(crate) follows_tip: bool,
    pub(crate) gap_limit: u32,
    pub(crate) next_id: RowId,
    pub(crate) next_line: i64,
    pub(crate) confirmed_amount: i64,
    pub(crate) confirmed_coins: i64,
    /// Balances as of lower heights went with a prune.
    pub(crate) history_from: Option<u64>,
    /// It is stopped or archived: no block moves it.
    pub(crate) is_idle: bool,
}

/// A wallet's row, with the room's tip as its place where it follows that.
macro_rules! wallet_row {
    ($rest:literal) => {
        concat!(
            "SELECT w.id, w.birthday_height, w.follows_tip,
                CASE WHEN w.follows_tip THEN (SELECT r.tip_height FROM room r)
                    ELSE w.scanned_height END AS scanned_height,
                CASE WHEN w.follows_tip THEN (SELECT r.tip_hash FROM room r)
                    ELSE w.scanned_hash END AS scanned_hash,
                w.gap_limit, w.next_id, w.next_line, w.confirmed_amount, w.confirmed_coins,
                w.history_from, w.stopped_at, w.archived_at
            FROM wallets w ",
            $rest
        )
    };
}

const COLUMNS_LOCKED: &str = wallet_row!("WHERE w.id = $1 FOR UPDATE");
const COLUMNS: &str = wallet_row!("WHERE w.id = $1");
const LOCK_MANY: BulkStatement = BulkStatement {
    sqlite: wallet_row!("WHERE w.id = $1"),
    postgres: wallet_row!("WHERE w.id = ANY($1::bigint[]) ORDER BY w.id FOR UPDATE"),
};
const LOCK_ROOM: &str = "SELECT next_wallet_id, tip_height AS scanned_height,
    tip_hash AS scanned_hash FROM room WHERE one = 1 FOR UPDATE";

/// Holds the room's row: whoever changes the chain or the list of wallets holds it first.
pub(crate) fn lock_room(tx: &mut Tx<'_>) -> Result<WalletId, WalletError> {
    Ok(WalletId(tx.one(LOCK_ROOM, &[])?.int("next_wallet_id")?))
}

/// The same, for where the wallets stand that follow the room's tip.
pub(crate) fn lock_tip(tx: &mut Tx<'_>) -> Result<Option<Point>, WalletError> {
    Ok(scanned(&tx.one(LOCK_ROOM, &[])?)?)
}

const SET_TIP: &str = "UPDATE room SET tip_height = $1, tip_hash = $2 WHERE one = 1";

/// Moves whoever follows the room's tip.
pub(crate) fn set_tip(tx: &mut Tx<'_>, place: Option<Point>) -> Result<(), WalletError> {
    let (height, hash) = place.map(|place| (place.height, place.hash)).unzip();
    let height = Arg::OptInt(height.map(sql_int).transpose()?);
    tx.execute(SET_TIP, &[height, Arg::OptBlob(hash.as_ref().map(|hash| hash.0.as_slice()))])?;
    Ok(())
}

impl WalletRow {
    /// Locks the wallet against all other writers.
    pub(crate) fn lock(tx: &mut Tx<'_>, wallet: WalletId) -> Result<Self, WalletError> {
        Self::from(tx.maybe(COLUMNS_LOCKED, &[Arg::Int(wallet.0)])?, wallet)
    }

    /// Locks several, always in the same order, so that no two callers wait for each other.
    pub(crate) fn lock_all(
        tx: &mut Tx<'_>,
        wallets: impl Iterator<Item = WalletId>,
    ) -> Result<BTreeMap<WalletId, Self>, WalletError> {
        let rows = tx.query_set(LOCK_MANY, &[], &[Column::ints(wallets.map(|wallet| wallet.0))])?;
        let rows = rows.into_iter().map(|row| {
            let wallet = WalletId(row.int("id")?);
            Ok((wallet, Self::from(Some(row), wallet)?))
        });
        rows.collect()
    }

    /// Reads it without locking.
    pub(crate) fn read(tx: &mut Tx<'_>, wallet: WalletId) -> Result<Self, WalletError> {
        Self::from(tx.maybe(COLUMNS, &[Arg::Int(wallet.0)])?, wallet)
    }

    fn from(row: Option<Row>, wallet: WalletId) -> Result<Self, WalletError> {
        let row = row.ok_or_else(|| WalletError::NoWallet(wallet.0.to_string()))?;
        Ok(Self {
            id: WalletId(row.int("id")?),
            birthday: row.natural("birthday_height")?,
            scanned: scanned(&row)?,
            follows_tip: row.flag("follows_tip")?,
            gap_limit: row.index("gap_limit")?,
            next_id: row.row_id("next_id")?,
            next_line: row.int("next_line")?,
            confirmed_amount: row.int("confirmed_amount")?,
            confirmed_coins: row.int("confirmed_coins")?,
            history_from: row.opt_natural("history_from")?,
            is_idle: row.opt_micros("stopped_at")?.or(row.opt_micros("archived_at")?).is_some(),
        })
    }

    /// Height of the wallet's tip.
    pub(crate) fn tip(&self) -> Option<u64> {
        self.scanned.map(|place| place.height)
    }

    /// Stands at a block of its own from now on.
    pub(crate) fn stand_at(&mut self, place: Option<Point>) {
        self.scanned = place;
        self.follows_tip = false;
    }

    /// The place as it is stored: none for whoever follows the tip.
    pub(crate) fn stored_place(&self) -> Option<Point> {
        self.scanned.filter(|_| !self.follows_tip)
    }

    pub(crate) fn new_id(&mut self) -> RowId {
        let id = self.next_id;
        self.next_id = RowId(id.0 + 1);
        id
    }

    /// The same for an address.
    pub(crate) fn new_address(&mut self) -> AddressId {
        AddressId(self.new_id().0)
    }

    /// A new number for a line of the journal.
    pub(crate) fn new_line(&mut self) -> i64 {
        self.next_line += 1;
        self.next_line - 1
    }
}
