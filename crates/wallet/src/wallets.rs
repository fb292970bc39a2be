//! Wallets, accounts, addresses, and the gap limit.
//!
//! A keychain is derived `gap_limit` scripts beyond the last one used, so that a payment to any of
//! them is seen. Using one extends the chain in the same transaction.

use bitcoin::{Script, ScriptBuf};
use unspent_model::BlockHash;
use unspent_sql::{Arg, Column, Row, Set, Tx};

use crate::{
    descriptor::{Keychain, MAX_INDEX, guessed_input_weight, script_hash},
    error::WalletError,
    room::{Room, WalletId, WalletRow, lock_room, sql_int},
    rows::scanned,
};

/// Scripts watched beyond the last used one, unless said otherwise.
pub const DEFAULT_GAP_LIMIT: u32 = 20;

/// A wallet to make.
#[derive(Clone, Debug)]
pub struct NewWallet {
    /// Its name.
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
    /// Its name.
    pub name: String,
    /// Descriptor to receive with, or both at once as `<0;1>`.
    pub receive: String,
    /// Descriptor for change.
    pub change: Option<String>,
}

/// A wallet as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalletInfo {
    /// Its row.
    pub id: WalletId,
    /// Its name.
    pub name: String,
    /// The first block that could concern it.
    pub birthday: u64,
    /// How far it has been scanned.
    pub scanned: Option<(u64, BlockHash)>,
    /// Scripts watched beyond the last used one.
    pub gap_limit: u32,
    /// When it was made, in microseconds.
    pub created_at: i64,
}

impl WalletInfo {
    /// The next block that it needs.
    pub fn next_block(&self) -> u64 {
        self.scanned.map_or(self.birthday, |(height, _)| height + 1)
    }
}

/// A chain of an account as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeychainInfo {
    /// Its row.
    pub id: i64,
    /// Its account.
    pub account: String,
    /// `receive`, `change` or `imported`.
    pub purpose: String,
    /// Its descriptor.
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
    /// Its row.
    pub id: i64,
    /// Its account.
    pub account: String,
    /// `receive`, `change` or `imported`.
    pub purpose: String,
    /// Its index in its chain.
    pub index: u32,
    /// Its script.
    pub script: ScriptBuf,
    /// Whether anything was ever paid to it.
    pub is_used: bool,
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

const TAKE_WALLET_ID: &str = "UPDATE room SET next_wallet_id = next_wallet_id + 1 WHERE one = 1";
const INSERT_WALLET: &str = "INSERT INTO wallets (id, name, created_at, birthday_height, gap_limit,
    next_id, next_line, confirmed_amount, confirmed_coins)
    VALUES ($1, $2, $3, $4, $5, 1, 1, 0, 0)";
const FIND_WALLET: &str = "SELECT id FROM wallets WHERE name = $1";
const LIST_WALLETS: &str = "SELECT id, name, birthday_height, scanned_height, scanned_hash,
    gap_limit, created_at FROM wallets WHERE id > $1 ORDER BY id LIMIT $2";
const START_UNSCANNED: &str = "UPDATE wallets SET birthday_height = $1
    WHERE scanned_height IS NULL AND scanned_hash IS NULL AND birthday_height < $1";
const INSERT_ACCOUNT: &str = "INSERT INTO accounts (wallet_id, id, name) VALUES ($1, $2, $3)";
const FIND_ACCOUNT: &str = "SELECT id FROM accounts WHERE wallet_id = $1 AND name = $2";
const INSERT_KEYCHAIN: &str =
    "INSERT INTO keychains (wallet_id, id, account_id, purpose, descriptor,
    input_weight, next_index, derived_to) VALUES ($1, $2, $3, $4, $5, $6, 0, 0)";
const KEYCHAINS: &str = "SELECT k.id, a.name AS account, k.purpose, k.descriptor, k.next_index,
    k.last_used, k.derived_to FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE k.wallet_id = $1 ORDER BY k.id";
const KEYCHAIN: &str =
    "SELECT descriptor, next_index, last_used, derived_to, purpose FROM keychains
    WHERE wallet_id = $1 AND id = $2";
const FIND_KEYCHAIN: &str = "SELECT k.id FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE k.wallet_id = $1 AND k.purpose = $2
        AND (CAST($3 AS TEXT) IS NULL OR a.name = $3) ORDER BY k.id LIMIT 1";
