//! A wallet that can't go on is stopped by itself.
//!
//! All wallets of a room take a block in one database transaction. Data of one of them that can't
//! take it, be it damaged or in contradiction with the chain, must not keep the block from the
//! others. So a batch that fails over a wallet is run again with care: each wallet apart, and the
//! one that fails stays at the block before, with the reason written down, until somebody has
//! mended it and resumes it. Then it is brought up like any wallet that is behind.
//!
//! What is nobody's data (a lost connection, a full disk, a block that doesn't fit) stops nobody:
//! it fails the whole batch, as ever.

use unspent_model::{Micros, Point};
use unspent_sql::{Arg, Tx};

use crate::{
    error::WalletError,
    ids::{WalletId, sql_int},
    store::WalletStore,
    wallet_info::WalletStop,
    wallet_row::{WalletRow, lock_room},
};

/// A wallet that stands still has a place of its own: the tip goes on without it.
const STOP: &str = "UPDATE wallets SET stopped_height = $2, stopped_reason = $3, stopped_at = $4,
    follows_tip = FALSE, scanned_height = $5, scanned_hash = $6 WHERE id = $1";
const RESUME: &str = "UPDATE wallets
    SET stopped_height = NULL, stopped_reason = NULL, stopped_at = NULL WHERE id = $1";

impl WalletStore {
    /// Lets a stopped wallet go on from where it stands.
    ///
    /// # Errors
    ///
    /// [`WalletError::NoWallet`]; a wallet that isn't stopped stays as it is.
    pub fn resume_wallet(&self, wallet: WalletId) -> Result<(), WalletError> {
        self.door.write(move |tx| {
            lock_room(tx)?;
            WalletRow::lock(tx, wallet)?;
            tx.execute(RESUME, &[Arg::Int(wallet.0)])?;
            Ok(())
        })
    }
}

/// Writes down that a wallet stands still, and where.
pub(crate) fn stop(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    stopped: &WalletStop,
    place: Option<Point>,
) -> Result<(), WalletError> {
    let (height, hash) = place.map(|place| (place.height, place.hash)).unzip();
    let args = [
        Arg::Int(wallet.0),
        Arg::OptInt(stopped.height.map(sql_int).transpose()?),
        Arg::Text(&stopped.reason),
        Arg::Int(stopped.at.0),
        Arg::OptInt(height.map(sql_int).transpose()?),
        Arg::OptBlob(hash.as_ref().map(|hash| hash.0.as_slice())),
    ];
    tx.execute(STOP, &args)?;
    Ok(())
}

/// Runs what concerns one wallet; a failure that is the wallet's own stops it where it stands, and
/// nothing else.
pub(crate) fn or_stop<T>(
    tx: &mut Tx<'_>,
    (wallet, place): (WalletId, Option<Point>),
    height: Option<u64>,
    now: Micros,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, WalletError>,
) -> Result<Option<T>, WalletError> {
    // Behind a savepoint: the half of a block must not stay beside the reason for the stop.
    match tx.apart(work)? {
        Ok(done) => Ok(Some(done)),
        Err(error) => stop_or_fail(tx, (wallet, place), height, error, now).map(|()| None),
    }
}

/// Stops a wallet over an error of its own; any other error is everybody's.
pub(crate) fn stop_or_fail(
    tx: &mut Tx<'_>,
    (wallet, place): (WalletId, Option<Point>),
    height: Option<u64>,
    error: WalletError,
    now: Micros,
) -> Result<(), WalletError> {
    if !error.is_of_one_wallet() {
        return Err(error);
    }
    stop(tx, wallet, &WalletStop { height, reason: error.to_string(), at: now }, place)
}
