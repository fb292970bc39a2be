//! Wallets, accounts, addresses, and the gap limit.
//!
//! A keychain is derived `gap_limit` scripts beyond the last one used, so that a payment to any of
//! them is seen. Using one extends the chain in the same transaction.

use bitcoin::ScriptBuf;
use unspent_model::BlockHash;
use unspent_sql::{Arg, Row};

use crate::{
    additions::Additions,
    backfill::Backfill,
    birthday::Birthday,
    error::WalletError,
    keychains::reveal_into,
    labels::label_addresses,
    room::{Room, WalletId, WalletRow, lock_room, sql_int},
    rows::scanned,
    stopped::Stopped,
    writes::Writes,
};

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
    pub scanned: Option<(u64, BlockHash)>,
    /// Scripts watched beyond the last used one.
    pub gap_limit: u32,
    /// When it was made, in microseconds.
    pub created_at: i64,
    /// The lowest height as of which its balance is known, where a prune took what was below.
    pub history_from: Option<u64>,
    /// Why it stands still, where its own data can't take a block.
    pub stopped: Option<Stopped>,
    /// When it was put away, in microseconds. No block moves it since.
    pub archived_at: Option<i64>,
    /// Old blocks that are still to be read for scripts that came late: until then its history and
    /// its balance aren't whole.
    pub backfill: Option<Backfill>,
}

impl WalletInfo {
    /// Whether blocks move it.
    pub fn is_followed(&self) -> bool {
        self.stopped.is_none() && self.archived_at.is_none()
    }

    /// The next block that it needs.
    pub fn next_block(&self) -> u64 {
        self.scanned.map_or(self.birthday, |(height, _)| height + 1)
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
pub enum Purpose {
    /// Addresses to hand out.
    Receive,
    /// Addresses for our own change.
    Change,
    /// A single script, watched as it is.
    Imported,
}

impl Purpose {
    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Change => "change",
            Self::Imported => "imported",
        }
    }
}

pub(crate) const TAKE_WALLET_ID: &str =
    "UPDATE room SET next_wallet_id = next_wallet_id + 1 WHERE one = 1";
pub(crate) const INSERT_WALLET: &str =
    "INSERT INTO wallets (id, name, created_at, birthday_height, gap_limit,
    birthday_time, birthday_open, next_id, next_line, confirmed_amount, confirmed_coins)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 1, 1, 0, 0)";
pub(crate) const FIND_WALLET: &str = "SELECT id FROM wallets WHERE name = $1";
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

const LIST_WALLETS: &str = wallets_where!(
    "WHERE w.id IN (SELECT id FROM wallets /*by sqlite_autoindex_wallets_1*/
        WHERE id > $1 ORDER BY id LIMIT $2)
    ORDER BY w.id"
);
const START_UNSCANNED: &str = "UPDATE wallets SET birthday_height = $1, birthday_open = FALSE
    WHERE scanned_height IS NULL AND NOT follows_tip AND birthday_height < $1";
const KEYCHAINS: &str = "SELECT k.id, a.name AS account, k.purpose, k.descriptor, k.next_index,
    k.last_used, k.derived_to FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE k.wallet_id = $1 ORDER BY k.id";
const ADDRESSES: &str =
    "SELECT d.id, a.name AS account, k.purpose, d.address_index, d.script_pub_key,
        d.is_used
    FROM addresses d
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE d.wallet_id = $1 AND d.id > $2 ORDER BY d.id LIMIT $3";
/// The most rows in one page of anything.
pub const MAX_PAGE: u32 = 1_000;

impl Room {
    /// Makes a wallet with its accounts and derives its first scripts.
    ///
    /// # Errors
    ///
    /// [`WalletError::BadName`], [`WalletError::WalletExists`], [`WalletError::Descriptor`] and the
    /// like; nothing is written then.
    pub fn create_wallet(&self, new: &NewWallet, now: i64) -> Result<WalletId, WalletError> {
        self.create_wallet_with(new, &[], now)
    }

    /// Makes a wallet that also watches single scripts, all in one step: whoever scans it can't
    /// come between.
    ///
    /// # Errors
    ///
    /// As for [`Room::create_wallet`], and [`WalletError::ScriptExists`].
    pub fn create_wallet_with(
        &self,
        new: &NewWallet,
        scripts: &[ScriptBuf],
        now: i64,
    ) -> Result<WalletId, WalletError> {
        self.create_wallet_born(new, scripts, None, now)
    }