const MOVE_KEYCHAIN: &str = "UPDATE keychains SET next_index = $3, last_used = $4, derived_to = $5
    WHERE wallet_id = $1 AND id = $2";
const INSERT_ADDRESSES: Set = Set {
    sqlite:
        "INSERT INTO addresses (wallet_id, keychain_id, is_used, id, address_index, script_hash,
        script_pub_key) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    postgres: "INSERT INTO addresses (wallet_id, keychain_id, is_used, id, address_index,
            script_hash, script_pub_key)
        SELECT $1, $2, $3, k.* FROM UNNEST($4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[]) k",
};
const USE_ADDRESSES: Set = Set {
    sqlite: "UPDATE addresses SET is_used = TRUE
        WHERE wallet_id = $1 AND id = $2 AND NOT is_used",
    postgres: "UPDATE addresses a SET is_used = TRUE FROM UNNEST($2::bigint[]) k (id)
        WHERE a.wallet_id = $1 AND a.id = k.id AND NOT a.is_used",
};
const SCRIPT_KNOWN: &str = "SELECT id FROM addresses WHERE script_hash = $2 AND wallet_id = $1";
const ADDRESSES: &str =
    "SELECT d.id, a.name AS account, k.purpose, d.address_index, d.script_pub_key,
        d.is_used
    FROM addresses d
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE d.wallet_id = $1 AND d.id > $2 ORDER BY d.id LIMIT $3";
const ADDRESS: &str =
    "SELECT d.id, a.name AS account, k.purpose, d.address_index, d.script_pub_key,
        d.is_used
    FROM addresses d
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE d.wallet_id = $1 AND d.keychain_id = $2 AND d.address_index = $3";

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
        check_name(&new.name)?;
        if !(1..=10_000).contains(&new.gap_limit) {
            return Err(WalletError::Argument("the gap limit must be 1 to 10,000".into()));
        }
        let birthday = sql_int(new.birthday)?;
        let network = self.bitcoin_network();
        let accounts = new.accounts.iter().map(|account| parsed(account, network));
        let accounts = accounts.collect::<Result<Vec<_>, _>>()?;
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
                Arg::Int(birthday),
                Arg::Int(new.gap_limit.into()),
            ];
            tx.execute(INSERT_WALLET, &args)?;
            let mut wallet = WalletRow::lock(tx, WalletId(id))?;
            for account in &accounts {
                add_account(tx, &mut wallet, account)?;
            }
            wallet.save(tx)?;
            Ok(WalletId(id))
        })
    }

    /// Adds an account to a wallet.
    ///
    /// # Errors
    ///
    /// As for [`Room::create_wallet`].
    pub fn add_account(&self, wallet: WalletId, new: &NewAccount) -> Result<(), WalletError> {
        let account = parsed(new, self.bitcoin_network())?;
        self.door.write(move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            add_account(tx, &mut row, &account)?;
            row.save(tx)
        })
    }

    /// Watches one script as it is.
    ///
    /// # Errors
    ///
    /// [`WalletError::ScriptExists`] when the wallet watches it already.
    pub fn import_script(&self, wallet: WalletId, script: &Script) -> Result<(), WalletError> {
        if script.is_empty() || script.len() > 10_000 {
            return Err(WalletError::Argument("a script has 1 to 10,000 bytes".into()));
        }
        let script = script.to_owned();
        self.door.write(move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let account = account_row(tx, &mut row, "imported")?;
            let chain = row.new_id();
            let new = NewKeychain {
                id: chain,
                account,
                purpose: Purpose::Imported,
                descriptor: format!("raw({})", script.to_hex_string()),
                weight: guessed_input_weight(&script),
            };
            new.insert(tx, &row)?;
            insert_scripts(tx, &mut row, chain, 0, std::slice::from_ref(&script))?;
            let moved = [Arg::Int(row.id), Arg::Int(chain), Arg::Int(1), Arg::OptInt(None)];
            tx.execute(MOVE_KEYCHAIN, &[&moved[..], &[Arg::Int(1)]].concat())?;
            row.save(tx)
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
        self.door.write(move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let found = reveal(tx, &mut row, account.as_deref(), purpose)?;
            row.save(tx)?;
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
        let limit = limit.min(MAX_PAGE);
        self.door.read(move |tx| {
            let args = [Arg::Int(wallet.0), Arg::Int(after), Arg::Int(limit.into())];
            tx.query(ADDRESSES, &args)?.iter().map(address_info).collect()
        })
    }
}

/// An account whose descriptors have been read, each with what its chain is for.
struct ParsedAccount {
    name: String,
    chains: Vec<(Purpose, Keychain)>,
}

fn parsed(new: &NewAccount, network: bitcoin::Network) -> Result<ParsedAccount, WalletError> {
    check_name(&new.name)?;
    let mut chains = Keychain::parse(&new.receive, network)?;
    if let Some(change) = &new.change {
        let more = Keychain::parse(change, network)?;
        if chains.len() + more.len() != 2 {
            let why = "name two paths in one descriptor, or one in each";
            return Err(WalletError::Descriptor(why.into()));
        }
        chains.extend(more);
    }
    let purposes = [Purpose::Receive, Purpose::Change];
    let chains = purposes.into_iter().zip(chains).collect();
    Ok(ParsedAccount { name: new.name.clone(), chains })
}

fn check_name(name: &str) -> Result<(), WalletError> {
    let length = name.chars().count();
    let fine = (1..=100).contains(&length) && !name.chars().any(char::is_control);
    if fine && name.trim() == name { Ok(()) } else { Err(WalletError::BadName(name.into())) }
}

fn account_row(tx: &mut Tx<'_>, wallet: &mut WalletRow, name: &str) -> Result<i64, WalletError> {
    if let Some(row) = tx.maybe(FIND_ACCOUNT, &[Arg::Int(wallet.id), Arg::Text(name)])? {
        return Ok(row.int("id")?);
    }
    let id = wallet.new_id();
    tx.execute(INSERT_ACCOUNT, &[Arg::Int(wallet.id), Arg::Int(id), Arg::Text(name)])?;
    Ok(id)
}

fn add_account(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    new: &ParsedAccount,
) -> Result<(), WalletError> {
    let name = &new.name;
    if tx.maybe(FIND_ACCOUNT, &[Arg::Int(wallet.id), Arg::Text(name)])?.is_some() {
        return Err(WalletError::Argument(format!("an account `{name}` is already there")));
    }
    let account = account_row(tx, wallet, name)?;
    for (purpose, chain) in &new.chains {
        let id = wallet.new_id();
        let (descriptor, weight) = (chain.to_string(), chain.input_weight());
        let row = NewKeychain { id, account, purpose: *purpose, descriptor, weight };
        row.insert(tx, wallet)?;
        extend(tx, wallet, id, None, 0)?;
    }
    Ok(())
}

/// A chain of scripts that a wallet doesn't have yet.
struct NewKeychain {
    id: i64,
    account: i64,
    purpose: Purpose,
    descriptor: String,
    weight: u64,
}

impl NewKeychain {
    fn insert(&self, tx: &mut Tx<'_>, wallet: &WalletRow) -> Result<(), WalletError> {
        let args = [
            Arg::Int(wallet.id),
            Arg::Int(self.id),
            Arg::Int(self.account),
            Arg::Text(self.purpose.name()),
            Arg::Text(&self.descriptor),
            Arg::Int(sql_int(self.weight)?),
        ];
        tx.execute(INSERT_KEYCHAIN, &args).map_err(already_watched)?;
        Ok(())
    }
}

/// Both unique rules that an import can break mean the same to its caller.
fn already_watched(error: unspent_sql::SqlError) -> WalletError {
    if matches!(error, unspent_sql::SqlError::Constraint(_)) {
        return WalletError::ScriptExists;
    }
    error.into()
}

fn insert_scripts(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: i64,
    first: u32,
    scripts: &[ScriptBuf],
) -> Result<Vec<(i64, u32)>, WalletError> {
    for script in scripts {
        let hash = script_hash(script);
        if tx.maybe(SCRIPT_KNOWN, &[Arg::Int(wallet.id), Arg::Blob(&hash)])?.is_some() {
            return Err(WalletError::ScriptExists);
        }
    }
    let made: Vec<(i64, u32)> =
        (first..).zip(scripts).map(|(at, _)| (wallet.new_id(), at)).collect();
    let columns = [
        Column::ints(made.iter().map(|(id, _)| *id)),
        Column::ints(made.iter().map(|(_, at)| i64::from(*at))),
        Column::blobs(scripts.iter().map(|script| script_hash(script))),
        Column::blobs(scripts.iter().map(|script| script.as_bytes())),
    ];
    let scalars = [Arg::Int(wallet.id), Arg::Int(chain), Arg::Flag(false)];
    tx.execute_set(INSERT_ADDRESSES, &scalars, &columns)?;
    Ok(made)
}

/// A script that a chain newly watches.
pub(crate) struct DerivedScript {
    pub(crate) address: i64,
    pub(crate) keychain: i64,
    pub(crate) index: u32,
    pub(crate) script: ScriptBuf,
}

/// Notes the use of an index and derives on until the gap is whole again.
pub(crate) fn extend(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: i64,
    used: Option<u32>,
    at_least_next: u32,
) -> Result<Vec<DerivedScript>, WalletError> {
    let row = tx.one(KEYCHAIN, &[Arg::Int(wallet.id), Arg::Int(chain)])?;
    if row.text("purpose")? == Purpose::Imported.name() {
        return Ok(Vec::new());
    }
    let keychain = Keychain::stored(&row.text("descriptor")?)?;
    let last_used = row.opt_index("last_used")?.max(used);
    let after_used = last_used.map_or(0, |index| index + 1);
    let next = row.index("next_index")?.max(at_least_next).max(after_used);
    let derived = row.index("derived_to")?;
    let wanted =
        if keychain.has_many() { next.saturating_add(wallet.gap_limit).min(MAX_INDEX) } else { 1 };
    let scripts = (derived..wanted).map(|index| keychain.script(index));
    let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
    let made = insert_scripts(tx, wallet, chain, derived, &scripts)?;
    let args = [
        Arg::Int(wallet.id),
        Arg::Int(chain),
        Arg::Int(next.into()),
        Arg::OptInt(last_used.map(i64::from)),
        Arg::Int(derived.max(wanted).into()),
    ];
    tx.execute(MOVE_KEYCHAIN, &args)?;
    let fresh = made.into_iter().zip(scripts);
    Ok(fresh
        .map(|((address, index), script)| DerivedScript { address, keychain: chain, index, script })
        .collect())
}

/// Marks addresses as used.
pub(crate) fn mark_used(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    addresses: Vec<i64>,
) -> Result<(), WalletError> {
    tx.execute_set(USE_ADDRESSES, &[Arg::Int(wallet.id)], &[Column::ints(addresses)])?;
    Ok(())
}

/// Hands out the next address of a chain. The caller saves the wallet's row.
pub(crate) fn reveal(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    account: Option<&str>,
    purpose: Purpose,
) -> Result<AddressInfo, WalletError> {
    let args = [Arg::Int(wallet.id), Arg::Text(purpose.name()), Arg::OptText(account)];
    let Some(found) = tx.maybe(FIND_KEYCHAIN, &args)? else {
        let what = format!("this wallet has no {} chain of that name", purpose.name());
        return Err(WalletError::Argument(what));
    };
    let chain = found.int("id")?;
    let row = tx.one(KEYCHAIN, &[Arg::Int(wallet.id), Arg::Int(chain)])?;
    let (next, derived) = (row.index("next_index")?, row.index("derived_to")?);
    // A chain of one script hands out that one again and again.
    let is_single = derived == 1 && !Keychain::stored(&row.text("descriptor")?)?.has_many();
    let index = if is_single { 0 } else { next };
    if index >= MAX_INDEX {
        return Err(WalletError::Argument("this chain has no addresses left".into()));
    }
    if !is_single {
        extend(tx, wallet, chain, None, index + 1)?;
    }
    let args = [Arg::Int(wallet.id), Arg::Int(chain), Arg::Int(index.into())];
    address_info(&tx.one(ADDRESS, &args)?)
}

fn wallet_info(row: &Row) -> Result<WalletInfo, WalletError> {
    Ok(WalletInfo {
        id: WalletId(row.int("id")?),
        name: row.text("name")?,
        birthday: row.natural("birthday_height")?,
        scanned: scanned(row)?,
        gap_limit: row.index("gap_limit")?,
        created_at: row.int("created_at")?,
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

fn address_info(row: &Row) -> Result<AddressInfo, WalletError> {
    Ok(AddressInfo {
        id: row.int("id")?,
        account: row.text("account")?,
        purpose: row.text("purpose")?,
        index: row.index("address_index")?,
        script: ScriptBuf::from_bytes(row.blob("script_pub_key")?),
        is_used: row.flag("is_used")?,
    })
}
