//! Wallets, chains and addresses as they are shown and as they are asked for.

use bitcoin::ScriptBuf;
use unspent_model::{Micros, Point};
use unspent_sql::{Row, SqlError};

use crate::{error::WalletError, ids::WalletId, rows::scanned};

/// The most rows in one page of anything.
pub const MAX_PAGE: u32 = 1_000;

/// Scripts watched beyond the last used one, unless said otherwise.
pub const DEFAULT_GAP_LIMIT: u32 = 20;

/// A wallet to make.
#[derive(Clone, Debug)]
pub struct NewWallet {
    /// For people, unique among its kind.
    pub name: String,
    /// Its accounts; none is fine.
    pub accounts: Vec<NewAccount>,
    /// The first block that could concern it.
    pub birthday: u64,
    /// Scripts watched beyond the last used one.
    pub gap_limit: u32,
}

/// An account to make.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// For people, unique among its kind.
    pub name: String,
    /// Descriptor to receive with, or both at once as `<0;1>`.
    pub receive: String,
    /// Descriptor for change.
    pub change: Option<String>,
}

/// A wallet as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalletInfo {
    /// For programs; it stays whatever the name is.
    pub id: WalletId,
    /// For people, unique among its kind.
    pub name: String,
    /// The first block that could concern it; 0 while that isn't known.
    pub birthday: u64,
    /// The date that was named instead, in seconds.
    pub birthday_time: Option<u64>,
    /// Whether the block of that date is still to be found, by whoever begins to scan it.
    pub is_birthday_open: bool,
    /// The first block that is read again after a rewind.
    pub rescan_from: Option<u64>,
    /// How far it has been scanned.
    pub scanned: Option<Point>,
    /// Scripts watched beyond the last used one.
    pub gap_limit: u32,
    /// When it was made, in microseconds.
    pub created_at: Micros,
    /// The lowest height as of which its balance is known, where a prune took what was below.
    pub history_from: Option<u64>,
    /// Why it stands still, where its own data can't take a block.
    pub stopped: Option<WalletStop>,
    /// When it was put away, in microseconds. No block moves it since.
    pub archived_at: Option<Micros>,
    /// Old blocks that are still to be read for scripts that came late: until then its history and
    /// its balance aren't whole.
    pub backfill: Option<BackfillRange>,
}

impl WalletInfo {
    /// Whether blocks move it.
    pub fn is_followed(&self) -> bool {
        self.stopped.is_none() && self.archived_at.is_none()
    }

    /// The next block that it needs.
    pub fn next_block(&self) -> u64 {
        self.scanned.map_or(self.birthday, |place| place.height + 1)
    }
}

/// A chain of an account as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeychainInfo {
    /// By which other rows and cursors refer to it.
    pub id: i64,
    /// The account that it belongs to.
    pub account: String,
    /// `receive`, `change` or `imported`.
    pub purpose: String,
    /// What its scripts are derived from; public keys only.
    pub descriptor: String,
    /// The next index to hand out.
    pub next_index: u32,
    /// The highest index seen on the chain.
    pub last_used: Option<u32>,
    /// How many scripts are watched.
    pub derived_to: u32,
}

/// An address as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressInfo {
    /// By which other rows and cursors refer to it.
    pub id: i64,
    /// The account that it belongs to.
    pub account: String,
    /// `receive`, `change` or `imported`.
    pub purpose: String,
    /// Its index in its chain.
    pub index: u32,
    /// What payments to it are recognised by.
    pub script: ScriptBuf,
    /// Whether anything was ever paid to it.
    pub is_used: bool,
    /// What people call it.
    pub label: Option<String>,
}

/// What a chain is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeychainPurpose {
    /// Addresses to hand out.
    Receive,
    /// Addresses for our own change.
    Change,
    /// A single script, watched as it is.
    Imported,
}

impl KeychainPurpose {
    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Change => "change",
            Self::Imported => "imported",
        }
    }
}

/// Why a wallet stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalletStop {
    /// The block that it couldn't take, where it was one.
    pub height: Option<u64>,
    /// What was wrong.
    pub reason: String,
    /// Since when, in microseconds.
    pub at: Micros,
}

impl WalletStop {
    /// What to do about it.
    pub const REMEDY: &'static str = "audit this wallet; when the audit is clean, or after a \
                                      rewind to a height before the problem, resume the wallet";