    /// The same for a wallet of whose birthday only the time is known, in seconds: the block is
    /// looked for when the wallet is first scanned.
    ///
    /// # Errors
    ///
    /// As for [`Room::create_wallet_with`].
    pub fn create_wallet_born(
        &self,
        new: &NewWallet,
        scripts: &[ScriptBuf],
        born: Option<u64>,
        now: i64,
    ) -> Result<WalletId, WalletError> {
        check_name(&new.name)?;
        check_gap_limit(new.gap_limit)?;
        let birthday = Birthday::new(new.birthday, born)?;
        let network = self.bitcoin_network();
        let additions = Additions { accounts: new.accounts.clone(), scripts: scripts.to_vec() };
        let additions = additions.parse(network)?;
        let new = new.clone();
        self.door.write(move |tx| {
            let id = lock_room(tx)?;
            if tx.maybe(FIND_WALLET, &[Arg::Text(&new.name)])?.is_some() {
                return Err(WalletError::WalletExists(new.name.clone()));
            }
            tx.execute(TAKE_WALLET_ID, &[])?;
            let args = [
                Arg::Int(id),
                Arg::Text(&new.name),
                Arg::Int(now),
                Arg::Int(birthday.height),
                Arg::Int(new.gap_limit.into()),
                Arg::OptInt(birthday.time),
                Arg::Flag(birthday.time.is_some()),
            ];
            tx.execute(INSERT_WALLET, &args)?;
            let mut wallet = WalletRow::lock(tx, WalletId(id))?;
            additions.write(tx, &mut wallet)?;
            wallet.save(tx)?;
            Ok(WalletId(id))
        })
    }

    /// The wallet of that name.
    ///
    /// # Errors
    ///
    /// [`WalletError::NoWallet`] when there is none.
    pub fn wallet(&self, name: &str) -> Result<WalletId, WalletError> {
        let name = name.to_owned();
        self.door.read(move |tx| match tx.maybe(FIND_WALLET, &[Arg::Text(&name)])? {
            Some(row) => Ok(WalletId(row.int("id")?)),
            None => Err(WalletError::NoWallet(name.clone())),
        })
    }

    /// Wallets after a given one, in order of their rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn wallets(&self, after: Option<WalletId>) -> Result<Vec<WalletInfo>, WalletError> {
        let after = after.map_or(0, |wallet| wallet.0);
        self.door.read(move |tx| {
            let args = [Arg::Int(after), Arg::Int(MAX_PAGE.into())];
            tx.query(LIST_WALLETS, &args)?.iter().map(wallet_info).collect()
        })
    }

    /// One wallet.
    ///
    /// # Errors
    ///
    /// [`WalletError::NoWallet`] when there is none of that row.
    pub fn wallet_info(&self, wallet: WalletId) -> Result<WalletInfo, WalletError> {
        self.door.read(move |tx| {
            // No row has the lowest number; the one found is compared below.
            let args = [Arg::Int(wallet.0.saturating_sub(1)), Arg::Int(1)];
            let found = tx.maybe(LIST_WALLETS, &args)?.map(|row| wallet_info(&row)).transpose()?;
            let found = found.filter(|info| info.id == wallet);
            found.ok_or_else(|| WalletError::NoWallet(wallet.0.to_string()))
        })
    }

    /// The chains of a wallet.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn keychains(&self, wallet: WalletId) -> Result<Vec<KeychainInfo>, WalletError> {
        self.door.read(move |tx| {
            tx.query(KEYCHAINS, &[Arg::Int(wallet.0)])?.iter().map(keychain_info).collect()
        })
    }

    /// Lets wallets that were never scanned start with the block at `height`, when their birthday
    /// is below it. What happened before is then unknown to them.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn start_unscanned_at(&self, height: u64) -> Result<u64, WalletError> {
        let height = sql_int(height)?;
        self.door.write(move |tx| {
            lock_room(tx)?;
            Ok(tx.execute(START_UNSCANNED, &[Arg::Int(height)])?)
        })
    }

    /// Hands out the next address of an account (the first one when not named).
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] when the wallet has no such chain.
    pub fn next_address(
        &self,
        wallet: WalletId,
        account: Option<&str>,
        purpose: Purpose,
    ) -> Result<AddressInfo, WalletError> {
        let account = account.map(str::to_owned);
        self.with_care_for(wallet, move |tx, care| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let mut writes = Writes::default();
            let name = account.as_deref();
            let found = reveal_into(tx, &mut row, name, purpose, care, &mut writes)?;
            writes.wallet(&row)?;
            writes.send(tx)?;
            Ok(found)
        })
    }

    /// Watched addresses after a given row, in order.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn addresses(
        &self,
        wallet: WalletId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AddressInfo>, WalletError> {
        let (limit, network) = (limit.min(MAX_PAGE), self.bitcoin_network());
        self.door.read(move |tx| {
            let args = [Arg::Int(wallet.0), Arg::Int(after), Arg::Int(limit.into())];
            let rows = tx.query(ADDRESSES, &args)?;
            let mut found = rows.iter().map(address_info).collect::<Result<Vec<_>, _>>()?;
            label_addresses(tx, wallet, network, &mut found)?;
            Ok(found)
        })
    }
}

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
        created_at: row.int("created_at")?,
        history_from: row.opt_natural("history_from")?.filter(|from| *from > 0),
        stopped: Stopped::read(row)?,
        archived_at: row.opt_int("archived_at")?,
        backfill: Backfill::read(row)?,
    })
}

fn keychain_info(row: &Row) -> Result<KeychainInfo, WalletError> {
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
