//! The `wallet.db` of btcwallet and lnd, read and never written.
//!
//! Both programs keep their wallet in one bbolt file: the history in clear, the public keys sealed
//! with a public passphrase, the private ones with another that nobody is asked for here. Whoever
//! wants to move such a wallet needs what the file says, not what it looks like; so bytes go in and
//! records come out, each checked against the others.
//!
//! | module | reads |
//! |---|---|
//! | [`bolt`] | the file: pages, buckets, keys |
//! | [`history`] | `wtxmgr`: transactions, credits, debits, labels, leases |
//! | [`keys`] | `waddrmgr`: scopes, accounts, addresses, how far it was synchronised |
//! | [`passphrase`] | the seal of the public passphrase |
//! | [`balance`] | what the source would answer about itself |
//!
//! Invariant: bytes are hostile. Every length, offset and page is checked, no page is entered
//! twice, and what contradicts itself is an error with its place, never a guess.
//!
//! ```no_run
//! use unspent_btcwallet::{WalletFile, passphrase::DEFAULTS};
//!
//! let bytes = std::fs::read("wallet.db")?;
//! let file = WalletFile::read(&bytes)?;
//! let public = file.keys.open(DEFAULTS)?;
//! println!("{} transactions, {} accounts", file.history.txs.len(), public.accounts.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Deliberately absent: private keys, writing, a database.

pub mod balance;
pub mod bolt;
mod error;
mod fields;
pub mod history;
pub mod keys;
pub mod passphrase;

pub use error::ReadError;

use bolt::Bucket;
use history::History;
use keys::Keys;

/// All that is read without a passphrase.
#[derive(Debug)]
pub struct WalletFile<'a> {
    /// What happened.
    pub history: History,
    /// Whose it is; the keys themselves are still sealed.
    pub keys: Keys<'a>,
}

impl<'a> WalletFile<'a> {
    /// Reads the bytes of a whole file.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when it is something else, damaged, or of a version unknown here.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let root: Bucket<'a> = bolt::read(bytes)?;
        let missing = |name| ReadError::NotAWallet(format!("it has no bucket `{name}`"));
        let history = root.bucket(b"wtxmgr").ok_or_else(|| missing("wtxmgr"))?;
        let keys = root.bucket(b"waddrmgr").ok_or_else(|| missing("waddrmgr"))?;
        Ok(Self { history: History::read(history)?, keys: Keys::read(keys)? })
    }
}