    pub(crate) fn read(row: &Row) -> Result<Option<Self>, SqlError> {
        let Some(at) = row.opt_micros("stopped_at")? else { return Ok(None) };
        let reason = row.opt_text("stopped_reason")?.unwrap_or_default();
        Ok(Some(Self { height: row.opt_natural("stopped_height")?, reason, at }))
    }
}

/// Heights that are still to be read for one wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackfillRange {
    /// The first block of those to read.
    pub first: u64,
    /// The next block to read.
    pub next: u64,
    /// The last one.
    pub end: u64,
}

impl BackfillRange {
    /// Blocks to go.
    pub fn blocks(&self) -> u64 {
        // None are left once the end is behind.
        (self.end + 1).saturating_sub(self.next)
    }

    pub(crate) fn read(row: &Row) -> Result<Option<Self>, SqlError> {
        let Some(first) = row.opt_natural("first_height")? else { return Ok(None) };
        let (next, end) = (row.natural("next_height")?, row.natural("end_height")?);
        Ok(Some(Self { first, next, end }))
    }
}

/// A wallet as it is shown.
macro_rules! wallets_where {
    ($rest:literal) => {
        concat!(
            "SELECT w.id, w.name, w.birthday_height, p.scanned_height, p.scanned_hash,
                w.gap_limit, w.created_at, w.history_from, w.stopped_height, w.stopped_reason,
                w.stopped_at, w.archived_at, w.birthday_time, w.birthday_open, w.rescan_from,
                f.first_height, f.next_height, f.end_height
            FROM wallets w
            JOIN wallet_places p ON p.wallet_id = w.id
            LEFT JOIN backfills f ON f.wallet_id = w.id ",
            $rest
        )
    };
}
pub(crate) use wallets_where;

pub(crate) fn check_gap_limit(gap_limit: u32) -> Result<(), WalletError> {
    if (1..=10_000).contains(&gap_limit) {
        return Ok(());
    }
    Err(WalletError::Argument("the gap limit must be 1 to 10,000".into()))
}

pub(crate) fn check_name(name: &str) -> Result<(), WalletError> {
    let length = name.chars().count();
    // `.` and `..` are taken out of the addresses of routes before they reach anybody.
    let is_path = matches!(name, "." | "..");
    let fine = (1..=100).contains(&length) && !name.chars().any(char::is_control) && !is_path;
    if fine && name.trim() == name { Ok(()) } else { Err(WalletError::BadName(name.into())) }
}

pub(crate) fn wallet_info(row: &Row) -> Result<WalletInfo, WalletError> {
    let place = scanned(row)?;
    Ok(WalletInfo {
        id: WalletId(row.int("id")?),
        name: row.text("name")?,
        birthday: row.natural("birthday_height")?,
        birthday_time: row.opt_natural("birthday_time")?,
        is_birthday_open: row.flag("birthday_open")? && place.is_none(),
        rescan_from: row.opt_natural("rescan_from")?,
        scanned: place,
        gap_limit: row.index("gap_limit")?,
        created_at: row.micros("created_at")?,
        history_from: row.opt_natural("history_from")?.filter(|from| *from > 0),
        stopped: WalletStop::read(row)?,
        archived_at: row.opt_micros("archived_at")?,
        backfill: BackfillRange::read(row)?,
    })
}

pub(crate) fn keychain_info(row: &Row) -> Result<KeychainInfo, WalletError> {
    Ok(KeychainInfo {
        id: row.int("id")?,
        account: row.text("account")?,
        purpose: row.text("purpose")?,
        descriptor: row.text("descriptor")?,
        next_index: row.index("next_index")?,
        last_used: row.opt_index("last_used")?,
        derived_to: row.index("derived_to")?,
    })
}

/// An address, from the columns that each list of them has.
pub(crate) fn address_info(row: &Row) -> Result<AddressInfo, WalletError> {
    Ok(AddressInfo {
        id: row.int("id")?,
        account: row.text("account")?,
        purpose: row.text("purpose")?,
        index: row.index("address_index")?,
        script: ScriptBuf::from_bytes(row.blob("script_pub_key")?),
        is_used: row.flag("is_used")?,
        label: None,
    })
}
