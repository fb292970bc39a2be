//! Wallets, accounts, addresses, and the gap limit.
//!
//! A keychain is derived `gap_limit` scripts beyond the last one used, so that a payment to any of
//! them is seen. Using one extends the chain in the same transaction.

use bitcoin::ScriptBuf;

use unspent_model::Micros;
use unspent_sql::Arg;

use crate::{
    additions::WatchAdditions,
    birthday::StoredBirthday,
    error::WalletError,
    ids::{WalletId, sql_int},
    keychains::reveal_into,
    labels::label_addresses,
    store::WalletStore,
    wallet_info::{
        AddressInfo, KeychainInfo, KeychainPurpose, MAX_PAGE, NewWallet, WalletInfo, address_info,
        check_gap_limit, check_name, keychain_info, wallet_info, wallets_where,
    },
    wallet_row::{WalletRow, lock_room},
    writes::PendingWrites,
};

pub(crate) const TAKE_WALLET_ID: &str =
    "UPDATE room SET next_wallet_id = next_wallet_id + 1 WHERE one = 1";
pub(crate) const INSERT_WALLET: &str =
    "INSERT INTO wallets (id, name, created_at, birthday_height, gap_limit,
    birthday_time, birthday_open, next_id, next_line, confirmed_amount, confirmed_coins)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 1, 1, 0, 0)";
pub(crate) const FIND_WALLET: &str = "SELECT id FROM wallets WHERE name = $1";
const LIST_WALLETS: &str = wallets_where!(
    "WHERE w.id IN (SELECT id FROM wallets /*by wallets_pkey*/
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
impl WalletStore {
    /// Makes a wallet with its accounts and derives its first scripts.
    ///
    /// # Errors
    ///
    /// [`WalletError::BadName`], [`WalletError::WalletExists`], [`WalletError::Descriptor`] and the
    /// like; nothing is written then.
    pub fn create_wallet(&self, new: &NewWallet, now: Micros) -> Result<WalletId, WalletError> {
        self.create_wallet_with(new, &[], now)
    }

    /// Makes a wallet that also watches single scripts, all in one step: whoever scans it can't
    /// come between.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::create_wallet`], and [`WalletError::ScriptExists`].
    pub fn create_wallet_with(
        &self,
        new: &NewWallet,
        scripts: &[ScriptBuf],
        now: Micros,
    ) -> Result<WalletId, WalletError> {
        self.create_wallet_born(new, scripts, None, now)
    }

    /// The same for a wallet of whose birthday only the time is known, in seconds: the block is
    /// looked for when the wallet is first scanned.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::create_wallet_with`].
    pub fn create_wallet_born(
        &self,
        new: &NewWallet,
        scripts: &[ScriptBuf],
        born: Option<u64>,
        now: Micros,
    ) -> Result<WalletId, WalletError> {
        check_name(&new.name)?;
        check_gap_limit(new.gap_limit)?;
        let birthday = StoredBirthday::new(new.birthday, born)?;
        let network = self.bitcoin_network();
        let additions =
            WatchAdditions { accounts: new.accounts.clone(), scripts: scripts.to_vec() };
        let additions = additions.parse(network)?;
        let new = new.clone();
        self.door.write(move |tx| {
            // The next number stands in the room's row: two who
            // make wallets at once must not share one.
            let id = lock_room(tx)?;
            if tx.maybe(FIND_WALLET, &[Arg::Text(&new.name)])?.is_some() {
                return Err(WalletError::WalletExists(new.name.clone()));
            }
            tx.execute(TAKE_WALLET_ID, &[])?;
            let args = [
                Arg::Int(id.0),
                Arg::Text(&new.name),
                Arg::Int(now.0),
                Arg::Int(birthday.height),
                Arg::Int(new.gap_limit.into()),
                Arg::OptInt(birthday.time),
                Arg::Flag(birthday.time.is_some()),
            ];
            tx.execute(INSERT_WALLET, &args)?;
            let mut wallet = WalletRow::lock(tx, id)?;
            additions.write(tx, &mut wallet)?;
            wallet.save(tx)?;
            Ok(id)
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
            Some(row) => Ok(WalletId(row.row_id("id")?.0)),
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

    /// Every wallet, in order of their rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn all_wallets(&self) -> Result<Vec<WalletInfo>, WalletError> {
        let mut all: Vec<WalletInfo> = Vec::new();
        loop {
            let page = self.wallets(all.last().map(|last| last.id))?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
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
        purpose: KeychainPurpose,
    ) -> Result<AddressInfo, WalletError> {
        let account = account.map(str::to_owned);
        // That the next scripts are new is taken for granted; where a
        // unique rule says otherwise, all of it is done again with care.
        self.batched_first_for(wallet, move |tx, mode| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let mut writes = PendingWrites::default();
            let name = account.as_deref();
            let found = reveal_into(tx, &mut row, name, purpose, mode, &mut writes)?;
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
