//! What people change about a wallet: its name, whether it is followed, how far ahead it looks.

use bitcoin::Script;
use unspent_model::Micros;
use unspent_sql::{Arg, RowId, Tx};

use crate::{
    backfill,
    descriptor::script_hash,
    error::WalletError,
    ids::WalletId,
    keychains::extend,
    store::WalletStore,
    wallet_info::{BackfillRange, check_gap_limit, check_name},
    wallet_row::{WalletRow, lock_room},
};

const NAMED: &str = "SELECT id FROM wallets WHERE name = $1";
const RENAME: &str = "UPDATE wallets SET name = $2 WHERE id = $1";
const ARCHIVE: &str = "UPDATE wallets SET archived_at = $2 WHERE id = $1";
const SET_GAP_LIMIT: &str = "UPDATE wallets SET gap_limit = $2 WHERE id = $1";
const CHAINS: &str = "SELECT id FROM keychains WHERE wallet_id = $1 ORDER BY id";
const WATCHED: &str = "SELECT d.id, d.keychain_id, d.is_used, k.purpose
    FROM addresses d JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE d.script_hash = $2 AND d.wallet_id = $1";
const DROP_ADDRESS: &str = "DELETE FROM addresses WHERE wallet_id = $1 AND id = $2";
const DROP_CHAIN: &str = "DELETE FROM keychains WHERE wallet_id = $1 AND id = $2";

impl WalletStore {
    /// Gives a wallet another name. Its history stays its own.
    ///
    /// # Errors
    ///
    /// [`WalletError::BadName`] or [`WalletError::WalletExists`]; nothing is changed then.
    pub fn rename_wallet(&self, wallet: WalletId, name: &str) -> Result<(), WalletError> {
        check_name(name)?;
        let name = name.to_owned();
        self.door.write(move |tx| {
            lock_room(tx)?;
            WalletRow::lock(tx, wallet)?;
            let owner = tx.maybe(NAMED, &[Arg::Text(&name)])?;
            match owner.map(|row| row.row_id("id")).transpose()? {
                Some(id) if id != RowId(wallet.0) => {
                    return Err(WalletError::WalletExists(name.clone()));
                }
                Some(_) | None => {}
            }
            tx.execute(RENAME, &[Arg::Int(wallet.0), Arg::Text(&name)])?;
            Ok(())
        })
    }

    /// Puts a wallet away: it keeps what it knows and no block moves it. Taken out again it is
    /// brought up like any wallet that is behind.
    ///
    /// # Errors
    ///
    /// [`WalletError::NoWallet`].
    pub fn archive_wallet(
        &self,
        wallet: WalletId,
        since: Option<Micros>,
    ) -> Result<(), WalletError> {
        self.door.write(move |tx| {
            lock_room(tx)?;
            let mut row = WalletRow::lock(tx, wallet)?;
            // The tip goes on without it.
            row.stand_at(row.scanned);
            row.save(tx)?;
            tx.execute(ARCHIVE, &[Arg::Int(wallet.0), Arg::OptInt(since.map(Micros::get))])?;
            Ok(())
        })
    }

    /// Looks further ahead, or less far from now on. What a wider gap newly watches may have a
    /// past, which is then to be read like that of any script that comes late.
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] out of range.
    pub fn set_gap_limit(
        &self,
        wallet: WalletId,
        gap_limit: u32,
    ) -> Result<Option<BackfillRange>, WalletError> {
        check_gap_limit(gap_limit)?;
        self.door.write(move |tx| {
            lock_room(tx)?;
            let mut row = WalletRow::lock(tx, wallet)?;
            let (before, known) = (row.gap_limit, row.next_id);
            row.gap_limit = gap_limit;
            tx.execute(SET_GAP_LIMIT, &[Arg::Int(wallet.0), Arg::Int(gap_limit.into())])?;
            for chain in tx.query(CHAINS, &[Arg::Int(wallet.0)])? {
                extend(tx, &mut row, chain.row_id("id")?, None, 0)?;
            }
            row.save(tx)?;
            // Without a new row there is no new script, and so no past to be read.
            if gap_limit <= before || row.next_id == known {
                return backfill::find(tx, wallet);
            }
            backfill::begin(tx, &row, row.birthday)
        })
    }

    /// Stops watching a script that was imported by itself and never paid.
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] when it isn't such a script; nothing is changed then.
    pub fn remove_script(&self, wallet: WalletId, script: &Script) -> Result<(), WalletError> {
        let hash = script_hash(script);
        self.door.write_for(wallet.0, move |tx| {
            WalletRow::lock(tx, wallet)?;
            remove(tx, wallet, &hash)
        })
    }
}

fn remove(tx: &mut Tx<'_>, wallet: WalletId, hash: &[u8; 32]) -> Result<(), WalletError> {
    let refused = |why: &str| Err(WalletError::Argument(why.into()));
    let Some(row) = tx.maybe(WATCHED, &[Arg::Int(wallet.0), Arg::Blob(hash)])? else {
        return refused("this wallet doesn't watch that script");
    };
    if row.text("purpose")? != "imported" {
        return refused("that script belongs to a descriptor; its account watches it");
    }
    if row.flag("is_used")? {
        return refused("that script was paid; its history stays");
    }
    tx.execute(DROP_ADDRESS, &[Arg::Int(wallet.0), Arg::Int(row.row_id("id")?.0)])?;
    tx.execute(DROP_CHAIN, &[Arg::Int(wallet.0), Arg::Int(row.row_id("keychain_id")?.0)])?;
    Ok(())
}
