//! Wallets of which only a date is known, and how far a wallet has come.
//!
//! A date is turned into a height by whoever has blocks to look at, just before the wallet is
//! scanned for the first time. Until then its birthday counts as 0, which is slower and never
//! wrong.

use unspent_sql::Arg;

use crate::{
    error::WalletError,
    ids::{WalletId, sql_int},
    store::WalletStore,
    wallet_info::{WalletInfo, wallet_info, wallets_where},
    wallet_row::lock_room,
};

pub(crate) struct StoredBirthday {
    pub(crate) height: i64,
    pub(crate) time: Option<i64>,
}

impl StoredBirthday {
    /// A height, or a date in seconds that counts as height 0 until somebody finds its block.
    pub(crate) fn new(height: u64, time: Option<u64>) -> Result<Self, WalletError> {
        let time = time.map(sql_int).transpose()?;
        let height = if time.is_some() { 0 } else { sql_int(height)? };
        Ok(Self { height, time })
    }
}

/// Blocks that a wallet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanProgress {
    /// Whether they are read again for scripts that came late, while the tip moves the wallet.
    pub is_backfill: bool,
    /// The first of them.
    pub from: u64,
    /// The next to be read.
    pub next: u64,
    /// The last.
    pub to: u64,
}

impl ScanProgress {
    /// How much of it is done, from 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn fraction(&self) -> f64 {
        // A share for people; a scan that has not begun has done nothing.
        let done = self.next.saturating_sub(self.from) as f64;
        done / (self.to + 1).saturating_sub(self.from).max(1) as f64
    }
}

impl WalletInfo {
    /// What is still to be read, given the tip of the chain; nothing for one that is up to date or
    /// stands still.
    pub fn progress(&self, tip: Option<u64>) -> Option<ScanProgress> {
        if !self.is_followed() {
            return None;
        }
        let next = self.next_block();
        if let Some(to) = tip.filter(|tip| next <= *tip) {
            let from = self.rescan_from.unwrap_or(self.birthday).min(next);
            return Some(ScanProgress { is_backfill: false, from, next, to });
        }
        let left = self.backfill?;
        Some(ScanProgress { is_backfill: true, from: left.first, next: left.next, to: left.end })
    }
}

const OPEN: &str = wallets_where!(
    "WHERE w.birthday_open AND w.scanned_height IS NULL AND NOT w.follows_tip ORDER BY w.id"
);
const SETTLE: &str = "UPDATE wallets SET birthday_height = $2, birthday_open = FALSE
    WHERE id = $1 AND birthday_open AND scanned_height IS NULL AND NOT follows_tip";

impl WalletStore {
    /// Wallets that wait for somebody to find the block of their date.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn open_birthdays(&self) -> Result<Vec<WalletInfo>, WalletError> {
        self.door.read(|tx| tx.query(OPEN, &[])?.iter().map(wallet_info).collect())
    }

    /// Lets a wallet of which only a date was known begin at a height. One that has been scanned
    /// meanwhile stays as it is.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn settle_birthday(&self, wallet: WalletId, height: u64) -> Result<(), WalletError> {
        let height = sql_int(height)?;
        self.door.write(move |tx| {
            lock_room(tx)?;
            tx.execute(SETTLE, &[Arg::Int(wallet.0), Arg::Int(height)])?;
            Ok(())
        })
    }
}
