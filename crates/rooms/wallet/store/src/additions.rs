//! Accounts and single scripts that a wallet comes to watch, at its birth or later.
//!
//! All of them go in as one step. What comes later may have a past: blocks that the wallet has
//! passed already may hold payments to it, so that they have to be read again; see
//! [`crate::backfill`].

use bitcoin::{Script, ScriptBuf};
use unspent_sql::{Arg, RowId, Tx};

use crate::{
    backfill,
    descriptor::{Keychain, guessed_input_weight},
    error::WalletError,
    ids::WalletId,
    keychains::{NewKeychain, extend, watch_one},
    store::WalletStore,
    wallet_info::{BackfillRange, KeychainPurpose, NewAccount, check_name},
    wallet_row::{WalletRow, lock_room},
};

/// What a wallet comes to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchAdditions {
    /// Accounts, each with its descriptors.
    pub accounts: Vec<NewAccount>,
    /// Scripts that stand for themselves.
    pub scripts: Vec<ScriptBuf>,
}

const INSERT_ACCOUNT: &str = "INSERT INTO accounts (wallet_id, id, name) VALUES ($1, $2, $3)";
pub(crate) const FIND_ACCOUNT: &str = "SELECT id FROM accounts WHERE wallet_id = $1 AND name = $2";
const FIRST_SCRIPT: &str = "SELECT id FROM addresses
    WHERE wallet_id = $1 AND keychain_id = $2 AND address_index = 0";

impl WalletStore {
    /// Lets a wallet watch more. What was paid to it since the block at `from` (by default the
    /// wallet's birthday) and before the wallet's tip isn't known yet: the answer says which blocks
    /// have to be read for that.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::create_wallet`], and [`WalletError::ScriptExists`].
    pub fn extend_wallet(
        &self,
        wallet: WalletId,
        additions: &WatchAdditions,
        from: Option<u64>,
    ) -> Result<Option<BackfillRange>, WalletError> {
        // Reading descriptors is slow, so it is done while nobody waits for a lock.
        let additions = additions.parse(self.bitcoin_network())?;
        self.door.write(move |tx| {
            // The room's row first: whoever applies blocks holds it, and the tip stays for us.
            lock_room(tx)?;
            let mut row = WalletRow::lock(tx, wallet)?;
            additions.write(tx, &mut row)?;
            row.save(tx)?;
            // In the same transaction: after a crash between the
            // two nobody would look for the past.
            backfill::begin(tx, &row, from.unwrap_or(row.birthday))
        })
    }

    /// Adds an account to a wallet.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::extend_wallet`].
    pub fn add_account(&self, wallet: WalletId, new: &NewAccount) -> Result<(), WalletError> {
        let additions = WatchAdditions { accounts: vec![new.clone()], ..WatchAdditions::default() };
        self.extend_wallet(wallet, &additions, None).map(drop)
    }

    /// Watches one script as it is.
    ///
    /// # Errors
    ///
    /// [`WalletError::ScriptExists`] when the wallet watches it already.
    pub fn import_script(&self, wallet: WalletId, script: &Script) -> Result<(), WalletError> {
        let additions =
            WatchAdditions { scripts: vec![script.to_owned()], ..WatchAdditions::default() };
        self.extend_wallet(wallet, &additions, None).map(drop)
    }
}

/// Additions whose descriptors have been read.
pub(crate) struct ParsedAdditions {
    accounts: Vec<ParsedAccount>,
    scripts: Vec<ScriptBuf>,
}

impl WatchAdditions {
    /// Reads everything before anything is written.
    pub(crate) fn parse(&self, network: bitcoin::Network) -> Result<ParsedAdditions, WalletError> {
        // Consensus lets nobody spend by a longer script.
        if self.scripts.iter().any(|script| script.is_empty() || script.len() > 10_000) {
            return Err(WalletError::Argument("a script has 1 to 10,000 bytes".into()));
        }
        let accounts = self.accounts.iter().map(|account| parsed(account, network));
        let accounts = accounts.collect::<Result<_, _>>()?;
        Ok(ParsedAdditions { accounts, scripts: self.scripts.clone() })
    }
}

impl ParsedAdditions {
    /// Writes them under the wallet's lock. The caller saves the wallet's row.
    pub(crate) fn write(&self, tx: &mut Tx<'_>, wallet: &mut WalletRow) -> Result<(), WalletError> {
        for account in &self.accounts {
            add_account(tx, wallet, account)?;
        }
        if self.scripts.is_empty() {
            return Ok(());
        }
        let account = account_row(tx, wallet, "imported")?;
        self.scripts.iter().try_for_each(|script| watch_script(tx, wallet, account, script))
    }
}

fn watch_script(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    account: RowId,
    script: &ScriptBuf,
) -> Result<(), WalletError> {
    let chain = wallet.new_id();
    let new = NewKeychain {
        id: chain,
        account,
        purpose: KeychainPurpose::Imported,
        descriptor: format!("raw({})", script.to_hex_string()),
        weight: guessed_input_weight(script),
    };
    new.insert(tx, wallet)?;
    watch_one(tx, wallet, chain, script)
}

/// An account whose descriptors have been read, each with what its chain is for.
pub(crate) struct ParsedAccount {
    pub(crate) name: String,
    pub(crate) chains: Vec<(KeychainPurpose, Keychain)>,
}

pub(crate) fn parsed(
    new: &NewAccount,
    network: bitcoin::Network,
) -> Result<ParsedAccount, WalletError> {
    check_name(&new.name)?;
    let mut chains = Keychain::parse(&new.receive, network)?;
    if let Some(change) = &new.change {
        let more = Keychain::parse(change, network)?;
        if chains.len() + more.len() != 2 {
            let why = "give one descriptor with two paths, or two with one path each";
            return Err(WalletError::Descriptor(why.into()));
        }
        chains.extend(more);
    }
    let purposes = [KeychainPurpose::Receive, KeychainPurpose::Change];
    let chains = purposes.into_iter().zip(chains).collect();
    Ok(ParsedAccount { name: new.name.clone(), chains })
}

pub(crate) fn account_row(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    name: &str,
) -> Result<RowId, WalletError> {
    if let Some(row) = tx.maybe(FIND_ACCOUNT, &[Arg::Int(wallet.id.0), Arg::Text(name)])? {
        return Ok(row.row_id("id")?);
    }
    let id = wallet.new_id();
    tx.execute(INSERT_ACCOUNT, &[Arg::Int(wallet.id.0), Arg::Int(id.0), Arg::Text(name)])?;
    Ok(id)
}

pub(crate) fn add_account(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    new: &ParsedAccount,
) -> Result<(), WalletError> {
    let name = &new.name;
    if tx.maybe(FIND_ACCOUNT, &[Arg::Int(wallet.id.0), Arg::Text(name)])?.is_some() {
        return Err(WalletError::Argument(format!("an account `{name}` already exists")));
    }
    let account = account_row(tx, wallet, name)?;
    for (purpose, chain) in &new.chains {
        let id = wallet.new_id();
        let (descriptor, weight) = (chain.to_string(), chain.input_weight());
        let row = NewKeychain { id, account, purpose: *purpose, descriptor, weight };
        row.insert(tx, wallet)?;
        extend(tx, wallet, id, None, 0)?;
        // An account whose first script is another one's would be that one over again.
        if tx.maybe(FIRST_SCRIPT, &[Arg::Int(wallet.id.0), Arg::Int(id.0)])?.is_none() {
            return Err(WalletError::ScriptExists);
        }
    }
    Ok(())
}
